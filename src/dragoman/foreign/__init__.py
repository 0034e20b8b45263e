"""Models that arrive: checkpoints of other toolkits, mapped onto our parts as far as they fit."""

import argparse
import hashlib
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman import __version__
from dragoman.checkpoint import Fields, restore, save_model, weights_of
from dragoman.config import Config, validate
from dragoman.data.fields import TextField
from dragoman.data.text import UNITS
from dragoman.errors import UserError
from dragoman.foreign import joey, opennmt, yoyodyne
from dragoman.foreign.parts import Arrived
from dragoman.model import build

TOOLKITS: dict[str, Callable[[Any, Path], Arrived]] = {
    "opennmt-py": opennmt.read,
    "joeynmt": joey.read,
    "yoyodyne": yoyodyne.read,
}
KNOWN: list[Any] = [argparse.Namespace, (dict, yoyodyne.INDEX)]  # names that only hold data


def arrive(path: Path, toolkit: str, folder: Path) -> Config:
    """Read another toolkit's checkpoint and leave it as a model folder."""
    arrived = TOOLKITS[toolkit](_loaded(path), path)
    config = validate(arrived.tree)
    specs = {"source": config.data.source, "target": config.data.target}
    source, target = (
        TextField(spec, UNITS[spec.units](arrived.symbols[side])) for side, spec in specs.items()
    )
    model = build(config.model, (source.size,), target.size)
    restore(model, arrived.weights, path)
    about = _card(path, toolkit, arrived, specs, weights_of(model))
    fields = Fields({"source": source}, target)
    save_model(folder, config, fields, weights_of(model), {"README.md": about.encode()})
    return config


def _loaded(path: Path) -> Any:
    """A checkpoint's content, if it is data alone; nothing in it is ever run."""
    if not path.is_file():
        why = "this is a folder" if path.is_dir() else "no such file"
        raise UserError(f"{path}: {why}: name the checkpoint that the other toolkit wrote")
    try:
        with torch.serialization.safe_globals(KNOWN):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: holds more than data, and is refused: {reason}") from None
    except (OSError, EOFError, RuntimeError, ValueError) as error:
        raise UserError(f"{path}: not a checkpoint that torch can read: {error}") from None


def _card(
    path: Path,
    toolkit: str,
    arrived: Arrived,
    specs: Mapping[str, Any],
    weights: Mapping[str, Tensor],
) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    size = sum(tensor.numel() for tensor in weights.values())
    lines = [
        f"# A model of {toolkit}",
        "",
        f"- imported from {path.name}, sha256 {digest}, by dragoman {__version__}",
        f"- {size:,} parameters",
        f"- reads {len(arrived.symbols['source']):,} and writes {len(arrived.symbols['target']):,} "
        f"different symbols (by {specs['source'].units} and by {specs['target'].units}): cut the "
        "text as for its own toolkit",
        "",
        "```",
        "dragoman predict model/ < inputs.txt",
        "```",
        "",
    ]
    return "\n".join(lines)
