"""Which input each output looked at: as a table, or as threads between two lines of text."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dragoman.errors import UserError, did_you_mean
from dragoman.plots.canvas import INK, SOFT, WIDEST, Floats, Picture, canvas, kept, key, needed
from dragoman.plots.labels import Labels, as_is, labels, visual, widest, width

SIDE: dict[str, Any] = {"fontsize": 8, "color": SOFT}  # the names of both sides
SIGNS = ("</s>", "<unk>")  # of a source: it is not worth turning all others for them
UNKNOWN = "\ufffd"  # <unk> where there is room for a letter alone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure


def alignment(
    weights: Floats,  # (T, S)
    source: Sequence[str],
    target: Sequence[str],
    path: str | Path | None = None,
    title: str = "",
    style: Literal["heat", "edges"] = "heat",
) -> Picture:
    """Draw the attention of each output token over the input tokens; the suffix tells the format.

    "heat" is the table of Bahdanau et al. 2015, fig. 3: outputs down, inputs across. "edges" writes
    both as lines of text and ties them with threads as strong as the weights.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "a.png")
    ...     _ = alignment(np.eye(2), ["ein", "Haus"], ["a", "house"], file)
    ...     file.read_bytes()[1:4]
    b'PNG'
    """
    needed()
    if style not in STYLES:
        raise UserError(f"unknown style '{style}'{did_you_mean(style, list(STYLES))}")
    table = np.asarray(weights, dtype=float)
    _check(table, source, target)
    return kept(STYLES[style](table, labels(source, target, title)), path)


def _check(weights: Floats, source: Sequence[str], target: Sequence[str]) -> None:
    if weights.shape != (len(target), len(source)):
        shape = " x ".join(map(str, weights.shape))
        tokens = f"{len(target)} output and {len(source)} input tokens"
        raise UserError(f"the weights are {shape}, but there are {tokens}")
    if not weights.size:
        raise UserError("nothing to draw: there are no tokens")
    if not np.isfinite(weights).all():
        raise UserError("cannot draw weights that are not finite numbers")


# The two styles. Sizes are in inches: the figure is as large as its cells or threads, and saving
# widens it by whatever the labels need.


def _heat(weights: Floats, given: Labels) -> "Figure":
    rows, columns = weights.shape
    order = visual(given.source)
    weights, source = weights[:, order], [given.source[place] for place in order]
    cell = min(0.32, WIDEST / max(rows, columns))
    figure, axes = canvas(columns * cell, rows * cell)
    top = weights.max() if weights.max() > 0 else 1.0
    picture = axes.imshow(weights, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#e4e8ec", linewidth=min(0.6, 3 * cell))
    axes.xaxis.tick_top()
    axes.tick_params(which="both", length=0, pad=4)
    turn = 90 if widest([token for token in source if token not in SIGNS] or [""]) > 2 else 0
    if not turn:
        source = [UNKNOWN if token == "<unk>" else token for token in source]
    _write(axes.xaxis, np.arange(0.0, columns), source, given.fonts, cell, turn)
    _write(axes.yaxis, np.arange(0.0, rows), given.target, given.fonts, cell)
    axes.xaxis.set_label_position("top")
    strange = f" ({UNKNOWN}: not in the alphabet)" if UNKNOWN in source else ""
    axes.set_xlabel("input" + strange, fontfamily=given.fonts, **SIDE)
    axes.set_ylabel("output", **SIDE)
    _title(axes, given)
    key(axes, picture, float(top), columns * cell, rows * cell)
    return figure


def _edges(weights: Floats, given: Labels) -> "Figure":
    lines = _lines(given)
    figure, axes = canvas(lines.width, float(np.clip(lines.width / 4, 0.9, 4)))
    axes.set(xlim=(0, lines.width), ylim=(0, 1))
    axes.add_collection(_threads(weights, lines))
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.yaxis.set_visible(False)
    turn = 0 if lines.cell is None else 90
    both = (
        (axes, lines.above, given.source),
        (axes.secondary_xaxis("bottom"), lines.below, given.target),
    )
    for name, (line, places, tokens) in zip(("input", "output"), both, strict=True):
        line.set_xlabel(name, **SIDE)
        _write(line.xaxis, places, tokens, given.fonts, lines.cell, turn)
        line.tick_params(length=0, pad=3)
        line.spines[:].set_visible(False)
    _title(axes, given)
    return figure


STYLES: dict[str, Callable[[Floats, Labels], "Figure"]] = {"heat": _heat, "edges": _edges}


class Lines(NamedTuple):
    """Two lines of text, one above the other: the centres of their tokens."""

    above: Floats  # (S,)
    below: Floats  # (T,)
    width: float
    cell: float | None  # the pitch, if the tokens had to be turned to fit


def _lines(given: Labels) -> Lines:
    texts = (given.source, given.target)
    widths = [np.array([0.18 + 0.09 * max(width(token), 1) for token in text]) for text in texts]
    cell = None
    if max(w.sum() for w in widths) > WIDEST:
        cell = min(0.28, WIDEST / max(map(len, texts)))
        widths = [np.full(len(text), cell) for text in texts]
    longest = max(1.0, *(w.sum() for w in widths))
    widths = [w * min(2, longest / w.sum()) for w in widths]  # a short line is spaced out a little
    above, below = (_spread(text, w, longest) for text, w in zip(texts, widths, strict=True))
    return Lines(above, below, longest, cell)


def _spread(text: list[str], widths: Floats, longest: float) -> Floats:
    """The centres of tokens side by side, in the middle of a line."""
    order = visual(text)
    centres = np.empty(len(text))
    across = widths[order]
    centres[order] = (longest - across.sum()) / 2 + across.cumsum() - across / 2
    return centres


def _threads(weights: Floats, lines: Lines) -> "LineCollection":
    from matplotlib.collections import LineCollection

    strength = weights / (weights.max() if weights.max() > 0 else 1.0)
    rows, columns = np.nonzero(strength > 0.02)  # fainter threads are fog
    order = np.argsort(strength[rows, columns])  # the strongest are drawn last, on top
    rows, columns = rows[order], columns[order]
    shares = strength[rows, columns].tolist()
    crowd = min(1.0, 5 * (lines.cell or 1))
    return LineCollection(
        [[(lines.above[s], 1), (lines.below[t], 0)] for t, s in zip(rows, columns, strict=True)],
        linewidths=[(0.4 + 2.4 * share) * crowd for share in shares],
        colors=[(INK, share) for share in shares],
    )


def _write(
    axis: "Axis",
    places: Floats,
    tokens: list[str],
    fonts: list[str],
    cell: float | None = None,
    turn: int = 0,
) -> None:
    """Write tokens at their places, in a size that fits the cell; if none does, every nth token."""
    fitting = 72 * 0.7 * cell if cell else 10.0
    every = int(np.ceil(5 / fitting))
    size = float(np.clip(fitting, 5, 10))
    axis.set_ticks(places[::every], tokens[::every], fontsize=size, rotation=turn, **as_is(fonts))


def _title(axes: "Axes", given: Labels) -> None:
    if given.title:
        axes.set_title(given.title, fontsize=11, pad=10, **as_is(given.fonts))
