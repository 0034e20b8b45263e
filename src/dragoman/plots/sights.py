"""Where a model looked that does not read: over a picture, over frames, over a sound."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dragoman.errors import UserError
from dragoman.plots.canvas import WIDEST, Floats, Picture, blank, canvas, grid, kept, key, needed
from dragoman.plots.labels import as_is, labels, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

FEW = 3  # times an even share: no weaker weight shines in full, however little the others are


def over_picture(
    weights: Floats,  # (T, h, w): a grid of weights for each token
    image: Floats,  # (H, W) or (H, W, 3), values from 0 to 1
    tokens: Sequence[str],
    path: str | Path | None = None,
    title: str = "",
) -> Picture:
    """The picture once, then once more for each token, lit where the model looked (Xu et al. 2015,
    fig. 3).

    >>> picture = over_picture(np.full((2, 3, 3), 1 / 9), np.zeros((30, 30)), ["a", "dog"])
    >>> [axes.get_title() for axes in picture.figure.axes[:3]]
    ['', 'a', 'dog']
    """
    needed()
    weights = np.asarray(weights, float)
    _check(weights, tokens, 3)
    columns = min(6, len(tokens) + 1)
    rows = -(-(len(tokens) + 1) // columns)
    tall, wide = np.shape(image)[:2]
    head = 0.3 if title else 0.0
    high = (1.9 * min(tall / wide, 2) + 0.26) * rows + head
    figure = blank(1.9 * columns, high)
    places = grid(figure, rows, columns)
    shown = labels(tokens, tokens, "")
    _photo(places[0], image)
    for place, token, share in zip(places[1:], shown.target, weights, strict=False):
        _photo(place, image, faded=True)
        light = _glow(place, share, _top(weights), (tall, wide))
        place.set_title(token, fontsize=11, pad=3, **as_is(shown.fonts))
    scale = key(places[columns - 1], light, _top(weights), 1.9, 1.9 * min(tall / wide, 2))
    scale.set_facecolor("#a8a8a8")  # light shows on grey, as in the pictures
    for spare in places[len(tokens) + 1 :]:
        spare.set_visible(False)
    if title:
        text, how = line(title)
        figure.suptitle(text, fontsize=12, **how)
    figure.subplots_adjust(0.01, 0.01, 0.99, 1 - (head + 0.26) / high, 0.04, 0.16)
    return kept(figure, path)


def over_frames(
    weights: Floats,  # (T, F)
    frames: Sequence[Floats],  # pictures, values from 0 to 1; none: bars alone
    tokens: Sequence[str],
    path: str | Path | None = None,
    title: str = "",
) -> Picture:
    """Frames across, tokens down: how much of each frame is in each token (Yao et al. 2015)."""
    needed()
    weights = np.asarray(weights, float)
    _check(weights, tokens, 2)
    count = weights.shape[1]
    cell = min(0.85, WIDEST / count)
    shown = labels(tokens, tokens, title)
    figure, axes = canvas(count * cell, 0.34 * len(tokens))
    _table(axes, weights, shown.target, shown.fonts)
    every = max(1, int(np.ceil(0.2 / cell)))
    names = [str(n + 1) for n in range(count)]
    axes.set_xticks(range(0, count, every), names[::every], fontsize=8)
    axes.set_xlabel("frame", fontsize=10)
    key(axes, axes.images[0], _top(weights), count * cell, 0.34 * len(tokens))
    high = 0.0
    for number, frame in enumerate(frames[:count]):
        tall, wide = np.shape(frame)[:2]
        high = cell * 0.94 * tall / wide
        spot = (number / count + 0.03 / count, 1.03, 0.94 / count, high / (0.34 * len(tokens)))
        inset = axes.inset_axes(spot)
        _photo(inset, frame)
    if shown.title:
        axes.set_title(shown.title, fontsize=11, pad=high * 72 + 12, **as_is(shown.fonts))
    return kept(figure, path)


def over_sound(
    weights: Floats,  # (T, S): over steps of time
    spectrogram: Floats,  # (bands, time), any scale
    tokens: Sequence[str],
    path: str | Path | None = None,
    seconds: float | None = None,
    title: str = "",
) -> Picture:
    """The spectrogram above, attention below it on the same axis of time (Chan et al. 2016,
    fig. 2).

    >>> len(over_sound(np.eye(3), np.zeros((40, 24)), ["a", "b", "c"]).figure.axes)
    2
    """
    needed()
    weights = np.asarray(weights, float)
    _check(weights, tokens, 2)
    long = seconds or float(np.shape(spectrogram)[1])
    rows = float(np.clip(0.24 * len(tokens), 1.0, 7.0))
    figure = blank(7.6, 1.7 + rows)
    above, below = figure.subplots(
        2, 1, sharex=True, height_ratios=[1.5, max(rows, 0.5)], gridspec_kw={"hspace": 0.06}
    )
    bands = np.shape(spectrogram)[0]
    above.imshow(
        spectrogram, origin="lower", aspect="auto", cmap="magma", extent=(0, long, 0, bands)
    )
    above.set_ylabel("mel band", fontsize=10)
    shown = labels(tokens, tokens, "")
    extent, top = (0, long, len(tokens) - 0.5, -0.5), _top(weights)
    shade = below.imshow(weights, aspect="auto", cmap="Blues", vmin=0, vmax=top, extent=extent)
    key(below, shade, top, 6.0, rows * 0.8)
    every = max(1, int(np.ceil(len(tokens) * 0.16 / rows)))
    below.set_yticks(
        range(0, len(tokens), every), shown.target[::every], fontsize=9, **as_is(shown.fonts)
    )
    below.set_ylabel("written", fontsize=10)
    below.set_xlabel("time (s)" if seconds else "time (frames)", fontsize=10)
    for axes in (above, below):
        axes.tick_params(length=2, labelsize=9)
        axes.spines[:].set(color="#c8ced4", linewidth=0.6)
    if title:
        text, how = line(title)
        above.set_title(text, fontsize=11, **how)
    return kept(figure, path)


def _check(weights: Floats, tokens: Sequence[str], dimensions: int) -> None:
    if weights.ndim != dimensions or len(weights) != len(tokens) or not weights.size:
        shape = " x ".join(map(str, weights.shape))
        raise UserError(f"the weights are {shape}, but there are {len(tokens)} output tokens")
    if not np.isfinite(weights).all():
        raise UserError("cannot draw weights that are not finite numbers")


def _photo(axes: "Axes", image: Floats, faded: bool = False) -> None:
    picture = np.clip(np.asarray(image, float), 0, 1)
    if faded:  # in grey, and darker: what glows is attention
        picture = 0.75 * (picture.mean(-1) if picture.ndim == 3 else picture)
    axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color="#c8ced4", linewidth=0.5)


def _top(weights: Floats) -> float:
    """The weight that shines in full, of all tokens: one that looks everywhere shines nowhere."""
    return max(float(weights.max()), min(1.0, FEW / int(weights[0].size)))


def _glow(axes: "Axes", weights: Floats, top: float, size: tuple[int, int]) -> "AxesImage":
    """From nothing to a bright yellow: told from grey by everybody, by its lightness too."""
    from matplotlib.colors import ListedColormap

    tall, wide = size
    share = np.linspace(0, 1, 256)
    colours = [np.ones_like(share), 0.35 + 0.6 * share, 0.15 + 0.25 * share, 0.9 * share**1.5]
    return axes.imshow(
        weights,
        cmap=ListedColormap(np.stack(colours, -1)),
        vmin=0,
        vmax=top,
        extent=(-0.5, wide - 0.5, tall - 0.5, -0.5),
        interpolation="bilinear",
    )


def _table(axes: "Axes", weights: Floats, tokens: list[str], fonts: list[str]) -> None:
    axes.imshow(weights, cmap="Blues", vmin=0, vmax=_top(weights), aspect="auto")
    axes.set_yticks(range(len(tokens)), tokens, fontsize=10, **as_is(fonts))
    axes.set_xticks(np.arange(weights.shape[1] + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(tokens) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#e4e8ec", linewidth=0.6)
    axes.tick_params(which="both", length=0)
