"""A model as a folder that runs without torch: two ONNX graphs, what they need, and a runner."""

import json
from pathlib import Path

import torch

from dragoman.checkpoint import Loaded, write
from dragoman.core import UNK, Padded, Source
from dragoman.data.batches import nothing
from dragoman.errors import UserError
from dragoman.ship import runner
from dragoman.ship.describe import describe

START = '"""One line in, one line out."""\n\nfrom runner import main\n\nmain()\n'


def export_onnx(loaded: Loaded, folder: Path) -> dict[str, bytes]:
    """The files of the exported model, written to `folder`."""
    try:
        from dragoman.ship.graphs import graphs
    except ImportError as error:
        raise UserError(
            f"ONNX needs the extra onnx: pip install 'dragoman[onnx]' ({error})"
        ) from None
    about = describe(loaded)
    columns = list(loaded.fields.sources)
    found = graphs(loaded.model, columns, (_example(loaded, 3, 7), _example(loaded, 4, 9)))
    about["plan"] = found.plan._asdict()
    files = {"step.onnx": found.step, "run.py": START.encode()}
    files |= {"begin.onnx": found.begin} if found.begin else {}
    files["model.json"] = json.dumps(about, ensure_ascii=False, indent=1).encode()
    fields = {**loaded.fields.sources, "target": loaded.fields.target}
    for name, field in fields.items():
        if field.spec.units == "subword":
            files |= {f"{name}.{part}": body for part, body in field.files().items()}
    for path in sorted(Path(runner.__file__).parent.glob("*.py")):
        files[f"runner/{path.name}"] = path.read_bytes()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write(folder / name, content)
    return files


def _example(loaded: Loaded, items: int, length: int) -> Source:
    """A source of the given size; each further column is longer by one."""
    columns = [_column(loaded, items, length + i) for i in range(len(loaded.fields.sources))]
    if not columns:
        return nothing(items)
    return tuple(columns) if len(columns) > 1 else columns[0]


def _column(loaded: Loaded, items: int, length: int) -> Padded:
    lengths = torch.arange(length, length - items, -1)
    mask = torch.arange(length) < lengths[:, None]
    ids = mask.long() * UNK
    return Padded(torch.stack([ids, ids], -1) if loaded.model.head.copies else ids, mask)
