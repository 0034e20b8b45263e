"""Searches on a GPU: recorded once for each shape of source, replayed for all others of it.

Shapes are fixed while a graph lives, so sources are rounded up. Graphs are kept by the model's
quick form, one for each shape, and leave with it when weights change.
"""

import warnings

import torch
from torch import Tensor

from dragoman.core import Hypotheses, Padded, Source, leaf, leaves, tree_map
from dragoman.search.course_beams import Rank
from dragoman.search.courses import Limits
from dragoman.search.recorded import STEPS, Plan, Rails, Recorded, laid

KEPT = 32  # graphs, and shapes that were seen
ROUND = 8  # sources are as long as a multiple of this
MANY = 2048  # paths; with less, steps that are shorter do not pay for moving to another graph
FEWEST = 64  # items; fewer do not make a step shorter
Shapes = list[tuple[tuple[int, ...], torch.dtype]]


def beam(
    rails: Rails, source: Source, limits: Limits, *, width: int, rank: Rank, n_best: int = 1
) -> Hypotheses | None:
    """As `search.beam`, or `greedy` for a width of 1, where there is a graph for such sources. One
    is recorded when a shape comes for the second time. `limits` and what is found lie in the host's
    memory.
    """
    return _run(rails, source, limits, Plan(width, n_best, rank), None)


def sample(
    rails: Rails, source: Source, limits: Limits, noise: Tensor, **options: float
) -> Hypotheses | None:
    """As `search.sample`."""
    plan = Plan(noise.size(1), draw=tuple(sorted(options.items())))
    return _run(rails, source, limits, plan, noise)


@torch.inference_mode()
def _run(
    rails: Rails, source: Source, limits: Limits, plan: Plan, noise: Tensor | None
) -> Hypotheses | None:
    shapes: Shapes = [(_rounded(source, t), t.dtype) for t in leaves(source)]
    steps = max(32, 1 << (-(-limits.steps // STEPS) * STEPS - 1).bit_length())
    found = _find(rails, source, shapes, plan, steps)
    if found is None:
        return None
    return found.run(source, limits, noise, lambda s, going: _fewer(rails, s, going, plan, steps))


def _find(rails: Rails, source: Source, shapes: Shapes, plan: Plan, steps: int) -> Recorded | None:
    """The search for sources of such shapes, recorded when they come for the second time."""
    key, graphs = (tuple(shapes), plan, steps), rails.graphs
    if key not in graphs:
        graphs[key] = None
    elif graphs[key] is None:
        rooms = iter([torch.zeros(shape, dtype=kind) for shape, kind in shapes])
        graphs[key] = _try(rails, tree_map(lambda t: laid(next(rooms), t), source), plan, steps)
    graphs.move_to_end(key)
    while len(graphs) > KEPT:
        graphs.popitem(last=False)
    found = graphs[key]
    return found if isinstance(found, Recorded) else None


def _fewer(rails: Rails, source: Source, going: int, plan: Plan, steps: int) -> Recorded | None:
    """Where a search goes on when only so many of its items are not done."""
    items = len(leaf(source))
    room = fitting(going, items)
    if items * plan.width < MANY or room == items:
        return None
    if any(len(part) != items for part in leaves(source)):
        return None
    some = tree_map(lambda t: t[:room], source)
    return _find(rails, some, [(tuple(t.shape), t.dtype) for t in leaves(some)], plan, steps)


def fitting(going: int, items: int) -> int:
    """Half as many items, or half of that, and so on, as long as it is worth it.

    >>> fitting(300, 1024), fitting(20, 1024), fitting(130, 256)
    (512, 64, 256)
    """
    room = items
    while FEWEST <= (half := -(-room // (2 * ROUND)) * ROUND) < room and going <= half:
        room = half
    return room


def _rounded(source: Source, part: Tensor) -> tuple[int, ...]:
    """The shape of a graph's buffer for a part of a source. Only a single column of symbols is
    rounded up: others know their length by more than their mask.

    >>> ids = torch.zeros(3, 11, dtype=torch.long)
    >>> _rounded(Padded(ids, ids == 0), ids)
    (4, 16)
    """
    shape = tuple(part.shape)
    if not isinstance(source, Padded) or source.values.is_floating_point():
        return shape
    rows = 1 << (shape[0] - 1).bit_length() if shape[0] <= ROUND else -(-shape[0] // ROUND) * ROUND
    return rows, -(-shape[1] // ROUND) * ROUND, *shape[2:]


def _try(rails: Rails, source: Source, plan: Plan, steps: int) -> Recorded | str:
    try:
        return Recorded(rails, source, plan, steps)
    except RuntimeError as error:
        warnings.warn(f"no CUDA graph for this search: {error}", stacklevel=2)
        return str(error)
