"""Columns of files (pictures, sounds, clips): each is read once, by several processes, and what
was made of it is kept on disk for the next time.
"""

import hashlib
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from dragoman.data.columns import Arrays, Column, Ints, Picked
from dragoman.data.fields import Field
from dragoman.data.files import Place, UnreadableError, content, locate
from dragoman.errors import DragomanError, UserError

WORTH = 256  # files from which on several processes are started and the result is kept
DAY = 24 * 60 * 60
Array = npt.NDArray[Any]


class Media(Field):
    """A column of files. A sense says what it makes of a file's content."""

    names_files = True
    most: ClassVar[int] = 1 << 28  # bytes: what is larger is not read
    version: ClassVar[int] = 1  # raised when the same file becomes something else

    def decode(self, content: bytes) -> Array:
        """What is in a file, as an array (S, ...), or `UnreadableError`."""
        raise NotImplementedError

    def find(self, value: str) -> Place:
        """Where the file of a value is, or `UnreadableError`."""
        return locate(value)

    def open(self, place: Place) -> Array:
        """What is at a place, or `UnreadableError`."""
        return self.decode(content(place, self.most))

    def none(self) -> Array:
        """An array of no length, in the place of what cannot be read."""
        raise NotImplementedError

    def encode(self, value: str) -> Array:
        try:
            return self.open(self.find(value))
        except UnreadableError as error:
            raise UnreadableError(f"{value}: {error}") from None

    def column(self, rows: Iterable[Array]) -> Column:
        held = Arrays.of(rows, like=self.none())
        return self.arrays(held.flat, held.offsets)

    def arrays(self, flat: Array, offsets: Ints) -> Column:
        """The column of rows that lie side by side, in memory or in a file."""
        return Arrays(flat, offsets)

    def read(self, values: Sequence[str]) -> tuple[Column, dict[int, str]]:
        names = list(dict.fromkeys(values))
        places = [self._place(name) for name in names]
        held, bad = self._kept(places) if len(names) >= WORTH else self._made(places)
        number = {name: at for at, name in enumerate(names)}
        index = np.fromiter((number[value] for value in values), np.int64, len(values))
        wrong = {row: bad[at] for row, at in enumerate(index.tolist()) if at in bad}
        return Picked(held, index), wrong

    def attempt(self, place: Place | str) -> tuple[Array, str]:
        """What is at a place, and what is wrong with it."""
        if isinstance(place, str):
            return self.none(), place
        try:
            return self.open(place), ""
        except UnreadableError as error:
            return self.none(), str(error)

    def _place(self, value: str) -> Place | str:
        """Where a file is, or why it is nowhere."""
        try:
            return self.find(value)
        except UnreadableError as error:
            return str(error)

    def _made(self, places: Sequence[Place | str]) -> tuple[Column, dict[int, str]]:
        rows, bad = [], {}
        for at, (row, why) in enumerate(_decoded(self, places)):
            rows.append(row)
            if why:
                bad[at] = why
        return self.column(rows), bad

    def _kept(self, places: Sequence[Place | str]) -> tuple[Column, dict[int, str]]:
        """From the cache, or into it; where it cannot be written, from memory."""
        folder = cache() / f"{self.spec.kind}-{self._key(places)}"
        found = self._open(folder)
        if found and any(not self.attempt(places[at])[1] for at in found[1]):
            shutil.rmtree(folder, ignore_errors=True)  # what could not be read then can be now
            found = None
        if found is None:
            try:
                self._build(folder, places)
            except OSError:
                return self._made(places)
            found = self._open(folder)
        return found or self._made(places)

    def _key(self, places: Sequence[Place | str]) -> str:
        """What the rows are made of: how they are read, and which files, as they are now."""
        told = [str(p) if isinstance(p, str) else [str(p.path.resolve()), *p[1:]] for p in places]
        made = [self.version, self.spec.model_dump(mode="json"), told]
        return hashlib.sha256(json.dumps(made).encode()).hexdigest()[:32]

    def _build(self, folder: Path, places: Sequence[Place | str]) -> None:
        """Written beside its place and moved there whole: neither a stop nor another process that
        does the same can spoil it.
        """
        partial = folder.with_name(f".{folder.name}.{os.getpid()}")
        partial.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        try:
            lengths, bad, none = [], {}, self.none()
            with (partial / "rows").open("wb") as file:
                for at, (row, why) in enumerate(_decoded(self, places)):
                    file.write(np.ascontiguousarray(row, none.dtype).tobytes())
                    lengths.append(len(row))
                    if why:
                        bad[at] = why
            about = {"lengths": lengths, "bad": bad}
            (partial / "about.json").write_text(json.dumps(about), "utf-8")
            with suppress(OSError):  # somebody else was faster
                partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _open(self, folder: Path) -> tuple[Column, dict[int, str]] | None:
        none = self.none()
        try:
            about = json.loads((folder / "about.json").read_text("utf-8"))
            ends = np.cumsum([0, *about["lengths"]])
            shape = (int(ends[-1]), *none.shape[1:])
            flat = np.memmap(folder / "rows", none.dtype, "r", shape=shape) if shape[0] else none
        except (OSError, ValueError, KeyError, TypeError):
            return None
        bad = {int(at): str(why) for at, why in about["bad"].items()}
        return self.arrays(flat, ends), bad


def unread(names: Sequence[str], wrong: Mapping[int, str], what: str) -> UserError:
    """Of all files of a column none could be read: the first, why, and what to do."""
    if not names:
        return UserError(f"there are no {what} to learn from")
    why = wrong.get(0, "there is nothing in it")
    return UserError(
        f"{names[0]}: {why}; none of the {what} can be read: put them where the table names them, "
        "as seen from the table's own folder"
    )


def cache() -> Path:
    """The folder for what was read before: $DRAGOMAN_CACHE, or one in the user's cache."""
    given = os.environ.get("DRAGOMAN_CACHE")
    if given:
        return Path(given)
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "dragoman"


def _decoded(field: Media, places: Sequence[Place | str]) -> Iterator[tuple[Array, str]]:
    """All files in order; many of them by as many processes as there are processors."""
    workers = min(os.cpu_count() or 1, 16)
    if len(places) < WORTH or workers == 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(field.attempt, places)
        return
    bar = tqdm(total=len(places), unit="files", leave=False, disable=not sys.stderr.isatty())
    context = multiprocessing.get_context("fork")
    with bar, ProcessPoolExecutor(workers, mp_context=context, initializer=_alone) as pool:
        try:
            for found in pool.map(field.attempt, places, chunksize=32):
                bar.update()
                yield found
        except BrokenProcessPool:
            raise DragomanError("a process that read files was killed (memory?)") from None


def _alone() -> None:
    """A forked process has none of its parent's threads; torch would wait for them forever."""
    import torch

    torch.set_num_threads(1)


def _sweep(folder: Path) -> None:
    """Remove what processes that were stopped have left."""
    for path in folder.glob(".*.*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > DAY:
                shutil.rmtree(path, ignore_errors=True)
