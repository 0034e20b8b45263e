"""Sounds and clips that a demonstration makes, in a zip, and the files that name them."""

import io
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Pair = tuple[str, str]  # the name of a sound or a clip, and what is said of it


def zipped_arrays(path: Path, arrays: Iterable[npt.NDArray[Any]]) -> list[str]:
    """Arrays as `.npy` files of a zip; their names.

    >>> import tempfile
    >>> zipped_arrays(Path(tempfile.mkdtemp()) / "clips.zip", [np.zeros(3), np.ones(3)])
    ['00000.npy', '00001.npy']
    """
    return _zipped(path, "npy", arrays, np.save)


def zipped_sounds(path: Path, sounds: Iterable[npt.NDArray[np.float32]], rate: int) -> list[str]:
    """Samples of one channel as FLAC files of a zip; their names."""
    import soundfile

    def save(file: BinaryIO, samples: npt.NDArray[np.float32]) -> None:
        soundfile.write(file, samples, rate, format="FLAC")

    return _zipped(path, "flac", sounds, save)


def _zipped(
    path: Path,
    suffix: str,
    values: Iterable[npt.NDArray[Any]],
    save: Callable[[Any, npt.NDArray[Any]], None],
) -> list[str]:
    names = []
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number, value in enumerate(values):
            file = io.BytesIO()
            save(file, value)
            names.append(f"{number:05d}.{suffix}")
            archive.writestr(names[-1], file.getvalue())
    return names


def manifest(path: Path, rows: Sequence[Pair]) -> Path:
    """A file of tab-separated pairs, beside the zip that holds what it names.

    >>> import tempfile
    >>> manifest(Path(tempfile.mkdtemp()) / "train.tsv", [("00000.npy", "one")]).read_text()
    '00000.npy\\tone\\n'
    """
    path.write_text("".join(f"{name}\t{said}\n" for name, said in rows), "utf-8")
    return path
