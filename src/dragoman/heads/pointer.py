"""Positions of the source as the alphabet."""

from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.attention import AttentionSpec, Score, make_attention
from dragoman.core import EOS, PAD, SPECIALS, UNK, Encoded, Padded, Source, group
from dragoman.heads.base import TINY, Head, rows_of
from dragoman.objectives import Loss, cross_entropy
from dragoman.spec import Size, Spec


class PointerSpec(Spec):
    """Options of the head that points at positions of the source."""

    kind: Literal["pointer"] = "pointer"
    embedding: Size = 256
    score: Score = "mlp"
    size: Size | None = None  # width of the MLP's hidden layer; that of the features when not given


class Pointer(Head):
    """Vinyals et al. 2015, eq. 3: p = softmax(u), u_j = v · tanh(W_1 e_j + W_2 d), with a score for
    the end sign beside them. Ids are the specials, then positions of the source.
    """

    points = True

    def __init__(self, spec: PointerSpec, features: int, memory: int) -> None:
        super().__init__()
        self.table = nn.Embedding(len(SPECIALS), spec.embedding, padding_idx=PAD)
        self.read = nn.Linear(memory, spec.embedding)
        look = AttentionSpec(score=spec.score, size=spec.size)
        self.attention = make_attention(look, features, memory)
        self.end = nn.Linear(features, 1)

    def prepare(self, enc: Encoded, source: Source) -> tuple[Tensor, Tensor]:
        """The annotations as keys (B, S, A), and which of them are real."""
        return self.attention.prepare(enc.memory), enc.mask

    def embed(self, ids: Tensor, enc: Encoded) -> Tensor:
        """A position is read as the annotation there."""
        rows = group(ids, len(enc.memory)) if ids.dim() == 1 else ids
        signs = self.table(rows.clamp(max=UNK))
        if not enc.memory.size(1):
            return signs.view(*ids.shape, -1)  # type: ignore[no-any-return]
        places = (rows - len(SPECIALS)).clamp(min=0).unsqueeze(-1)
        found = self.read(enc.memory.gather(1, places.expand(-1, -1, enc.memory.size(-1))))
        read = torch.where((rows > UNK).unsqueeze(-1), found, signs.to(found.dtype))
        return read.view(*ids.shape, -1)

    def forward(
        self, features: Tensor, fixed: tuple[Tensor, Tensor], weights: Tensor | None
    ) -> Tensor:
        keys, mask = fixed
        queries = group(features, len(mask))
        energies = self.attention.energies(queries, keys, None)
        energies = energies.masked_fill(~mask.unsqueeze(1), float("-inf")).flatten(0, 1)
        signs = energies.new_full((len(energies), len(SPECIALS)), float("-inf"))
        signs[:, EOS] = self.end(features).squeeze(-1)
        scores = torch.cat([signs, energies], 1)
        return (scores.float() if scores.element_size() < 4 else scores).log_softmax(-1)

    def looked(self, log_probs: Tensor, weights: Tensor | None) -> Tensor:
        """The positions' shares: pointing is what this head's looking is for."""
        shares = log_probs[:, len(SPECIALS) :].exp()
        return shares / shares.sum(-1, keepdim=True).clamp(min=TINY)

    def loss(
        self,
        features: Tensor,
        target: Padded,
        fixed: tuple[Tensor, Tensor],
        weights: Tensor | None,
        smoothing: float = 0.0,
    ) -> Loss:
        rows = self(features.flatten(0, 1), fixed, None).view(*target.mask.shape, -1)
        counted = target.values.masked_fill(~target.mask, EOS)  # PAD has no probability
        kept, targets, real = rows_of(rows, target._replace(values=counted))
        return cross_entropy(kept, targets, smoothing, real)
