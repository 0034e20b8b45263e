"""Attention: K queries per memory row, whether K is time, beam or one."""

from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.errors import UserError
from dragoman.kernels.products import Dense
from dragoman.spec import Size, Spec

Score = Literal["dot", "bilinear", "mlp"]


class AttentionSpec(Spec):
    """How a decoder looks at the annotation vectors."""

    score: Score = "mlp"
    size: Size | None = None  # width of the MLP's hidden layer; the decoder's when not given
    when: Literal["before", "after"] = "before"  # the cell: Bahdanau's order, or Luong's
    feed: bool = False  # after: the attentional vector joins the next input (input feeding)
    coverage: bool = False  # mlp: the score knows where attention has been (See et al. 2017)
    local: Size | None = None  # look only this far around a predicted place (local-p)
    gate: bool = False  # before: the state says how much what is seen counts (Xu et al. 2015)
    hard: bool = False  # before: one place at a time; drawn in training, the likeliest at use


class Attention(nn.Module):
    """What all scores share: padding gets no weight, and a row with nothing to see sees zero."""

    covers = False

    def __init__(self) -> None:
        super().__init__()
        self.local: Place | None = None

    def prepare(self, memory: Tensor) -> Tensor:
        """What can be computed once per source: keys (B, S, A)."""
        return memory

    def energies(self, query: Tensor, keys: Tensor, seen: Tensor | None) -> Tensor:
        """(B, K, Q), (B, S, A), (B, K, S) -> (B, K, S)."""
        raise NotImplementedError

    def forward(
        self,
        query: Tensor,
        keys: Tensor,
        memory: Tensor,
        mask: Tensor,
        seen: Tensor | None = None,  # (B, K, S) the weights of all steps before, summed
    ) -> tuple[Tensor, Tensor]:
        """Context (B, K, D) and weights (B, K, S)."""
        real = mask.unsqueeze(1)
        energies = self.energies(query, keys, seen)
        if self.local is not None:
            energies = energies + self.local(query, mask)
        low = torch.finfo(energies.dtype).min
        weights = energies.masked_fill(~real, low).softmax(-1) * real
        return weights.to(memory.dtype) @ memory, weights


def one_place(weights: Tensor, memory: Tensor, drawn: bool) -> tuple[Tensor, Tensor]:
    """Hard attention: of weights (B, K, S) over memory (B, S, D), what stands at a single place
    (B, K, D), and which it is (B, K). The likeliest, or one drawn by its chance.

    >>> memory = torch.tensor([[[1.0], [2.0]]])
    >>> one_place(torch.tensor([[[0.1, 0.9]]]), memory, drawn=False)
    (tensor([[[2.]]]), tensor([[1]]))
    """
    scores = weights.float().log()
    if drawn:  # the largest after Gumbel's noise is a fair draw
        scores = scores - torch.empty_like(scores).exponential_().log()
    places = scores.argmax(-1)
    index = places.unsqueeze(-1).expand(-1, -1, memory.size(-1))
    return memory.gather(1, index) * (weights.sum(-1, keepdim=True) > 0), places


class Place(nn.Module):
    """Where to look next: Luong et al. 2015, eq. 9 and 10 (local-p).

    The Gaussian around the predicted place is added to the energies inside the softmax, so that the
    weights still sum to one; the paper multiplies it afterwards.
    """

    def __init__(self, query: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.hidden = nn.Linear(query, query)
        self.score = nn.Linear(query, 1)

    def forward(self, query: Tensor, mask: Tensor) -> Tensor:
        lengths = mask.sum(1).view(-1, 1, 1)
        centre = lengths * torch.sigmoid(self.score(torch.tanh(self.hidden(query))))  # (B, K, 1)
        places = torch.arange(mask.size(1), device=mask.device, dtype=centre.dtype)
        return -((places - centre) ** 2) / (2 * (self.window / 2) ** 2)


class Dot(Attention):
    """Luong et al. 2015, eq. 8, `dot`: e_j = h_j · s."""

    def __init__(self, query: int, memory: int) -> None:
        super().__init__()
        if query != memory:
            raise UserError(
                f"dot attention compares a decoder state of size {query} with annotations of size "
                f"{memory}: make them equal, or take the score bilinear instead"
            )

    def energies(self, query: Tensor, keys: Tensor, seen: Tensor | None) -> Tensor:
        return query @ keys.transpose(1, 2)


class Bilinear(Attention):
    """Luong et al. 2015, eq. 8, `general`: e_j = h_j · W s."""

    def __init__(self, query: int, memory: int) -> None:
        super().__init__()
        self.key = Dense(memory, query, bias=False)

    def prepare(self, memory: Tensor) -> Tensor:
        return self.key(memory)  # type: ignore[no-any-return]

    def energies(self, query: Tensor, keys: Tensor, seen: Tensor | None) -> Tensor:
        return query @ keys.transpose(1, 2)


class MLP(Attention):
    """Bahdanau et al. 2015, appendix A.1.2: e_j = v · tanh(W s + U h_j)."""

    def __init__(self, query: int, memory: int, size: int, coverage: bool = False) -> None:
        super().__init__()
        self.covers = coverage
        self.key = Dense(memory, size, bias=False)
        self.query = nn.Linear(query, size)
        self.score = nn.Linear(size, 1, bias=False)
        if coverage:
            self.cover = nn.Linear(1, size, bias=False)

    def prepare(self, memory: Tensor) -> Tensor:
        return self.key(memory)  # type: ignore[no-any-return]

    def energies(self, query: Tensor, keys: Tensor, seen: Tensor | None) -> Tensor:
        pairs = self.query(query).unsqueeze(2) + keys.unsqueeze(1)  # (B, K, S, A)
        if seen is not None:  # See et al. 2017, eq. 11
            pairs = pairs + self.cover(seen.unsqueeze(-1))
        return self.score(torch.tanh(pairs)).squeeze(-1)  # type: ignore[no-any-return]


def make_attention(spec: AttentionSpec, query: int, memory: int) -> Attention:
    """The attention that a spec names.

    >>> attention = make_attention(AttentionSpec(score="bilinear"), query=4, memory=6)
    >>> attention.prepare(torch.ones(1, 3, 6)).shape
    torch.Size([1, 3, 4])
    """
    if spec.coverage and spec.score != "mlp":
        raise UserError("model.attention.coverage needs model.attention.score=mlp")
    made: Attention
    if spec.score == "dot":
        made = Dot(query, memory)
    elif spec.score == "bilinear":
        made = Bilinear(query, memory)
    else:
        made = MLP(query, memory, spec.size or query, spec.coverage)
    made.local = Place(query, spec.local) if spec.local else None
    return made
