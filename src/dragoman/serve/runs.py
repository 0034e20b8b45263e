"""A model folder as a run: its figures over time, samples of what it wrote, and its weights as they
change while it is trained.
"""

import json
from pathlib import Path
from typing import Any

from dragoman.checkpoint import (
    WEIGHTS,
    Loaded,
    load_config,
    load_fields,
    load_model,
    open_folder,
    restore,
    unpack,
)
from dragoman.errors import UserError
from dragoman.model import build
from dragoman.predict import Predictor
from dragoman.snapshots import PROGRESS
from dragoman.trainer import AVERAGE, CARRIED, METRICS_FILE, SAMPLES_FILE

LAST = Path("checkpoints") / "last"


def version(folder: Path) -> str:
    """Something that changes whenever the run has written something new."""
    marks = []
    for name in (LAST, Path("manifest.json")):
        try:
            marks.append(str((folder / name).stat().st_mtime_ns))
        except OSError:
            marks.append("-")
    return "/".join(marks)


def curves(folder: Path) -> list[dict[str, float]]:
    """The figures of each evaluation, oldest first."""
    return max(_published(folder), _noted(folder), key=len)


def _published(folder: Path) -> list[dict[str, float]]:
    try:
        lines = (folder / METRICS_FILE).read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []


def _noted(folder: Path) -> list[dict[str, float]]:
    """The figures in the last checkpoint."""
    place = _checkpoint(folder)
    if place is None:
        return []
    try:
        history: list[dict[str, float]] = json.loads(open_folder(place)(PROGRESS))["history"]
    except (ValueError, KeyError, TypeError, UserError):  # half gone already: look again later
        return []
    return history


def samples(folder: Path) -> list[dict[str, Any]]:
    """What the model wrote for some dev rows at its last evaluation: source, written, wanted."""
    try:
        found: Any = json.loads((folder / SAMPLES_FILE).read_bytes())
        return [{name: row[name] for name in ("source", "written", "wanted")} for row in found]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def unborn(folder: Path) -> bool:
    """Whether a run has made this folder and left nothing in it yet."""
    if not folder.is_dir() or (folder / LAST).exists():
        return False
    return {child.name for child in folder.iterdir()} <= {LAST.parent.name}


def latest(folder: Path) -> Predictor:
    """The weights of the last checkpoint, better or worse; of a finished model, its own."""
    place = _checkpoint(folder)
    if place is None:
        return Predictor(*load_model(folder))
    read = open_folder(place)
    config = load_config(read, place)
    fields = load_fields(read, config)
    model = build(config.model, fields.source_sizes, fields.target.size)
    tensors = unpack(read(WEIGHTS), place / WEIGHTS)
    own = {n: t for n, t in tensors.items() if not n.startswith((CARRIED, AVERAGE))}
    restore(model, own, place / WEIGHTS)
    return Predictor(*Loaded(config, fields, model.eval()))


def _checkpoint(folder: Path) -> Path | None:
    try:
        name = (folder / LAST).read_text("utf-8").strip()
    except OSError:
        return None
    return folder / "checkpoints" / name if Path(name).name == name else None
