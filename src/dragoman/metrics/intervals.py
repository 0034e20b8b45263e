"""How far a number can be trusted: intervals of one system, and tests of two on the same items.

Items are drawn anew many times. Everything depends on the seed alone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.metrics.tally import Floats, Interval, Score, Tally

RESAMPLES, SEED = 1000, 1
_CELLS = 1 << 21  # weights held at once: 16 MB
_ROUNDING = 1e-9  # differences of equal systems are 0 but for this


class Comparison(NamedTuple):
    """Two systems under one metric; the p-values ask how often chance alone would part them so."""

    name: str
    first: float
    second: float
    interval: Interval  # of second - first, by paired bootstrap
    p_bootstrap: float
    p_randomisation: float

    @property
    def difference(self) -> float:
        return self.second - self.first


def interval(
    tally: Tally,
    among: Sequence[int] | None = None,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Interval | None:
    """The 95 % bootstrap interval (Efron 1979, percentiles) of a metric, or of its value `among`
    some of the items. One item alone tells nothing of others: there it is None.

    >>> from dragoman.metrics.text import exact
    >>> low, high = interval(exact.tally(["a"] * 80 + ["b"] * 20, ["a"] * 100))
    >>> 70 < low < 74 and 86 < high < 90
    True
    """
    chosen = np.arange(tally.items) if among is None else np.asarray(among, np.int64)
    if len(chosen) < 2:
        return None

    def weights(random: np.random.Generator, count: int) -> Floats:
        return _spread(_draws(random, count, len(chosen)), chosen, tally.items)

    return _middle(_sampled(tally, weights, resamples, seed))


def estimate(tally: Tally, among: Sequence[int] | None = None) -> Score:
    """The score with its interval.

    >>> from dragoman.metrics.text import exact
    >>> print(estimate(exact.tally(["a", "b"], ["a", "b"])))
    exact 100.00 [100.00, 100.00]
    """
    return tally.score(among)._replace(interval=interval(tally, among))


def compare(joint: Tally, resamples: int = RESAMPLES, seed: int = SEED) -> Comparison:
    """Two systems on the same items. `joint` holds the items of the first and then, in the same
    order, those of the second.

    Paired bootstrap (Koehn 2004) asks how often a difference this large comes up around a true
    one of 0, approximate randomisation (Riezler and Maxwell 2005) how often it does when the two
    swap answers at random.

    >>> from dragoman.metrics.text import exact
    >>> answers, wanted = ["a"] * 60 + ["b"] * 40 + ["a"] * 90 + ["b"] * 10, ["a"] * 200
    >>> found = compare(exact.tally(answers, wanted))
    >>> found.difference, found.p_bootstrap < 0.01, found.p_randomisation < 0.01
    (30.0, True, True)
    """
    half = joint.items // 2
    first, second = joint.values(np.repeat(np.eye(2), half, axis=1)).tolist()
    difference = second - first

    def drawn(random: np.random.Generator, count: int) -> Floats:
        draws, none = _draws(random, count, half), np.zeros((count, half))
        return np.stack([np.hstack([none, draws]), np.hstack([draws, none])], 1)

    def swapped(random: np.random.Generator, count: int) -> Floats:
        swaps = random.integers(0, 2, (count, half)).astype(float)
        return np.stack([np.hstack([swaps, 1 - swaps]), np.hstack([1 - swaps, swaps])], 1)

    redrawn = _differences(joint, drawn, resamples, seed)
    mixed = _differences(joint, swapped, resamples, seed)
    return Comparison(
        joint.name,
        first,
        second,
        _middle(redrawn),
        _chance(redrawn - difference, difference),
        _chance(mixed, difference),
    )


Draw = Callable[[np.random.Generator, int], Floats]


def _sampled(tally: Tally, draw: Draw, count: int, seed: int) -> Floats:
    """The metric of so many draws, a handful at a time: they need not fit into memory together."""
    random, parts = np.random.default_rng(seed), []
    for size in _portions(count, tally.items):
        parts.append(tally.values(draw(random, size)))
    return np.concatenate(parts)


def _differences(joint: Tally, draw: Draw, count: int, seed: int) -> Floats:
    """Second less first system; a draw gives the weights of both, one above the other."""

    def flat(random: np.random.Generator, size: int) -> Floats:
        return draw(random, size).reshape(2 * size, joint.items)

    values = _sampled(joint, flat, count, seed).reshape(-1, 2)
    return np.asarray(values[:, 0] - values[:, 1])


def _portions(count: int, items: int) -> Iterator[int]:
    most = max(1, _CELLS // items)
    while count > 0:
        yield min(most, count)
        count -= most


def _draws(random: np.random.Generator, count: int, items: int) -> Floats:  # (count, items)
    """How often each item comes up when as many as there are are drawn with replacement."""
    drawn = random.integers(0, items, (count, items))
    drawn += items * np.arange(count)[:, None]
    return np.bincount(drawn.ravel(), minlength=count * items).reshape(count, items).astype(float)


def _spread(draws: Floats, places: npt.NDArray[np.int64], items: int) -> Floats:
    weights = np.zeros((len(draws), items))
    weights[:, places] = draws
    return weights


def _middle(values: Floats) -> Interval:
    low, high = np.quantile(values, [0.025, 0.975]).tolist()
    return Interval(low, high)


def _chance(differences: Floats, seen: float) -> float:
    """How many draws are as extreme as what was seen; what was seen is one of them."""
    extreme = int((np.abs(differences) >= abs(seen) - _ROUNDING).sum())
    return (extreme + 1) / (len(differences) + 1)
