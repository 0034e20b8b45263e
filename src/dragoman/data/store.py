"""A store: rows encoded once into flat files and mapped into memory, for data larger than memory.

Building is resumable: after each block of rows the files are flushed and the state is written down;
what a killed build left behind the last block is cut off and written anew.
"""

import json
import mmap
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.core import Padded
from dragoman.data.batches import Ragged
from dragoman.data.columns import Ints
from dragoman.errors import UserError

BLOCK = 50_000  # rows between two savings of the state
STATE = "state.json"
KINDS = np.int32, np.int64  # of symbols, and of where rows end
Row = Sequence[Sequence[int]]  # one sequence of symbols per column


class Store:
    """Columns of encoded rows on disk. `key` names what was encoded: another key, another store.

    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()), "pairs", columns=2)
    >>> store.build(iter([([4, 2], [5, 2]), ([6, 2], [7, 8, 2])]))
    >>> [column[1].tolist() for column in store.columns()]
    [[6, 2], [7, 8, 2]]
    """

    def __init__(self, folder: Path, key: str, columns: int) -> None:
        self.folder, self.key, self.width = folder, key, columns

    @property
    def state(self) -> dict[str, Any]:
        """How far the store is: rows read and kept, symbols per column, and whether that is all."""
        fresh = {"key": self.key, "read": 0, "rows": 0, "symbols": [0] * self.width, "done": False}
        try:
            found = json.loads((self.folder / STATE).read_text("utf-8"))
        except (OSError, ValueError):
            return fresh
        same = isinstance(found, dict) and found.keys() == fresh.keys() and found["key"] == self.key
        return found if same else fresh

    def build(self, rows: Iterator[Row | None]) -> None:
        """Write all rows, going on where an earlier build stopped; None is a row left out."""
        state = self.state
        if state["done"]:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._cut(state)
            next(islice(rows, state["read"], state["read"]), None)  # pass over what is there
            while (block := _Block(islice(rows, BLOCK), self.width)).read:
                self._append(block, state)
                self._save(state)
            self._save(state | {"done": True})
        except OSError as error:
            raise UserError(f"{self.folder}: the store cannot be written: {error}") from None

    def columns(self) -> list[Ragged]:
        """The columns, mapped: nothing is read before it is used."""
        state = self.state
        if not state["done"]:
            raise UserError(f"{self.folder}: the store is not complete; build it again")
        return [self._map(column, state) for column in range(self.width)]

    def _map(self, column: int, state: dict[str, Any]) -> Ragged:
        if not state["symbols"][column]:  # an empty file cannot be mapped
            return Ragged(np.empty(0, np.int32), np.zeros(state["rows"] + 1, np.int64))
        return Mapped(self._path(column, "symbols"), self._path(column, "ends"))

    def _append(self, block: "_Block", state: dict[str, Any]) -> None:
        for column, (flat, lengths) in enumerate(block.columns):
            ends = state["symbols"][column] + np.array(lengths, np.int64).cumsum()
            _add(self._path(column, "symbols"), np.array(flat, np.int32))
            _add(self._path(column, "ends"), ends)
            state["symbols"][column] += len(flat)
        state["rows"] += block.rows
        state["read"] += block.read

    def _cut(self, state: dict[str, Any]) -> None:
        """Drop what stands behind the last state that was written down."""
        for column in range(self.width):
            for kind, size in (
                ("symbols", 4 * state["symbols"][column]),
                ("ends", 8 * state["rows"] + 8),  # the first row begins at 0
            ):
                path = self._path(column, kind)
                path.touch()
                with path.open("r+b") as file:
                    file.truncate(size)  # what it makes longer is zero

    def _save(self, state: dict[str, Any]) -> None:
        fresh = self.folder / f".{STATE}.partial"
        fresh.write_text(json.dumps(state), "utf-8")
        fresh.replace(self.folder / STATE)

    def _path(self, column: int, kind: str) -> Path:
        return self.folder / f"{column}.{kind}"


class Mapped(Ragged):
    """Rows in files. What was read for a batch is let go of: the system keeps it at hand while
    there is room, but it is no longer this process's memory, which would grow to the files' size.
    """

    def __init__(self, symbols: Path, ends: Path) -> None:
        self.maps = [_mapped(symbols), _mapped(ends)]
        super().__init__(*(np.frombuffer(m, k) for m, k in zip(self.maps, KINDS, strict=True)))

    def pad(self, rows: Sequence[int] | Ints) -> Padded:
        found = super().pad(rows)
        if hasattr(mmap, "MADV_DONTNEED"):
            for one in self.maps:
                one.madvise(mmap.MADV_DONTNEED)
        return found


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class _Block:
    """Rows on their way to the files: four bytes a symbol, a tenth of what lists would take."""

    def __init__(self, rows: Iterable[Row | None], width: int) -> None:
        self.columns = [(array("i"), array("q")) for _ in range(width)]
        self.read = self.rows = 0
        for row in rows:
            self.read += 1
            if row is None:
                continue
            self.rows += 1
            for (flat, lengths), symbols in zip(self.columns, row, strict=True):
                flat.extend(symbols)
                lengths.append(len(symbols))


def _add(path: Path, values: npt.NDArray[Any]) -> None:
    with path.open("ab") as file:
        file.write(values.tobytes())
