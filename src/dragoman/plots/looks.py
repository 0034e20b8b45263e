"""A prediction drawn over whatever the model looked at: text, pictures, frames, sound, points."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.errors import UserError
from dragoman.looked import Looked
from dragoman.plots.aligned import alignment
from dragoman.plots.canvas import Floats, Picture
from dragoman.plots.sights import over_frames, over_picture, over_sound
from dragoman.plots.tours import tours
from dragoman.predict import Prediction, Predictor

BLIND = (
    "this model has no attention; train one that has, with a recipe such as bahdanau2015-small, "
    "show-attend-tell or vqa-attend (`dragoman recipes` lists them)"
)


def look(
    predictor: Predictor,
    asked: Sequence[str],
    one: Prediction,
    path: str | Path | None = None,
    style: Any = "heat",
) -> Picture:
    """Where the model looked while it wrote this answer; of an order of points, the way."""
    fields = list(predictor.fields.sources.values())
    if (
        fields
        and fields[0].spec.kind == "points"
        and predictor.fields.target.units.kind == "position"
    ):
        return _way(asked[0], one, path)
    if one.attention is None or one.alignment is None or not one.tokens:
        raise UserError(f"there is nothing to draw: {_why(asked, one)}")
    for field, value, part in zip(
        fields, asked, one.attention.parts or (one.attention,), strict=True
    ):
        if part.over in SIGHTS:
            texts = [text for other, text in zip(fields, asked, strict=True) if other is not field]
            title = " → ".join([*texts, one.text])
            return SIGHTS[part.over](field, value, part, one.tokens, path, title)
    return alignment(one.alignment, one.source, one.tokens, path, style=style)


def _why(asked: Sequence[str], one: Prediction) -> str:
    if not any(map(str.strip, asked)):
        return "the text is blank"
    return "the answer is empty" if one.attention is not None else BLIND


def _way(text: str, one: Prediction, path: str | Path | None) -> Picture:
    from dragoman.geometry import read_points

    points = read_points(text)
    order = [int(token) - 1 for token in one.tokens if token.isdigit()]
    if len(order) > 1 and order[0] == order[-1]:  # back where it began: the plot closes the ring
        order.pop()
    return tours([points], [order], path, title="Tour")


def _photo(pixels: Floats) -> Floats:
    """(C, H, W) bytes as a picture."""
    plain = np.asarray(pixels, float).transpose(1, 2, 0) / 255
    return plain[..., 0] if plain.shape[-1] == 1 else plain


def _grid(field: Any, value: str, part: Looked, tokens: Any, path: Any, title: str) -> Picture:
    """The picture as the model sees it: what is cut off was not looked at."""
    weights = part.weights.reshape(len(tokens), *part.shape[-2:])
    return over_picture(weights, _photo(field.encode(value)[0]), tokens, path, title)


def _frames(field: Any, value: str, part: Looked, tokens: Any, path: Any, title: str) -> Picture:
    seen = field.encode(value)
    photos = [_photo(frame) for frame in seen] if np.ndim(seen) == 4 else []
    return over_frames(part.weights, photos, tokens, path, title)


def _times(field: Any, value: str, part: Looked, tokens: Any, path: Any, title: str) -> Picture:
    bands = np.asarray(field.encode(value), float)  # (S, bands)
    hop = getattr(field.spec, "hop", None)
    seconds = len(bands) * hop if hop else None
    return over_sound(part.weights, bands.T, tokens, path, seconds, title)


SIGHTS: dict[str, Callable[..., Picture]] = {"grid": _grid, "frames": _frames, "times": _times}
