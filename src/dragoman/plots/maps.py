"""Sentences as points: the one vector that sums each up, in two dimensions (Sutskever et al. 2014,
fig. 2).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dragoman.errors import UserError
from dragoman.plots.canvas import COLOURS, INK, MARKS, SOFT, Floats, Picture, blank, kept, needed
from dragoman.plots.labels import line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAR = (7, 14, 24, 38, 56)  # points between a mark and its label, tried in turn
TURNS = 12  # directions in which a label is tried


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
    axes.set_title(title, fontsize=12, pad=10)
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
        axes.legend(frameon=False, fontsize=9, loc="best")


def _name(axes: "Axes", places: Floats, names: Sequence[str]) -> None:
    """Write each name where it covers neither a mark nor another name; one that has no room is left
    out rather than written over others.
    """
    figure: Any = axes.figure
    renderer = figure.canvas.get_renderer()
    marks = axes.transData.transform(places)
    inside = axes.get_window_extent(renderer)
    legend = axes.get_legend()
    taken: list[Any] = [legend.get_window_extent(renderer)] if legend else []
    for number in np.argsort(-np.abs(places).sum(1)):  # the outermost have the most room
        shown, how = line(names[number], 40)
        text = axes.annotate(
            shown, places[number], xytext=(0, 0), textcoords="offset points", fontsize=8.5, **how
        )
        spot = _room(text, marks, taken, inside, renderer)
        if spot is None:
            text.remove()
            continue
        taken.append(text.get_window_extent(renderer))
        if np.hypot(*spot) > FAR[1] + 1:
            axes.annotate(
                "",
                places[number],
                xytext=spot,
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": SOFT, "linewidth": 0.5, "shrinkB": 3},
            )
        text.set_color(INK)


def _room(text: Any, marks: Floats, taken: list[Any], inside: Any, renderer: Any) -> Any:
    """The first free place for a label around its mark, in points; it is moved there."""
    for spot, across, up in _spots():
        text.set(position=spot, ha=across, va=up)
        box = text.get_window_extent(renderer).padded(1.5)
        free = not any(box.overlaps(other) for other in taken)
        clear = not ((marks > box.p0) & (marks < box.p1)).all(1).any()
        held = (box.p0 > inside.p0).all() and (box.p1 < inside.p1).all()
        if free and clear and held:
            return spot
    return None


def _spots() -> Iterator[tuple[tuple[float, float], str, str]]:
    for far in FAR:
        for turn in range(TURNS):
            angle = 2 * np.pi * turn / TURNS
            x, y = float(far * np.cos(angle)), float(far * np.sin(angle))
            across = "left" if x > 1 else "right" if x < -1 else "center"
            up = "bottom" if y > 1 else "top" if y < -1 else "center"
            yield (x, y), across, up
