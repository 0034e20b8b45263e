"""Tours: points on a plane, in the order in which a model visits them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dragoman.errors import UserError
from dragoman.plots.canvas import COLOURS, INK, Floats, Picture, blank, grid, kept, needed
from dragoman.plots.labels import line

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def tours(
    points: Sequence[Floats],  # of each tour (N, 2)
    orders: Sequence[Sequence[int]],
    path: str | Path | None = None,
    names: Sequence[str] = (),
    closed: bool = True,
    title: str = "Tours",
) -> Picture:
    """Each tour in a square of its own, with its length; the first stop is ringed.

    >>> square = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    >>> tours([square], [[0, 1, 2, 3]]).figure.axes[0].get_title()
    'length 4.00'
    """
    needed()
    if not points or len(points) != len(orders):
        raise UserError(f"{len(points)} sets of points and {len(orders)} orders to visit them in")
    columns = min(4, len(points))
    rows = -(-len(points) // columns)
    figure = blank(3.1 * columns, 3.3 * rows + 0.4)
    places = grid(figure, rows, columns)
    for number, (given, order) in enumerate(zip(points, orders, strict=True)):
        _one(places[number], np.asarray(given, float), list(order), closed)
        if number < len(names):
            shown, how = line(names[number], 32)
            places[number].set_xlabel(shown, fontsize=9, **how)
    for spare in places[len(points) :]:
        spare.set_visible(False)
    figure.suptitle(title, fontsize=12)
    figure.tight_layout()
    return kept(figure, path)


def _one(axes: "Axes", given: Floats, order: list[int], closed: bool) -> None:
    if any(not 0 <= stop < len(given) for stop in order):
        raise UserError(f"a tour visits a point that is not there: there are {len(given)}")
    stops = given[[*order, *order[:1]] if closed else order]
    axes.plot(stops[:, 0], stops[:, 1], color=COLOURS[0], linewidth=1.6, zorder=2)
    axes.scatter(
        given[:, 0], given[:, 1], s=26, color="white", edgecolors=INK, linewidths=1.3, zorder=3
    )
    if len(stops):
        axes.scatter(
            stops[:1, 0], stops[:1, 1], s=110, facecolors="none", edgecolors=COLOURS[1], zorder=4
        )
    for place, stop in enumerate(order if len(order) <= 25 else [], 1):
        axes.annotate(
            f"{place}", given[stop], xytext=(5, 4), textcoords="offset points", fontsize=7.5
        )
    far = float(np.hypot(*np.diff(stops, axis=0).T).sum()) if len(stops) > 1 else 0.0
    axes.set_title(f"length {far:.2f}", fontsize=10)
    middle, reach = (
        (given.max(0) + given.min(0)) / 2,
        0.6 * max(float(np.ptp(given, 0).max()), 1e-9),
    )
    axes.set(
        xticks=[],
        yticks=[],
        xlim=(middle[0] - reach, middle[0] + reach),
        ylim=(middle[1] - reach, middle[1] + reach),
        aspect="equal",
    )
    axes.spines[:].set(color="#c8ced4", linewidth=0.6)
