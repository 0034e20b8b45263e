"""Points: a column of texts with numbers, each text a set or a sequence of vectors."""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dragoman.data.columns import Arrays
from dragoman.data.fields import LOOK, Field
from dragoman.data.seen import Seen
from dragoman.errors import UserError
from dragoman.geometry import read_points
from dragoman.spec import Size, Spec

Floats = npt.NDArray[np.float32]
SCALE_FILE = "scale.json"


class PointsSpec(Spec):
    """How a column of numbers becomes points."""

    kind: Literal["points"] = "points"
    dimensions: Size = 2  # numbers that make a point
    normalize: bool = True  # to a mean of 0 and a deviation of 1, those of the training rows
    max_length: Size = 1000  # points


class PointsField(Field):
    """Numbers one after the other, or JSON lists.

    >>> field = PointsField.learn(PointsSpec(normalize=False), [])
    >>> field.encode("0 0.5 1 2").tolist()
    [[0.0, 0.5], [1.0, 2.0]]
    """

    options = PointsSpec

    def __init__(self, spec: PointsSpec, centre: Floats, spread: Floats) -> None:
        self.spec, self.size = spec, spec.dimensions
        self.centre, self.spread = centre, spread  # (D,) each

    @classmethod
    def learn(cls, spec: Any, values: Iterable[str]) -> Self:
        plain = cls(spec, *_unscaled(spec))
        rows, _ = plain.read(list(islice(values, LOOK if spec.normalize else 0)))
        if not len(rows.flat):
            return plain
        spread = rows.flat.std(0)
        return cls(spec, rows.flat.mean(0), np.where(spread > 0, spread, 1).astype(np.float32))

    @classmethod
    def load(cls, spec: Any, read: Callable[[str], bytes]) -> Self:
        try:
            scale = np.array(json.loads(read(SCALE_FILE)), np.float32)
        except (ValueError, TypeError, RecursionError):
            scale = np.empty(0, np.float32)
        if scale.shape != (2, spec.dimensions) or not np.isfinite(scale).all():
            raise UserError(f"{SCALE_FILE} does not hold two lists of {spec.dimensions} numbers")
        return cls(spec, *scale)

    def files(self) -> dict[str, bytes]:
        scale = [self.centre.tolist(), self.spread.tolist()]
        return {SCALE_FILE: json.dumps(scale).encode()}

    def encode(self, value: str) -> Floats:
        try:
            return self._scaled(value)
        except ValueError as error:
            raise UserError(f"{value[:60]}: {error}") from None

    def _scaled(self, value: str) -> Floats:
        points = read_points(value, self.size)
        if len(points) > self.spec.max_length:
            raise ValueError(f"{len(points)} points, more than max_length={self.spec.max_length}")
        return ((points - self.centre) / self.spread).astype(np.float32)

    def column(self, rows: Iterable[Floats]) -> Arrays:
        return Arrays.of(rows, np.zeros((0, self.size), np.float32))

    def read(self, values: Sequence[str]) -> tuple[Arrays, dict[int, str]]:
        rows, bad = [], {}
        for place, value in enumerate(values):
            try:
                rows.append(self._scaled(value))
            except ValueError as error:
                rows.append(np.zeros((0, self.size), np.float32))
                bad[place] = str(error)
        return self.column(rows), bad

    def seen(self, row: Floats) -> Seen:
        return Seen(self.spec.kind, row * self.spread + self.centre)

    def describe(self) -> str:
        return f"points of {self.size}"


def _unscaled(spec: PointsSpec) -> tuple[Floats, Floats]:
    return np.zeros(spec.dimensions, np.float32), np.ones(spec.dimensions, np.float32)
