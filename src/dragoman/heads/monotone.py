"""Hard attention from left to right: each symbol is read off one place of the source, no place
comes before the last one, and all ways to go are summed (Wu and Cotterell 2019). Where sounds or
letters follow letters, few pairs teach this what attention needs many for.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.attention import AttentionSpec, Score, make_attention
from dragoman.core import Encoded, Padded, Source, Step, group
from dragoman.errors import UserError
from dragoman.heads.base import rows_of
from dragoman.heads.vocabulary import Vocabulary, VocabularySpec
from dragoman.kernels.products import Dense
from dragoman.objectives import Loss, cross_entropy
from dragoman.spec import Rate, Size, Spec

NEVER = -1e30  # the logarithm of no chance at all; sums of it stay finite


class MonotoneSpec(Spec):
    """Options of the head that reads each symbol off one place, from left to right."""

    kind: Literal["monotone"] = "monotone"
    embedding: Size = 256
    tied: bool = False
    score: Score = "bilinear"  # of the places to go to
    size: Size | None = None  # of the layer that joins a place and the decoder's state; the
    # embedding's when not given
    dropout: Rate = 0.0  # on that layer


class Places(NamedTuple):
    """The source, as this head reads it: one row per item."""

    keys: Tensor  # (B, S, A)
    seen: Tensor  # (B, S, F) each annotation's share of the layer
    mask: Tensor  # (B, S)


class Monotone(Vocabulary):
    """p(y_t | y_<t, x) = Σ_j p(j | y_<t) · softmax(W tanh(U s_t + V h_j)), and the way there is
    p(j | i) ∝ exp(score(s_t, h_j)) for j ≥ i.
    """

    def __init__(self, spec: MonotoneSpec, vocabulary: int, features: int, memory: int) -> None:
        if not memory:
            raise UserError("model.head.kind=monotone goes along a source: the encoder reads none")
        size = spec.size or spec.embedding
        if spec.tied and size != spec.embedding:
            raise UserError(
                f"model.head.tied needs model.head.size={spec.embedding}, as wide as the embedding"
            )
        words = VocabularySpec(embedding=spec.embedding, tied=spec.tied)
        super().__init__(words, vocabulary, size)
        self.attention = make_attention(AttentionSpec(score=spec.score), features, memory)
        self.state = nn.Linear(features, size)
        self.place = Dense(memory, size, bias=False)
        self.dropout = nn.Dropout(spec.dropout)

    def prepare(self, enc: Encoded, source: Source) -> Places:
        memory, mask = _somewhere(enc)
        return Places(self.attention.prepare(memory), self.place(memory), mask)

    def start(self, enc: Encoded) -> Tensor:
        """log p(place, symbol) of the last step (B, S, V): at first it is at the first place."""
        place = _first(_somewhere(enc)[1], enc.memory)
        return place.unsqueeze(-1).repeat(1, 1, self.vocabulary)

    def write(
        self,
        tokens: Tensor,
        features: Tensor,
        fixed: Places,
        weights: Tensor | None,
        memory: Tensor,
    ) -> Step:
        """What was written tells where it was read; from there it goes on."""
        energies, each = self._look(group(features, len(fixed.mask)), fixed)
        index = tokens.view(-1, 1, 1).expand(-1, memory.size(1), 1)
        place = memory.gather(-1, index).squeeze(-1).log_softmax(-1)
        real = fixed.mask.unsqueeze(1).expand_as(energies).flatten(0, 1)
        coming = onward(place, energies.flatten(0, 1), real)
        belief = coming.unsqueeze(-1) + each.flatten(0, 1)
        return Step(belief.logsumexp(1), belief, coming.exp())

    def loss(
        self,
        features: Tensor,
        target: Padded,
        fixed: Places,
        weights: Tensor | None,
        smoothing: float = 0.0,
    ) -> Loss:
        log_probs = self.unroll(features, target.values, fixed, weights)
        kept, targets, real = rows_of(log_probs, target)
        return cross_entropy(kept, targets, smoothing, real)

    def unroll(
        self, features: Tensor, targets: Tensor, fixed: Places, weights: Tensor | None
    ) -> Tensor:
        return self.along(features, targets, fixed)[0]

    def along(self, features: Tensor, targets: Tensor, fixed: Places) -> tuple[Tensor, Tensor]:
        """log p of every symbol (B, T, V) where targets (B, T) are written, and of every place
        that it is read off (B, T, S).
        """
        energies, each = self._look(features, fixed)
        index = targets[..., None, None].expand(-1, -1, each.size(2), 1)
        read = each.gather(-1, index).squeeze(-1)  # (B, T, S) log p of the target at each place
        place, ways = _first(fixed.mask, each), []
        for energy, said in zip(energies.unbind(1), read.unbind(1), strict=True):
            ways.append(onward(place, energy, fixed.mask))
            place = (ways[-1] + said).log_softmax(-1)
        going = torch.stack(ways, 1)
        return (going.unsqueeze(-1) + each).logsumexp(2), going

    def _look(self, queries: Tensor, fixed: Places) -> tuple[Tensor, Tensor]:
        """For features (B, K, F): energies (B, K, S), and log p of a symbol at each place
        (B, K, S, V), in no less than 32 bits.
        """
        energies = self.attention.energies(queries, fixed.keys, None)
        mixed = torch.tanh(self.state(queries).unsqueeze(2) + fixed.seen.unsqueeze(1))
        each = self(self.dropout(mixed), (), None)
        return energies.to(each.dtype), each


def _somewhere(enc: Encoded) -> tuple[Tensor, Tensor]:
    """Annotations (B, S, D) and which are real. Rows that have none get one place, with nothing
    there.
    """
    memory, mask = enc.memory, enc.mask
    if not memory.size(1):
        memory, mask = memory.new_zeros(len(mask), 1, memory.size(-1)), mask.new_zeros(len(mask), 1)
    lost = ~mask.any(1, keepdim=True)
    first = torch.arange(mask.size(1), device=mask.device) == 0
    return memory.masked_fill(lost.unsqueeze(-1), 0), mask | (lost & first)


def _first(mask: Tensor, like: Tensor) -> Tensor:
    """log p of the place before the first step (B, S): the first that is real, for certain."""
    kind = torch.float64 if like.dtype == torch.float64 else torch.float32
    before = (mask.cumsum(1) == 1) & mask
    return torch.zeros_like(mask, dtype=kind).masked_fill(~before, NEVER)


def onward(place: Tensor, energies: Tensor, real: Tensor) -> Tensor:
    """From log p of the place before to that of the next, which is the same one or a later one:
    all (N, S).

    >>> first = torch.tensor([[0.0, NEVER, NEVER]])
    >>> onward(first, torch.zeros(1, 3), torch.tensor([[True, True, False]])).exp()
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    energies = energies.masked_fill(~real, NEVER)
    ahead = energies.flip(-1).logcumsumexp(-1).flip(-1)
    share = (place - ahead).masked_fill(~real, NEVER)
    return energies + share.logcumsumexp(-1)
