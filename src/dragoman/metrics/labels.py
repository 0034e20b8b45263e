"""Metrics of labels: one an item, a set of them, or a line of tags that mark entities.

For the F1 scores an item is one label of any type, or a `set` of labels. Of several references the
one that fits the answer best counts.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.errors import UserError
from dragoman.metrics.tally import Counted, Floats, References, alternatives, metric, ratio
from dragoman.metrics.text import share_right

Pair = tuple[frozenset[Any], frozenset[Any]]  # what was given and what was wanted
Ints = npt.NDArray[np.int64]
DIALECTS = {"B": "B", "I": "I", "E": "E", "S": "S", "M": "I", "L": "E", "U": "S"}


@metric("accuracy", "higher")
def accuracy(hypotheses: Sequence[object], references: Sequence[object]) -> Counted:
    """Share of labels that are right; unlike the text metrics it takes labels of any type.

    >>> print(accuracy([3, 1, 2, 2], [3, 1, 2, [0, 1]]))
    accuracy 75.00
    """
    return share_right(hypotheses, alternatives(hypotheses, references))


@metric("accuracy-last", "higher")
def accuracy_last(hypotheses: Sequence[str], references: References) -> Counted:
    """Share of lines whose last word is right: the label of the whole behind a tag for each word.

    >>> print(accuracy_last(["O B-genre Play", "O O Play"], ["O O Play", "O O Rate"]))
    accuracy-last 50.00
    """
    several = alternatives(hypotheses, references)
    return share_right(last_words(hypotheses), [last_words(wanted) for wanted in several])


def last_words(lines: Sequence[str]) -> list[str]:
    """The last word of each line, where a label stands behind tags.

    >>> last_words(["O B-genre Play", ""])
    ['Play', '']
    """
    return [" ".join(line.split()[-1:]) for line in lines]


def but_last(lines: Sequence[str]) -> list[str]:
    """What stands before it: the tags.

    >>> but_last(["O B-genre Play", ""])
    ['O B-genre', '']
    """
    return [" ".join(line.split()[:-1]) for line in lines]


@metric("F1-micro", "higher")
def f1_micro(hypotheses: Sequence[object], references: Sequence[object]) -> Counted:
    """F1 of all labels together. With one label an item it is the accuracy.

    >>> print(f1_micro([{"news", "sport"}, {"news"}], [{"sport"}, {"news"}]))
    F1-micro 80.00
    """
    return _f1(_pairs(hypotheses, references))


@metric("F1-macro", "higher")
def f1_macro(hypotheses: Sequence[object], references: Sequence[object]) -> Counted:
    """Mean of the F1 of each label that was given or wanted, so that rare labels weigh as much as
    common ones.

    >>> print(f1_macro(["a", "a", "b"], ["a", "b", "b"]))
    F1-macro 66.67
    """
    pairs = _pairs(hypotheses, references)
    codes = {label: code for code, label in enumerate({x for a, b in pairs for x in a | b})}
    hits = _places(codes, [a & b for a, b in pairs])
    given, wanted = (_places(codes, side) for side in zip(*pairs, strict=True))
    seen = np.concatenate([given, wanted], 1)

    def value(weights: Floats) -> float:
        right, total = (
            np.bincount(labels, weights[items], len(codes)) for items, labels in (hits, seen)
        )
        there = total > 0
        return float(200 * (right[there] / total[there]).mean()) if there.any() else 0.0

    return Counted(len(pairs), lambda weights: np.array([value(row) for row in weights]))


@metric("F1-set", "higher")
def f1_set(hypotheses: Sequence[str], references: References) -> Counted:
    """F1 of all labels together where a line holds several, blanks between them, in any order.

    >>> print(f1_set(["news sport", "news"], ["sport", "news"]))
    F1-set 80.00
    """
    several = alternatives(hypotheses, references)
    return _f1(
        [
            _fit(frozenset(line.split()), [frozenset(one.split()) for one in wanted])
            for line, wanted in zip(hypotheses, several, strict=True)
        ]
    )


@metric("F1-entity", "higher")
def f1_entity(hypotheses: Sequence[str], references: References) -> Counted:
    """F1 of entities in lines of tags: place, extent and type must all be right, as in CoNLL.
    Where no line marks an entity it is 0.

    >>> print(f1_entity(["B-PER I-PER O B-LOC"], ["B-PER I-PER O B-ORG"]))
    F1-entity 50.00
    """
    several = alternatives(hypotheses, references)
    return _f1(
        [
            _fit(frozenset(entities(line)), [frozenset(entities(one)) for one in wanted])
            for line, wanted in zip(hypotheses, several, strict=True)
        ]
    )


def entities(line: str) -> Iterator[tuple[str, int, int]]:
    """The type, first and last place of what BIO, BIOES, BILOU or BMES tags mark. Tags that do not
    fit (an inside without a beginning) are read as `conlleval` does: they begin an entity.

    >>> list(entities("B-PER I-PER O I-LOC S-ORG"))
    [('PER', 0, 1), ('LOC', 3, 3), ('ORG', 4, 4)]
    """
    begun, before, kind = -1, "O", ""
    for place, tag in enumerate([*line.split(), "O"]):
        prefix, _, name = tag.partition("-")
        here = DIALECTS.get(prefix, "O")
        if not (here in "IE" and before in "BI" and name == kind):  # the entity before ends
            if begun >= 0:
                yield kind, begun, place - 1
            begun = -1 if here == "O" else place
        before, kind = here, name


class LabelReport(NamedTuple):
    """How one label fares."""

    label: Any
    precision: float
    recall: float
    f1: float
    support: int  # how often it was wanted


def per_label(hypotheses: Sequence[object], references: Sequence[object]) -> list[LabelReport]:
    """Precision, recall and F1 of each label, in the order of the labels.

    >>> for label, precision, recall, f1, support in per_label(["a", "a", "b"], ["a", "b", "b"]):
    ...     print(label, precision, recall, round(f1, 2), support)
    a 50.0 100.0 66.67 1
    b 100.0 50.0 66.67 2
    """
    pairs = _pairs(hypotheses, references)
    given, wanted = (
        Counter(x for side in sides for x in side) for sides in zip(*pairs, strict=True)
    )
    right = Counter(label for a, b in pairs for label in a & b)
    return [
        LabelReport(
            label,
            precision=100 * right[label] / max(given[label], 1),
            recall=100 * right[label] / max(wanted[label], 1),
            f1=200 * right[label] / (given[label] + wanted[label]),
            support=wanted[label],
        )
        for label in sorted(given | wanted, key=str)
    ]


class Confusion(NamedTuple):
    """What was taken for what."""

    labels: list[Any]
    counts: Ints  # (wanted, given), both in the order of the labels


def confusion(hypotheses: Sequence[object], references: Sequence[object]) -> Confusion:
    """How often each label was given where each was wanted, for items of one label.

    >>> confusion(["a", "a", "b"], ["a", "b", "b"]).counts.tolist()
    [[1, 0], [1, 1]]
    """
    pairs = _pairs(hypotheses, references)
    if any(len(a) != 1 or len(b) != 1 for a, b in pairs):
        raise UserError("a confusion matrix takes one label an item, not sets of them")
    labels = sorted({label for a, b in pairs for label in a | b}, key=str)
    place = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), np.int64)
    for (given,), (wanted,) in pairs:
        counts[place[wanted], place[given]] += 1
    return Confusion(labels, counts)


def _pairs(hypotheses: Sequence[object], references: Sequence[object]) -> list[Pair]:
    several = alternatives(hypotheses, references)
    return [
        _fit(_set(given), [_set(one) for one in wanted])
        for given, wanted in zip(hypotheses, several, strict=True)
    ]


def _set(item: object) -> frozenset[Any]:
    return frozenset(item) if isinstance(item, set | frozenset) else frozenset([item])


def _fit(given: frozenset[Any], several: list[frozenset[Any]]) -> Pair:
    """The answer beside the reference with which its F1 is best; of equals, the shortest: nothing
    is right where nothing is wanted.
    """

    def fits(one: frozenset[Any]) -> tuple[float, int]:
        return len(given & one) / max(len(given) + len(one), 1), -len(one)

    return given, max(several, key=fits)


def _f1(pairs: list[Pair]) -> Counted:
    rows = [[2 * len(a & b), len(a) + len(b)] for a, b in pairs]
    return Counted(len(rows), ratio(np.array(rows, float)))


def _places(codes: dict[Any, int], sets: Sequence[frozenset[Any]]) -> Ints:  # (2, labels in all)
    """Item and code of every label."""
    found = [(item, codes[label]) for item, labels in enumerate(sets) for label in labels]
    return np.array(found, np.int64).reshape(-1, 2).T
