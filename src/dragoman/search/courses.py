"""Strategies that ask no more of a step than they need.

They walk a `Course`, which gives scores that are not normalised, for those rows that are asked for:
paths that have ended are not scored, items whose paths have all ended are left behind, and of an
alphabet only the best few symbols are looked at. What they find is what `greedy`, `sample` and
`beam` find under the rules `never` (PAD and BOS) and `within`, which are always on.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from dragoman.core import BOS, EOS, PAD, Hypotheses, State, group, leaf, repeat, select
from dragoman.kernels import native
from dragoman.kernels.best import best, total
from dragoman.kernels.choice import has_native
from dragoman.kernels.lanes import Still
from dragoman.search.rules import NEVER
from dragoman.search.stops import times
from dragoman.search.strategies import by_chance, start

WORTH = 8  # items are left behind when they are one in so many
# scores (n, V), their limits, after how many symbols, which of all rows -> log-probabilities and
# symbols (n, k)
Take = Callable[[Tensor, "Limits", "int | Tensor", slice], tuple[Tensor, Tensor]]
# features (n, F), a rule for each row (see `Limits.rule`), how many -> as above
Best = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


class Course(Protocol):
    """What a model gives to these strategies (`dragoman.quick`)."""

    rows: int  # that are best scored at a time
    best: Best | None  # where the best symbols can be had without all scores
    still: Still | None  # what scores, where steps are calls of routines that may be made again

    def move(self, tokens: Tensor, state: Any, /) -> tuple[Tensor, State, Tensor | None]: ...
    def scores(self, features: Tensor, /) -> Tensor: ...
    def keep(self, items: Tensor, /) -> Self: ...
    def took(self, rows: int, times: int, /) -> None: ...


class Limits(NamedTuple):
    """How many symbols an answer must and may have before its end, item by item (B,)."""

    least: Tensor
    most: Tensor

    @property
    def steps(self) -> int:
        """Enough for the longest answer and its end."""
        return int(self.most.max()) + 1

    def of(self, items: Tensor) -> "Limits":
        """Those of the given items."""
        return Limits(self.least[items], self.most[items])

    def apply(self, scores: Tensor, time: int | Tensor) -> Tensor:
        """Rule out, in place, what may not come after `time` symbols in rows (N, V): signs that are
        never written, an end that comes too early, and in the end all but the end.
        """
        scores[:, PAD] = scores[:, BOS] = NEVER
        late, early = time >= self.most, time < self.least
        blind = (
            scores.is_cuda
        )  # to look whether there is something to do takes longer than to do it
        if blind or bool(late.any()):
            end = scores[:, EOS].clone()
            scores.masked_fill_(late[:, None], NEVER)
            scores[:, EOS] = end
        if blind or bool(early.any()):
            scores[:, EOS].masked_fill_(early & ~late, NEVER)
        return scores

    def rule(self, time: int | Tensor) -> Tensor:
        """The same as `native.pick` wants it: 1 where an end comes too early, 2 where it must."""
        late, early = time >= self.most, time < self.least
        return early.to(torch.uint8).masked_fill_(late, 2)


def look(
    course: Course, features: Tensor, limits: Limits, time: int | Tensor, take: Take
) -> tuple[Tensor, Tensor]:
    """What is taken of each row of features (N, F): log-probabilities and symbols."""
    if isinstance(take, Few) and course.best is not None:
        return course.best(features, limits.rule(time), take.count)
    found = []
    for first in range(0, len(features), course.rows):
        part = slice(first, first + course.rows)
        mine = Limits(*(limit[part] for limit in limits))
        found.append(take(course.scores(features[part]), mine, time, part))
    values, symbols = zip(*found, strict=True)
    return (values[0], symbols[0]) if len(found) == 1 else (torch.cat(values), torch.cat(symbols))


class Few:
    """The best so many symbols of each row."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(
        self, scores: Tensor, limits: Limits, time: int | Tensor, part: slice
    ) -> tuple[Tensor, Tensor]:
        if has_native(scores.device, scores.dtype):
            return native.pick(scores, limits.rule(time), self.count)
        whole = total(scores)
        values, symbols = best(limits.apply(scores, time), self.count)
        return values - whole, symbols


def greedy(course: Course, state: State, limits: Limits) -> Hypotheses:
    """As `search.greedy`."""
    return _walk(course, state, limits, 1, lambda rows, time: Few(1))


def sample(
    course: Course,
    state: State,
    limits: Limits,
    noise: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Hypotheses:
    """As `search.sample`."""
    count = noise.size(1)
    chance = noise.to(leaf(state).device).flatten(0, 1)

    def drawing(rows: Tensor, time: int) -> Take:
        noises = chance[rows, time]

        def take(
            scores: Tensor, limits: Limits, time: int | Tensor, part: slice
        ) -> tuple[Tensor, Tensor]:
            whole = total(scores)
            pick = by_chance([noises[part]], temperature=temperature, top_k=top_k, top_p=top_p)
            log_probs = limits.apply(scores, time) - whole
            tokens = pick(log_probs)[:, None]
            return log_probs.gather(1, tokens), tokens

        return take

    return _walk(course, repeat(state, count), limits, count, drawing)


def _walk(
    course: Course,
    state: State,
    limits: Limits,
    count: int,
    taking: Callable[[Tensor, int], Take],  # for the given rows at a time
) -> Hypotheses:
    """`count` paths per item that know nothing of each other."""
    tokens, log = start(state), _Log(count)
    rows = torch.arange(len(tokens), device=tokens.device)  # those still looked after
    done = torch.zeros_like(tokens, dtype=torch.bool)
    limits = Limits(*(repeat(limit, count) for limit in limits))
    for time in times(limits.steps):
        features, state, weights = course.move(tokens, state)
        going = (~done).nonzero()[:, 0]
        mine = rows[going]
        found = look(course, features[going], limits.of(mine), time, taking(mine, time))
        gains, chosen = (part[:, 0] for part in found)
        tokens = torch.full_like(tokens, PAD).index_copy(0, going, chosen)
        log.append((mine, chosen, gains, None if weights is None else weights[going]))
        done = done | (tokens == EOS)
        over = done.view(-1, count).all(1)
        if bool(over.all()):
            break
        if int(over.sum()) * WORTH >= len(over):
            kept = (~over).nonzero()[:, 0]
            some = torch.arange(len(rows), device=rows.device).view(-1, count)[kept].flatten()
            course, state = course.keep(kept), select(state, some)
            tokens, rows, done = tokens[some], rows[some], done[some]
    return log.read()


class _Log(list[tuple[Tensor, Tensor, Tensor, Tensor | None]]):
    """Of each step: which rows went on, with which symbols, at which price, and what they saw."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.paths = count  # of each item

    def read(self) -> Hypotheses:
        every, _, gains, looks = self[0]  # at the first step nothing has ended
        tokens = every.new_full((len(every), len(self)), PAD)
        log_probs = gains.new_zeros(tokens.shape)
        weights = None if looks is None else looks.new_zeros(*tokens.shape, looks.size(1))
        for time, (rows, chosen, gains, looks) in enumerate(self):
            tokens[rows, time], log_probs[rows, time] = chosen, gains
            if weights is not None and looks is not None:
                weights[rows, time] = looks
        items = len(every) // self.paths
        return Hypotheses(
            group(tokens, items),
            group(log_probs.sum(1), items),
            group(log_probs, items),
            None if weights is None else group(weights, items),
        )
