"""A prediction's attention, drawn over whatever the model looked at."""

from pathlib import Path
from typing import Any

from dragoman.errors import UserError
from dragoman.plots.aligned import alignment
from dragoman.plots.canvas import Picture
from dragoman.predict import Prediction


def look(
    asked: tuple[str, ...],
    one: Prediction,
    path: str | Path | None = None,
    style: Any = "heat",
) -> Picture:
    """Where the model looked while it wrote this answer."""
    if one.alignment is None or not one.tokens:
        why = "the text is blank" if not any(map(str.strip, asked)) else _why(one)
        raise UserError(f"there is nothing to draw: {why}")
    return alignment(one.alignment, one.source, one.tokens, path, style=style)


def _why(one: Prediction) -> str:
    return "the answer is empty" if one.alignment is not None else "this model has no attention"
