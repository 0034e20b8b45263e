"""What training minimises."""

from typing import NamedTuple

import torch
from torch import Tensor


class Aims(NamedTuple):
    """What is asked of a model beside the likelihood of its targets."""

    smoothing: float = 0.0  # a share of the weight spread over the alphabet
    coverage: float = 0.0  # how much attending twice to the same place costs
    sampling: float = 0.0  # a share of the history that the model writes itself
    doubly: float = 0.0  # how much it costs to look more at some places than at others
    reward: float = 0.0  # hard attention: how much what was drawn learns from how it ended ...
    entropy: float = 0.0  # ... and how much it is drawn to places that are not likely yet


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


def doubly_stochastic(weights: Tensor, steps: Tensor, places: Tensor) -> Tensor:
    """Xu et al. 2015, eq. 14: Σ_j (1 − Σ_t a_tj)², of weights (B, T, S), real steps (B, T) and
    places (B, S): in the end, each place should have been looked at once.

    >>> once = torch.eye(2).unsqueeze(0)
    >>> real = torch.ones(1, 2, dtype=torch.bool)
    >>> doubly_stochastic(once, real, real)
    tensor(0.)
    """
    seen = (weights * steps.unsqueeze(-1)).sum(1)
    return ((1 - seen).square() * places).sum()


class Drawn(NamedTuple):
    """What hard attention drew while a target was read."""

    weights: Tensor  # (B, T, S)
    places: Tensor  # (B, T); -1 where nothing was drawn
    steps: Tensor  # (B, T) True = real


def reinforce(drawn: Drawn, gained: Tensor, baseline: Tensor, aims: Aims) -> Tensor:
    """Xu et al. 2015, section 4.1: what was drawn becomes likelier the better the target's
    likelihood, `gained` (B,), was than the baseline (Williams 1992); entropy keeps it open.
    """
    log_weights = drawn.weights.float().clamp(min=1e-12).log()
    spread = -(drawn.weights.float() * log_weights).sum(-1) * drawn.steps
    chosen = log_weights.gather(-1, drawn.places.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    real = drawn.steps & (drawn.places >= 0)
    advantage = (gained - baseline).detach().unsqueeze(1)
    return -aims.reward * (advantage * chosen * real).sum() - aims.entropy * spread.sum()
