"""No recurrence: one label for a source, or one symbol for each position of it."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.attention import AttentionSpec, make_attention
from dragoman.core import Encoded, group, ungroup
from dragoman.decoders.base import Decoder, Written
from dragoman.encoders.base import Sizes
from dragoman.errors import UserError
from dragoman.spec import Rate, Size, Spec


class StillSpec(Spec):
    """Options of the decoder that writes one label."""

    kind: Literal["still"] = "still"
    # what the label is read from; question: the summary, and where it tells attention to look
    pool: Literal["summary", "attention", "question", "mean", "max"] = "summary"
    hidden: Size | None = None  # a tanh layer below the labels; none when not given
    dropout: Rate = 0.0


class AlignedSpec(Spec):
    """Options of the decoder that writes one symbol per position."""

    kind: Literal["aligned"] = "aligned"
    whole: bool = False  # one symbol more, for the source as a whole, read where it ends
    hidden: Size | None = None
    dropout: Rate = 0.0


class Layer(nn.Module):
    """A tanh layer, or nothing, and dropout."""

    def __init__(self, width: int, hidden: int | None, dropout: float) -> None:
        super().__init__()
        self.size = hidden or width
        self.mix = nn.Sequential(nn.Linear(width, hidden), nn.Tanh()) if hidden else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.mix(x))  # type: ignore[no-any-return]


class Pooled(NamedTuple):
    """What a label is read from: one row per item."""

    vector: Tensor  # (B, D)
    weights: Tensor  # (B, S) where it was read; (B, 0) if not by attention


class Still(Decoder):
    """One step, whatever was written before: p(label | source)."""

    ends = "once"

    def __init__(self, spec: StillSpec, source: Sizes, attention: AttentionSpec | None) -> None:
        super().__init__()
        if (spec.pool in ("attention", "question")) != (attention is not None):
            raise UserError("model.attention belongs to model.decoder.pool=attention here")
        width = source.summary if spec.pool == "summary" else source.memory
        width += source.summary if spec.pool == "question" else 0
        if not width:
            raise UserError("a label needs something to read: the encoder reads nothing")
        self.pool, self.attends = spec.pool, attention is not None
        self.layer = Layer(width, spec.hidden, spec.dropout)
        self.size = self.layer.size
        if attention is not None:  # one learned question to the whole source (Yang et al. 2016)
            self.attention = make_attention(attention, source.memory, source.memory)
            if spec.pool == "attention":
                self.question = nn.Parameter(torch.empty(source.memory))
                nn.init.normal_(self.question, std=source.memory**-0.5)
            else:
                self.asks = nn.Linear(source.summary, source.memory)

    def prepare(self, enc: Encoded) -> Pooled:
        none = enc.summary.new_zeros(len(enc.mask), 0)
        if self.pool == "summary":
            return Pooled(enc.summary, none)
        real = enc.mask.unsqueeze(-1)
        if self.pool == "mean":
            return Pooled((enc.memory * real).sum(1) / real.sum(1).clamp(min=1), none)
        if self.pool == "max":
            low = enc.memory.masked_fill(~real, torch.finfo(enc.memory.dtype).min)
            return Pooled(low.amax(1).masked_fill(~real.any(1), 0), none)
        if self.pool == "attention":
            query = self.question.expand(len(enc.mask), 1, -1)
        else:
            query = torch.tanh(self.asks(enc.summary)).unsqueeze(1)
        keys = self.attention.prepare(enc.memory)
        context, weights = self.attention(query, keys, enc.memory, enc.mask)
        vector = context[:, 0]
        if self.pool == "question":
            vector = torch.cat([vector, enc.summary], -1)
        return Pooled(vector, weights[:, 0])

    def start(self, enc: Encoded) -> tuple[Tensor]:
        return (enc.summary.new_zeros(len(enc.mask), 1),)  # nothing to remember but how many rows

    def step(self, x: Tensor, state: tuple[Tensor], fixed: Pooled) -> Written:
        features = ungroup(self.layer(fixed.vector), len(x))
        weights = ungroup(fixed.weights, len(x)) if self.attends else None
        return Written(features, state, weights)

    def unroll(self, xs: Tensor, state: tuple[Tensor], fixed: Pooled) -> Written:
        steps = xs.size(1)
        features = self.layer(fixed.vector).unsqueeze(1).expand(-1, steps, -1)
        weights = fixed.weights.unsqueeze(1).expand(-1, steps, -1)
        return Written(features, state, weights if self.attends else None)


class Aligned(Decoder):
    """The t-th symbol is read from the t-th annotation; the end sign from the source's own or,
    where a source of frames has none, from nothing. Where the whole is read at the source's end, a
    vector of its own stands for what comes after.
    """

    ends = "source"

    def __init__(self, spec: AlignedSpec, source: Sizes) -> None:
        super().__init__()
        if not source.memory:
            raise UserError("tags need something to read: the encoder reads nothing")
        self.layer = Layer(source.memory, spec.hidden, spec.dropout)
        self.size, self.beyond = self.layer.size, int(spec.whole)
        self.after = nn.Parameter(torch.zeros(source.memory)) if spec.whole else None

    def prepare(self, enc: Encoded) -> Tensor:
        rows = nn.functional.pad(enc.memory * enc.mask.unsqueeze(-1), (0, 0, 0, 1))
        if self.after is None:
            return rows
        places = torch.arange(rows.size(1), device=rows.device)
        over = places >= enc.mask.sum(1, keepdim=True)
        return torch.where(over.unsqueeze(-1), self.after.to(rows), rows)

    def start(self, enc: Encoded) -> tuple[Tensor]:
        return (enc.mask.new_zeros(len(enc.mask), dtype=torch.long),)  # the position

    def step(self, x: Tensor, state: tuple[Tensor], fixed: Tensor) -> Written:
        place = group(state[0], len(fixed)).clamp(max=fixed.size(1) - 1)
        index = place.unsqueeze(-1).expand(-1, -1, fixed.size(-1))
        features = self.layer(fixed.gather(1, index).flatten(0, 1))
        return Written(features, (state[0] + 1,), None)

    def unroll(self, xs: Tensor, state: tuple[Tensor], fixed: Tensor) -> Written:
        steps = xs.size(1)
        place = (state[0][:, None] + torch.arange(steps, device=xs.device)).clamp(
            max=fixed.size(1) - 1
        )
        rows = fixed.gather(1, place.unsqueeze(-1).expand(-1, -1, fixed.size(-1)))
        return Written(self.layer(rows), (state[0] + steps,), None)
