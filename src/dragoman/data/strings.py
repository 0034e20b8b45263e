"""Many texts in little memory: a Python string costs some 60 bytes before its first letter."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Indices = Sequence[int] | NDArray[np.int64]

# A lone surrogate is a legal `str` but not legal UTF-8; with this it comes back as it went in.
_UTF8 = ("utf-8", "surrogatepass")


class Strings(Sequence[str]):
    """A sequence of texts that can grow at its end: one buffer of UTF-8 and where each text ends.

    >>> names = Strings(["Ada", "Øyvind", ""])
    >>> names.append("Žofie")
    >>> names[1], names[-1], len(names)
    ('Øyvind', 'Žofie', 4)
    >>> list(names.select([3, 0]))
    ['Žofie', 'Ada']
    """

    __slots__ = ("_buffer", "_ends")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._buffer = bytearray()
        self._ends = array("q", [0])  # text i is buffer[ends[i]:ends[i + 1]]
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add one text at the end."""
        self._buffer += text.encode(*_UTF8)
        self._ends.append(len(self._buffer))

    def extend(self, texts: Sequence[str]) -> None:
        """Add several texts at once: what `append` does, at a third of its cost per text."""
        encoded = [text.encode(*_UTF8) for text in texts]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._ends.frombytes((len(self._buffer) + sizes.cumsum()).tobytes())
        self._buffer += b"".join(encoded)

    def select(self, indices: Indices) -> Strings:
        """The texts at these positions, in this order; a position may come more than once."""
        ends = np.frombuffer(self._ends, np.int64)
        where = np.asarray(indices, np.int64)
        starts, stops = ends[:-1][where], ends[1:][where]
        chosen = Strings()
        with memoryview(self._buffer) as view:
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                chosen._buffer += view[start:stop]
        chosen._ends.frombytes((stops - starts).cumsum().tobytes())
        return chosen

    @property
    def nbytes(self) -> int:
        """The size of the texts and of the index to them."""
        return len(self._buffer) + len(self._ends) * self._ends.itemsize

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Strings: ...
    def __getitem__(self, index: int | slice) -> str | Strings:
        at = range(len(self))[
            index
        ]  # lets Python do its own rules for negative and wrong positions
        if isinstance(at, range):
            return self.select(at)
        return self._buffer[self._ends[at] : self._ends[at + 1]].decode(*_UTF8)

    def __iter__(self) -> Iterator[str]:
        for start, stop in pairwise(self._ends):
            yield self._buffer[start:stop].decode(*_UTF8)

    def __repr__(self) -> str:
        return f"<Strings: {len(self)} texts, {self.nbytes} bytes>"


class View(Sequence[str]):
    """Some texts of a `Strings` without a copy of them.

    >>> list(View(Strings(["a", "b", "c"]), [2, 0]))
    ['c', 'a']
    """

    def __init__(self, strings: Sequence[str], rows: Indices) -> None:
        self._strings, self._rows = strings, np.asarray(rows, np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> View: ...
    def __getitem__(self, index: int | slice) -> str | View:
        if isinstance(index, slice):
            return View(self._strings, self._rows[index])
        return self._strings[int(self._rows[index])]

    def __iter__(self) -> Iterator[str]:
        return (self._strings[row] for row in self._rows.tolist())


class Joined(Sequence[str]):
    """Texts of several columns one after another, without a copy of them.

    >>> texts = Joined([Strings(["a", "b"]), Strings([]), Strings(["c"])])
    >>> list(texts), texts[2], texts[1]
    (['a', 'b', 'c'], 'c', 'b')
    """

    def __init__(self, parts: Sequence[Sequence[str]]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> View: ...
    def __getitem__(self, index: int | slice) -> str | View:
        at = range(len(self))[index]
        if isinstance(at, range):
            return View(self, np.array(at, np.int64))
        part = int(np.searchsorted(self._ends, at, side="right"))
        return self._parts[part][at - int(self._ends[part])]  # counted from the part's end

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The rows of a file, column by column, each with the number of the line it came from.

    >>> table = Table((Strings(["a", "b"]), Strings(["A", "B"])), np.array([1, 3]), "pairs.tsv")
    >>> list(table)
    [('a', 'A'), ('b', 'B')]
    >>> list(table.select([1])), table.select([1]).lines
    ([('b', 'B')], array([3]))
    """

    columns: tuple[Sequence[str], ...]  # one per column that was asked for
    lines: NDArray[np.int64]  # 1-based, in the file the row came from
    name: str  # what to call the origin: "pairs.tsv", "<stdin>", "train.de + train.en"
    problems: dict[str, int] = field(default_factory=dict)  # reason -> rows left out for it
    weights: NDArray[np.float64] | None = None  # how often each row comes in an epoch; once

    @classmethod
    def join(cls, tables: Sequence[Table], weights: Sequence[float]) -> Table:
        """The rows of several tables, each as often as its table's weight says."""
        columns = tuple(Joined(parts) for parts in zip(*(t.columns for t in tables), strict=True))
        lines = np.concatenate([table.lines for table in tables])
        often = np.repeat(np.array(weights, np.float64), [len(table) for table in tables])
        return cls(columns, lines, ", ".join(table.name for table in tables), {}, often)

    def select(self, indices: Indices) -> Table:
        """The rows at these positions, in this order; their texts are not copied."""
        where = np.asarray(indices, np.int64)
        columns = tuple(View(column, where) for column in self.columns)
        weights = None if self.weights is None else self.weights[where]
        return Table(columns, self.lines[where], self.name, self.problems, weights)

    @property
    def nbytes(self) -> int:
        """The size of everything that grows with the number of rows."""
        return self.lines.nbytes + sum(c.nbytes for c in self.columns if isinstance(c, Strings))

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return zip(*self.columns, strict=True)


def some(lines: Iterable[Item], many: int) -> list[Item]:
    """At most so many of the lines, each as likely as any other; of the same lines always the same.

    >>> some("abc", 5), len(some("abcdef" * 9, 4))
    (['a', 'b', 'c'], 4)
    """
    chance, kept = random.Random(1), list[Item]()
    for number, line in enumerate(lines):
        if number < many:
            kept.append(line)
        elif (place := chance.randrange(number + 1)) < many:
            kept[place] = line
    return kept
