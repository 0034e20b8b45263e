"""One recurrent layer over whole rows on a CPU, with its gradient written out by hand.

Longer rows come first, so that the rows that are still read at a step are the first so many:
padding costs nothing. What needs no past is one product before the loop, what a gradient sums over
the steps one after it; inside remain a product with weights laid out for it, and the cell.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.core import State
from dragoman.kernels.native_cell import GRU, LSTM
from dragoman.kernels.plain import Past
from dragoman.kernels.products import laid, outer, total

CELLS: dict[str, GRU | LSTM] = {"gru": GRU(), "lstm": LSTM()}


class Plan(NamedTuple):
    """What kind of layer it is."""

    cell: str  # a key of CELLS
    low: bool  # products in bfloat16
    active: list[int]  # how many rows are read at each step: never more than at the last


def run(
    cell: str,
    gates: Tensor,  # (T, B, G) the input's share
    weight: Tensor,  # (G, H)
    bias: Tensor,
    state: State,
    lengths: Tensor,  # (B,) longest first
    low: bool,
) -> tuple[Tensor, State]:
    """Outputs (T, B, H), zero where padded, and the state after each row's last step."""
    steps = torch.arange(len(gates))
    plan = Plan(cell, low, (lengths[:, None] > steps).sum(0).tolist())
    memory = state[1] if cell == "lstm" else None
    hs, cs = _Walk.apply(plan, gates, weight, bias, state[0], memory)  # type: ignore[no-untyped-call]
    courses = [hs, cs] if cell == "lstm" else [hs]
    ends = (_ends(all_, begun, lengths) for all_, begun in zip(courses, state, strict=True))
    return hs, tuple(ends)


def _ends(course: Tensor, begun: Tensor, lengths: Tensor) -> Tensor:
    """Where each row was after its last step; where it has none, where it began."""
    if not len(course):
        return begun
    found = course[(lengths - 1).clamp(min=0), torch.arange(len(lengths))]
    return found if int(lengths[-1]) else torch.where(lengths[:, None] > 0, found, begun)


class _Walk(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        plan: Plan,
        gates: Tensor,
        weight: Tensor,
        bias: Tensor,
        h: Tensor,
        c: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        (steps, rows, _), cell = gates.shape, CELLS[plan.cell]
        size = h.size(1)
        hs = gates.new_zeros(steps, rows, size)
        cs = gates.new_zeros(steps, rows, 0 if c is None else size)
        said, acts = torch.empty_like(gates), gates.new_empty(steps, rows, cell.acts * size)
        begun = h, h[:, :0] if c is None else c
        say = laid(weight, bias, plan.low)
        for t, count in enumerate(plan.active):
            if not count:
                break
            at = _past(t, count, begun, (hs, cs), said, acts)
            at.gates.copy_(say(at.h))
            cell.step(gates[t, :count], at)
        ctx.plan, ctx.memory = plan, c is not None
        ctx.save_for_backward(weight, *begun, hs, cs, said, acts)
        return hs, cs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dhs: Tensor, dcs: Tensor) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        weight, h, c, hs, cs, said, acts = ctx.saved_tensors
        cell, unsay = CELLS[plan.cell], laid(weight.t(), None, plan.low)
        dx, dsaid = torch.zeros_like(said), torch.zeros_like(said)
        dh, dc, dhs = torch.zeros_like(h), torch.zeros_like(c), dhs.contiguous()
        for t, count in reversed(list(enumerate(plan.active))):
            if not count:
                continue
            at = _past(t, count, (h, c), (hs, cs), said, acts)
            if ctx.memory:
                dc[:count] += dcs[t, :count]
            into = dx[t, :count], dsaid[t, :count]
            direct, dc[:count] = cell.back(dh[:count], dhs[t, :count], dc[:count], at, *into)
            torch.add(direct, unsay(into[1]), out=dh[:count])
        kind = torch.bfloat16 if plan.low else dsaid.dtype
        before, flat = torch.cat([h.unsqueeze(0), hs[:-1]]), dsaid.flatten(0, 1)
        dw = outer(flat.to(kind), before.flatten(0, 1).to(kind)).to(weight.dtype)
        return None, dx, dw, total(flat), dh, dc if ctx.memory else None


def _past(
    t: int,
    count: int,
    begun: tuple[Tensor, Tensor],
    course: tuple[Tensor, Tensor],
    said: Tensor,
    acts: Tensor,
) -> Past:
    """What the cell has before it at step t, of the rows still read."""
    h, c = (
        one[t - 1, :count] if t else first[:count] for one, first in zip(course, begun, strict=True)
    )
    new_h, new_c = (one[t, :count] for one in course)
    return Past(h, c, said[t, :count], acts[t, :count], new_h, new_c)
