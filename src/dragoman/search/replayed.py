"""Beam search over a course whose steps are routines in C: the calls of a step are written down
when it is first taken, and made again for all further ones, with next to no Python between them.

What they find is what `course_beams.beam` finds.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.core import Hypotheses, State, leaf, leaves, select, tree_map
from dragoman.kernels.calls import Calls
from dragoman.kernels.lanes import Still
from dragoman.kernels.native import Call
from dragoman.kernels.turns import Turns
from dragoman.search import course_beams, courses
from dragoman.search.course_beams import Rank
from dragoman.search.courses import WORTH, Course, Limits
from dragoman.search.stops import times


def greedy(course: Course, state: State, limits: Limits) -> Hypotheses:
    """As `search.greedy`."""
    if course.still is None:
        return courses.greedy(course, state, limits)
    return _beam(course, course.still, state, limits, 1, Rank(), 1)


def beam(
    course: Course, state: State, limits: Limits, *, width: int, rank: Rank, n_best: int = 1
) -> Hypotheses:
    """As `search.beam`."""
    if course.still is None:
        return course_beams.beam(course, state, limits, width=width, rank=rank, n_best=n_best)
    return _beam(course, course.still, state, limits, width, rank, n_best)


def _beam(
    course: Course, output: Still, state: State, limits: Limits, width: int, rank: Rank, n_best: int
) -> Hypotheses:
    steps = limits.steps
    divisors = rank.divisors(torch.arange(steps + 1, dtype=torch.float32)).contiguous()
    turns = Turns(output, *limits, width, divisors)
    start = tree_map(lambda t: t.clone(memory_format=torch.contiguous_format), state)
    walk, looks = Walk(course, turns, start), list[Looks]()
    for time in times(steps):
        features, weights = walk.step()
        if weights is not None:
            if walk.steps == 1:
                looks.append(Looks(turns.alive, turns.count, time, []))
            looks[-1].weights.append(weights.clone())
        count = turns.count
        over = turns.take(features, time)[1]
        if over == turns.items or time + 1 == steps:
            break
        if over * WORTH >= turns.items or count != width:
            walk = walk.on(over)
    walk.end()
    found = turns.trace(time + 1, n_best)
    seen = _seen(looks, found.rows) if looks else None
    return Hypotheses(found.tokens, found.scores, found.gains, seen)


class Looks(NamedTuple):
    """What the paths of some items saw in steps that follow each other."""

    items: Tensor  # (b,)
    each: int  # paths of an item
    first: int  # step
    weights: list[Tensor]  # (b * count, S)


def _seen(every: list[Looks], rows: Tensor) -> Tensor:
    """Of the paths that were found, by their rows (T, B, n)."""
    steps, items, count = rows.shape
    size = every[0].weights[0].size(1)
    found = torch.zeros(items, count, steps, size)
    for looks in every:
        here = slice(looks.first, looks.first + len(looks.weights))
        shape = len(looks.weights), len(looks.items), looks.each, size
        each = torch.stack(looks.weights).view(shape)
        mine = rows[here][:, looks.items][..., None].expand(-1, -1, -1, size)
        found[looks.items, :, here] = each.gather(2, mine).permute(1, 2, 0, 3)
    return found


class Walk:
    """Steps of the same items over tensors that stay where they are."""

    def __init__(self, course: Course, turns: Turns, state: State) -> None:
        self.course, self.turns, self.steps = course, turns, 0
        self.before = state  # written over
        self.calls = Calls()
        self.made: tuple[Tensor, State, Tensor | None] | None = None

    def step(self) -> tuple[Tensor, Tensor | None]:
        """One symbol further: features and weights."""
        self.steps += 1
        if self.made is not None:
            self.calls.again()
        else:
            tokens = self.turns.tokens[: len(leaf(self.before))]
            with self.calls.written():
                self.made = self.course.move(tokens, self.before)
            self.calls.made[:0] = self._selections(self.made[1])
        return self.made[0], self.made[2]

    def _selections(self, state: State) -> list[Call]:
        """The state after a step becomes that before the next one, path by path."""
        rows, found = self.turns.rows, list[Call]()
        for after, before in zip(leaves(state), leaves(self.before), strict=True):
            if before.numel():
                assert after.data_ptr() != before.data_ptr()
                wide = after.flatten(1)
                sizes = len(before), wide.size(1)
                found.append(Call("gather", (wide, wide.stride(0), rows, before, *sizes), 1))
        return found

    def end(self) -> None:
        """No more steps are taken."""
        self.course.took(len(leaf(self.before)), self.steps - 1)

    def on(self, over: int) -> "Walk":
        """The same with as many paths as there are now, perhaps without items that are over."""
        turns, course = self.turns, self.course
        assert self.made is not None
        self.end()
        if over * WORTH >= turns.items:
            kept = (~turns.over()).nonzero()[:, 0]
            turns.keep(kept)
            course = course.keep(kept)
        rows = turns.rows[: turns.items * turns.width]
        return Walk(course, turns, select(self.made[1], rows))
