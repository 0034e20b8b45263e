"""Sentences as points: the one vector that sums each up, in two dimensions (Sutskever et al. 2014,
fig. 2).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dragoman.errors import UserError
from dragoman.plots.canvas import COLOURS, INK, MARKS, SOFT, Floats, Picture, blank, kept, needed
from dragoman.plots.labels import legend, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAR = (7, 14, 24, 38, 56, 76)  # points between a mark and its label, tried in turn
TURNS = 16  # directions in which a label is tried
MARK = 3.5  # points from the middle of a mark to where it is clear of it


class Flat(NamedTuple):
    """Vectors in two dimensions."""

    places: Floats  # (N, 2)
    shares: tuple[float, float]  # of the variance that each dimension keeps


def flatten(vectors: Floats) -> Flat:
    """The two directions in which vectors (N, D) differ most (PCA). Signs are settled, so that the
    same vectors always give the same map.

    >>> flat = flatten(np.array([[0.0, 0.0, 1.0], [4.0, 0.0, 1.0], [2.0, 1.0, 1.0]]))
    >>> [round(float(share), 2) for share in flat.shares]
    [0.92, 0.08]
    """
    centred = np.asarray(vectors, float) - np.mean(vectors, 0)
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    signs = np.where(right[np.arange(len(right)), np.abs(right).argmax(1)] < 0, -1.0, 1.0)
    places = (left * sizes * signs)[:, :2]
    places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    kept_of = sizes**2 / max(float((sizes**2).sum()), 1e-12)
    first, second, *_ = [*map(float, kept_of), 0.0]
    return Flat(places, (first, second))


def sentence_map(
    vectors: Floats,  # (N, D)
    names: Sequence[str],
    path: str | Path | None = None,
    groups: Sequence[str] | None = None,
    title: str = "Sentence summaries",
) -> Picture:
    """A map of vectors with their texts beside them; texts of one group share colour and mark.

    >>> picture = sentence_map(np.eye(3), ["one", "two", "three"])
    >>> sorted(text.get_text() for text in picture.figure.axes[0].texts)
    ['one', 'three', 'two']
    """
    needed()
    if len(vectors) != len(names) or len(names) < 2:
        raise UserError(f"a map needs two sentences or more, and a name for each: {len(names)}")
    if groups is not None and len(groups) != len(names):
        raise UserError(f"{len(groups)} groups for {len(names)} sentences")
    flat = flatten(vectors)
    figure = blank(8.4, 5.8)
    axes = figure.add_subplot()
    _mark(axes, flat.places, list(groups) if groups else [""] * len(names))
    axes.margins(0.16, 0.1)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color="#c8ced4", linewidth=0.6)
    axes.set_xlabel(f"first principal component ({100 * flat.shares[0]:.0f} % of the variance)")
    axes.set_ylabel(f"second ({100 * flat.shares[1]:.0f} %)")
    shown, how = line(title, 80)
    axes.set_title(shown, fontsize=12, pad=10, **how)
    figure.tight_layout()
    _name(axes, flat.places, names)
    return kept(figure, path)


def _mark(axes: "Axes", places: Floats, groups: list[str]) -> None:
    for number, group in enumerate(dict.fromkeys(groups)):
        mine = places[[one == group for one in groups]]
        axes.scatter(
            mine[:, 0],
            mine[:, 1],
            s=34,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKS[number % len(MARKS)],
            zorder=3,
            label=line(group, 32)[0] if group else None,
        )
    if any(groups):
        legend(axes)


def _name(axes: "Axes", places: Floats, names: Sequence[str]) -> None:
    """Write each name where it covers neither a mark, a line nor another name; one that has no room
    is left out rather than written over others.
    """
    figure: Any = axes.figure
    renderer = figure.canvas.get_renderer()
    box = axes.get_legend()
    room = Room(
        axes.get_window_extent(renderer),
        axes.transData.transform(places),
        figure.dpi / 72,
        [box.get_window_extent(renderer)] if box else [],
    )
    for number in np.argsort(-np.abs(places).sum(1)):  # the outermost have the most room
        shown, how = line(names[number], 40)
        text = axes.annotate(
            shown, places[number], xytext=(0, 0), textcoords="offset points", fontsize=8.5, **how
        )
        spot = room.find(text, number, renderer)
        if spot is None:
            text.remove()
            continue
        text.set_color(INK)
        if _far(spot):
            axes.annotate(
                "",
                places[number],
                xytext=spot,
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": SOFT, "linewidth": 0.5, "shrinkB": 3},
            )


class Room:
    """What is taken of a plot, in pixels: boxes of names, marks, and lines from marks to names."""

    def __init__(self, inside: Any, marks: Floats, scale: float, taken: list[Any]) -> None:
        self.inside, self.marks, self.scale, self.taken = inside, marks, scale, taken
        self.lines = np.empty((0, 2))  # points along them

    def find(self, text: Any, number: int, renderer: Any) -> tuple[float, float] | None:
        """The first free place for a mark's name, in points; the name is moved there."""
        for spot, across, up in _spots():
            text.set(position=spot, ha=across, va=up)
            box = text.get_window_extent(renderer).padded(1.5)
            way = self._way(number, spot)
            if self._free(box) and self._open(way, number):
                self.taken.append(box)
                self.lines = np.concatenate([self.lines, way])
                return spot
        return None

    def _free(self, box: Any) -> bool:
        """Whether a name may stand here."""
        held = (box.p0 > self.inside.p0).all() and (box.p1 < self.inside.p1).all()
        apart = not any(box.overlaps(other) for other in self.taken)
        clear = not _within(self.marks, box.padded(MARK * self.scale))
        return bool(held and apart and clear and not _within(self.lines, box))

    def _way(self, number: int, spot: tuple[float, float]) -> Floats:
        """The line from a mark to its name: nothing where the name is near."""
        if not _far(spot):
            return np.empty((0, 2))
        long = float(np.hypot(*spot))
        shares = np.arange(MARK + 1, long, 1.5) / long
        way: Floats = self.marks[number] + shares[:, None] * np.array(spot) * self.scale
        return way

    def _open(self, way: Floats, number: int) -> bool:
        """Whether a line crosses neither names, nor marks, nor other lines."""
        others = np.concatenate([np.delete(self.marks, number, 0), self.lines])
        near = np.hypot(*(way[:, None] - others[None]).T) < MARK * self.scale
        return not near.any() and not any(_within(way, box) for box in self.taken)


def _within(points: Floats, box: Any) -> bool:
    return bool(((points > box.p0) & (points < box.p1)).all(1).any())


def _far(spot: tuple[float, float]) -> bool:
    """Whether a name needs a line to its mark."""
    return float(np.hypot(*spot)) > FAR[1] + 1


def _spots() -> Iterator[tuple[tuple[float, float], str, str]]:
    for far in FAR:
        for turn in range(TURNS):
            angle = 2 * np.pi * turn / TURNS
            x, y = float(far * np.cos(angle)), float(far * np.sin(angle))
            across = "left" if x > 1 else "right" if x < -1 else "center"
            up = "bottom" if y > 1 else "top" if y < -1 else "center"
            yield (x, y), across, up
