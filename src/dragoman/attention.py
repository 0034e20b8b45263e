"""Attention: K queries per memory row, whether K is time, beam or one."""

from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.errors import UserError
from dragoman.spec import Size, Spec

Score = Literal["dot", "bilinear", "mlp"]


class AttentionSpec(Spec):
    """How a decoder looks at the annotation vectors."""

    score: Score = "mlp"
    size: Size | None = (
        None  # width of the MLP's hidden layer; as wide as the decoder when not given
    )
    when: Literal["before", "after"] = "before"  # the cell: Bahdanau's order, or Luong's
    feed: bool = False  # after: the attentional vector joins the next input (input feeding)


class Attention(nn.Module):
    """What all scores share: padding gets no weight, and a row with nothing to see sees zero."""

    def prepare(self, memory: Tensor) -> Tensor:
        """What can be computed once per source: keys (B, S, A)."""
        return memory

    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        """(B, K, Q), (B, S, A) -> (B, K, S)."""
        raise NotImplementedError

    def forward(
        self, query: Tensor, keys: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Context (B, K, D) and weights (B, K, S)."""
        real = mask.unsqueeze(1)
        energies = self.energies(query, keys)
        low = torch.finfo(energies.dtype).min
        weights = energies.masked_fill(~real, low).softmax(-1) * real
        return weights.to(memory.dtype) @ memory, weights


class Dot(Attention):
    """Luong et al. 2015, eq. 8, `dot`: e_j = h_j · s."""

    def __init__(self, query: int, memory: int) -> None:
        super().__init__()
        if query != memory:
            raise UserError(
                f"dot attention compares a decoder state of size {query} with annotations of size "
                f"{memory}: make them equal, or use model.attention.score=bilinear"
            )

    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class Bilinear(Attention):
    """Luong et al. 2015, eq. 8, `general`: e_j = h_j · W s."""

    def __init__(self, query: int, memory: int) -> None:
        super().__init__()
        self.key = nn.Linear(memory, query, bias=False)

    def prepare(self, memory: Tensor) -> Tensor:
        return self.key(memory)  # type: ignore[no-any-return]

    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class MLP(Attention):
    """Bahdanau et al. 2015, appendix A.1.2: e_j = v · tanh(W s + U h_j)."""

    def __init__(self, query: int, memory: int, size: int) -> None:
        super().__init__()
        self.key = nn.Linear(memory, size, bias=False)
        self.query = nn.Linear(query, size)
        self.score = nn.Linear(size, 1, bias=False)

    def prepare(self, memory: Tensor) -> Tensor:
        return self.key(memory)  # type: ignore[no-any-return]

    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        pairs = self.query(query).unsqueeze(2) + keys.unsqueeze(1)  # (B, K, S, A)
        return self.score(torch.tanh(pairs)).squeeze(-1)  # type: ignore[no-any-return]


def make_attention(spec: AttentionSpec, query: int, memory: int) -> Attention:
    """The attention that a spec names.

    >>> attention = make_attention(AttentionSpec(score="bilinear"), query=4, memory=6)
    >>> attention.prepare(torch.ones(1, 3, 6)).shape
    torch.Size([1, 3, 4])
    """
    if spec.score == "dot":
        return Dot(query, memory)
    if spec.score == "bilinear":
        return Bilinear(query, memory)
    return MLP(query, memory, spec.size or query)
