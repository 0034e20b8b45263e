"""Quality against the length of the source: where a fixed vector gives way and attention does not
(Bahdanau et al. 2015, fig. 2).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dragoman.errors import UserError
from dragoman.plots.canvas import (
    COLOURS,
    DASHES,
    MARKS,
    Floats,
    Picture,
    blank,
    kept,
    needed,
    plain,
)
from dragoman.plots.labels import legend, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Bucket(NamedTuple):
    """Inputs of like length, and how good a system is on them."""

    name: str  # of the lengths: "10-14"
    size: int
    value: float
    low: float  # the interval in which the value lies ...
    high: float  # ... in 95 of 100 such samples


def by_length(
    systems: Mapping[str, Sequence[Bucket]],
    metric: str,
    path: str | Path | None = None,
    unit: str = "symbols",
    title: str = "",
) -> Picture:
    """A line per system over the same buckets, with its 95 % intervals.

    >>> row = [Bucket("1-5", 40, 80.0, 75.0, 84.0), Bucket("6-9", 38, 70.0, 64.0, 77.0)]
    >>> len(by_length({"vector": row, "attention": row}, "BLEU").figure.axes[0].lines) >= 2
    True
    """
    needed()
    first = next(iter(systems.values()), [])
    if not first:
        raise UserError("nothing to draw: there are no inputs")
    if any([b.name for b in row] != [b.name for b in first] for row in systems.values()):
        raise UserError("systems can be drawn together where their inputs are the same")
    figure = blank(max(5.2, 0.95 * len(first) + 2), 3.9)
    axes = figure.add_subplot()
    spots = np.arange(len(first))
    for number, (name, row) in enumerate(systems.items()):
        shift = 0.06 * (number - (len(systems) - 1) / 2)  # intervals stand beside each other
        _draw(axes, spots + shift, row, number, line(name, 32)[0])
    axes.set_xticks(spots, [f"{b.name}\nn = {b.size}" for b in first])
    told = any(b.low < b.high for row in systems.values() for b in row)
    plain(axes, f"length of the source ({unit})", metric + ", 95 % intervals" * told)
    legend(axes)
    shown, how = line(title or f"{metric} by length of the source", 80)
    axes.set_title(shown, fontsize=12, pad=10, **how)
    figure.tight_layout()
    return kept(figure, path)


def _draw(axes: "Axes", spots: Floats, row: Sequence[Bucket], number: int, name: str) -> None:
    reach = [[b.value - b.low for b in row], [b.high - b.value for b in row]]
    axes.errorbar(
        spots,
        [bucket.value for bucket in row],
        yerr=np.maximum(reach, 0),
        color=COLOURS[number % len(COLOURS)],
        linestyle=DASHES[number % len(DASHES)],
        marker=MARKS[number % len(MARKS)],
        markersize=5,
        linewidth=1.8,
        elinewidth=1,
        capsize=2.5,
        label=name,
    )
