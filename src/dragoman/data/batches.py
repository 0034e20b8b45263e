"""Batches: rows of like length together, in an order that is a pure function of (seed, epoch,
position).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from dragoman.core import PAD, Padded, Source
from dragoman.data.columns import Column, Ints, Picked

Weights = npt.NDArray[np.float64]
WINDOW = 100  # batches: rows are sorted by length within windows this long, and random beyond them


class Ragged:
    """Many sequences of symbols in one flat array: four bytes a symbol, eight a row.

    >>> rows = Ragged.of([[5, 2], [6, 7, 2]])
    >>> rows.pad([1, 0]).values.tolist()
    [[6, 7, 2], [5, 2, 0]]
    """

    def __init__(self, flat: npt.NDArray[np.int32], offsets: Ints) -> None:
        self.flat, self.offsets = flat, offsets

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> "Ragged":
        from array import array

        flat, ends = array("i"), array("q", [0])
        for row in rows:
            flat.extend(row)
            ends.append(len(flat))
        return cls(np.frombuffer(flat, np.int32) if flat else np.empty(0, np.int32), np.array(ends))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[np.int32]:
        return self.flat[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def select(self, rows: Sequence[int] | Ints) -> "Ragged":
        return Ragged.of(self[int(row)].tolist() for row in rows)

    def pad(self, rows: Sequence[int] | Ints) -> Padded:
        """The given rows side by side."""
        index = np.asarray(rows, np.int64)
        lengths = self.offsets[index + 1] - self.offsets[index]
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        values = np.full(mask.shape, PAD, np.int64)
        if len(index):
            places = self.offsets[index][:, None] + np.arange(mask.shape[1])
            values[mask] = self.flat[places[mask]]
        return Padded(torch.from_numpy(values), torch.from_numpy(mask))


class Batch(NamedTuple):
    """What one training step reads, and which rows it is made of."""

    source: Source
    target: Padded
    rows: Ints
    lines: Ints | None = None  # of the file they come from, where that is known


def muted(batch: Batch) -> Batch:
    """A batch that is read and teaches nothing."""
    return batch._replace(target=Padded(batch.target.values, batch.target.mask & False))


def nothing(rows: int) -> Padded:
    """The source of a model that reads nothing.

    >>> nothing(2).mask.shape
    torch.Size([2, 0])
    """
    none = torch.zeros(rows, 0, dtype=torch.long)
    return Padded(none, none.bool())


class Examples:
    """Encoded rows: any number of source columns, none for a language model, and a target.

    `copies` is what copying each symbol of the first source would write.
    """

    def __init__(
        self, sources: Sequence[Column], target: Ragged, copies: Ragged | None = None
    ) -> None:
        self.sources, self.target, self.copies = tuple(sources), target, copies
        self.rows: Ints | None = None  # which of them count; all when not given
        self.weights: Weights | None = None  # how often each comes in an epoch; once
        self.lines: Ints | None = None  # of the file that rows come from

    def __len__(self) -> int:
        return len(self.target) if self.rows is None else len(self.rows)

    @property
    def lengths(self) -> Ints:
        """What a row costs: its longest side."""
        longest = self.target.lengths
        for source in self.sources:
            np.maximum(longest, source.lengths, out=longest)  # rows may be millions
        return longest if self.rows is None else longest[self.rows]

    @property
    def kin(self) -> Ints | None:
        """The number of the picture (the clip, the sound) of each row, of which others may be."""
        picked = next((one.rows for one in self.sources if isinstance(one, Picked)), None)
        return picked if picked is None or self.rows is None else picked[self.rows]

    def part(self, rows: Ints) -> "Examples":
        """Some of the rows, without a copy of them."""
        some = Examples(self.sources, self.target, self.copies)
        some.rows = rows
        some.weights = None if self.weights is None else self.weights[rows]
        some.lines = None if self.lines is None else self.lines[rows]
        return some

    def select(self, rows: Ints) -> "Examples":
        copies = self.copies.select(rows) if self.copies else None
        sources = [source.select(rows) for source in self.sources]
        some = Examples(sources, self.target.select(rows), copies)
        some.weights = None if self.weights is None else self.weights[rows]
        some.lines = None if self.lines is None else self.lines[rows]
        return some

    def source(self, rows: Sequence[int] | Ints) -> Source:
        """What the encoder reads for some rows."""
        if not self.sources:
            return nothing(len(rows))
        padded = [source.pad(rows) for source in self.sources]
        if self.copies is not None:
            both = torch.stack([padded[0].values, self.copies.pad(rows).values], -1)
            return Padded(both, padded[0].mask)
        return padded[0] if len(padded) == 1 else tuple(padded)

    def batch(self, rows: Ints) -> Batch:
        there = rows if self.rows is None else self.rows[rows]
        lines = None if self.lines is None else self.lines[rows]
        return Batch(self.source(there), self.target.pad(there), there, lines)


class Budget(NamedTuple):
    """How much goes into a batch: so many symbols, padding included, or so many rows."""

    tokens: int
    rows: int | None = None


def plan(
    lengths: Ints,
    budget: Budget,
    seed: int,
    epoch: int,
    weights: Weights | None = None,
    kin: Ints | None = None,
) -> list[Ints]:
    """All batches of an epoch: which rows, in which order, each as often as its weight says. Rows
    of the same number in `kin` come together, whatever their lengths.

    >>> [batch.tolist() for batch in plan(np.array([3, 9, 3, 9]), Budget(20), seed=1, epoch=0)]
    [[0, 2], [1, 3]]
    """
    chance = np.random.default_rng([seed, epoch])
    order = chance.permutation(len(lengths) if weights is None else drawn(weights, chance))
    if kin is not None:
        turns = chance.permutation(kin.max(initial=0) + 1)[kin[order]]
        return list(cut(order[np.argsort(turns, kind="stable")], lengths, budget))
    rows = budget.rows or max(1, int(budget.tokens / max(float(lengths.mean()), 1)))
    window = max(1, rows) * WINDOW
    batches: list[Ints] = []
    for begin in range(0, len(order), window):
        part = order[begin : begin + window]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches.extend(cut(part, lengths, budget))
    return [batches[i] for i in chance.permutation(len(batches))]


def drawn(weights: Weights, chance: np.random.Generator) -> Ints:
    """Rows, each as often as its weight says; the part of a weight behind the point is a chance.

    >>> drawn(np.array([2.0, 0.0, 1.0]), np.random.default_rng(1)).tolist()
    [0, 0, 2]
    """
    whole = np.floor(weights)
    times = whole + (chance.random(len(weights)) < weights - whole)
    return np.repeat(np.arange(len(weights)), times.astype(np.int64))


def cut(order: Ints, lengths: Ints, budget: Budget) -> Iterator[Ints]:
    """Consecutive rows, as many as the budget allows; a row longer than the budget goes alone."""
    begin, longest = 0, 0
    for place, row in enumerate(order):
        grown = max(longest, int(lengths[row]))
        count = place - begin
        full = count >= budget.rows if budget.rows else grown * (count + 1) > budget.tokens
        if count and full:
            yield order[begin:place]
            begin, grown = place, int(lengths[row])
        longest = grown
    if begin < len(order):
        yield order[begin:]


class Stream:
    """Running text as parallel streams, read piece by piece with the state carried over (BPTT).

    >>> stream = Stream(np.arange(10, dtype=np.int32), streams=2, steps=3)
    >>> [stream.batch(p).target.values.tolist() for p in range(len(stream))]
    [[[0, 1, 2], [5, 6, 7]], [[3, 4], [8, 9]]]
    """

    def __init__(self, flat: npt.NDArray[np.int32], streams: int, steps: int) -> None:
        streams = max(1, min(streams, len(flat)))
        width = len(flat) // streams
        self.rows = flat[: width * streams].reshape(streams, width).astype(np.int64)
        self.steps = steps

    def __len__(self) -> int:
        return math.ceil(self.rows.shape[1] / self.steps)

    def batch(self, position: int, share: Callable[[Ints], Ints] = np.asarray) -> Batch:
        """The next piece of all streams, or of a share of them."""
        piece = share(self.rows)[:, position * self.steps : (position + 1) * self.steps]
        values = torch.from_numpy(piece.copy())
        target = Padded(values, torch.ones_like(values, dtype=torch.bool))
        return Batch(nothing(len(values)), target, np.arange(len(values)))
