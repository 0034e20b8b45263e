"""Columns: encoded rows of any sense, which batches are made of."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch

from dragoman.core import Padded

Ints = npt.NDArray[np.int64]
Rows = Sequence[int] | Ints


class Column(Protocol):
    """Rows of unequal length that can be put side by side."""

    def __len__(self) -> int: ...
    def __getitem__(self, row: int) -> npt.NDArray[Any]: ...
    @property
    def lengths(self) -> Ints: ...
    def select(self, rows: Rows) -> Self: ...
    def pad(self, rows: Rows) -> Padded: ...


class Arrays:
    """Rows of vectors, pictures or any other arrays (S_i, ...) of one type, in one flat array.

    >>> rows = Arrays.of([np.ones((1, 2), np.float32), np.zeros((3, 2), np.float32)])
    >>> rows.pad([1, 0]).values.shape, rows.lengths.tolist()
    (torch.Size([2, 3, 2]), [1, 3])
    """

    def __init__(self, flat: npt.NDArray[Any], offsets: Ints) -> None:
        self.flat, self.offsets = flat, offsets  # (sum of S_i, ...), (rows + 1,)

    @classmethod
    def of(cls, rows: Iterable[npt.NDArray[Any]], like: npt.NDArray[Any] | None = None) -> Self:
        """Rows as a column; `like`, a row of no length, tells its shape where there are none."""
        held = list(rows)
        first = [] if like is None else [like]
        return cls(np.concatenate([*first, *held]), np.cumsum([0, *map(len, held)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        return self.flat[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def select(self, rows: Rows) -> Self:
        index = np.asarray(rows, np.int64)
        flat = np.concatenate([self.flat[:0], *(self[int(row)] for row in index)])
        return type(self)(flat, np.concatenate([[0], np.cumsum(self.lengths[index])]))

    def pad(self, rows: Rows) -> Padded:
        """The given rows side by side, zeros behind the shorter ones."""
        index = np.asarray(rows, np.int64)
        lengths = self.offsets[index + 1] - self.offsets[index]
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        values = np.zeros((*mask.shape, *self.flat.shape[1:]), self.flat.dtype)
        for place, row in enumerate(index):
            values[place, : lengths[place]] = self[int(row)]
        return Padded(torch.from_numpy(values), torch.from_numpy(mask))


class Picked:
    """Some rows of a column, in any order and any number of times, without a copy of them.

    >>> rows = Picked(Arrays.of([np.zeros((1, 2)), np.ones((2, 2))]), np.array([1, 1, 0]))
    >>> rows.lengths.tolist(), rows.pad([2]).values.shape
    ([2, 2, 1], torch.Size([1, 1, 2]))
    """

    def __init__(self, column: Column, rows: Ints) -> None:
        self.column, self.rows = column, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        return self.column[int(self.rows[row])]

    @property
    def lengths(self) -> Ints:
        return self.column.lengths[self.rows]

    def select(self, rows: Rows) -> Self:
        return type(self)(self.column, self.rows[np.asarray(rows, np.int64)])

    def pad(self, rows: Rows) -> Padded:
        return self.column.pad(self.rows[np.asarray(rows, np.int64)])
