"""Where a system is good and where it is not: the inputs in parts, by length or by label."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dragoman.data.fields import TextField
from dragoman.errors import UserError
from dragoman.evaluate.cases import columns
from dragoman.evaluate.exam import Exam
from dragoman.predict import Predictor

BUCKETS = 5  # of length: about as many inputs in each
MOST = 20  # labels shown; rarer ones are put together
OTHERS = "(others)"


class Part(NamedTuple):
    """Some of the inputs."""

    name: str
    items: list[int]


def by_length(lengths: Sequence[int], buckets: int = BUCKETS) -> list[Part]:
    """Parts of about equal size, from short to long; equal lengths are never parted.

    >>> by_length([1, 9, 2, 1, 3, 3], buckets=2)
    [Part(name='1-2', items=[0, 2, 3]), Part(name='3-9', items=[1, 4, 5])]
    """
    shares = np.arange(1, buckets + 1) / buckets
    ends = np.unique(np.quantile(lengths, shares, method="inverted_cdf"))
    bucket = np.searchsorted(ends, lengths)
    parts = []
    for number in range(len(ends)):
        items = np.flatnonzero(bucket == number).tolist()
        inside = [lengths[item] for item in items]
        low, high = min(inside), max(inside)
        parts.append(Part(f"{low}-{high}" if low < high else f"{low}", items))
    return parts


def by_label(labels: Sequence[str], most: int = MOST) -> list[Part]:
    """A part for each label, the commonest first.

    >>> by_label(["N", "V", "V", "A"], most=1)
    [Part(name='V', items=[1, 2]), Part(name='(others)', items=[0, 3])]
    """
    kept = [label for label, _ in Counter(labels).most_common(most)]
    parts = {name: Part(name, []) for name in (*kept, OTHERS)}
    for item, label in enumerate(labels):
        parts.get(label, parts[OTHERS]).items.append(item)
    return [part for part in parts.values() if part.items]


def split(by: str, exam: Exam, predictor: Predictor | None) -> list[Part]:
    """The inputs of an exam in parts, by one of `BREAKDOWNS`.

    >>> from dragoman.evaluate.cases import gather
    >>> split("label", Exam(gather(["", ""], ["yes", "no"]), ["accuracy"]), None)
    [Part(name='yes', items=[0]), Part(name='no', items=[1])]
    """
    if exam.text is not None:
        raise UserError("--by: running text has no parts")
    return BREAKDOWNS[by](exam, predictor)


def _length(exam: Exam, predictor: Predictor | None) -> list[Part]:
    """In symbols of the model's (first) source; without a text, in characters of the reference."""
    reader = predictor.fields.source if predictor else None
    if not isinstance(reader, TextField):
        return by_length([len(several[0]) for several in exam.cases.references])
    return by_length([len(reader.encode(columns(source)[0])) - 1 for source in exam.cases.sources])


def _label(exam: Exam, predictor: Predictor | None) -> list[Part]:
    wanted = [several[0] for several in exam.wanted]
    return by_label([_first(text) for text in exam.labels(wanted)])


def _tag(exam: Exam, predictor: Predictor | None) -> list[Part]:
    if predictor is None or not isinstance(predictor.fields.source, TextField):
        raise UserError(
            "--by tag looks at the first word of a text, and there is no source of text"
        )
    return by_label([_first(columns(source)[0]) for source in exam.cases.sources])


def _question(exam: Exam, predictor: Predictor | None) -> list[Part]:
    """By the first two words of the last text that is read: `what is`, `how many`."""
    fields = predictor.fields.sources.values() if predictor else ()
    texts = [at for at, field in enumerate(fields) if isinstance(field, TextField)]
    if not texts:
        raise UserError("--by question looks at a text, and there is no source of text")
    asked = [columns(source)[texts[-1]] for source in exam.cases.sources]
    return by_label([" ".join(text.lower().split()[:2]) for text in asked])


def _first(line: str) -> str:
    return line.split(maxsplit=1)[0] if line.strip() else ""


BREAKDOWNS: dict[str, Callable[[Exam, Predictor | None], list[Part]]] = {
    "length": _length,
    "label": _label,
    "tag": _tag,
    "question": _question,
}
