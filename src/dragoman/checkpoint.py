"""A model is a folder: data only (YAML, JSON, safetensors, a subword model), each file with its
checksum.

Nothing here is ever executed or unpickled, so that a folder from a stranger can be opened.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as dump_tensors
from torch import Tensor, nn

from dragoman.config import Config, dump, validate
from dragoman.data.fields import Field, TextField
from dragoman.data.senses import FIELDS
from dragoman.disk import make_folder, partial, put, settle_folder
from dragoman.errors import UserError
from dragoman.model import Model, build, sketch

FORMAT = 1  # raised when an older Dragoman could not read what this one writes
MANIFEST, WEIGHTS, CONFIG = "manifest.json", "model.safetensors", "config.yaml"
Reader = Callable[[str], bytes]


class Fields(NamedTuple):
    """The columns a model reads and writes; a language model reads none."""

    sources: dict[str, Field]  # by name, in the order of the columns; the first is "source"
    target: TextField

    @property
    def source(self) -> Field | None:
        """The first source column."""
        return self.sources.get("source")

    @property
    def files(self) -> list[int]:
        """The places of the source columns that name files."""
        return [at for at, field in enumerate(self.sources.values()) if field.names_files]

    @property
    def source_sizes(self) -> tuple[int, ...]:
        return tuple(field.size for field in self.sources.values())


class Loaded(NamedTuple):
    """What is in a model folder."""

    config: Config
    fields: Fields
    model: Model


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write all files of a folder, or none: the new manifest decides. Whoever dies before it gets
    its name has changed nothing; after it, a file that still has its temporary name counts.
    """
    make_folder(folder)
    with suppress(UserError):  # what is damaged is replaced
        _finish(folder)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    manifest = json.dumps({"format": FORMAT, "files": sums}, indent=1).encode()
    try:
        for name, content in (*files.items(), (MANIFEST, manifest)):
            put(partial(folder / name), content)
    except OSError:
        for name in (*files, MANIFEST):
            partial(folder / name).unlink(missing_ok=True)
        raise
    settle_folder(folder)
    for name in (MANIFEST, *files):
        partial(folder / name).replace(folder / name)
    settle_folder(folder)


def _finish(folder: Path) -> None:
    """Give the files that count, and still have a temporary name, their own."""
    for name, wanted in _manifest(folder).items():
        content = _content(partial(folder / name))
        if content is not None and hashlib.sha256(content).hexdigest() == wanted:
            partial(folder / name).replace(folder / name)


def open_folder(folder: Path) -> Reader:
    """A reader of a folder's files that refuses whatever is not as it was written."""
    sums = _manifest(folder)

    def read(name: str) -> bytes:
        if name not in sums:
            raise UserError(f"{folder}: the manifest lists no {name}: the folder is incomplete")
        for path in (folder / name, partial(folder / name)):
            content = _content(path)
            if content is not None and hashlib.sha256(content).hexdigest() == sums[name]:
                return content
        if not (folder / name).is_file():
            raise UserError(f"{folder / name}: cannot be read: the folder is incomplete")
        raise UserError(
            f"{folder / name}: wrong checksum: the file is damaged; copy the folder again"
        )

    return read


