"""What a server has done, in the text format of Prometheus."""

from bisect import bisect_left
from collections import Counter
from threading import Lock

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
Labels = tuple[tuple[str, str], ...]


class Counters:
    """Counts by name and labels; safe in threads.

    >>> counters = Counters()
    >>> counters.add("dragoman_tokens_total", 3, model="g2p")
    >>> print(counters.text().splitlines()[-1])
    dragoman_tokens_total{model="g2p"} 3
    """

    def __init__(self) -> None:
        self._sums: dict[tuple[str, Labels], float] = {}
        self._spans: dict[Labels, Counter[int]] = {}
        self._seconds: dict[Labels, float] = {}
        self._lock = Lock()

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            self._sums[key] = self._sums.get(key, 0) + amount

    def took(self, seconds: float, **labels: str) -> None:
        """A request took so long."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            self._spans.setdefault(key, Counter())[bisect_left(BOUNDS, seconds)] += 1
            self._seconds[key] = self._seconds.get(key, 0.0) + seconds

    def text(self, now: dict[str, float] | None = None) -> str:
        """All counts, and how things stand at the moment."""
        with self._lock:
            sums, seconds = sorted(self._sums.items()), dict(self._seconds)
            spans = {labels: Counter(span) for labels, span in self._spans.items()}
        lines, told = [], set[str]()
        for (name, labels), value in sums:
            if name not in told:
                lines.append(f"# TYPE {name} counter")
                told.add(name)
            lines.append(f"{name}{_braces(labels)} {value:g}")
        for name, value in sorted((now or {}).items()):
            lines += [f"# TYPE {name} gauge", f"{name} {value:g}"]
        if spans:
            lines.append("# TYPE dragoman_request_seconds histogram")
        for labels, span in spans.items():
            lines += _histogram(labels, span, seconds[labels])
        return "\n".join(lines) + "\n"


def _histogram(labels: Labels, span: Counter[int], seconds: float) -> list[str]:
    name, lines, below = "dragoman_request_seconds", [], 0
    for place, bound in enumerate((*BOUNDS, float("inf"))):
        below += span[place]
        edge = "+Inf" if bound == float("inf") else f"{bound:g}"
        lines.append(f"{name}_bucket{_braces((*labels, ('le', edge)))} {below}")
    lines.append(f"{name}_sum{_braces(labels)} {seconds:g}")
    lines.append(f"{name}_count{_braces(labels)} {below}")
    return lines


def _braces(labels: Labels) -> str:
    inside = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels)
    return f"{{{inside}}}" if inside else ""


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
