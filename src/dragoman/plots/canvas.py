"""What all pictures share: figures without windows, colours that everyone can tell apart."""

import base64
import io
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.floating]

WIDEST = 14.0  # inches; beyond it the cells shrink instead of the picture growing
INK, SOFT, FRAME = "#1f4e79", "#5c6370", "#c8ced4"
# Okabe and Ito's colours: told apart by the colour-blind, and in grey by their dashes and marks
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), "-.", (0, (3, 1, 1, 1, 1, 1)))
MARKS = ("o", "s", "^", "D", "v", "P", "X")
FORMATS = (".png", ".svg", ".pdf")


class Picture:
    """A figure that can be kept in a file, and that notebooks show."""

    def __init__(self, figure: "Figure") -> None:
        self.figure = figure

    def save(self, path: str | Path) -> "Picture":
        """Write it; the suffix tells the format."""
        path = Path(path)
        if path.suffix.lower() not in FORMATS:
            raise UserError(f"cannot draw '{path}': its name must end in {', '.join(FORMATS)}")
        try:
            self._write(path, path.suffix[1:].lower())
        except OSError as error:
            raise UserError(f"cannot write '{path}': {error.strerror}") from None
        return self

    def _write(self, place: Any, kind: str) -> None:
        self.figure.savefig(
            place, format=kind, dpi=150, bbox_inches="tight", pad_inches=0.12, facecolor="white"
        )

    def _repr_html_(self) -> str:
        """What notebooks show: the picture itself, as large as the page lets it be."""
        drawn = io.BytesIO()
        self._write(drawn, "svg")
        code = base64.b64encode(drawn.getvalue()).decode()
        return f'<img alt="" style="max-width:100%" src="data:image/svg+xml;base64,{code}">'


def kept(figure: "Figure", path: str | Path | None) -> Picture:
    """The picture, in a file if one is named."""
    picture = Picture(figure)
    return picture if path is None else picture.save(path)


def needed() -> None:
    if find_spec("matplotlib") is None:
        raise UserError("plots need matplotlib: pip install 'dragoman[plot]'")


def blank(width: float, height: float) -> "Figure":
    """A figure of its own, without pyplot: no window, no global state, safe in threads."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def canvas(width: float, height: float) -> "tuple[Figure, Axes]":
    """A figure that is all one plot."""
    figure = blank(width, height)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.spines[:].set(color=FRAME, linewidth=0.6)
    return figure, axes


def key(axes: "Axes", picture: Any, top: float, width: float, height: float) -> "Axes":
    """A small scale at the top right of a plot of so many inches: how dark which weight is."""
    share = min(1.0, 1.6 / height)
    scale = axes.inset_axes((1 + 0.12 / width, 1 - share, 0.09 / width, share))
    bar = axes.figure.colorbar(picture, cax=scale, ticks=[0, top], format="%.2g")
    bar.set_label("attention weight", fontsize=7)
    bar.outline.set_visible(False)
    scale.tick_params(labelsize=7, length=0, pad=2)
    return scale


def grid(figure: "Figure", rows: int, columns: int, **more: Any) -> "Sequence[Axes]":
    """Plots side by side, row by row."""
    found = figure.subplots(rows, columns, squeeze=False, **more)
    return list(found.flat)


def plain(axes: "Axes", across: str, up: str) -> None:
    """The look of all charts: two axes with names, faint lines to read values by."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=FRAME)
    axes.grid(axis="y", color="#e9ecef", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=SOFT, labelsize=9, length=3, color=FRAME)
    axes.set_xlabel(across, fontsize=10)
    axes.set_ylabel(up, fontsize=10)
