"""Heads: the output alphabet, read (embedded) and written (log-probabilities)."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.attention import AttentionSpec, Score, make_attention
from dragoman.core import EOS, PAD, SPECIALS, UNK, Encoded, Padded, Source, State, group, ungroup
from dragoman.errors import UserError
from dragoman.kernels import entropy
from dragoman.kernels.choice import plainly
from dragoman.kernels.table import Table
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


class PointerSpec(Spec):
    """Options of the head that points at positions of the source."""

    kind: Literal["pointer"] = "pointer"
    embedding: Size = 256
    score: Score = "mlp"
    size: Size | None = None  # width of the MLP's hidden layer; that of the features when not given


AnyHead = VocabularySpec | CopySpec | PointerSpec
HeadSpec = Annotated[AnyHead, Field(discriminator="kind")]


class Head(nn.Module):
    """An output alphabet."""

    copies = False  # whether it goes on over the words of the source ...
    points = False  # ... or consists of its positions
    table: nn.Embedding  # of the symbols that are the same for every source

    @property
    def open(self) -> bool:
        """Whether the alphabet depends on the source."""
        return self.copies or self.points

    def prepare(self, enc: Encoded, source: Source) -> State:
        """What of the source the alphabet depends on: nothing."""
        return ()

    def embed(self, ids: Tensor, enc: Encoded) -> Tensor:
        """Read symbols, (N,) or (B, T)."""
        raise NotImplementedError

    def forward(self, features: Tensor, fixed: State, weights: Tensor | None) -> Tensor:
        """Write one: (N, F) -> log-probabilities (N, V)."""
        raise NotImplementedError

    def looked(self, log_probs: Tensor, weights: Tensor | None) -> Tensor | None:
        """Where on the source a step looked, for people: the decoder's attention."""
        return weights

    def loss(
        self,
        features: Tensor,
        target: Padded,
        fixed: State,
        weights: Tensor | None,
        smoothing: float = 0.0,
    ) -> Loss:
        """Of features (B, T, F) against targets (B, T)."""
        raise NotImplementedError


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
        kept, targets, real = _rows(rows, target._replace(values=counted))
        return cross_entropy(kept, targets, smoothing, real)


def make_head(
    spec: AnyHead, vocabulary: int, features: int, memory: int, labels: bool = False
) -> Head:
    """The head that a spec names, for features and annotations of the given sizes.

    >>> type(make_head(CopySpec(), 10, 4, 4)).__name__
    'Copy'
    """
    if isinstance(spec, PointerSpec):
        return Pointer(spec, features, memory)
    if isinstance(spec, CopySpec):
        return Copy(spec, vocabulary, features)
    return Vocabulary(spec, vocabulary, features, labels)
