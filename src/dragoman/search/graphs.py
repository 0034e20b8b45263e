"""Beam search on a GPU: several steps recorded once as a graph and replayed without the host.

Shapes are fixed while a graph lives, so that finished paths go on waiting; whether all are done is
asked once a graph, not once a step. Graphs are kept by the model's quick form, one for each shape,
and leave with it when weights change.
"""

import gc
import warnings
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor

from dragoman.core import BOS, PAD, Hypotheses, State, leaf, leaves, repeat, select, tree_map
from dragoman.search import course_beams, courses
from dragoman.search.course_beams import Paths, Rank, choose, extend
from dragoman.search.courses import Course, Limits
from dragoman.search.rules import NEVER

STEPS = 8  # in a graph
KEPT = 32  # graphs, and shapes that were seen


class Fixed(Course, Protocol):
    """A course whose memory can be replaced, so that a graph can be used again."""

    held: Any  # a tuple of tensors, one row per item
    graphs: OrderedDict[Hashable, Any]  # by shape

    def over(self, held: Any) -> Self: ...


class Log(NamedTuple):
    """What a graph writes down, step by step."""

    parents: Tensor  # (STEPS, B, K)
    tokens: Tensor  # (STEPS, B, K)
    gains: Tensor  # (STEPS, B, K)
    weights: Tensor | None  # (STEPS, B * K, S)


class Recorded:
    """Some steps of a beam search over buffers that stay where they are."""

    def __init__(self, course: Fixed, state: State, limits: Limits, width: int, rank: Rank) -> None:
        self.width, self.rank = width, rank
        self.held = tree_map(Tensor.clone, course.held)
        self.course = course.over(self.held)
        self.state = tree_map(Tensor.clone, repeat(state, width))
        self.limits = Limits(*(limit.clone() for limit in limits))
        self.paths = _begin(len(limits.most), width, leaf(state))
        self.time = torch.zeros((), dtype=torch.long, device=limits.most.device)
        self.log = self._record()

    def _record(self) -> Log:
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # what is made at first use must not be made in the graph
            for _ in range(2):
                self._steps(1)
        torch.cuda.current_stream().wait_stream(side)
        gc.collect()
        gc.disable()  # an old graph that is freed while a new one is recorded spoils it
        try:
            with torch.cuda.graph(self.graph):
                return self._steps(STEPS)
        finally:
            gc.enable()

    def _steps(self, count: int) -> Log:
        state, paths, turns = self.state, self.paths, []
        items = torch.arange(len(paths.done), device=self.time.device)[:, None] * self.width
        for _ in range(count):
            features, after, weights = self.course.move(paths.tokens.flatten(), state)
            found = extend(self.course, features, paths, self.limits, self.time, self.width)
            parent, gain, paths = choose(paths, *found, self.width, self.rank)
            turns.append((parent, paths.tokens, gain, weights))
            state = select(after, (items + parent).flatten())
            self.time += 1
        _fill(self.state, state)
        _fill(self.paths, paths)
        parents, tokens, gains, looks = zip(*turns, strict=True)
        seen = None if looks[0] is None else torch.stack(looks)
        return Log(torch.stack(parents), torch.stack(tokens), torch.stack(gains), seen)

    @torch.inference_mode()
    def run(self, course: Fixed, state: State, limits: Limits, n_best: int) -> Hypotheses:
        """A search with the graph, over other sources of the same shape."""
        _fill(self.held, course.held)
        _fill(self.state, repeat(state, self.width))
        _fill(self.limits, limits)
        _fill(self.paths, _begin(len(limits.most), self.width, leaf(state)))
        self.time.zero_()
        logs = []
        for _ in range(-(-limits.steps // STEPS)):
            self.graph.replay()
            logs.append([None if part is None else part.clone() for part in self.log])
            if bool(self.paths.done.all()):
                break
        joined = (
            None if part[0] is None else torch.cat(part).cpu() for part in zip(*logs, strict=True)
        )
        ranks = self.rank(self.paths.scores, self.paths.lengths)
        order = ranks.sort(dim=1, descending=True, stable=True).indices[:, :n_best]
        scores = self.paths.scores.gather(1, order).cpu()
        return _trace(Log(*joined), order.cpu(), scores)  # type: ignore[arg-type]


def beam(
    course: Fixed, state: State, limits: Limits, *, width: int, rank: Rank, n_best: int = 1
) -> Hypotheses:
    """As `search.beam`. On a GPU a graph is recorded when a shape comes for the second time, and
    what it finds lies in the host's memory.
    """
    recorded = _recorded(course, state, limits, width, rank) if leaf(state).is_cuda else None
    if recorded is None:
        return course_beams.beam(course, state, limits, width=width, rank=rank, n_best=n_best)
    return recorded.run(course, state, limits, n_best)


def greedy(course: Fixed, state: State, limits: Limits) -> Hypotheses:
    """As `search.greedy`; on a GPU, a beam of one."""
    if leaf(state).is_cuda:
        return beam(course, state, limits, width=1, rank=Rank())
    return courses.greedy(course, state, limits)


def _recorded(
    course: Fixed, state: State, limits: Limits, width: int, rank: Rank
) -> Recorded | None:
    """The graph for these shapes, if they have come before and it can be recorded."""
    key = (tuple(tuple(part.shape) for part in leaves(course.held)), width, rank)
    graphs = course.graphs
    if key not in graphs:
        graphs[key] = None
    elif graphs[key] is None:
        graphs[key] = _try(course, state, limits, width, rank)
    graphs.move_to_end(key)
    while len(graphs) > KEPT:
        graphs.popitem(last=False)
    found = graphs[key]
    return found if isinstance(found, Recorded) else None


def _try(course: Fixed, state: State, limits: Limits, width: int, rank: Rank) -> Recorded | str:
    try:
        with torch.inference_mode():
            return Recorded(course, state, limits, width, rank)
    except RuntimeError as error:
        warnings.warn(f"no CUDA graph for this search: {error}", stacklevel=2)
        return str(error)


def _begin(items: int, width: int, like: Tensor) -> Paths:
    """All paths of an item are equal at first: let only the first live."""
    scores = torch.full((items, width), NEVER, device=like.device, dtype=like.dtype)
    scores[:, 0] = 0
    tokens = torch.full_like(scores, BOS, dtype=torch.long)
    return Paths(
        tokens, scores, torch.zeros_like(scores), scores > 0, torch.zeros_like(tokens[:, :1])
    )


def _trace(log: Log, slots: Tensor, scores: Tensor) -> Hypotheses:
    """The given places of the beam (B, K) followed to the start, all items and steps at once."""
    after, before = [], []
    for parents in log.parents.flip(0).unbind(0):
        after.append(slots)
        slots = parents.gather(1, slots)
        before.append(slots)
    last, first = torch.stack(after[::-1]), torch.stack(before[::-1])  # (T, B, K)
    path = log.tokens.gather(2, last).permute(1, 2, 0)
    gains = log.gains.gather(2, last).permute(1, 2, 0).masked_fill(path == PAD, 0)
    looks = None
    if log.weights is not None:
        steps, items, _ = log.parents.shape
        seen = log.weights.view(steps, items, -1, log.weights.size(2))
        index = first.unsqueeze(-1).expand(-1, -1, -1, seen.size(3))
        looks = seen.gather(2, index).permute(1, 2, 0, 3)
    return Hypotheses(path.contiguous(), scores, gains.contiguous(), looks)


def _fill(buffers: State, values: State) -> None:
    for buffer, value in zip(leaves(buffers), leaves(values), strict=True):
        buffer.copy_(value)
