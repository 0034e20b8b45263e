"""Files that the rows of a table name: beside the table, or inside a zip beside it."""

import os
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from dragoman.errors import UserError


class UnreadableError(UserError):
    """A file that cannot be read, and why."""


class Place(NamedTuple):
    """Where the content of a file is."""

    path: Path
    member: str | None  # of a zip
    size: int
    stamp: int  # when the file, or the zip, was last changed


def locate(name: str) -> Place:
    """Where a file is: at its path or, where there is none, in a zip in the nearest folder of the
    path that there is: `data/photos/1.jpg` is `photos/1.jpg` of any `data/*.zip`, or `1.jpg` of
    `data/photos.zip`.
    """
    path = Path(name)
    try:
        found = path.stat()
        if path.is_file():
            return Place(path, None, found.st_size, found.st_mtime_ns)
        raise UnreadableError("this is not a file")
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise UnreadableError(f"cannot be read ({error})") from None
    folder = next((above for above in path.parents if above.is_dir()), None)
    for packed in _zips(folder) if folder else ():
        rest = path.relative_to(folder or "")
        names = [rest.as_posix()]
        if len(rest.parts) > 1 and packed.stem == rest.parts[0]:
            names.append(Path(*rest.parts[1:]).as_posix())
        for member in names:
            size = _members(packed, packed.stat().st_mtime_ns).get(member)
            if size is not None:
                return Place(packed, member, size, packed.stat().st_mtime_ns)
    raise UnreadableError("no such file, nor in a zip beside it")


def content(place: Place, most: int) -> bytes:
    """What is in a file of at most so many bytes."""
    if place.size > most:
        raise UnreadableError(f"{place.size:,} bytes; more than {most:,} are not read")
    try:
        if place.member is None:
            return place.path.read_bytes()
        with _open(place.path, place.stamp, os.getpid()).open(place.member) as file:
            return file.read(most)  # whatever size the zip told
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError) as error:
        raise UnreadableError(f"cannot be read ({error})") from None


def beside(table: str, name: str) -> str:
    """A name in a table as a path: it is told from the table's folder on.

    >>> beside("data/train.tsv", "photos/1.jpg"), beside("<stdin>", "1.jpg")
    ('data/photos/1.jpg', '1.jpg')
    """
    return name if not name.strip() else str(Path(table).parent / name)


@lru_cache(maxsize=64)
def _zips(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.zip"))


@lru_cache(maxsize=8)
def _open(path: Path, stamp: int, process: int) -> zipfile.ZipFile:
    """A zip, opened once in each process: those that share it would move each other's place."""
    return zipfile.ZipFile(path)


@lru_cache(maxsize=8)
def _members(path: Path, stamp: int) -> dict[str, int]:
    """Names and sizes; of a file that is no zip, none."""
    try:
        return {
            item.filename: item.file_size for item in _open(path, stamp, os.getpid()).infolist()
        }
    except (OSError, zipfile.BadZipFile):
        return {}
