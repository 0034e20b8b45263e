"""What was taken for what."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.errors import UserError
from dragoman.plots.canvas import WIDEST, Picture, canvas, kept, needed
from dragoman.plots.labels import as_is, find_fonts, line

MOST = 60  # labels that a page can hold


def confusion(
    counts: npt.NDArray[np.integer],  # (wanted, given)
    names: Sequence[str],
    path: str | Path | None = None,
    title: str = "Confusion matrix",
) -> Picture:
    """A table of counts, shaded by the share of its row: the diagonal is the recall.

    >>> picture = confusion(np.array([[3, 1], [0, 4]]), ["no", "yes"])
    >>> [text.get_text() for text in picture.figure.axes[0].texts]
    ['3', '1', '4']
    """
    needed()
    size = len(names)
    if counts.shape != (size, size) or not size:
        raise UserError(f"{counts.shape[0]} x {counts.shape[-1]} counts for {size} labels")
    if size > MOST:
        raise UserError(f"{size} labels: a matrix of more than {MOST} cannot be read")
    shown = [line(name, 32)[0] for name in names]
    cell = min(max(0.62, 2.2 / size), WIDEST / size)
    figure, axes = canvas(size * cell, size * cell)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    picture = axes.imshow(100 * shares, cmap="Blues", vmin=0, vmax=100)
    text = min(10.0, 72 * cell * 0.75)
    how = as_is(find_fonts("".join(shown))[0])
    axes.set_xticks(range(size), shown, fontsize=text, rotation=90, **how)
    axes.set_yticks(range(size), shown, fontsize=text, **how)
    axes.tick_params(length=0)
    digits = min(text, 72 * cell / max(2.2, 0.68 * len(str(counts.max()))))
    for (row, column), count in np.ndenumerate(counts):
        if count and digits >= 4:
            ink = "white" if shares[row, column] > 0.55 else "#1b1d21"
            axes.text(column, row, f"{count}", ha="center", va="center", fontsize=digits, color=ink)
    axes.set_xlabel("the model's label", fontsize=10, labelpad=8)
    axes.set_ylabel("right label", fontsize=10, labelpad=8)
    head, how = line(f"{title} (n = {counts.sum():,})", 80)
    axes.set_title(head, fontsize=12, pad=10, **how)
    side = size * cell  # inches
    high = min(1.0, 4 / side)
    scale = axes.inset_axes((1 + 0.16 / side, 1 - high, 0.12 / side, high))
    bar = figure.colorbar(picture, cax=scale, ticks=[0, 50, 100], format="%d %%")
    bar.set_label("share of the right label", fontsize=9)
    bar.outline.set_visible(False)
    scale.tick_params(labelsize=8, length=0)
    return kept(figure, path)
