"""Search over any (step, state). Knows nothing of encoders, attention or vocabularies.

A strategy takes a pair and options and gives `Hypotheses`. A rule takes a pair and gives a pair: it
edits the log-probabilities, and what it must remember rides in the state, so that beams reorder it.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dragoman.core import (
    BOS,
    EOS,
    PAD,
    Hypotheses,
    Pair,
    State,
    Step,
    StepFn,
    group,
    leaf,
    repeat,
    select,
)

NEVER = float("-inf")
Pick = Callable[[Tensor], Tensor]  # log-probabilities (N, V) -> tokens (N,)


def force(step: StepFn, state: State, targets: Tensor) -> Hypotheses:
    """Score given targets (B, T), which end in EOS and are padded with PAD."""
    tokens = _first(state)
    log_probs, weights = [], []
    for wanted in targets.unbind(1):
        out = step(tokens, state)
        state, tokens = out.state, wanted
        log_probs.append(
            out.log_probs.gather(1, tokens[:, None])[:, 0].masked_fill(tokens == PAD, 0)
        )
        weights.append(out.weights)
    if not log_probs:
        none = leaf(state).new_zeros(len(tokens), 1, 0)
        return Hypotheses(none.long(), none.sum(-1), none, None)
    chosen = torch.stack(log_probs, 1)[:, None]
    return Hypotheses(targets[:, None], chosen.sum(-1), chosen, _stack(weights))


def greedy(step: StepFn, state: State, max_steps: int) -> Hypotheses:
    """The likeliest symbol at each step."""
    return _walk(step, state, max_steps, lambda log_probs: log_probs.argmax(-1))


def sample(
    step: StepFn,
    state: State,
    noise: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Hypotheses:
    """Random paths. `noise` (B, K, T) in [0, 1) is all the chance there is: K paths an item, at
    most T symbols long. The caller draws it, so that a path need not depend on its neighbours in
    the
    batch.
    """
    items, count, steps = noise.shape
    columns = iter(noise.to(leaf(state).device).flatten(0, 1).unbind(1))

    def pick(log_probs: Tensor) -> Tensor:
        chance = next(columns).clamp(max=1 - 1e-6)
        if temperature == 0:
            return log_probs.argmax(-1)
        kept = nucleus(top(log_probs / temperature, top_k), top_p)
        mass = kept.softmax(-1).cumsum(-1)
        return (
            (mass > chance[:, None] * mass[:, -1:]).long().argmax(-1)
        )  # inverse of the distribution

    found = _walk(step, repeat(state, count), steps, pick)
    tokens, scores, log_probs = (group(t[:, 0], items) for t in found[:3])
    weights = None if found.weights is None else group(found.weights[:, 0], items)
    return Hypotheses(tokens, scores, log_probs, weights)


def beam(
    step: StepFn,
    state: State,
    max_steps: int,
    *,
    width: int,
    normalize: float = 0.0,
    n_best: int = 1,
) -> Hypotheses:
    """The `n_best` best of `width` paths kept alive side by side.

    Paths compare by log p / length^normalize. A finished path waits in the beam at its own score,
    free of charge, until better ones push it out or all are done.
    """
    items = len(leaf(state))
    state = repeat(state, width)
    device = leaf(state).device
    first = torch.arange(items, device=device)[:, None] * width
    tokens = _first(state)
    scores = torch.full((items, width), NEVER, device=device)
    scores[:, 0] = 0  # all beams start equal: let only the first one live
    lengths = torch.zeros_like(scores)
    done = torch.zeros_like(scores, dtype=torch.bool)
    trail = _Trail()
    for _ in range(max_steps):
        out = step(tokens, state)
        candidates = _extend(out.log_probs, scores, done)
        grown = lengths + (~done).float()
        ranks = candidates / grown.clamp(min=1).pow(normalize)[..., None]
        best = ranks.flatten(1).topk(width).indices
        parent, token = best // out.log_probs.size(1), best % out.log_probs.size(1)
        before, scores = scores.gather(1, parent), candidates.flatten(1).gather(1, best)
        rows = (first + parent).flatten()
        trail.add(parent, token, scores - before, out.weights)
        state, tokens = select(out.state, rows), token.flatten()
        lengths = grown.gather(1, parent)
        done = done.gather(1, parent) | (token == EOS) | scores.isinf()
        if done.all():
            break
    ranks = scores / lengths.clamp(min=1).pow(normalize)
    order = ranks.sort(dim=1, descending=True, stable=True).indices[:, :n_best]
    return trail.trace(order, scores.gather(1, order))


def _extend(log_probs: Tensor, scores: Tensor, done: Tensor) -> Tensor:
    """Scores (B, K, V) of all ways to go on; a finished path can only wait (PAD, for free)."""
    wait = torch.full_like(log_probs[0], NEVER)
    wait[PAD] = 0
    going = group(log_probs, len(scores)).to(scores.dtype)
    return scores[..., None] + torch.where(done[..., None], wait, going)


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


def _walk(step: StepFn, state: State, max_steps: int, pick: Pick) -> Hypotheses:
    """One path per row."""
    tokens = _first(state)
    done = torch.zeros_like(tokens, dtype=torch.bool)
    path, log_probs, weights = [], [], []
    for _ in range(max_steps):
        out = step(tokens, state)
        state, tokens = out.state, pick(out.log_probs).masked_fill(done, PAD)
        gain = out.log_probs.gather(1, tokens[:, None])[:, 0].masked_fill(done, 0)
        path.append(tokens)
        log_probs.append(gain)
        weights.append(out.weights)
        done = done | (tokens == EOS)
        if done.all():
            break
    gains = torch.stack(log_probs, 1)[:, None]
    return Hypotheses(torch.stack(path, 1)[:, None], gains.sum(-1), gains, _stack(weights))


def _first(state: State) -> Tensor:
    like = leaf(state)
    return torch.full((len(like),), BOS, device=like.device)


def _stack(weights: Sequence[Tensor | None]) -> Tensor | None:
    kept = [w for w in weights if w is not None]
    return torch.stack(kept, 1)[:, None] if kept else None


def top(log_probs: Tensor, k: int) -> Tensor:
    """All but the k likeliest symbols ruled out; k = 0 keeps all.

    >>> top(torch.tensor([[0.1, 0.3, 0.2]]), 2)
    tensor([[  -inf, 0.3000, 0.2000]])
    """
    if not 0 < k < log_probs.size(-1):
        return log_probs
    least = log_probs.topk(k).values[..., -1:]
    return log_probs.masked_fill(log_probs < least, NEVER)


def nucleus(log_probs: Tensor, p: float) -> Tensor:
    """The smallest set of likeliest symbols that holds a share p (Holtzman et al. 2020).

    >>> nucleus(torch.tensor([[0.5, 0.3, 0.2]]).log(), 0.6).exp()
    tensor([[0.5000, 0.3000, 0.0000]])
    """
    if p >= 1:
        return log_probs
    ordered, places = log_probs.softmax(-1).sort(-1, descending=True)
    outside = ordered.cumsum(-1) - ordered >= p  # the likeliest symbol always stays
    return log_probs.masked_fill(torch.zeros_like(outside).scatter(-1, places, outside), NEVER)


def never(pair: Pair, banned: Sequence[int]) -> Pair:
    """The given symbols are not written."""
    step, state = pair
    ban = torch.tensor(list(banned), dtype=torch.long, device=leaf(state).device)

    def ruled(tokens: Tensor, state: State) -> Step:
        out = step(tokens, state)
        return out._replace(log_probs=out.log_probs.index_fill(1, ban, NEVER))

    return ruled, state


def within(pair: Pair, least: int | Tensor, most: Tensor) -> Pair:
    """No end before `least` symbols; after `most[b]` symbols of item b nothing but the end."""
    step, state = pair
    most = most.to(leaf(state).device)
    least = torch.as_tensor(least, device=most.device).expand_as(most)

    def ruled(tokens: Tensor, both: State) -> Step:
        inner, written, floor, limit = both
        out = step(tokens, inner)
        log_probs = out.log_probs
        end = torch.zeros_like(log_probs, dtype=torch.bool)
        end[:, EOS] = True
        log_probs = log_probs.masked_fill(end & (written < floor)[:, None], NEVER)
        log_probs = log_probs.masked_fill(~end & (written >= limit)[:, None], NEVER)
        return Step(log_probs, (out.state, written + 1, floor, limit), out.weights)

    return ruled, (state, torch.zeros_like(most), least, most)


def prefix(pair: Pair, begun: Tensor) -> Pair:
    """Paths begin with the given symbols (B, P), padded with PAD, at the model's own price."""
    step, state = pair
    begun = torch.cat([begun, begun.new_full((len(begun), 1), PAD)], 1).to(leaf(state).device)

    def ruled(tokens: Tensor, both: State) -> Step:
        inner, place, wanted = both
        out = step(tokens, inner)
        due = wanted.gather(1, place[:, None])
        other = torch.ones_like(out.log_probs, dtype=torch.bool).scatter(1, due, False)
        log_probs = out.log_probs.masked_fill(other & (due != PAD), NEVER)
        place = (place + 1).clamp(max=wanted.size(1) - 1)
        return Step(log_probs, (out.state, place, wanted), out.weights)

    return ruled, (state, torch.zeros(len(begun), dtype=torch.long, device=begun.device), begun)


def ensemble(*pairs: Pair) -> Pair:
    """The mean of several models' probabilities."""

    def step(tokens: Tensor, states: State) -> Step:
        outs = [one(tokens, state) for (one, _), state in zip(pairs, states, strict=True)]
        stacked = torch.stack([out.log_probs for out in outs])
        mean = stacked.logsumexp(0) - torch.tensor(float(len(outs))).log()
        return Step(mean, tuple(out.state for out in outs), outs[0].weights)

    return step, tuple(state for _, state in pairs)
