"""Pictures of what a model looked at. Tokens are anyone's text: shown, never interpreted."""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

Floats = NDArray[np.floating]

BASE_FONT = "DejaVu Sans"  # comes with matplotlib, so it is always there
LONGEST = 24  # characters of a label
WIDEST = 14.0  # inches; beyond it the cells shrink instead of the picture growing
INK = "#1f4e79"
FORMATS = (".png", ".svg", ".pdf")
_SIGNS = {"\n": "↵", "\t": "⇥"}
_JOINERS = "\u200c\u200d"  # they shape the letters beside them and have no look of their own


class Labels(NamedTuple):
    """Tokens made fit to draw, and the fonts that have their glyphs."""

    source: list[str]
    target: list[str]
    title: str
    fonts: list[str]


def alignment(
    weights: Floats,  # (T, S)
    source: Sequence[str],
    target: Sequence[str],
    path: str | Path,
    title: str = "",
    style: Literal["heat", "edges"] = "heat",
) -> None:
    """Draw the attention of each output token over the input tokens; the suffix tells the format.

    "heat" is the table of Bahdanau et al. 2015, fig. 3: outputs down, inputs across. "edges" writes
    both as lines of text and ties them with threads as strong as the weights.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "a.png")
    ...     alignment(np.eye(2), ["ein", "Haus"], ["a", "house"], file)
    ...     file.read_bytes()[1:4]
    b'PNG'
    """
    if find_spec("matplotlib") is None:
        raise UserError("plots need matplotlib: pip install 'dragoman[plot]'")
    if style not in STYLES:
        raise UserError(f"unknown style '{style}'{did_you_mean(style, list(STYLES))}")
    table = np.asarray(weights, dtype=float)
    _check(table, source, target)
    figure = STYLES[style](table, _labels(source, target, title))
    _save(figure, Path(path))


def _check(weights: Floats, source: Sequence[str], target: Sequence[str]) -> None:
    if weights.shape != (len(target), len(source)):
        shape = " x ".join(map(str, weights.shape))
        tokens = f"{len(target)} output and {len(source)} input tokens"
        raise UserError(f"the weights are {shape}, but there are {tokens}")
    if not weights.size:
        raise UserError("nothing to draw: there are no tokens")
    if not np.isfinite(weights).all():
        raise UserError("cannot draw weights that are not finite numbers")


def _save(figure: "Figure", path: Path) -> None:
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"cannot draw '{path}': its name must end in {', '.join(FORMATS)}")
    try:
        figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.12, facecolor="white")
    except OSError as error:
        raise UserError(f"cannot write '{path}': {error.strerror}") from None


# The two styles. Sizes are in inches: the figure is as large as its cells or threads, and saving
# widens it by whatever the labels need.


