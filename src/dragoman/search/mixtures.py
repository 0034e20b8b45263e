"""Rules that let several models speak as one."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from dragoman.core import UNK, Pair, State, Step
from dragoman.search.rules import NEVER


def ensemble(
    *pairs: Pair, weights: Sequence[float] | None = None, log_linear: bool = False
) -> Pair:
    """The weighted mean of several models' probabilities; `log_linear` takes the mean of their
    log-probabilities instead, normalised again: what one model rules out, nobody writes.

    Where one alphabet goes on beyond the others' (copied words), the others give those symbols no
    probability. Attention is the first model's.

    >>> def says(*p):
    ...     return lambda _, s: Step(torch.tensor([p]).log(), s, None), torch.zeros(1)
    >>> step, state = ensemble(says(0.5, 0.5), says(0.9, 0.1), weights=[3, 1])
    >>> step(torch.tensor([1]), state).log_probs.exp()
    tensor([[0.6000, 0.4000]])
    """
    shares = [1.0] * len(pairs) if weights is None else list(weights)
    if len(shares) != len(pairs) or not all(share > 0 for share in shares):
        raise ValueError("an ensemble needs one weight above 0 per model")
    shares = [share / math.fsum(shares) for share in shares]

    def step(tokens: Tensor, states: State) -> Step:
        outs = [one(tokens, state) for (one, _), state in zip(pairs, states, strict=True)]
        size = max(out.log_probs.size(1) for out in outs)
        said = torch.stack([_widen(out.log_probs, size) for out in outs])  # (M, N, V)
        share = said.new_tensor(shares)[:, None, None]
        mixed = (
            (said * share).sum(0).log_softmax(-1)
            if log_linear
            else (said + share.log()).logsumexp(0)
        )
        return Step(mixed, tuple(out.state for out in outs), outs[0].weights)

    return step, tuple(state for _, state in pairs)


def fuse(pair: Pair, lm: Pair, weight: float) -> Pair:
    """Shallow fusion: log p + weight · log p_LM (Gülçehre et al. 2015, eq. 5).

    As in the paper the sum is not normalised: it ranks, and is no log-probability of a model. What
    the language model's alphabet lacks (copied words) costs what its <unk> costs.

    >>> def says(*p):
    ...     return lambda _, s: Step(torch.tensor([p]).log(), s, None), torch.zeros(1)
    >>> step, state = fuse(says(0.5, 0.5), says(0.9, 0.1), 1.0)
    >>> step(torch.tensor([1]), state).log_probs.exp()
    tensor([[0.4500, 0.0500]])
    """
    step, speak = pair[0], lm[0]
    if weight == 0:
        return pair

    def fused(tokens: Tensor, states: State) -> Step:
        out, said = step(tokens, states[0]), speak(tokens, states[1])
        fluent = said.log_probs
        if (more := out.log_probs.size(1) - fluent.size(1)) > 0:
            fluent = torch.cat([fluent, fluent[:, UNK, None].expand(-1, more)], 1)
        log_probs = out.log_probs + weight * fluent
        return Step(log_probs, (out.state, said.state), out.weights)

    return fused, (pair[1], lm[1])


def known(pair: Pair, alphabet: int) -> Pair:
    """Symbols from `alphabet` on are read as <unk>: a model without copied words can then speak
    together with one that has them.

    >>> step, state = known((lambda t, s: Step(t[:, None], s, None), torch.zeros(1)), 5)
    >>> step(torch.tensor([4, 5]), state).log_probs
    tensor([[4],
            [3]])
    """
    step, state = pair

    def reading(tokens: Tensor, state: State) -> Step:
        return step(tokens.masked_fill(tokens >= alphabet, UNK), state)

    return reading, state


def _widen(log_probs: Tensor, size: int) -> Tensor:
    return pad(log_probs, (0, size - log_probs.size(1)), value=NEVER)
