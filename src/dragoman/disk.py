"""Files that are written whole or not at all, and stay when the power goes."""

import errno
import os
from pathlib import Path

NO_SUCH_THING = (errno.EINVAL, errno.ENOTSUP)  # what network disks say to an fsync of a folder


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and so that it survives a loss of power."""
    put(partial(path), content)
    partial(path).replace(path)
    settle_folder(path.parent)


def partial(path: Path) -> Path:
    """Where a file is written before it gets its name."""
    return path.with_name(f".{path.name}.partial")


def put(path: Path, content: bytes) -> None:
    """Write a file through to the disk; where that fails, leave nothing of it."""
    try:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def settle_folder(folder: Path) -> None:
    """Write a folder's names through to the disk: a renamed file is safe only then."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders, and needs none of this
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_SUCH_THING:
            raise
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """A folder, and those above it that are missing, each with its name on the disk."""
    missing = [one for one in (folder, *folder.parents) if not one.is_dir()]
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
        settle_folder(one.parent)
