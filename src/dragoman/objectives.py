"""What training minimises."""

from typing import NamedTuple

import torch
from torch import Tensor


class Aims(NamedTuple):
    """What is asked of a model beside the likelihood of its targets."""

    smoothing: float = 0.0  # a share of the weight spread over the alphabet
    coverage: float = 0.0  # how much attending twice to the same place costs
    sampling: float = 0.0  # a share of the history that the model writes itself


class Loss(NamedTuple):
    """Sums over symbols, so that batches, accumulation groups and processes add up."""

    total: Tensor  # () what is minimised
    nll: Tensor  # () -log p of the targets, whatever is minimised
    tokens: Tensor  # () how many symbols


def cross_entropy(
    log_probs: Tensor, targets: Tensor, smoothing: float = 0.0, real: Tensor | None = None
) -> Loss:
    """−Σ log p(y), with a share `smoothing` of the weight spread evenly over the alphabet
    (Szegedy et al. 2016). Symbols of probability zero get no share: a head may exclude some. Where
    only some rows count, `real` (N,) says which.

    >>> import torch
    >>> cross_entropy(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([1])).nll
    tensor(0.6931)
    """
    every = torch.ones_like(targets, dtype=torch.bool) if real is None else real
    nll = -log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1).masked_fill(~every, 0).sum()
    total = nll
    if smoothing:
        possible = log_probs.isfinite()
        spread = log_probs.masked_fill(~possible, 0).sum(-1) / possible.sum(-1)
        total = (1 - smoothing) * nll - smoothing * spread.masked_fill(~every, 0).sum()
    return Loss(total, nll.detach(), every.sum())


def coverage(weights: Tensor, mask: Tensor) -> Tensor:
    """See et al. 2017, eq. 12: Σ_t Σ_j min(a_tj, Σ_u<t a_uj), of weights (B, T, S), steps (B, T).

    >>> twice = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    >>> coverage(twice, torch.ones(1, 2, dtype=torch.bool))
    tensor(1.)
    """
    before = weights.cumsum(1) - weights
    return (torch.minimum(weights, before).sum(-1) * mask).sum()
