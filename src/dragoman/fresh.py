"""A fresh model, and the word vectors it may begin with."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dragoman.checkpoint import Fields
from dragoman.config import Config
from dragoman.data.fields import TextField
from dragoman.data.text import FIRST
from dragoman.encoders import Encoder
from dragoman.errors import UserError
from dragoman.examples import Say
from dragoman.model import Model, build


def new_model(config: Config, fields: Fields, say: Say = lambda line: None) -> Model:
    """A model with fresh weights for these fields."""
    model = build(config.model, fields.source_sizes, fields.target.size)
    for part in model.encoder.modules():
        if isinstance(part, Encoder):
            part.begin(say)
    texts = [field for field in fields.sources.values() if isinstance(field, TextField)]
    if not any(field.spec.vectors for field in (*texts, fields.target)):
        return model
    tables = [*source_tables(model.encoder, len(texts)), model.head.table]
    for field, table in zip([*texts, fields.target], tables, strict=True):
        if field.spec.vectors:
            found = fill(table, field, read_vectors(Path(field.spec.vectors), field))
            say(f"vectors: {found:,} of {field.size:,} symbols found in {field.spec.vectors}")
    return model


def source_tables(encoder: nn.Module, columns: int) -> list[nn.Embedding]:
    """The embedding tables of an encoder, one per source column; columns may share one."""
    found = [module for module in encoder.modules() if isinstance(module, nn.Embedding)]
    return found * columns if len(found) == 1 else found


def fill(table: nn.Embedding, field: TextField, vectors: dict[str, npt.NDArray[np.float32]]) -> int:
    """Set the rows of known symbols; how many there were."""
    found = 0
    with torch.no_grad():
        for place, symbol in enumerate(field.units.symbols, FIRST):
            if symbol in vectors:
                if len(vectors[symbol]) != table.embedding_dim:
                    raise UserError(
                        f"{field.spec.vectors}: vectors of {len(vectors[symbol])} numbers for an "
                        f"embedding of {table.embedding_dim}: make them equal"
                    )
                table.weight[place] = torch.from_numpy(vectors[symbol])
                found += 1
    return found


def read_vectors(path: Path, field: TextField) -> dict[str, npt.NDArray[np.float32]]:
    """Word vectors in text format, one word a line with its numbers (a first line of two counts, as
    word2vec writes it, is passed over); only those of the field's symbols are kept.
    """
    wanted, found = set(field.units.symbols), {}
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                word, *values = line.rstrip().split(" ")
                if word in wanted and len(values) > 1:
                    found[word] = _numbers(values, f"{path}:{number}")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    return found


def _numbers(values: list[str], where: str) -> npt.NDArray[np.float32]:
    try:
        return np.array(values, np.float32)
    except ValueError:
        raise UserError(f"{where}: not a word and its numbers") from None
