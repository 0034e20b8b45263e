"""Heads: the output alphabet, read (embedded) and written (log-probabilities)."""

from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.core import PAD, Encoded, Padded
from dragoman.errors import UserError
from dragoman.objectives import Loss, cross_entropy
from dragoman.spec import Size, Spec

Fixed = tuple[()]


class VocabularySpec(Spec):
    """Options of the vocabulary head."""

    kind: Literal["vocabulary"] = "vocabulary"
    embedding: Size = 256
    tied: bool = False  # the output layer is the embedding table (Press and Wolf 2017)


class Vocabulary(nn.Module):
    """A fixed list of symbols: e(k) = w_k · z + b_k, p = softmax(e)."""

    def __init__(self, spec: VocabularySpec, vocabulary: int, features: int) -> None:
        super().__init__()
        if spec.tied and features != spec.embedding:
            raise UserError(
                f"model.head.tied needs features as wide as the embedding: {features} against "
                f"{spec.embedding}; set model.decoder.readout_size={spec.embedding}, "
                "with a readout of tanh or maxout"
            )
        self.table = nn.Embedding(vocabulary, spec.embedding, padding_idx=PAD)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.weight = None if spec.tied else nn.Parameter(torch.empty(vocabulary, features))
        if self.weight is not None:
            bound = features**-0.5
            nn.init.uniform_(self.weight, -bound, bound)
        else:
            nn.init.normal_(self.table.weight, std=spec.embedding**-0.5)

    def prepare(self, enc: Encoded) -> Fixed:
        """Nothing of the source matters to a fixed alphabet."""
        return ()

    def embed(self, ids: Tensor, enc: Encoded) -> Tensor:
        """Read a symbol."""
        return self.table(ids)  # type: ignore[no-any-return]

    def forward(self, features: Tensor, fixed: Fixed) -> Tensor:
        """Write one: (..., F) -> log-probabilities (..., V)."""
        weight = self.table.weight if self.weight is None else self.weight
        scores = nn.functional.linear(features, weight, self.bias)
        if scores.element_size() < 4:  # a softmax over a large alphabet wants more than 8 bits
            scores = scores.float()
        return scores.log_softmax(-1)

    def loss(self, features: Tensor, target: Padded, fixed: Fixed, smoothing: float = 0.0) -> Loss:
        """Of features (B, T, F) against targets (B, T). Padding is left out before the product."""
        real = target.mask
        return cross_entropy(self(features[real], fixed), target.values[real], smoothing)
