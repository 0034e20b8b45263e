"""Rules: each takes a pair (step, state) and gives one. Most of them only restrict what may come
next, so that what is written keeps the model's own price.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dragoman.core import EOS, PAD, Pair, State, Step, leaf

NEVER = float("-inf")
ANY = -1  # stands for any symbol
LARGEST = 3e38  # a divisor beyond all numbers would turn what is ruled out into no number


def forbid(log_probs: Tensor, banned: Tensor) -> Tensor:
    """Symbols ruled out, row by row; a row that would be left with none stays as it was.

    >>> row = torch.tensor([[-1.0, -2.0], [-1.0, -2.0]])
    >>> forbid(row, torch.tensor([[True, False], [True, True]]))
    tensor([[-inf, -2.],
            [-1., -2.]])
    """
    left = log_probs.masked_fill(banned, NEVER)
    return torch.where((left > NEVER).any(-1, keepdim=True), left, log_probs)


def never(pair: Pair, banned: Sequence[int]) -> Pair:
    """The given symbols are not written, whatever is left. Of all rules this one is always on, so
    it is the cheapest, and the only one that does not stand aside.

    >>> step, state = never((lambda _, s: Step(torch.zeros(1, 4), s, None), torch.zeros(1)), [0, 1])
    >>> step(torch.tensor([1]), state).log_probs
    tensor([[-inf, -inf, 0., 0.]])
    """
    step, state = pair
    ban = torch.tensor(list(banned), dtype=torch.long, device=leaf(state).device)

    def ruled(tokens: Tensor, state: State) -> Step:
        out = step(tokens, state)
        return out._replace(log_probs=out.log_probs.index_fill(1, ban, NEVER))

    return ruled, state


def below(pair: Pair, sizes: Tensor) -> Pair:
    """Item b writes symbols below `sizes[b]` alone: an alphabet that goes on over the positions of
    the longest source of a batch has symbols that mean nothing for a shorter one.

    >>> pair = lambda _, s: Step(torch.zeros(1, 4), s, None), torch.zeros(1)
    >>> step, state = below(pair, torch.tensor([3]))
    >>> step(torch.tensor([1]), state).log_probs
    tensor([[0., 0., 0., -inf]])
    """
    step, state = pair

    def ruled(tokens: Tensor, both: State) -> Step:
        inner, size = both
        out = step(tokens, inner)
        symbols = torch.arange(out.log_probs.size(1), device=size.device)
        return Step(forbid(out.log_probs, symbols >= size[:, None]), (out.state, size), out.weights)

    return ruled, (state, sizes.to(leaf(state).device))


def within(pair: Pair, least: int | Tensor, most: Tensor) -> Pair:
    """No end before `least` symbols; after `most[b]` symbols of item b nothing but the end.

    >>> pair = lambda _, s: Step(torch.zeros(1, 4), s, None), torch.zeros(1)
    >>> step, state = within(pair, 1, torch.tensor([1]))
    >>> first = step(torch.tensor([1]), state)
    >>> first.log_probs, step(torch.tensor([3]), first.state).log_probs
    (tensor([[0., 0., -inf, 0.]]), tensor([[-inf, -inf, 0., -inf]]))
    """
    step, state = pair
    most = most.to(leaf(state).device)
    least = torch.as_tensor(least, device=most.device).expand_as(most)

    def ruled(tokens: Tensor, both: State) -> Step:
        inner, written, floor, limit = both
        out = step(tokens, inner)
        late = written >= limit
        banned = late[:, None].repeat(1, out.log_probs.size(1))
        banned[:, EOS] = (written < floor) & ~late
        after = (out.state, written + 1, floor, limit)
        return Step(forbid(out.log_probs, banned), after, out.weights)

    return ruled, (state, torch.zeros_like(most), least, most)


def prefix(pair: Pair, begun: Tensor) -> Pair:
    """Paths begin with the given symbols (B, P), padded with PAD, at the model's own price.

    >>> pair = lambda _, s: Step(torch.zeros(1, 5), s, None), torch.zeros(1)
    >>> step, state = prefix(pair, torch.tensor([[4]]))
    >>> step(torch.tensor([1]), state).log_probs
    tensor([[-inf, -inf, -inf, -inf, 0.]])
    """
    step, state = pair
    begun = torch.cat([begun, begun.new_full((len(begun), 1), PAD)], 1).to(leaf(state).device)

    def ruled(tokens: Tensor, both: State) -> Step:
        inner, place, wanted = both
        out = step(tokens, inner)
        due = wanted.gather(1, place[:, None])
        other = torch.ones_like(out.log_probs, dtype=torch.bool).scatter(1, due, False)
        log_probs = forbid(out.log_probs, other & (due != PAD))
        place = (place + 1).clamp(max=wanted.size(1) - 1)
        return Step(log_probs, (out.state, place, wanted), out.weights)

    return ruled, (state, torch.zeros(len(begun), dtype=torch.long, device=begun.device), begun)


def never_phrases(pair: Pair, items: Sequence[Sequence[Sequence[int]]]) -> Pair:
    """Sequences of symbols that are not written; a sequence of one is a banned symbol. There is one
    list of them for each item, or one for all.

    >>> pair = lambda _, s: Step(torch.zeros(1, 6), s, None), torch.zeros(1)
    >>> step, state = never_phrases(pair, [[[4, 5]]])
    >>> step(torch.tensor([4]), state).log_probs
    tensor([[0., 0., 0., 0., 0., -inf]])
    """
    banned = [[list(phrase) for phrase in phrases if len(phrase)] for phrases in items]
    if not any(banned):
        return pair
    begun, last = (table.to(leaf(pair[1]).device) for table in _banned(banned))
    before = begun.size(-1)

    def change(log_probs: Tensor, history: Tensor) -> Tensor:
        tail = torch.nn.functional.pad(history, (before - history.size(1), 0), value=PAD)
        rows = tail.view(len(begun), len(tail) // len(begun), 1, before)  # (B, K, 1, L - 1)
        due = ((rows == begun[:, None]) | (begun[:, None] == ANY)).all(-1)  # (B, K, P)
        due = (due & (last >= 0)[:, None]).flatten(0, 1)
        ends = last[:, None].clamp(min=0).expand(-1, rows.size(1), -1).flatten(0, 1)
        return forbid(log_probs, _marked(log_probs, ends, due))

    return _remembering(pair, change)


def _banned(items: list[list[list[int]]]) -> tuple[Tensor, Tensor]:
    """All but the last symbols of phrases (B, P, L - 1), and these (B, P); -1 where there is none.
    Shorter phrases have any symbols in front, so that all end at the same place.
    """
    width, longest = max(map(len, items)), max(len(phrase) for item in items for phrase in item)
    begun = torch.full((len(items), width, longest - 1), ANY)
    last = torch.full((len(items), width), -1)
    for b, item in enumerate(items):
        for p, phrase in enumerate(item):
            begun[b, p, longest - len(phrase) :] = torch.tensor(phrase[:-1], dtype=torch.long)
            last[b, p] = phrase[-1]
    return begun, last


def no_repeat_ngrams(pair: Pair, n: int) -> Pair:
    """No sequence of `n` symbols is written twice (Paulus et al. 2018, section 2.5).

    >>> pair = lambda _, s: Step(torch.zeros(1, 6), s, None), torch.zeros(1)
    >>> step, state = no_repeat_ngrams(pair, 1)
    >>> step(torch.tensor([4]), state).log_probs
    tensor([[0., 0., 0., 0., -inf, 0.]])
    """

    def change(log_probs: Tensor, history: Tensor) -> Tensor:
        if history.size(1) < n:
            return log_probs
        grams = history.unfold(1, n, 1)  # (N, T - n + 1, n)
        tail = history[:, None, history.size(1) - n + 1 :]
        again = (grams[..., :-1] == tail).all(-1)
        return forbid(log_probs, _marked(log_probs, grams[..., -1], again))

    return _remembering(pair, change)


def repetition_penalty(pair: Pair, penalty: float) -> Pair:
    """What was written before becomes less likely (Keskar et al. 2019, section 4.1).

    The paper divides scores by the penalty θ, which helps a symbol whose score is below 0. Here the
    scores are log-probabilities, never above 0: those of symbols already written are multiplied by
    θ, p^θ, and all are normalised again. The price of a path is then that of the changed model.

    >>> pair = lambda _, s: Step(torch.tensor([[0.5, 0.5]]).log(), s, None), torch.zeros(1)
    >>> step, state = repetition_penalty(pair, 2.0)
    >>> step(torch.tensor([1]), state).log_probs.exp()
    tensor([[0.6667, 0.3333]])
    """

    def change(log_probs: Tensor, history: Tensor) -> Tensor:
        seen = _marked(log_probs, history, torch.ones_like(history))
        return torch.where(seen, log_probs * penalty, log_probs).log_softmax(-1)

    return pair if penalty == 1 else _remembering(pair, change)


def _remembering(pair: Pair, change: Callable[[Tensor, Tensor], Tensor]) -> Pair:
    """A rule that edits log-probabilities (N, V) by all that was read so far (N, T)."""
    step, state = pair

    def ruled(tokens: Tensor, both: State) -> Step:
        inner, history = both
        out = step(tokens, inner)
        history = torch.cat([history, tokens[:, None]], 1)
        return Step(change(out.log_probs, history), (out.state, history), out.weights)

    like = leaf(state)
    return ruled, (state, torch.empty(len(like), 0, dtype=torch.long, device=like.device))


def _marked(log_probs: Tensor, ids: Tensor, where: Tensor) -> Tensor:
    """True (N, V) at those of the symbols `ids` (N, M) for which `where` (N, M) holds."""
    return torch.zeros_like(log_probs).scatter_add(1, ids, where.to(log_probs.dtype)) > 0
