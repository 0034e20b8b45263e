"""A fixed list of symbols, alone or with the words of the source beside them."""

from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.core import PAD, UNK, Encoded, Padded, Source, State, ungroup
from dragoman.errors import UserError
from dragoman.heads.base import TINY, Head, rows_of
from dragoman.kernels import entropy
from dragoman.kernels.choice import plainly
from dragoman.kernels.table import Table
from dragoman.objectives import Loss, cross_entropy
from dragoman.spec import Size, Spec


class VocabularySpec(Spec):
    """Options of the vocabulary head."""

    kind: Literal["vocabulary"] = "vocabulary"
    embedding: Size = 256
    tied: bool = False  # the output layer is the embedding table (Press and Wolf 2017)


class CopySpec(Spec):
    """Options of the head that can also copy words of the source."""

    kind: Literal["copy"] = "copy"
    embedding: Size = 256
    tied: bool = False


class Vocabulary(Head):
    """A fixed list of symbols: e(k) = w_k · z + b_k, p = softmax(e)."""

    def __init__(
        self, spec: VocabularySpec | CopySpec, vocabulary: int, features: int, labels: bool = False
    ) -> None:
        super().__init__()
        if spec.tied and features != spec.embedding:
            raise UserError(
                f"model.head.tied needs features as wide as the embedding: {features} against "
                f"{spec.embedding}; set model.decoder.readout_size={spec.embedding}, "
                "with a readout of tanh or maxout"
            )
        self.vocabulary, self.labels = vocabulary, labels
        self.table = Table(vocabulary, spec.embedding, padding_idx=PAD)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.weight = None if spec.tied else nn.Parameter(torch.empty(vocabulary, features))
        if self.weight is not None:
            bound = features**-0.5
            nn.init.uniform_(self.weight, -bound, bound)
        else:
            nn.init.normal_(self.table.weight, std=spec.embedding**-0.5)

    def embed(self, ids: Tensor, enc: Encoded) -> Tensor:
        return self.table(ids)  # type: ignore[no-any-return]

    def forward(self, features: Tensor, fixed: State, weights: Tensor | None) -> Tensor:
        weight = self.table.weight if self.weight is None else self.weight
        scores = nn.functional.linear(features, weight, self.bias)
        if scores.element_size() < 4:  # a softmax over a large alphabet wants more than 8 bits
            scores = scores.float()
        if self.labels:  # a label is no sign for beginning, end or nothing
            special = torch.arange(scores.size(-1), device=scores.device) < UNK
            scores = scores.masked_fill(special, float("-inf"))
        return scores.log_softmax(-1)

    def loss(
        self,
        features: Tensor,
        target: Padded,
        fixed: State,
        weights: Tensor | None,
        smoothing: float = 0.0,
    ) -> Loss:
        rows, targets, real = rows_of(features, target)
        if self.labels or plainly():
            return cross_entropy(self(rows, fixed, None), targets, smoothing, real)
        weight = self.table.weight if self.weight is None else self.weight
        counted = targets if real is None else targets.masked_fill(~real, -1)
        total, nll = entropy.cross_entropy(rows, weight, self.bias, counted, smoothing)
        return Loss(total, nll, target.mask.sum())


class Copy(Vocabulary):
    """The pointer-generator of See et al. 2017, eq. 8 and 9: a word is generated, or copied from
    where attention looks. Ids are those of the vocabulary, then positions of the source.
    """

    copies = True

    def __init__(self, spec: CopySpec, vocabulary: int, features: int) -> None:
        super().__init__(spec, vocabulary, features)
        self.switch = nn.Linear(features, 1)

    def prepare(self, enc: Encoded, source: Source) -> Tensor:
        """What copying a position writes: its id in the vocabulary, or beyond (B, S)."""
        copies: Tensor = source.values[..., 1]
        return copies

    def embed(self, ids: Tensor, enc: Encoded) -> Tensor:
        return self.table(ids.masked_fill(ids >= self.vocabulary, UNK))  # type: ignore[no-any-return]

    def forward(self, features: Tensor, fixed: Tensor, weights: Tensor | None) -> Tensor:
        assert weights is not None
        places = ungroup(fixed, len(features))  # (N, S)
        generate = torch.sigmoid(self.switch(features).float())
        chosen = super().forward(features, (), None).exp() * generate
        mixed = chosen.new_zeros(len(chosen), self.vocabulary + places.size(1))
        mixed[:, : self.vocabulary] = chosen
        mixed = mixed.scatter_add(1, places, (1 - generate) * weights.to(chosen.dtype))
        return mixed.clamp(min=TINY).log()

    def loss(
        self,
        features: Tensor,
        target: Padded,
        fixed: Tensor,
        weights: Tensor | None,
        smoothing: float = 0.0,
    ) -> Loss:
        assert weights is not None
        rows = self(features.flatten(0, 1), fixed, weights.flatten(0, 1))
        kept, targets, real = rows_of(rows.view(*target.mask.shape, -1), target)
        return cross_entropy(kept, targets, smoothing, real)
