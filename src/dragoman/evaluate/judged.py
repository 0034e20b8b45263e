"""What came of a system, and of several."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from dragoman.metrics import Score, Tally, estimate


class Judged(NamedTuple):
    """A system's answers, counted."""

    name: str
    written: list[str]  # in the form of the references; a language model writes nothing
    tallies: list[Tally]  # all of the same items

    def scores(self, among: Sequence[int] | None = None) -> list[Score]:
        """All metrics with their intervals, of all inputs or of those `among`."""
        return [estimate(tally, among) for tally in self.tallies]


class Spread(NamedTuple):
    """A metric over runs that differ by chance, by their seed say."""

    name: str
    mean: float
    deviation: float  # of the sample: n - 1
    values: list[float]


def spread(runs: Sequence[Sequence[Score]]) -> list[Spread]:
    """Mean and standard deviation of each metric that all runs have; each run is a list of scores.

    >>> runs = [[Score("exact", value, "higher")] for value in (80.0, 82.0, 84.0)]
    >>> spread(runs)
    [Spread(name='exact', mean=82.0, deviation=2.0, values=[80.0, 82.0, 84.0])]
    """
    tables = [{score.name: score.value for score in run} for run in runs]
    found = []
    for name in tables[0]:
        if all(name in table for table in tables):
            values = [table[name] for table in tables]
            deviation = stdev(values) if len(values) > 1 else math.nan
            found.append(Spread(name, fmean(values), deviation, values))
    return found
