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

MOST = 25  # stops that can be numbered
AWAY, SQUARE = 10.0, 200.0  # points from a stop to its number; of the side of a tour's square


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
        far = _one(places[number], np.asarray(given, float), list(order), closed)
        name = f"{names[number]}, " if number < len(names) else ""
        shown, how = line(f"{name}length {far:.2f}", 44)
        places[number].set_title(shown, fontsize=10, **how)
    for spare in places[len(points) :]:
        spare.set_visible(False)
    shown, how = line(title, 80)
    figure.suptitle(shown, fontsize=12, **how)
    figure.tight_layout()
    return kept(figure, path)


def _one(axes: "Axes", given: Floats, order: list[int], closed: bool) -> float:
    """Draw a tour; its length."""
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
    reach = 0.6 * max(float(np.ptp(given, 0).max()), 1e-9)
    middle = (given.max(0) + given.min(0)) / 2
    axes.set(
        xticks=[],
        yticks=[],
        xlim=(middle[0] - reach, middle[0] + reach),
        ylim=(middle[1] - reach, middle[1] + reach),
        aspect="equal",
    )
    axes.spines[:].set(color="#c8ced4", linewidth=0.6)
    if len(order) <= MOST:
        _number(axes, given, order, stops, 2 * reach)
    return float(np.hypot(*np.diff(stops, axis=0).T).sum()) if len(stops) > 1 else 0.0


def _number(axes: "Axes", given: Floats, order: list[int], stops: Floats, side: float) -> None:
    """A number beside each stop, on whichever side is freest of lines, points and other numbers."""
    shares = np.linspace(0, 1, 24)[:, None, None]
    path = (stops[None, :-1] * (1 - shares) + stops[None, 1:] * shares).reshape(-1, 2)
    angles = 2 * np.pi * np.arange(16) / 16
    turned = np.stack([np.cos(angles), np.sin(angles)], -1)
    written = np.empty((0, 2))
    for place, stop in enumerate(order, 1):
        others = np.concatenate([path, np.delete(given, stop, 0), written])
        away = AWAY + 3 * (place == 1)  # past its ring
        spots = given[stop] + away / SQUARE * side * turned
        gaps = np.hypot(*(spots[:, None] - others[None]).T).min(0) if len(others) else angles
        best = int(np.argmax(gaps))
        written = np.concatenate([written, spots[best : best + 1]])
        axes.annotate(
            f"{place}",
            given[stop],
            xytext=tuple(away * turned[best]),
            textcoords="offset points",
            fontsize=7.5,
            ha="center",
            va="center",
        )
