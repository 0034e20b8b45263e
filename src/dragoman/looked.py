"""Where a model looked while it wrote: weights, and what they lie over."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.checkpoint import Loaded
from dragoman.core import BOS, EOS, SPECIALS, UNK
from dragoman.data.fields import Field, TextField, clean
from dragoman.data.spelling import BLANK
from dragoman.data.text import Listed
from dragoman.decode import Query
from dragoman.encoders import Layout

Floats = npt.NDArray[np.float32]
SEVERAL = "several"


@dataclass(frozen=True)
class Looked:
    """Attention: a row of weights for each token that was written."""

    over: str  # tokens, grid, frames, times, points; several
    shape: tuple[int, ...]  # of what the weights of a row lie over
    weights: Floats  # (tokens, as many as the shape has places)
    parts: tuple["Looked", ...] = ()  # of a model that reads several columns, each by itself
    times: tuple[float, ...] = ()  # in seconds, the middle of each place that lies in time

    @property
    def textual(self) -> bool:
        """Whether all of it lies over tokens."""
        return all(part.over == "tokens" for part in self.parts or (self,))

    def tree(self) -> dict[str, Any]:
        """What JSON holds of it."""
        rounded = np.round(self.weights.astype(float), 4).tolist()
        tree = {"over": self.over, "shape": list(self.shape), "weights": rounded}
        tree |= {"times": list(self.times)} if self.times else {}
        return tree | ({"parts": [part.tree() for part in self.parts]} if self.parts else {})

    def of(self, tokens: slice, order: int = 1) -> "Looked":
        """The same for some of the tokens."""
        parts = tuple(part.of(tokens, order) for part in self.parts)
        return replace(self, weights=self.weights[tokens][::order], parts=parts)


def lay_out(
    fields: Sequence[Field],
    own: Sequence[Layout],
    padded: Sequence[Layout],
    weights: Floats,  # (tokens, S) over all columns side by side, with their padding
) -> Looked:
    """Weights over an input's own places: without padding, in the order of its values.

    >>> weights = np.array([[0.5, 0.5, 0.0]], np.float32)
    >>> lay_out([Field()], [Layout("frames", (2,))], [Layout("frames", (3,))], weights).shape
    (2,)
    """
    parts, begin = [], 0
    for field, layout, wide in zip(fields, own, padded, strict=True):
        part = weights[:, begin : begin + layout.size]
        if isinstance(field, TextField) and field.spec.reverse:
            inner = field.inner(layout.size)
            part = np.concatenate(
                [part[:, : inner.start], part[:, inner][:, ::-1], part[:, inner.stop :]], 1
            )
        parts.append(Looked(layout.over, layout.shape, part, times=times(field, layout)))
        begin += wide.size
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate([part.weights for part in parts], 1)
    return Looked(SEVERAL, (joined.shape[1],), joined, tuple(parts))


def times(field: Field, layout: Layout) -> tuple[float, ...]:
    """The middle of each place in seconds; nothing where places do not lie in time."""
    if field.hop is None:
        return ()
    step = field.hop * layout.stride
    return tuple(
        round(step * i + field.hop * (layout.stride - 1) / 2, 4) for i in range(layout.size)
    )


def layouts(loaded: Loaded, queries: Sequence[Query]) -> tuple[Layout, ...]:
    """What annotations lie over where these inputs are read together, padding included."""
    if not loaded.fields.sources:
        return ()
    columns = zip(*(query.ids for query in queries), strict=True)
    shapes = [(max(map(len, rows)), *_each(rows[0])) for rows in columns]
    return loaded.model.encoder.layouts(shapes)


def _each(row: Any) -> tuple[int, ...]:
    """The shape of each value of a row: symbols are plain numbers."""
    return () if isinstance(row, list) and row and type(row[0]) is int else np.shape(row)[1:]


def looked(
    loaded: Loaded, own: Sequence[Layout], weights: Floats, padded: Sequence[Layout]
) -> Looked:
    """The weights of an input that was read together with others."""
    return lay_out([*loaded.fields.sources.values()], own, padded, weights)


def labels(loaded: Loaded, query: Query, own: Sequence[Layout]) -> tuple[str, ...]:
    """What an input's weights lie over, by name: the tokens of a text, else numbers; points are
    counted from 1, as answers do.
    """
    found: list[str] = []
    for field, layout, row in zip(loaded.fields.sources.values(), own, query.ids, strict=False):
        if isinstance(field, TextField):
            found += _signed(field, field.tokens(row[field.inner(len(row))]))
        else:
            counted = [str(n + 1) for n in range(layout.size)] if layout.over == "points" else []
            found += [f"{t:.2f}" for t in times(field, layout)] or counted or layout.labels()
    return tuple(found)


def source_words(loaded: Loaded, query: Query) -> list[str]:
    """The words that an <unk> can look at; where there are none, a sign that stays one."""
    found: list[str] = []
    fields, own = loaded.fields.sources.values(), layouts(loaded, [query])
    for field, layout, text in zip(fields, own, query.asked.texts, strict=False):
        if isinstance(field, TextField):
            found += _signed(field, words(field, text))
        else:
            found += [SPECIALS[UNK]] * layout.size
    return found


def _signed(field: TextField, tokens: list[str]) -> list[str]:
    """The tokens of a text with the signs around them that the model reads."""
    begin = [SPECIALS[BOS]] if field.spec.signs == "both" else []
    return [*begin, *tokens, *([SPECIALS[EOS]] if field.spec.signs != "none" else [])]


def words(field: TextField, text: str) -> list[str]:
    """The symbols of a source as they were written, known or not.

    >>> from dragoman.data.fields import TextSpec
    >>> words(TextField.learn(TextSpec(units="word"), ["der Hund"]), "der Zorgon")
    ['der', 'Zorgon']
    """
    if isinstance(field.units, Listed):
        return list(field.units.cut(clean(text, field.spec)))[: field.spec.max_length]
    return [token.replace(BLANK, "") for token in field.tokens(field.encode(text))]
