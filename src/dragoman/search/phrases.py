"""Lexical constraints: phrases that must be written before a path may end.

Each spelling of a phrase is an automaton (Knuth, Morris and Pratt 1977) whose state is how many of
its symbols were just written. How many symbols are still needed is then known exactly enough to
promise the phrases within the limit: a symbol is ruled out when what would still be needed after it
no longer fits.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.core import EOS, PAD, Pair, State, Step, group, leaf
from dragoman.search.rules import forbid

Spellings = Sequence[Sequence[int]]  # of one phrase: any one of them will do
FAR = 1 << 20  # longer than any answer: a spelling that is not there cannot be finished


class Phrases:
    """What each item of a batch must contain. Tables live here, progress rides in the state.

    G phrases an item · A spellings a phrase · C symbols that occur in them

    >>> wanted = Phrases([[[[4, 5]], [[6]]], []])
    >>> wanted.total.tolist()
    [3, 0]
    """

    def __init__(self, items: Sequence[Sequence[Spellings]]) -> None:
        wanted = [[[list(s) for s in phrase if len(s)] for phrase in item] for item in items]
        wanted = [[phrase for phrase in item if phrase] for item in wanted]
        self.items = len(wanted)
        self.places = max([1, *map(len, wanted)]), max(map(len, chain(*wanted)), default=1)
        symbols = [sorted(set(chain(*chain(*item)))) for item in wanted]
        columns = max(map(len, symbols), default=0)
        padded = [s + [PAD] * (columns - len(s)) for s in symbols]
        self.symbols = torch.tensor(padded, dtype=torch.long)  # (B, C)
        self.lengths = torch.zeros(len(wanted), *self.places, dtype=torch.long)  # (B, G, A)
        longest = max(map(len, chain(*chain(*wanted))), default=0)
        # (B, C + 1, G, A, L + 1): where each symbol leads; the first column is any other symbol
        self.moves = torch.zeros(
            len(wanted), columns + 1, *self.places, longest + 1, dtype=torch.long
        )
        for b, item in enumerate(wanted):
            for g, phrase in enumerate(item):
                self.lengths[b, g] = FAR
                for a, spelling in enumerate(phrase):
                    self.lengths[b, g, a] = len(spelling)
                    self.moves[b, :, g, a] = _automaton(spelling, self.symbols[b].tolist(), longest)
        self.shortest = self.lengths.amin(-1)  # (B, G)
        self.total = self.shortest.sum(-1)  # (B,) symbols that all phrases of an item take

    def to(self, device: torch.device) -> "Phrases":
        """In place: the rule and the beam read the same tables."""
        for name in ("symbols", "lengths", "moves", "shortest", "total"):
            setattr(self, name, getattr(self, name).to(device))
        return self

    def after(self, progress: Tensor) -> Tensor:
        """Progress (B, K, C + 1, G, A) after each symbol, from progress (B, K, G, A)."""
        shape = (*progress.shape[:2], self.moves.size(1), *self.places, 1)
        moves = self.moves[:, None].expand(*shape[:-1], self.moves.size(-1))
        return moves.gather(-1, progress[:, :, None, ..., None].expand(shape))[..., 0]

    def read(self, tokens: Tensor, progress: Tensor) -> Tensor:
        """Progress (B, K, G, A) after the given symbols (B, K)."""
        same = self.symbols[:, None] == tokens[..., None]  # (B, K, C)
        column = torch.cat([~same.any(-1, keepdim=True), same], -1).long().argmax(-1)
        after = self.after(progress)
        return after.gather(2, column[..., None, None, None].expand_as(after[:, :, :1]))[:, :, 0]

    def need(self, progress: Tensor) -> Tensor:
        """How many symbols (B, ...) surely suffice to write the rest, from (B, ..., G, A): the
        phrases one after the other, the one that is nearest to its end first.
        """
        wide = (slice(None), *[None] * (progress.dim() - 3))
        left = (self.lengths[wide] - progress).amin(-1)
        due = torch.where(left > 0, self.shortest[wide], 0)
        return due.sum(-1) - torch.where(left > 0, due - left, 0).clamp(min=0).amax(-1)

    def spread(self, values: Tensor, alphabet: int) -> Tensor:
        """(B, K, C + 1) -> (N, V)."""
        wide = values[..., :1].repeat(1, 1, alphabet)
        places = self.symbols[:, None].expand(*values.shape[:2], -1)
        return wide.scatter(-1, places, values[..., 1:]).flatten(0, 1)

    def banks(self, state: State, alphabet: int) -> Tensor:
        """How far along (N, V) each next symbol brings a path: `Taste.banks` of a beam."""
        sought = _find(state)
        if sought is None:
            raise ValueError("these phrases are not required by any rule of the pair")
        after = self.after(group(sought.progress, self.items))
        return self.spread(self.total[:, None, None] - self.need(after), alphabet)


class _Sought(NamedTuple):
    """The state of `require`."""

    inner: State
    progress: Tensor  # (N, G, A)
    left: Tensor  # (N,) symbols that may still be written


def require(pair: Pair, wanted: Phrases, most: Tensor) -> Pair:
    """All phrases of item b are written, within `most[b]` symbols, before the end. Where they do
    not fit the limit they are written at once.

    The rule alone keeps the promise, with any strategy; a beam finds better paths when it is also
    given `Taste(banks=wanted.banks)` (Post and Vilar 2018).

    >>> from dragoman.search import greedy
    >>> likes = torch.tensor([[0, 0, 0.5, 0.3, 0.1, 0.1]]).log()
    >>> pair = require((lambda t, s: Step(likes, s, None), torch.zeros(1)), Phrases([[[[4, 5]]]]),
    ...     torch.tensor([3]))
    >>> greedy(*pair, 4).tokens
    tensor([[[3, 4, 5, 2]]])
    """
    step, state = pair
    wanted = wanted.to(leaf(state).device)
    progress = torch.zeros(wanted.items, *wanted.places, dtype=torch.long)

    def ruled(tokens: Tensor, sought: State) -> Step:
        out = step(tokens, sought.inner)
        known = wanted.read(group(tokens, wanted.items), group(sought.progress, wanted.items))
        need = wanted.need(known)  # (B, K)
        left = torch.maximum(group(sought.left, wanted.items), need)
        late = wanted.need(wanted.after(known)) >= left[..., None]  # (B, K, C + 1)
        banned = wanted.spread(late & (need > 0)[..., None], out.log_probs.size(1))
        banned[:, EOS] = need.flatten() > 0
        after = _Sought(out.state, known.flatten(0, 1), sought.left - 1)
        return Step(forbid(out.log_probs, banned), after, out.weights)

    limit = most.to(leaf(state).device)
    return ruled, _Sought(state, progress.to(limit.device), limit)


def _automaton(spelling: list[int], symbols: list[int], longest: int) -> Tensor:
    """(C + 1, L + 1): the length of the longest beginning of `spelling` that was just written, from
    what it was and a symbol. At its full length it stays.
    """
    moves = [[0] * (longest + 1) for _ in range(len(symbols) + 1)]
    restart = 0  # where the automaton would be had it read all but the first symbol
    for place, wanted in enumerate(spelling):
        for column in moves:
            column[place] = column[restart] if place else 0
        column = moves[1 + symbols.index(wanted)]
        onward, column[place] = column[place], place + 1
        restart = onward
    for column in moves:
        column[len(spelling)] = len(spelling)
    return torch.tensor(moves)


def _find(state: State) -> _Sought | None:
    """The state of `require` inside the states of rules around it."""
    if isinstance(state, _Sought):
        return state
    parts = () if isinstance(state, Tensor) else map(_find, state)
    return next((found for found in parts if found is not None), None)
