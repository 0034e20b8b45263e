"""Recurrences in a form that leaves torch: operators without a body, for exported graphs alone.

A loop over steps cannot leave torch when the number of steps is not known. So while a model is
exported, a layer over a sequence and word-by-word attention become single operators;
`dragoman.ship.translate` says how other runtimes call them.
"""

from typing import Any

import torch
from torch import Tensor

from dragoman.core import State

torch.library.define(
    "dragoman::recurrence",
    "(Tensor xs, Tensor lengths, Tensor h, Tensor c, Tensor inward, Tensor across, "
    "Tensor inward_bias, Tensor across_bias, str kind, bool reverse) -> (Tensor, Tensor, Tensor)",
)
torch.library.define(
    "dragoman::look",
    "(Tensor queries, Tensor steps, Tensor keys, Tensor memory, Tensor mask, "
    "Tensor past, Tensor score, Tensor carry) -> Tensor",
)


@torch.library.register_fake("dragoman::recurrence")  # type: ignore[untyped-decorator]
def _recurrence(xs: Tensor, lengths: Tensor, h: Tensor, c: Tensor, *rest: Any) -> Any:
    hs = xs.new_empty(xs.shape[0], xs.shape[1], h.shape[1])
    return hs, torch.empty_like(h), torch.empty_like(c)


@torch.library.register_fake("dragoman::look")  # type: ignore[untyped-decorator]
def _look(queries: Tensor, *rest: Any) -> Tensor:
    return queries.new_empty(queries.shape[0], queries.shape[2])


def run(cell: Any, xs: Tensor, state: State, mask: Tensor, reverse: bool) -> tuple[Tensor, State]:
    """One layer over rows of unequal length, as `sequence.run` gives it."""
    weights = (cell.inward.weight, cell.across.weight, cell.inward.bias, cell.across.bias)
    memory = state[-1]  # a cell without a memory passes something on that nobody reads
    kind = type(cell).__name__
    found = torch.ops.dragoman.recurrence(
        xs, mask.sum(1), state[0], memory, *weights, kind, reverse
    )
    return found[0], tuple(found[1 : 1 + len(state)])


def look(*given: Tensor) -> Tensor:
    """What a premise holds for a hypothesis, word after word, as `encoders.match` finds it."""
    return torch.ops.dragoman.look(*given)  # type: ignore[no-any-return]
