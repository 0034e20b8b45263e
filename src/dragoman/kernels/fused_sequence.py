"""A recurrent layer over whole sequences of unequal length, both directions in one: one product and
one Triton kernel per step, each way. It needs no packing and no length on the host, so it can live
inside a CUDA graph.
"""

from typing import Any

import torch
from torch import Tensor

from dragoman.kernels.contract import full
from dragoman.kernels.fused_cells import GRU, LSTM
from dragoman.kernels.plain import Past


def run(
    gates: Tensor,  # (T, D * B, G) the input's share; D directions, each in its own order
    weight: Tensor,  # (D, G, H)
    bias: Tensor,  # (D, G)
    state: tuple[Tensor, ...],  # each (D * B, H)
    lengths: Tensor,  # (D * B,)
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Outputs (T, D * B, H), which stay as they were past a row's end, and the last states."""
    c = state[1] if len(state) > 1 else None
    kind, ends = gates.dtype, lengths.to(torch.int32)
    weights = weight.to(kind).contiguous(), bias.to(kind).contiguous()
    h, *final = _Layer.apply(gates.contiguous(), *weights, state[0].to(kind), c, ends)  # type: ignore[no-untyped-call]
    return h, tuple(final)


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