def _content(path: Path) -> bytes | None:
    """A file's bytes; nothing where it is none: a device or a pipe would never end."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None


def verify(folder: Path) -> list[str]:
    """The names of all files of a folder, after each was compared with its checksum."""
    read, names = open_folder(folder), list(_manifest(folder))
    for name in names:
        read(name)
    return names


def _why_none(folder: Path) -> str:
    """Why there is no model in a folder without a manifest."""
    if not folder.exists():
        return "no such folder"
    if (folder / "checkpoints" / "last").is_file():
        return f"no model yet, only a run begun: go on with dragoman train -o {folder} --resume"
    return f"not a model folder (it has no readable {MANIFEST})"


def _manifest(folder: Path) -> dict[str, str]:
    content = _content(folder / MANIFEST)
    if content is None:
        raise UserError(f"{folder}: {_why_none(folder)}")
    try:
        manifest: Any = json.loads(content)
        version, sums = manifest["format"], manifest["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{folder / MANIFEST}: not a manifest: the folder is damaged") from None
    if not isinstance(version, int) or not isinstance(sums, dict):
        raise UserError(f"{folder / MANIFEST}: not a manifest: the folder is damaged")
    if version > FORMAT:
        raise UserError(
            f"{folder}: written in format {version}, this Dragoman reads formats up to {FORMAT}: "
            "upgrade dragoman"
        )
    if not all(isinstance(s, str) and _plain(str(n)) for n, s in sums.items()):
        raise UserError(f"{folder / MANIFEST}: not a manifest: the folder is damaged")
    return sums


def _plain(name: str) -> bool:
    return Path(name).name == name


def save_model(
    folder: Path,
    config: Config,
    fields: Fields,
    weights: Mapping[str, Tensor],
    extra: Mapping[str, bytes],
) -> None:
    """Write a model folder; `extra` holds further files that belong to it (card, metrics)."""
    files = {CONFIG: dump(config).encode(), WEIGHTS: pack(weights)} | dict(extra)
    write_folder(folder, files | field_files(fields))


def load_model(folder: Path, device: str | torch.device = "cpu") -> Loaded:
    """Read a model folder; anything amiss is refused before a weight is used."""
    read = open_folder(folder)
    config = load_config(read, folder)
    fields = load_fields(read, config)
    weights, sizes = unpack(read(WEIGHTS), folder / WEIGHTS), fields.source_sizes
    claimed = sketch(config.model, sizes, fields.target.size)  # perhaps larger than all memory
    compare(claimed, weights, folder / WEIGHTS)
    model = build(config.model, sizes, fields.target.size)
    restore(model, weights, folder / WEIGHTS)
    return Loaded(config, fields, model.to(device).eval())


def load_config(read: Reader, folder: Path) -> Config:
    try:
        return validate(yaml.safe_load(read(CONFIG)))
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"{folder / CONFIG}: not valid YAML") from None


def field_files(fields: Fields) -> dict[str, bytes]:
    """The files of all columns, each under its column's name."""
    sides = fields.sources | {"target": fields.target}
    return {f"{side}.{name}": body for side, f in sides.items() for name, body in f.files().items()}


def load_fields(read: Reader, config: Config) -> Fields:
    def load(side: str, spec: Any) -> Field:
        return FIELDS[spec.kind].load(spec, lambda name: read(f"{side}.{name}"))

    sources = {side: load(side, spec) for side, spec in config.source_specs.items()}
    target = load("target", config.data.target)
    assert isinstance(target, TextField)  # the config saw to it
    return Fields(sources, target)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the parameters and lasting buffers by name; one used twice is listed once."""
    return {
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in lasting(model).items()
    }


def lasting(model: nn.Module) -> dict[str, Tensor]:
    """What a model is, beside its config: parameters, and the buffers that must outlive a run."""
    kept = model.state_dict().keys()
    buffers = {name: tensor for name, tensor in model.named_buffers() if name in kept}
    return dict(model.named_parameters()) | buffers


def restore(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Copy weights into a model built for them; names, shapes and types must be its own."""
    compare(model, weights, path)
    with torch.no_grad():
        for name, parameter in lasting(model).items():
            parameter.copy_(weights[name])


def compare(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Refuse weights that are not a model's own: other names, shapes or types, or no numbers."""
    mine = lasting(model)
    if weights.keys() != mine.keys():
        odd = sorted(weights.keys() ^ mine.keys())[0]
        raise UserError(f"{path}: does not fit the config: '{odd}' is on one side only")
    for name, parameter in mine.items():
        if weights[name].shape != parameter.shape or not weights[name].is_floating_point():
            raise UserError(
                f"{path}: '{name}' is {tuple(weights[name].shape)}, "
                f"the config wants {tuple(parameter.shape)}"
            )
        if not bool(weights[name].isfinite().all()):
            raise UserError(f"{path}: '{name}' has numbers that are not finite: no model learns so")


def pack(tensors: Mapping[str, Tensor]) -> bytes:
    return dump_tensors(dict(tensors))


def unpack(content: bytes, path: Path) -> dict[str, Tensor]:
    try:
        return parse_tensors(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a safetensors file: {error}") from None