def _heat(weights: Floats, labels: Labels) -> "Figure":
    rows, columns = weights.shape
    cell = min(0.32, WIDEST / max(rows, columns))
    figure, axes = _canvas(columns * cell, rows * cell)
    top = weights.max() if weights.max() > 0 else 1.0
    picture = axes.imshow(weights, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#e4e8ec", linewidth=min(0.6, 3 * cell))
    axes.xaxis.tick_top()
    axes.tick_params(which="both", length=0, pad=4)
    turn = 90 if _widest(labels.source) > 2 else 0
    _write(axes.xaxis, np.arange(0.0, columns), labels.source, labels.fonts, cell, turn)
    _write(axes.yaxis, np.arange(0.0, rows), labels.target, labels.fonts, cell)
    _title(axes, labels)
    share = min(1.0, 1.6 / (rows * cell))  # a small scale at the top right
    scale = axes.inset_axes(
        (1 + 0.12 / (columns * cell), 1 - share, 0.09 / (columns * cell), share)
    )
    figure.colorbar(picture, cax=scale, ticks=[0, top], format="%.2g").outline.set_visible(False)
    scale.tick_params(labelsize=7, length=0, pad=2)
    return figure


def _edges(weights: Floats, labels: Labels) -> "Figure":
    lines = _lines(labels)
    figure, axes = _canvas(lines.width, float(np.clip(lines.width / 4, 0.9, 4)))
    axes.set(xlim=(0, lines.width), ylim=(0, 1))
    axes.add_collection(_threads(weights, lines))
    axes.xaxis.tick_top()
    axes.yaxis.set_visible(False)
    turn = 0 if lines.cell is None else 90
    both = (
        (axes, lines.above, labels.source),
        (axes.secondary_xaxis("bottom"), lines.below, labels.target),
    )
    for line, places, tokens in both:
        _write(line.xaxis, places, tokens, labels.fonts, lines.cell, turn)
        line.tick_params(length=0, pad=3)
        line.spines[:].set_visible(False)
    _title(axes, labels)
    return figure


STYLES: dict[str, Callable[[Floats, Labels], "Figure"]] = {"heat": _heat, "edges": _edges}


def _canvas(width: float, height: float) -> "tuple[Figure, Axes]":
    """A figure of its own, without pyplot: no window, no global state, safe in threads."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.spines[:].set(color="#c8ced4", linewidth=0.6)
    return figure, axes


class Lines(NamedTuple):
    """Two lines of text, one above the other: the centres of their tokens."""

    above: Floats  # (S,)
    below: Floats  # (T,)
    width: float
    cell: float | None  # the pitch, if the tokens had to be turned to fit


def _lines(labels: Labels) -> Lines:
    texts = (labels.source, labels.target)
    widths = [np.array([0.18 + 0.09 * max(_width(token), 1) for token in text]) for text in texts]
    cell = None
    if max(w.sum() for w in widths) > WIDEST:
        cell = min(0.28, WIDEST / max(map(len, texts)))
        widths = [np.full(len(text), cell) for text in texts]
    longest = max(1.0, *(w.sum() for w in widths))
    widths = [w * min(2, longest / w.sum()) for w in widths]  # a short line is spaced out a little
    above, below = ((longest - w.sum()) / 2 + w.cumsum() - w / 2 for w in widths)
    return Lines(above, below, longest, cell)


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
    every = int(np.ceil(4 / fitting))
    size = float(np.clip(fitting, 4, 10))
    axis.set_ticks(places[::every], tokens[::every], fontsize=size, rotation=turn, **_as_is(fonts))


def _title(axes: "Axes", labels: Labels) -> None:
    if labels.title:
        axes.set_title(labels.title, fontsize=11, pad=10, **_as_is(labels.fonts))


def _as_is(fonts: list[str]) -> dict[str, Any]:
    return {"fontfamily": fonts, "parse_math": False, "usetex": False}


# Labels: every token must be seen, whatever it is made of and whichever fonts are there.


def _labels(source: Sequence[str], target: Sequence[str], title: str) -> Labels:
    lines = [[_visible(token) for token in line] for line in (source, target, title.split())]
    fonts, missing = _fonts({char for line in lines for token in line for char in token})
    first, second, words = ([_spell(token, missing) for token in line] for line in lines)
    return Labels(first, second, " ".join(words), fonts)


def _visible(token: str) -> str:
    """Spaces and controls as signs, nothing at all as the empty set, much too long a token cut."""
    if not token:
        return "∅"
    shown = "".join(map(_sign, token)) if token not in _JOINERS else _code(token)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _sign(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Zs":
        return "␣"
    if category[0] in "CZ" and char not in _JOINERS:
        return _SIGNS.get(char, _code(char))
    return char


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"


def _spell(token: str, missing: set[str]) -> str:
    """The token with code points for what no font can draw: ugly, but true."""
    if missing.isdisjoint(token):
        alone = unicodedata.category(token[0]).startswith("M")
        return "◌" + token if alone else token  # an accent needs something to stand on
    parts = (f" {_code(char)} " if char in missing else char for char in token)
    words = "".join(parts).split()
    return " ".join(words[:3] + ["…"] * (len(words) > 3))


def _fonts(characters: Iterable[str]) -> tuple[list[str], set[str]]:
    """Fewest families that cover the characters, and the characters that none covers."""
    from matplotlib.font_manager import findfont, fontManager
    from matplotlib.ft2font import FT2Font

    def covered(file: str, wanted: set[str]) -> set[str]:
        try:
            font = FT2Font(file)
        except (OSError, RuntimeError):  # listed once, since removed or broken
            return set()
        return {char for char in wanted if font.get_char_index(ord(char))}

    families, missing = [BASE_FONT], set(characters)
    missing -= covered(findfont(BASE_FONT), missing)
    if not missing:
        return families, missing
    # "Last Resort" has a box for everything; emoji fonts hold bitmaps that cannot be scaled
    offers = {
        font.name: covered(font.fname, missing)
        for font in fontManager.ttflist
        if (font.style, font.weight, font.stretch) == ("normal", 400, "normal")
        and not any(word in font.name for word in ("Resort", "Emoji"))
    }
    while missing:
        best = max(offers, key=lambda name: (len(offers[name] & missing), "Sans" in name))
        if missing.isdisjoint(offers[best]):
            break
        families.append(best)
        missing -= offers[best]
    return families, missing


def _width(token: str) -> int:
    """Columns of the token in a terminal: a Chinese character takes two, an accent none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in token)
    return wide + sum(not unicodedata.category(char).startswith("M") for char in token)


def _widest(tokens: Iterable[str]) -> int:
    return max(map(_width, tokens))
