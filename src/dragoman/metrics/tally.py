"""What all metrics share: a `Score`, and a `Tally`, which is a metric with its counting done.

Counting (n-grams, edits, entities) is slow and happens once an item. What comes after is a function
of how often each item counts: once each is the score of a corpus, once or never is that of a part
of it, and draws with replacement are its bootstrap. So one object serves them all.
"""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Generic, Literal, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from dragoman.errors import UserError

Floats = npt.NDArray[np.float64]
Values = Callable[[Floats], Floats]  # how often each item counts (R, N) -> R values of the metric
Better = Literal["higher", "lower"]
References = Sequence[str | list[str]]  # a list holds all answers that are right
P = ParamSpec("P")
T = TypeVar("T")


class Interval(NamedTuple):
    """Where the value lies, in 95 of 100 test sets like this one.

    >>> print(Interval(79.5, 90.25))
    [79.50, 90.25]
    """

    low: float
    high: float

    def __str__(self) -> str:
        return f"[{self.low:.2f}, {self.high:.2f}]"


class Score(NamedTuple):
    """A number with what one needs to compare it: its direction and, for BLEU, how it was counted.

    >>> print(Score("CER", 12.5, "lower"))
    CER 12.50
    """

    name: str
    value: float
    better: Better
    signature: str | None = None  # of sacrebleu: scores compare only where signatures are equal
    interval: Interval | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}" + (f" {self.interval}" if self.interval else "")


class Counted(NamedTuple):
    """What a metric has counted in a corpus of so many items."""

    items: int
    values: Values
    signature: str | None = None


class Tally(NamedTuple):
    """A metric of one corpus, ready to be asked what it is for any choice of the items.

    >>> right = np.array([1.0, 1.0, 0.0])
    >>> tally = Tally("exact", "higher", 3, ratio(np.stack([right, np.ones(3)], 1)))
    >>> print(tally.score())
    exact 66.67
    >>> tally.values(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 3.0]])).tolist()
    [100.0, 25.0]
    """

    name: str
    better: Better
    items: int
    values: Values
    signature: str | None = None

    def score(self, among: Sequence[int] | None = None) -> Score:
        """The value where every item counts once, or those `among` do and the others do not."""
        weights = np.zeros((1, self.items))
        weights[:, slice(None) if among is None else list(among)] = 1
        return Score(self.name, float(self.values(weights)[0]), self.better, self.signature)


class Metric(Generic[P]):
    """A metric by its counting function: called, it gives a `Score`; its `tally`, all the rest."""

    def __init__(self, name: str, better: Better, count: Callable[P, Counted]) -> None:
        update_wrapper(self, count)
        self.name, self.better, self._count = name, better, count

    def __call__(self, *args: P.args, **options: P.kwargs) -> Score:
        return self.tally(*args, **options).score()

    def tally(self, *args: P.args, **options: P.kwargs) -> Tally:
        """The same with the counting done and the adding left open."""
        return Tally(self.name, self.better, *self._count(*args, **options))


def metric(name: str, better: Better) -> Callable[[Callable[P, Counted]], Metric[P]]:
    """Make a metric of a function that counts.

    >>> @metric("ends", "higher")
    ... def ends(hypotheses: list[str], references: list[str]) -> Counted:
    ...     same = [[a[-1] == b[-1], 1.0] for a, b in zip(hypotheses, references)]
    ...     return Counted(len(same), ratio(np.array(same)))
    >>> print(ends(["cat", "dog"], ["hat", "cow"]))
    ends 50.00
    """
    return lambda count: Metric(name, better, count)


def slowly(
    measure: Callable[[list[T], list[T | list[T]]], Score],
    hypotheses: Sequence[T],
    references: Sequence[T | list[T]],
) -> Tally:
    """A tally of any function of two lists, which is called anew for each choice of the items: what
    the tallies of the table must equal, and a way for metrics that are not in it.

    >>> def longest(hypotheses: list[str], references: list[str]) -> Score:
    ...     return Score("longest", max(map(len, hypotheses)), "higher")
    >>> slowly(longest, ["a", "bcd"], ["", ""]).values(np.array([[1.0, 0.0], [2.0, 1.0]])).tolist()
    [1.0, 3.0]
    """
    first = measure(list(hypotheses), list(references))

    def value(counts: Floats) -> float:
        chosen = np.repeat(np.arange(len(hypotheses)), counts.astype(int)).tolist()
        return measure([hypotheses[i] for i in chosen], [references[i] for i in chosen]).value

    return Tally(
        first.name,
        first.better,
        len(hypotheses),
        lambda weights: np.array([value(counts) for counts in weights], float),
        first.signature,
    )


def ratio(rows: Floats, scale: float = 100.0) -> Values:
    """The metric that divides one sum by another; `rows` (N, 2) holds what each item adds to both.
    Nothing out of nothing is 0.

    >>> ratio(np.array([[1.0, 4.0], [3.0, 4.0]]))(np.ones((1, 2))).tolist()
    [50.0]
    """

    def values(weights: Floats) -> Floats:
        sums: Floats = weights @ rows
        above, below = sums[:, 0], sums[:, 1]
        found = np.zeros(len(sums))
        np.divide(scale * above, below, out=found, where=below > 0)
        return found

    return values


def alternatives(hypotheses: Sequence[object], references: Sequence[T | list[T]]) -> list[list[T]]:
    """All right answers of each item; lists that do not pair up are refused.

    >>> alternatives(["a", "b"], ["a", ["b", "c"]])
    [['a'], ['b', 'c']]
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} predictions but {len(references)} references: pair them up"
        )
    if not len(references):
        raise UserError("nothing to measure: there are no predictions and no references")
    several = [given if isinstance(given, list) else [given] for given in references]
    if [] in several:
        raise UserError(f"item {several.index([]) + 1} has no reference: give it one or leave it")
    return several
