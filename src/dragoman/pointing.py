"""Pointing: answers that are positions of the source, and which positions there are."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from dragoman import search
from dragoman.checkpoint import Fields, Loaded
from dragoman.core import UNK, Pair
from dragoman.data.batches import Examples
from dragoman.data.fields import TextField
from dragoman.data.text import FIRST
from dragoman.errors import UserError


class Query(Protocol):
    """An input, encoded."""

    @property
    def ids(self) -> Sequence[Any]: ...  # per source column
    @property
    def copied(self) -> Sequence[str]: ...  # what can be copied of the first


def pointing(
    loaded: Loaded, queries: Sequence[Query], pair: Pair, limits: Tensor, valid: str
) -> tuple[Pair, Tensor]:
    """A pair that copies or writes positions of each input's own source and, of their orders, the
    valid ones; and how long answers may be. What is valid may be as long as it must.
    """
    if valid != "none" and not loaded.model.head.points:
        raise UserError("search.valid is for models that point: this one writes words")
    if loaded.model.head.copies:
        own = torch.tensor([len(query.copied) for query in queries])
        return search.below(pair, loaded.fields.target.size + own), limits
    counts = positions(loaded, [query.ids[0] for query in queries])
    if valid == "none":
        return search.below(pair, FIRST + counts), limits
    return search.VALID[valid](pair, counts), counts + 1


def positions(loaded: Loaded, values: Sequence[Any]) -> Tensor:
    """How many positions each of these encoded sources has; a text's end sign is none."""
    field, encoder = loaded.fields.source, loaded.model.encoder
    sizes = [encoder.layouts([np.shape(value)])[0].size for value in values]
    return torch.tensor(sizes) - int(isinstance(field, TextField))


def astray(fields: Fields, rows: Examples) -> dict[int, str]:
    """Rows that point at what is not there, and what is wrong with each."""
    if not len(rows):
        return {}
    ids, begin = rows.target.flat, rows.target.offsets[:-1]  # no row is empty: each has its end
    lengths = rows.sources[0].lengths - isinstance(fields.source, TextField)
    highest = np.maximum.reduceat(ids, begin) - FIRST + 1
    odd = np.logical_or.reduceat(ids == UNK, begin)
    found = {
        row: f"position {highest[row]} of a source of {lengths[row]}"
        for row in np.flatnonzero(highest > lengths).tolist()
    }
    no_list = "not a list of positions, which are numbers from 1"
    return found | dict.fromkeys(np.flatnonzero(odd).tolist(), no_list)
