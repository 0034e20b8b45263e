"""Checkpoints of a run: a folder each, in `checkpoints/`, and `last`, which names the newest.

A checkpoint is written under a temporary name, through to the disk, and renamed; only then does
`last` name it, and only then are older ones removed. A run that dies at any moment has a last one.
"""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from dragoman.checkpoint import (
    CONFIG,
    WEIGHTS,
    Fields,
    field_files,
    load_config,
    load_fields,
    open_folder,
    pack,
    unpack,
    write_folder,
)
from dragoman.config import Config, dump
from dragoman.disk import settle_folder, write
from dragoman.errors import DragomanError, UserError

BEST, OPTIMIZER, PROGRESS = "best.safetensors", "optimizer.safetensors", "progress.json"
LAST = "last"


class Snapshot(NamedTuple):
    """Where a run stands: enough, by itself, to go on as if it had never stopped."""

    config: Config
    fields: Fields
    weights: dict[str, Tensor]
    best: dict[str, Tensor]  # the weights that evaluations liked most so far
    optimizer: dict[str, Tensor]
    progress: dict[str, Any]


def save_snapshot(folder: Path, snapshot: Snapshot) -> None:
    """Write a checkpoint beside the others, name it the last, then remove those that are neither
    among the newest `train.keep` nor of the best step.
    """
    place, step = folder / "checkpoints", snapshot.progress["step"]
    try:
        _write(place, _name(step), snapshot)
    except OSError as error:
        before = "nothing was lost: there was no checkpoint yet"
        if (place / LAST).exists():
            before = f"{place / (place / LAST).read_text('utf-8')} is intact and still the last"
        raise DragomanError(
            f"{place}: the checkpoint of step {step} cannot be written: {error.strerror}; {before}"
        ) from error
    _prune(place, snapshot.config.train.keep, _name(snapshot.progress["best_step"]))


def load_snapshot(folder: Path) -> Snapshot | None:
    """The last checkpoint of a run folder; nothing where there is none."""
    place = folder / "checkpoints"
    try:
        name = (place / LAST).read_text("utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{place / LAST}: cannot be read") from None
    if Path(name).name != name or "\0" in name:
        raise UserError(f"{place / LAST}: does not name a checkpoint")
    read = open_folder(place / name)
    try:
        progress = json.loads(read(PROGRESS))
    except (ValueError, RecursionError):
        raise UserError(f"{place / name / PROGRESS}: not valid JSON") from None
    weights, best, optimizer = (
        unpack(read(file), place / name / file) for file in (WEIGHTS, BEST, OPTIMIZER)
    )
    config = load_config(read, place / name)
    return Snapshot(config, load_fields(read, config), weights, best, optimizer, progress)


def _name(step: int) -> str:
    return f"step-{step:09d}"


def _write(place: Path, name: str, snapshot: Snapshot) -> None:
    fresh, final = place / f".{name}.partial", place / name
    shutil.rmtree(fresh, ignore_errors=True)
    files = {
        CONFIG: dump(snapshot.config).encode(),
        WEIGHTS: pack(snapshot.weights),
        BEST: pack(snapshot.best),
        OPTIMIZER: pack(snapshot.optimizer),
        PROGRESS: json.dumps(snapshot.progress).encode(),
    }
    try:
        write_folder(fresh, files | field_files(snapshot.fields))
        if final.exists():  # of a run that had come further before it was resumed from an older one
            final.rename(place / f".{name}.old.partial")
        fresh.replace(final)
        settle_folder(place)
        write(place / LAST, name.encode())
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _prune(place: Path, keep: int, best: str) -> None:
    """Remove what is no longer wanted, and what earlier runs left half written."""
    last = (place / LAST).read_text("utf-8")
    whole = sorted(path.name for path in place.iterdir() if path.name.startswith("step-"))
    newest = [name for name in whole if name <= last][-keep:]
    for path in place.iterdir():
        if path.is_dir() and path.name not in (*newest, best):
            shutil.rmtree(path, ignore_errors=True)
