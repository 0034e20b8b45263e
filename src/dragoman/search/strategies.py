"""Strategies that follow one path per row: a given one, the likeliest symbol, or chance."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.core import BOS, EOS, PAD, Hypotheses, State, StepFn, group, leaf, repeat
from dragoman.search.rules import NEVER
from dragoman.search.stops import times

Pick = Callable[[Tensor], Tensor]  # log-probabilities (N, V) -> tokens (N,)


class Stride(NamedTuple):
    """One symbol further on all paths. After the end of a path its tokens are PAD."""

    tokens: Tensor  # (N,)
    log_probs: Tensor  # (N,) of those tokens
    weights: Tensor | None  # (N, S)


def force(step: StepFn, state: State, targets: Tensor) -> Hypotheses:
    """Score given targets (B, T), which end in EOS and are padded with PAD.

    >>> from dragoman.core import Step
    >>> half = lambda tokens, state: Step(torch.full((1, 4), 0.5).log(), state, None)
    >>> force(half, torch.zeros(1), torch.tensor([[3, 2]])).scores.exp()
    tensor([[0.2500]])
    """
    tokens = start(state)
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
    """The likeliest symbol at each step.

    >>> from dragoman.core import Step
    >>> coin = lambda tokens, state: Step(torch.tensor([[0, 0, 0.4, 0.6]]).log(), state, None)
    >>> greedy(coin, torch.zeros(1), 3).tokens
    tensor([[[3, 3, 3]]])
    """
    return collect(walk(step, state, max_steps, likeliest))


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
    the batch.

    >>> from dragoman.core import Step
    >>> coin = lambda tokens, state: Step(torch.tensor([[0, 0, 0.4, 0.6]]).log(), state, None)
    >>> sample(coin, torch.zeros(1), torch.tensor([[[0.5, 0.3]]])).tokens
    tensor([[[3, 2]]])
    """
    items, count, steps = noise.shape
    columns = noise.to(leaf(state).device).flatten(0, 1).unbind(1)
    pick = by_chance(columns, temperature=temperature, top_k=top_k, top_p=top_p)
    found = collect(walk(step, repeat(state, count), steps, pick))
    tokens, scores, log_probs = (group(t[:, 0], items) for t in found[:3])
    weights = None if found.weights is None else group(found.weights[:, 0], items)
    return Hypotheses(tokens, scores, log_probs, weights)


def likeliest(log_probs: Tensor) -> Tensor:
    """The likeliest symbol of each row.

    >>> likeliest(torch.tensor([[-1.0, -2.0]]))
    tensor([0])
    """
    return log_probs.argmax(-1)


def by_chance(
    noise: Iterable[Tensor], *, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0
) -> Pick:
    """Symbols where numbers in [0, 1) fall in the distribution; each step takes the next of
    `noise`, a number a row. So chance may be drawn while the text is written.

    >>> pick = by_chance([torch.tensor([0.5])])
    >>> pick(torch.tensor([[0.4, 0.6]]).log())
    tensor([1])
    """
    columns = iter(noise)

    def pick(log_probs: Tensor) -> Tensor:
        chance = next(columns).clamp(max=1 - 1e-6)
        if temperature == 0:
            return likeliest(log_probs)
        kept = nucleus(top(log_probs / temperature, top_k), top_p)
        mass = kept.softmax(-1).cumsum(-1)
        return (
            (mass > chance[:, None] * mass[:, -1:]).long().argmax(-1)
        )  # inverse of the distribution

    return pick


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


def start(state: State) -> Tensor:
    """The symbol before the first, once a row.

    >>> start(torch.zeros(2))
    tensor([1, 1])
    """
    like = leaf(state)
    return torch.full((len(like),), BOS, device=like.device)


def walk(
    step: StepFn, state: State, max_steps: int, pick: Pick, endless: bool = False
) -> Iterator[Stride]:
    """One path per row, symbol by symbol, until all have ended. Nothing is kept of what was given
    out, so that a path may be as long as it likes. An `endless` one goes on behind its end signs.

    >>> from dragoman.core import Step
    >>> coin = lambda tokens, state: Step(torch.tensor([[0, 0, 0.4, 0.6]]).log(), state, None)
    >>> [stride.tokens.item() for stride in walk(coin, torch.zeros(1), 3, likeliest)]
    [3, 3, 3]
    """
    tokens = start(state)
    done = torch.zeros_like(tokens, dtype=torch.bool)
    for _ in times(max_steps):
        out = step(tokens, state)
        state, tokens = out.state, pick(out.log_probs).masked_fill(done, PAD)
        gain = out.log_probs.gather(1, tokens[:, None])[:, 0].masked_fill(done, 0)
        yield Stride(tokens, gain, out.weights)
        if not endless:
            done = done | (tokens == EOS)
        if done.all():
            break


def collect(strides: Iterable[Stride]) -> Hypotheses:
    """The strides of a walk as what a search found: one path a row.

    >>> collect([Stride(torch.tensor([EOS]), torch.tensor([-0.5]), None)]).scores
    tensor([[-0.5000]])
    """
    path, log_probs, weights = zip(*strides, strict=True)
    gains = torch.stack(log_probs, 1)[:, None]
    return Hypotheses(torch.stack(path, 1)[:, None], gains.sum(-1), gains, _stack(weights))


def _stack(weights: Sequence[Tensor | None]) -> Tensor | None:
    kept = [w for w in weights if w is not None]
    return torch.stack(kept, 1)[:, None] if kept else None
