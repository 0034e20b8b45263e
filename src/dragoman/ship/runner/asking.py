"""Inputs: raw values of every column become what the graphs read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .clips import Clips
from .columns import EOS, Column
from .pictures import Pictures
from .points import Points
from .sounds import Sounds

Array = npt.NDArray[Any]
KINDS: dict[str, Any] = {"image": Pictures, "sound": Sounds, "video": Clips, "points": Points}


class Query(NamedTuple):
    """An input as the model reads it."""

    rows: list[Any]  # per column: symbols, or an array (S, ...); a language model's prompt
    copied: list[str]  # the source's symbols as text, where they can be copied


class Asker:
    """The columns of a model, those it reads and the one it writes."""

    def __init__(self, about: dict[str, Any], folder: Path) -> None:
        self.about = about
        self.sources = [
            KINDS[one["kind"]](one) if one["kind"] in KINDS else Column(one, folder)
            for one in about["sources"]
        ]
        self.target = Column(about["target"], folder)

    def blank(self, values: Sequence[Any]) -> bool:
        """Whether an input has nothing to answer to."""
        return bool(self.sources) and not any(map(_stripped, values))

    def ask(self, values: Sequence[Any]) -> Query:
        """An input: a text, the name of a file or its content for each column."""
        if not self.sources:
            return Query([self.target.encode(values[0], end=False)], [])
        rows = [column.encode(value) for column, value in zip(self.sources, values, strict=True)]
        copied = self.sources[0].cut(values[0]) if self.about["copies"] else []
        return Query(rows, copied)

    def batch(self, queries: list[Query]) -> dict[str, Array]:
        """Queries side by side: values and masks of all columns, by the names of the graphs."""
        known: dict[str, Array] = {}
        for place, about in enumerate(self.about["sources"]):
            rows = [query.rows[place] for query in queries]
            values, mask = _padded(rows)
            if self.about["copies"]:
                copies, _ = _padded([self._copies(query.copied) for query in queries])
                values = np.stack([values, copies], -1)
            known[about["name"]], known[f"{about['name']}_mask"] = values, mask
        return known

    def _copies(self, copied: list[str]) -> list[int]:
        """What copying each symbol would write: its id, or its first place beyond the alphabet."""
        first = {piece: place for place, piece in reversed(list(enumerate(copied)))}
        places = self.target.places
        return [*(places.get(p, self.target.size + first[p]) for p in copied), EOS]

    def lengths(self, queries: list[Query]) -> Array:
        """Of the first column."""
        return np.array([len(query.rows[0]) for query in queries])

    def positions(self, queries: list[Query]) -> Array:
        """How many positions there are to point at; a text's end sign is none."""
        return self.lengths(queries) - int(self.about["sources"][0]["kind"] == "text")

    @property
    def signs(self) -> int:
        """How many places of the first column only say that it begins or ends."""
        first = self.about["sources"][0]
        return {"none": 0, "end": 1, "both": 2}[first["signs"]] if first["kind"] == "text" else 0


def _padded(rows: list[Any]) -> tuple[Array, Array]:
    """Rows of unequal length side by side, and where they are real."""
    arrays = [np.asarray(row) if len(row) else np.zeros_like(rows[0][:0]) for row in rows]
    lengths = np.array([len(row) for row in arrays])
    mask = np.arange(lengths.max()) < lengths[:, None]
    like = max(arrays, key=len)
    kind = like.dtype if like.dtype == np.float32 else np.int64
    values = np.zeros((*mask.shape, *like.shape[1:]), kind)
    for at, row in enumerate(arrays):
        values[at, : len(row)] = row
    return values, mask


def _stripped(value: Any) -> bool:
    return bool(value.strip())
