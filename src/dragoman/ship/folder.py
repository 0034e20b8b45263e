"""A model as a folder that runs without torch: two ONNX graphs, what they need, and a runner."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch

from dragoman.checkpoint import Loaded
from dragoman.core import UNK, Padded, Source
from dragoman.data.batches import nothing
from dragoman.data.fields import Field, TextField
from dragoman.data.pictures import ImageField
from dragoman.disk import write
from dragoman.errors import UserError
from dragoman.ship.describe import describe

RUNNER = Path(__file__).parent / "runner"
START = '"""One line in, one line out."""\n\nfrom runner import main\n\nmain()\n'


def export_onnx(loaded: Loaded, int8: bool = False) -> dict[str, bytes]:
    """The files of the exported model, by name."""
    try:
        from dragoman.ship.graphs import graphs
        from dragoman.ship.int8 import shrink
    except ImportError as error:
        raise UserError(f"{error.name} is missing: pip install 'dragoman[onnx]'") from None
    about, columns = describe(loaded), list(loaded.fields.sources)
    found = graphs(loaded.model, columns, (_example(loaded, 3, 7), _example(loaded, 4, 9)))
    about["plan"] = found.plan._asdict()
    drawn = {"begin.onnx": found.begin, "step.onnx": found.step}
    files = {name: shrink(body) if int8 else body for name, body in drawn.items() if body}
    files["model.json"] = json.dumps(about, ensure_ascii=False, indent=1).encode()
    fields = {**loaded.fields.sources, "target": loaded.fields.target}
    for name, field in fields.items():
        if isinstance(field, TextField) and field.spec.units == "subword":
            files |= {f"{name}.{part}": body for part, body in field.files().items()}
    for path in sorted(RUNNER.glob("*.py")):
        files[f"runner/{path.name}"] = path.read_bytes()
    return files | {"run.py": START.encode()}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files, each whole."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name, content)


def _example(loaded: Loaded, items: int, length: int) -> Source:
    """A source of the given size, in annotations; each further column is longer by one."""
    fields = list(loaded.fields.sources.values())
    if not fields:
        return nothing(items)
    layouts = loaded.model.encoder.layouts([(1, *_shape(field)) for field in fields])
    columns = [
        _column(loaded, field, items, (length + i) * layout.stride)
        for i, (field, layout) in enumerate(zip(fields, layouts, strict=True))
    ]
    return tuple(columns) if len(columns) > 1 else columns[0]


def _shape(field: Field) -> tuple[int, ...]:
    """Of one place of a column; a symbol has none."""
    if isinstance(field, ImageField):
        return (field.size, field.spec.height, field.spec.width)
    return () if isinstance(field, TextField) else (field.size,)


def _column(loaded: Loaded, field: Field, items: int, length: int) -> Padded:
    if field.spec.kind == "image":  # one picture an item
        return Padded(torch.rand(items, 1, *_shape(field)), torch.ones(items, 1, dtype=torch.bool))
    mask = torch.arange(length) < torch.arange(length, length - items, -1)[:, None]
    if not isinstance(field, TextField):
        return Padded(torch.rand(items, length, *_shape(field)), mask)
    ids = mask.long() * UNK
    return Padded(torch.stack([ids, ids], -1) if loaded.model.head.copies else ids, mask)
