"""Heads: the output alphabet, read (embedded) and written (log-probabilities)."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.core import PAD, UNK, Encoded, Padded, Source, State, ungroup
from dragoman.errors import UserError
from dragoman.kernels import entropy
from dragoman.kernels.choice import plainly
from dragoman.objectives import Loss, cross_entropy
from dragoman.spec import Size, Spec

TINY = 1e-12  # a probability below which a logarithm says nothing more


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


HeadSpec = Annotated[VocabularySpec | CopySpec, Field(discriminator="kind")]


class Vocabulary(nn.Module):
    """A fixed list of symbols: e(k) = w_k · z + b_k, p = softmax(e)."""

    copies = False

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
        self.table = nn.Embedding(vocabulary, spec.embedding, padding_idx=PAD)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.weight = None if spec.tied else nn.Parameter(torch.empty(vocabulary, features))
        if self.weight is not None:
            bound = features**-0.5
            nn.init.uniform_(self.weight, -bound, bound)
        else:
            nn.init.normal_(self.table.weight, std=spec.embedding**-0.5)

    def prepare(self, enc: Encoded, source: Source) -> State:
        """What of the source the alphabet depends on: nothing."""
        return ()

    def embed(self, ids: Tensor, enc: Encoded) -> Tensor:
        """Read a symbol."""
        return self.table(ids)  # type: ignore[no-any-return]

    def forward(self, features: Tensor, fixed: State, weights: Tensor | None) -> Tensor:
        """Write one: (N, F) -> log-probabilities (N, V)."""
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
        """Of features (B, T, F) against targets (B, T)."""
        rows, targets, real = _rows(features, target)
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
        kept, targets, real = _rows(rows.view(*target.mask.shape, -1), target)
        return cross_entropy(kept, targets, smoothing, real)


def _rows(features: Tensor, target: Padded) -> tuple[Tensor, Tensor, Tensor | None]:
    """Rows (N, ...) and their targets, padding left out. How many are left only the device knows:
    on a GPU, where asking would mean waiting, all stay, and the third says which are real.
    """
    if features.is_cuda:
        return features.flatten(0, 1), target.values.flatten(), target.mask.flatten()
    return features[target.mask], target.values[target.mask], None


def make_head(
    spec: VocabularySpec | CopySpec, vocabulary: int, features: int, labels: bool
) -> Vocabulary:
    """The head that a spec names.

    >>> type(make_head(CopySpec(), 10, 4, labels=False)).__name__
    'Copy'
    """
    if isinstance(spec, CopySpec):
        return Copy(spec, vocabulary, features)
    return Vocabulary(spec, vocabulary, features, labels)
