# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""A recurrent layer over whole sequences of unequal length, both directions in one: one product and
one Triton kernel per step, each way. It needs no packing and no length on the host, so it can live
inside a CUDA graph.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.kernels.contract import full
from dragoman.kernels.fused_cells import GRU, LSTM
from dragoman.kernels.plain import Past
from dragoman.kernels.widths import spread, wide


def run(
    gates: Tensor,  # (T, D * B, G) the input's share; D directions, each in its own order
    weight: Tensor,  # (D, G, H)
    bias: Tensor,  # (D, G)
    state: tuple[Tensor, ...],  # each (D * B, H)
    lengths: Tensor,  # (D * B,)
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Outputs (T, D * B, H), which stay as they were past a row's end, and the last states."""
    size = state[0].size(1)
    wider = wide(size, gates)
    if wider != size:
        gates, bias, weight = (spread(one, size, wider) for one in (gates, bias, weight))
        weight = spread(weight, size, wider, dim=1)
        state = tuple(spread(one, size, wider) for one in state)
    c = state[1] if len(state) > 1 else None
    kind, ends = gates.dtype, lengths.to(torch.int32)
    weights = weight.to(kind).contiguous(), bias.to(kind).contiguous()
    h, *final = _Layer.apply(gates.contiguous(), *weights, state[0].to(kind), c, ends)
    return h[..., :size], tuple(one[:, :size] for one in final)


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, h: Tensor, c: Any, lengths: Tensor
    ) -> tuple[Tensor, ...]:
        steps, rows, wide = gates.shape
        ways, size = len(weight), h.size(1)
        cell = GRU(lengths, bias) if c is None else LSTM(lengths, bias)
        hs = gates.new_empty(steps + 1, rows, size)
        cs = gates.new_empty(steps + 1, rows, 0 if c is None else size, dtype=full(gates.dtype))
        hs[0] = h
        if c is not None:
            cs[0] = c
        said = gates.new_empty(steps, rows, wide)
        acts = gates.new_empty(steps, rows, cell.acts * size)
        back = weight.transpose(1, 2)
        for t in range(steps):
            past = hs[t].view(ways, -1, size)
            torch.bmm(past, back, out=said[t].view(ways, -1, wide))
            cell.step(gates[t], Past(hs[t], cs[t], said[t], acts[t], hs[t + 1], cs[t + 1]), t)
        ctx.save_for_backward(weight, bias, lengths, hs, cs, said, acts)
        ctx.set_materialize_grads(False)
        ends = (hs[-1],) if c is None else (hs[-1], cs[-1])
        return hs[1:], *(end.clone() for end in ends)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grads: Any, *ends: Any) -> tuple[Any, ...]:
        weight, bias, lengths, hs, cs, said, acts = ctx.saved_tensors
        (steps, _, wide), (ways, _, size) = said.shape, weight.shape
        remembers = cs.size(2) > 0
        cell = LSTM(lengths, bias) if remembers else GRU(lengths, bias)
        h = torch.zeros_like(hs[0]) if ends[0] is None else ends[0].clone()
        c = torch.zeros_like(cs[0])
        if remembers and ends[1] is not None:
            c = ends[1].to(c.dtype).contiguous()
        inputs, through, more = torch.empty_like(said), torch.empty_like(said), None
        outer = None if grads is None else grads.contiguous()
        for t in reversed(range(steps)):
            at = Past(hs[t], cs[t], said[t], acts[t], hs[t + 1], cs[t + 1])
            shown = None if outer is None else outer[t]
            h, c = cell.back(h, shown, c, at, inputs[t], through[t], t, more)
            more = torch.bmm(through[t].view(ways, -1, wide), weight).view_as(h)
        by_way = through.view(steps, ways, -1, wide).transpose(0, 1).flatten(1, 2)
        before = hs[:-1].view(steps, ways, -1, size).transpose(0, 1).flatten(1, 2)
        weight_grad = torch.bmm(by_way.transpose(1, 2), before)
        ones = by_way.new_ones(ways, 1, by_way.size(1))  # a product sums faster than a sum
        bias_grad, start = torch.bmm(ones, by_way)[:, 0], h if more is None else h + more
        return inputs, weight_grad, bias_grad, start, c if remembers else None, None


@triton.jit
def _turn(
    source, target, lengths, T, B,
    W: tl.constexpr, WAYS: tl.constexpr, BACK: tl.constexpr, INWARD: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    t, b, way = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    length = tl.load(lengths + b)
    other = tl.where((way == 1) | (BACK == 1), length - 1 - t, t)
    o = tl.arange(0, BW)
    some = tl.where(t < length, W, 0)
    if INWARD:
        here, there = (b * T + other) * WAYS + way, (t * WAYS + way) * B + b
    else:
        here, there = (other * WAYS + way) * B + b, (b * T + t) * WAYS + way
    found = tl.load(source + here.to(tl.int64) * W + o, mask=o < some, other=0.0)
    tl.store(target + there.to(tl.int64) * W + o, found, mask=o < W)


def turn(xs: Tensor, lengths: Tensor, ways: int, back: bool, inward: bool) -> Tensor:
    """Between rows as people see them (B, T, ways * W) and steps as a layer takes them
    (T, ways * B, W), where the second way, or a single one if it goes `back`, is in reverse order.
    Padding becomes zero.
    """
    return _Turn.apply(xs, lengths, ways, back, inward)  # type: ignore[no-any-return]


class _Turn(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, xs: Tensor, lengths: Tensor, ways: int, back: bool, inward: bool
    ) -> Tensor:
        ctx.save_for_backward(lengths)
        ctx.form = ways, back, inward
        return _turned(xs.contiguous(), lengths, ways, back, inward)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ways, back, inward = ctx.form
        (lengths,) = ctx.saved_tensors
        found = _turned(grad.contiguous(), lengths, ways, back, not inward)
        return found, None, None, None, None


def _turned(xs: Tensor, lengths: Tensor, ways: int, back: bool, inward: bool) -> Tensor:
    rows = len(lengths)
    steps = xs.size(1) if inward else len(xs)
    wide = xs.size(2) // ways if inward else xs.size(2)
    shape = (steps, ways * rows, wide) if inward else (rows, steps, ways * wide)
    out = xs.new_empty(shape)
    _turn[(steps, rows, ways)](
        xs, out, lengths, steps, rows,
        W=wide, WAYS=ways, BACK=int(back), INWARD=inward, BW=triton.next_power_of_2(wide),
    )  # fmt: skip
    return out
