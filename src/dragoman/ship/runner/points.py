"""Points: texts with numbers, each a set or a sequence of vectors, as in training."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt


class Points:
    """Numbers one after the other, or JSON lists."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.centre, self.spread = (np.array(about[n], np.float32) for n in ("centre", "spread"))

    def encode(self, value: str) -> npt.NDArray[np.float32]:
        """The points of a text (S, D), around 0."""
        size = self.about["dimensions"]
        text = value
        if value.lstrip().startswith("["):
            tree = json.loads(value)
            rows = [point if isinstance(point, list) else [point] for point in tree]
            text = " ".join(str(number) for row in rows for number in row)
        numbers = np.array([float(word) for word in text.replace(",", " ").split()])
        if len(numbers) % size or not np.isfinite(numbers).all():
            raise ValueError(f"{len(numbers)} numbers are no points of {size}")
        if len(numbers) > size * self.about["max_length"]:
            raise ValueError(f"more points than max_length={self.about['max_length']}")
        points = numbers.reshape(-1, size)
        return ((points - self.centre) / self.spread).astype(np.float32)
