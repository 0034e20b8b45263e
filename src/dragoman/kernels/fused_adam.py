# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""From gradients to weights in three Triton kernels: the gradient's size, whether the step may be
taken, and clipping, Adam and the weights' copies in half precision in one pass over memory.

Weights, gradients and what Adam remembers stay where torch put them; kernels find them by a table
of addresses. In a CUDA graph those of the gradients are known only once it has been recorded: the
table is filled in after that.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
COLUMNS = 7  # a row of the table: weight, two averages, step, own gradient, copy, the copy's


# what a step is told and tells, all on the device:
Watch = tuple[
    Tensor,  # (4,) float64: rate, symbols, number of the step, weight of a moving average
    Tensor,  # () -log p of all symbols; begins anew
    Tensor,  # () of one symbol
    Tensor,  # (3,) float64: number, mean and norm of the first step that was not taken
    Tensor,  # () 1 from that step on
    Tensor,  # () float64: all losses so far
]


@triton.jit
def _gradient(row, o, ok):
    """The gradient of some numbers: the weight's own, and that of its copy in half precision."""
    own, low = tl.load(row + 4), tl.load(row + 6)
    found = tl.zeros(o.shape, tl.float32)
    if own != 0:
        found += tl.load(own.to(tl.pointer_type(tl.float32)) + o, mask=ok, other=0.0)
    if low != 0:
        half = tl.load(low.to(tl.pointer_type(tl.bfloat16)) + o, mask=ok, other=0.0)
        found += half.to(tl.float32)
    return found


@triton.jit
def _squares(table, places, sums, B: tl.constexpr, C: tl.constexpr):
    i = tl.program_id(0)
    place = places + 3 * i  # which weight, from where, how many numbers it has
    o = tl.load(place + 1) + tl.arange(0, B)
    g = _gradient(table + C * tl.load(place), o, o < tl.load(place + 2))
    tl.store(sums + i, tl.sum(g * g, 0))


