"""What is told of a system, as lines for people and as a tree for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dragoman.evaluate.judged import Spread
from dragoman.metrics import Comparison, Interval, LabelReport, Score

WIDE = 18  # as the longest name of a metric


class Slice(NamedTuple):
    """A part of the inputs."""

    name: str
    inputs: int
    scores: list[Score]


class Rival(NamedTuple):
    """Another system on the same inputs."""

    name: str
    scores: list[Score]
    comparisons: list[Comparison]


@dataclass(frozen=True)
class Report:
    """A system's scores, and whatever else was asked for.

    >>> report = Report([Score("exact", 80.0, "higher", interval=Interval(72.0, 88.0))])
    >>> print(*report.lines())
    exact                  80.000   [72.000, 88.000]
    >>> report.tree()
    {'exact': {'value': 80.0, 'interval': [72.0, 88.0], 'better': 'higher', 'signature': None}}
    """

    scores: list[Score]
    parts: list[Slice] = field(default_factory=list)
    labels: list[LabelReport] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)  # the systems over which `spreads` go
    spreads: list[Spread] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """A table, and further tables below it."""
        if self.spreads:
            yield f"mean ± standard deviation of {len(self.runs)}: {', '.join(self.runs)}"
            yield from map(_spread_line, self.spreads)
        else:
            yield from map(_score_line, self.scores)
        for rival in self.rivals:
            yield from _rival_lines(rival)
        if self.parts:
            yield from _part_lines(self.parts)
        if self.labels:
            wide = _width([str(report.label) for report in self.labels])
            yield f"\n{'label':<{wide}}{'precision':>12}{'recall':>12}{'F1':>12}{'support':>10}"
            for label, *figures, support in self.labels:
                cells = "".join(f"{x:12.3f}" for x in figures)
                yield f"{label!s:<{wide}}{cells}{support:10}"

    def tree(self) -> dict[str, Any]:
        """Everything about a metric under its name."""
        tree = {score.name: _score_tree(score) | self._further(score.name) for score in self.scores}
        if self.labels:
            return tree | {"labels": [report._asdict() for report in self.labels]}
        return tree

    def _further(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.parts:
            found["breakdown"] = [
                {"part": part.name, "inputs": part.inputs} | _score_tree(score)
                for part in self.parts
                for score in part.scores
                if score.name == name
            ]
        if self.rivals:
            trees = [_rival_tree(rival, name) for rival in self.rivals]
            found["against"] = [tree for tree in trees if tree]
        for spread in self.spreads:
            if spread.name == name:
                found |= {"mean": _round(spread.mean), "deviation": _round(spread.deviation)}
                values = zip(self.runs, spread.values, strict=True)
                found["runs"] = [{"system": run, "value": _round(value)} for run, value in values]
        return found


def _score_line(score: Score) -> str:
    parts = [f"{score.name:<{WIDE}} {score.value:10.3f}"]
    if score.interval:
        parts.append(_bounds(score.interval))
    return "   ".join([*parts, *filter(None, [score.signature])])


def _spread_line(spread: Spread) -> str:
    values = " ".join(f"{value:.3f}" for value in spread.values)
    return f"{spread.name:<{WIDE}} {spread.mean:10.3f} ± {spread.deviation:.3f}   ({values})"


def _rival_lines(rival: Rival) -> Iterator[str]:
    yield f"\nagainst {rival.name}"
    compared = {comparison.name: comparison for comparison in rival.comparisons}
    for score in rival.scores:
        line = _score_line(score._replace(signature=None))
        if found := compared.get(score.name):
            line += f"   theirs - ours {found.difference:+.3f} {_bounds(found.interval)}"
            line += f"   p {found.p_bootstrap:.3f} (bootstrap)"
            line += f" {found.p_randomisation:.3f} (randomisation)"
        yield line


def _part_lines(parts: Sequence[Slice]) -> Iterator[str]:
    names, wide = [score.name for score in parts[0].scores], _width([part.name for part in parts])
    yield f"\n{'part':<{wide}}{'inputs':>10}   " + "".join(f"{name:<32}" for name in names).rstrip()
    for part in parts:
        cells = []
        for score in part.scores:
            bounds = f" {_bounds(score.interval)}" if score.interval else ""
            cells.append(f"{score.value:.3f}{bounds}")
        yield (
            f"{part.name:<{wide}}{part.inputs:>10}   " + "".join(f"{c:<32}" for c in cells).rstrip()
        )


def _width(names: Sequence[str]) -> int:
    """Of a first column."""
    return max(16, 2 + max(map(len, names)))


def _bounds(interval: Interval) -> str:
    return f"[{interval.low:.3f}, {interval.high:.3f}]"


def _score_tree(score: Score) -> dict[str, Any]:
    return {
        "value": _round(score.value),
        "interval": [_round(bound) for bound in score.interval] if score.interval else None,
        "better": score.better,
        "signature": score.signature,
    }


def _rival_tree(rival: Rival, name: str) -> dict[str, Any]:
    score = _named(rival.scores, name)
    if score is None:  # a file of outputs has no perplexity
        return {}
    tree = {"system": rival.name} | _score_tree(score)
    for found in rival.comparisons:
        if found.name == name:
            tree["difference"] = _round(found.difference)
            tree["difference_interval"] = [_round(bound) for bound in found.interval]
            tree["p_bootstrap"] = _round(found.p_bootstrap)
            tree["p_randomisation"] = _round(found.p_randomisation)
    return tree


def _named(scores: Sequence[Score], name: str) -> Score | None:
    return next((score for score in scores if score.name == name), None)


def _round(value: float) -> float:
    return round(value, 4)
