"""Beam search: paths kept alive side by side, and what makes one path better than another."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.core import EOS, PAD, Hypotheses, State, StepFn, group, leaf, repeat, select
from dragoman.search.rules import LARGEST, NEVER
from dragoman.search.stops import times
from dragoman.search.strategies import start

Banks = Callable[[State, int], Tensor]  # (state, V) -> progress (N, V) after each next symbol
UNSEEN = 1e-6  # attention below this counts as none: its logarithm must stay finite


class Taste(NamedTuple):
    """What a beam prefers beside log p / length^normalize."""

    gnmt: bool = False  # divide by ((5 + length) / 6)^normalize (Wu et al. 2016, eq. 14)
    coverage: float = 0.0  # β of the coverage penalty of the same equation; needs attention
    banks: Banks | None = None  # share the beam between degrees of progress (`Phrases.banks`)
    groups: int = 1  # beams that avoid each other's symbols (Vijayakumar et al. 2018) ...
    diversity: float = 0.0  # ... at this price each, in nats


PLAIN = Taste()


class _Paths(NamedTuple):
    """The paths of each item, W = width of the beam."""

    scores: Tensor  # (B, W)
    lengths: Tensor  # (B, W)
    done: Tensor  # (B, W)
    lead: Tensor  # (B, groups) which of a group's paths is the greedy one: it is never pushed out
    cover: Tensor | None  # (B, W, S) attention so far, summed over steps


def beam(
    step: StepFn,
    state: State,
    max_steps: int,
    *,
    width: int,
    normalize: float = 0.0,
    n_best: int = 1,
    taste: Taste = PLAIN,
) -> Hypotheses:
    """The `n_best` best of `width` paths kept alive side by side.

    A finished path waits in the beam at its own score, free of charge, until better ones push it
    out or all are done. The greedy path keeps its place: no beam's answer ranks below it. Scores
    are plain sums of the step's log-probabilities: taste only ranks.

    >>> from dragoman.core import Step
    >>> coins = torch.tensor([[0, 0, 0.4, 0.6]] * 2).log()
    >>> found = beam(lambda _, s: Step(coins, s, None), torch.zeros(1), 2, width=2)
    >>> found.tokens, found.scores.exp()
    (tensor([[[2, 0]]]), tensor([[0.4000]]))
    """
    items, device = len(leaf(state)), leaf(state).device
    state = repeat(state, width)
    first = torch.arange(items, device=device)[:, None] * width
    tokens, paths, trail = start(state), _begin(items, width, taste.groups, device), _Trail()
    for _ in times(max_steps):
        out = step(tokens, state)
        paths, candidates = _grow(paths, out.log_probs, out.weights, taste)
        banks = taste.banks and group(taste.banks(out.state, out.log_probs.size(1)), items)
        parent, token, lead = _choose(candidates, paths, normalize, banks, taste)
        before = paths.scores.gather(1, parent)
        paths = _follow(paths, candidates, parent, token)._replace(lead=lead)
        trail.add(parent, token, paths.scores - before, out.weights)
        state, tokens = select(out.state, (first + parent).flatten()), token.flatten()
        if paths.done.all():
            break
    ranks = _rank(paths.scores[..., None], paths, normalize, taste)[..., 0]
    order = ranks.sort(dim=1, descending=True, stable=True).indices[:, :n_best]
    return trail.trace(order, paths.scores.gather(1, order))


def _begin(items: int, width: int, groups: int, device: torch.device) -> _Paths:
    if width % groups:
        raise ValueError(f"a beam of {width} cannot be shared by {groups} groups")
    scores = torch.full((items, width), NEVER, device=device)
    scores[:, :: width // groups] = 0  # all paths of a group start equal: let only the first live
    lead = torch.zeros(items, groups, dtype=torch.long, device=device)
    return _Paths(scores, torch.zeros_like(scores), scores > 0, lead, None)


def _grow(
    paths: _Paths, log_probs: Tensor, weights: Tensor | None, taste: Taste
) -> tuple[_Paths, Tensor]:
    """The paths one symbol longer, and the scores (B, W, V) of all ways to go on; a finished path
    can only wait (PAD, for free).
    """
    scores, lengths, done, lead, cover = paths
    wait = torch.full_like(log_probs[0], NEVER)
    wait[PAD] = 0
    going = group(log_probs, len(scores)).to(scores.dtype)
    candidates = scores[..., None] + torch.where(done[..., None], wait, going)
    if taste.coverage and weights is not None:
        seen = group(weights, len(scores)).to(scores.dtype) * ~done[..., None]
        cover = seen if cover is None else cover + seen
    return _Paths(scores, lengths + ~done, done, lead, cover), candidates


def _rank(candidates: Tensor, paths: _Paths, normalize: float, taste: Taste) -> Tensor:
    """What paths (B, W) with candidates (B, W, V) compare by."""
    lengths = (5 + paths.lengths) / 6 if taste.gnmt else paths.lengths.clamp(min=1)
    ranks = candidates / lengths.pow(normalize).clamp(max=LARGEST)[..., None]
    if paths.cover is None:
        return ranks
    # log(UNSEEN) is taken off everywhere, so that the padding of a batch adds exactly nothing.
    covered = (paths.cover.clamp(UNSEEN, 1).log() - math.log(UNSEEN)).sum(-1)
    return ranks + taste.coverage * covered[..., None]


def _choose(
    candidates: Tensor, paths: _Paths, normalize: float, banks: Tensor | None, taste: Taste
) -> tuple[Tensor, Tensor, Tensor]:
    """Parents and symbols (B, W) of the paths to follow, group after group: each group pays for
    symbols that groups before it chose at this step. And which of each group is the greedy path.
    """
    items, width, alphabet = candidates.shape
    share = width // taste.groups
    said = candidates.new_zeros(items, 1, alphabet)
    parents, tokens, leads = [], [], []
    for begin, before in zip(range(0, width, share), paths.lead.unbind(1), strict=True):
        part = slice(begin, begin + share)
        mine = _Paths(*(None if t is None else t[:, part] for t in paths))  # type: ignore[arg-type]
        priced = candidates[:, part] - taste.diversity * said
        ranks = _rank(priced, mine, normalize, taste).flatten(1)
        if banks is None:
            best = ranks.topk(share).indices
        else:
            best = _deal(ranks, banks[:, part].flatten(1), share)
        best, lead = _keep(best, priced, before[:, None])
        token = best % alphabet
        parents.append(begin + best // alphabet)
        tokens.append(token)
        leads.append(lead)
        said = said.scatter_add(2, token[:, None], (token != PAD)[:, None].to(said.dtype))
    return torch.cat(parents, 1), torch.cat(tokens, 1), torch.cat(leads, 1)


def _keep(best: Tensor, candidates: Tensor, lead: Tensor) -> tuple[Tensor, Tensor]:
    """The chosen candidates (B, K) with the greedy path among them, and its place (B, 1)."""
    likeliest = candidates.take_along_dim(lead[..., None], 1).argmax(-1)
    wanted = lead * candidates.size(2) + likeliest
    missing = (best != wanted).all(1)
    best[:, -1] = torch.where(missing, wanted[:, 0], best[:, -1])
    return best, (best == wanted).long().argmax(1, keepdim=True)


def _deal(ranks: Tensor, banks: Tensor, count: int) -> Tensor:
    """Indices (B, count) of candidates (B, M): the best of each bank, then the second best of each,
    and so on, the fullest bank first. So paths that have met more of what is required are not
    pushed out by likelier ones that have met less, and what an empty bank would get goes to the
    others (dynamic beam allocation, Post and Vilar 2018).
    """
    pools = [
        ranks.masked_fill(banks != bank, NEVER).topk(count)
        for bank in reversed(range(int(banks.max()) + 1))
    ]
    values = torch.stack([pool.values for pool in pools], -1)  # (B, count, banks): turn by turn
    indices = torch.stack([pool.indices for pool in pools], -1)
    hopeless = values.flatten(1).isinf().long()
    order = hopeless.sort(dim=1, stable=True).indices[:, :count]
    return indices.flatten(1).gather(1, order)


def _follow(paths: _Paths, candidates: Tensor, parent: Tensor, token: Tensor) -> _Paths:
    flat = parent * candidates.size(2) + token
    scores = candidates.flatten(1).gather(1, flat)
    done = paths.done.gather(1, parent) | (token == EOS) | scores.isinf()
    cover = paths.cover
    if cover is not None:
        cover = cover.gather(1, parent[..., None].expand_as(cover))
    return _Paths(scores, paths.lengths.gather(1, parent), done, paths.lead, cover)


class _Trail:
    """Parents and tokens of each step, traced back once at the end instead of reordered at each
    step.
    """

    def __init__(self) -> None:
        self.parents: list[Tensor] = []
        self.tokens: list[Tensor] = []
        self.gains: list[Tensor] = []
        self.weights: list[Tensor | None] = []

    def add(self, parent: Tensor, token: Tensor, gain: Tensor, weights: Tensor | None) -> None:
        self.parents.append(parent)
        self.tokens.append(token)
        self.gains.append(gain)
        self.weights.append(weights)

    def trace(self, slots: Tensor, scores: Tensor) -> Hypotheses:
        """Follow the given beam slots (B, K) back to the start."""
        items = torch.arange(len(slots), device=slots.device)[:, None]
        tokens, gains, weights = [], [], []
        for t in reversed(range(len(self.tokens))):
            tokens.append(self.tokens[t].gather(1, slots))
            gains.append(self.gains[t].gather(1, slots))
            slots = self.parents[t].gather(1, slots)
            seen = self.weights[t]
            weights.append(None if seen is None else group(seen, len(slots))[items, slots])
        path = torch.stack(tokens[::-1], -1)
        gain = torch.stack(gains[::-1], -1).masked_fill(path == PAD, 0)
        kept = [w for w in weights[::-1] if w is not None]
        return Hypotheses(path, scores, gain, torch.stack(kept, 2) if kept else None)