@triton.jit
def _judge(
    table, sums, many, weights, knobs, total, mean, first, poison, heard, factor, clip, limit,
    B: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    o = tl.arange(0, B)
    squares = tl.zeros([B], tl.float32)
    for begin in range(0, many, B):
        squares += tl.load(sums + begin + o, mask=begin + o < many, other=0.0)
    norm = tl.sqrt(tl.sum(squares, 0))
    all_symbols = tl.load(total)
    one = all_symbols / tl.load(knobs + 1).to(tl.float32)
    good = (one < limit) & (norm < float("inf"))
    bad = tl.where(good, 0.0, 1.0)
    tl.store(mean, one)
    new = (bad > 0) & (tl.load(first) == 0)
    tl.store(first, tl.load(knobs + 2), mask=new)
    tl.store(first + 1, one.to(tl.float64), mask=new)
    tl.store(first + 2, norm.to(tl.float64), mask=new)
    stopped = tl.maximum(tl.load(poison), bad)
    tl.store(poison, stopped)
    tl.store(heard, tl.load(heard) + all_symbols.to(tl.float64))
    tl.store(total, 0.0)
    tl.store(factor, tl.minimum(clip / (norm + 1e-6), 1.0))
    w = tl.arange(0, W)
    row, mine = table + C * w, w < weights
    learns = tl.load(row + 4, mask=mine, other=0) | tl.load(row + 6, mask=mine, other=0)
    at = tl.load(row + 3, mask=mine, other=0).to(tl.pointer_type(tl.float32))
    counts = mine & (learns != 0)
    tl.store(at, tl.load(at, mask=counts, other=0.0) + 1 - stopped, mask=counts)


@triton.jit
def _adam(
    table, places, knobs, poison, factor, new1, new2, log1, log2, eps, decay,
    DECOUPLED: tl.constexpr, B: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    place = places + 3 * tl.program_id(0)
    row = table + C * tl.load(place)
    if (tl.load(poison) == 0) & ((tl.load(row + 4) | tl.load(row + 6)) != 0):
        o = tl.load(place + 1) + tl.arange(0, B)
        ok = o < tl.load(place + 2)
        g = _gradient(row, o, ok) * tl.load(factor)
        rate = tl.load(knobs).to(tl.float32)
        weight = tl.load(row).to(tl.pointer_type(tl.float32)) + o
        slow = tl.load(row + 1).to(tl.pointer_type(tl.float32)) + o
        square = tl.load(row + 2).to(tl.pointer_type(tl.float32)) + o
        step = tl.load(tl.load(row + 3).to(tl.pointer_type(tl.float32))).to(tl.float64)
        p = tl.load(weight, mask=ok, other=0.0)
        if DECOUPLED:
            p -= rate * decay * p
        else:
            g += decay * p
        m = tl.load(slow, mask=ok, other=0.0)
        m += new1 * (g - m)
        v = tl.load(square, mask=ok, other=0.0)
        v += new2 * (g * g - v)
        size = rate / (1 - tl.exp(step * log1)).to(tl.float32)
        known = tl.sqrt(1 - tl.exp(step * log2)).to(tl.float32)
        p -= size * m / (tl.sqrt(v) / known + eps)
        tl.store(slow, m, mask=ok)
        tl.store(square, v, mask=ok)
        tl.store(weight, p, mask=ok)
        copy = tl.load(row + 5)
        if copy != 0:
            tl.store(copy.to(tl.pointer_type(tl.bfloat16)) + o, p.to(tl.bfloat16), mask=ok)


class FusedAdam:
    """The steps of one optimizer. Copies in half precision are by the weight they are of."""

    def __init__(self, optimizer: torch.optim.Optimizer, copies: dict[Tensor, Tensor]) -> None:
        (self.group,) = optimizer.param_groups
        self.optimizer, self.copies = optimizer, copies
        self.weights: list[Tensor] = self.group["params"]
        places = [
            (number, begin, weight.numel())
            for number, weight in enumerate(self.weights)
            for begin in range(0, weight.numel(), BLOCK)
        ]
        self.places = torch.tensor(places, device=self.weights[0].device)
        self.sums = self.places.new_empty(len(places), dtype=torch.float)
        self.factor = torch.ones_like(self.sums[0])

    def room(self) -> Tensor:
        """A table that is still empty."""
        return self.places.new_zeros(len(self.weights), COLUMNS)

    def addresses(self) -> Tensor:
        """What belongs into the table now."""
        return torch.tensor([self._row(weight) for weight in self.weights])

    def step(self, table: Tensor, watch: Watch, clip: float, limit: float) -> None:
        """Take the step, unless the loss or the gradient's norm is beyond measure."""
        grid, sizes = (len(self.places),), {"B": BLOCK, "C": COLUMNS}
        _squares[grid](table, self.places, self.sums, **sizes)
        _judge[(1,)](
            table, self.sums, len(self.places), len(self.weights), *watch, self.factor, clip,
            limit, W=triton.next_power_of_2(len(self.weights)), **sizes,
        )  # fmt: skip
        beta1, beta2 = self.group["betas"]
        _adam[grid](
            table, self.places, watch[0], watch[4], self.factor,
            1 - beta1, 1 - beta2, math.log(beta1), math.log(beta2),
            self.group["eps"], self.group["weight_decay"],
            DECOUPLED=isinstance(self.optimizer, torch.optim.AdamW), **sizes,
        )  # fmt: skip

    def _row(self, weight: Tensor) -> list[int]:
        """Where everything of a weight is; 0 where there is nothing."""
        copy = self.copies.get(weight)
        low = None if copy is None else copy.grad
        if weight.grad is None and low is None:
            return [0] * COLUMNS
        state = self.optimizer.state[weight]
        if not state:
            state["step"] = torch.zeros_like(self.factor)
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        averages = state["exp_avg"], state["exp_avg_sq"], state["step"]
        return [_at(tensor) for tensor in (weight, *averages, weight.grad, copy, low)]


def _at(tensor: Tensor | None) -> int:
    assert tensor is None or tensor.is_contiguous()
    return 0 if tensor is None else tensor.data_ptr()
