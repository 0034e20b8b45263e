# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""From gradients to weights in three Triton kernels: the gradient's size, whether the step may be
taken, and clipping, the optimizer and the weights' copies in half precision in one pass over
memory.

Weights, gradients and what the optimizer remembers stay where torch put them, under torch's names;
kernels find them by a table of addresses. In a CUDA graph those of the gradients are known only
once it has been recorded: the table is filled in after that. It also says how many numbers of a
weight can be moved 16 bytes at a time: an address that is loaded tells the compiler nothing.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from dragoman.kernels.fused_rules import KEPT, KINDS, pace_of, update

BLOCK, WARPS = 2048, 8  # a thread moves 8 numbers: 16 bytes of what is in half precision
ALIGNED = 16  # bytes: as many can be moved at once
TOGETHER = 8  # numbers: 16 bytes in half precision
COLUMNS = 8  # of a row: weight, two of what is kept, step, own gradient, copy, the copy's, `whole`

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
def _block(cell, begin, KIND: tl.constexpr, B: tl.constexpr, WIDE: tl.constexpr):
    """A block of what the table's cell has the address of."""
    at = tl.load(cell).to(tl.pointer_type(KIND)) + begin
    if WIDE:
        at = tl.multiple_of(at, 16)  # ALIGNED
    return at + tl.arange(0, B)


@triton.jit
def _mask(begin, whole, size, B: tl.constexpr, WIDE: tl.constexpr):
    """Which of a block's numbers are moved together, or else which are left."""
    o = tl.arange(0, B)
    if WIDE:
        ok = o < tl.multiple_of(whole - begin, 8)  # TOGETHER
    else:
        ok = (o >= whole - begin) & (o < size - begin)
    return ok


@triton.jit
def _gradient(row, begin, ok, B: tl.constexpr, WIDE: tl.constexpr):
    """The gradient of some numbers: the weight's own, and that of its copy in half precision."""
    found = tl.zeros([B], tl.float32)
    if tl.load(row + 4) != 0:
        found += tl.load(_block(row + 4, begin, tl.float32, B, WIDE), mask=ok, other=0.0)
    if tl.load(row + 6) != 0:
        half = tl.load(_block(row + 6, begin, tl.bfloat16, B, WIDE), mask=ok, other=0.0)
        found += half.to(tl.float32)
    return found


@triton.jit
def _squared(row, begin, whole, size, B: tl.constexpr, WIDE: tl.constexpr):
    g = _gradient(row, begin, _mask(begin, whole, size, B, WIDE), B, WIDE)
    return tl.sum(g * g, 0)


@triton.jit
def _squares(table, places, sums, C: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0)
    place = places + 3 * i  # which weight, from where, how many numbers it has
    row, begin, size = table + C * tl.load(place), tl.load(place + 1), tl.load(place + 2)
    begin, whole = tl.multiple_of(begin, B), tl.load(row + 7)
    found = 0.0
    if begin < whole:
        found += _squared(row, begin, whole, size, B, True)
    if whole < tl.minimum(begin + B, size):
        found += _squared(row, begin, whole, size, B, False)
    tl.store(sums + i, found)


@triton.jit
def _judge(
    table, sums, many, weights, knobs, total, mean, first, poison, heard, factor, begun,
    clip, limit, log1, log2,
    C: tl.constexpr, B: tl.constexpr, W: tl.constexpr,
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
    count = tl.load(row + 3, mask=mine, other=0)  # 0 where nobody counts, or nothing is learned
    at, counts = count.to(tl.pointer_type(tl.float32)), count != 0
    steps = tl.load(at, mask=counts, other=0.0) + 1 - stopped
    tl.store(at, steps, mask=counts)
    known = 1 - tl.exp(steps.to(tl.float64) * log1)  # Adam's averages begin at zero
    tl.store(begun + 2 * w, known.to(tl.float32), mask=counts)
    known = tl.sqrt(1 - tl.exp(steps.to(tl.float64) * log2))
    tl.store(begun + 2 * w + 1, known.to(tl.float32), mask=counts)


@triton.jit
def _move(
    row, begin, whole, size, knobs, factor, begun, first, second, eps, decay,
    KIND: tl.constexpr, N: tl.constexpr, B: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One step of a block of a weight, of which N things are kept."""
    ok = _mask(begin, whole, size, B, WIDE)
    weight = _block(row, begin, tl.float32, B, WIDE)
    p = tl.load(weight, mask=ok, other=0.0)
    a, b = p, p
    if N > 0:
        one = _block(row + 1, begin, tl.float32, B, WIDE)
        a = tl.load(one, mask=ok, other=0.0)
    if N > 1:
        two = _block(row + 2, begin, tl.float32, B, WIDE)
        b = tl.load(two, mask=ok, other=0.0)
    g = _gradient(row, begin, ok, B, WIDE) * tl.load(factor)  # last: branches wait for it
    rate = tl.load(knobs).to(tl.float32)
    p, a, b = update(p, a, b, g, rate, begun, first, second, eps, decay, KIND, N)
    tl.store(weight, p, mask=ok)
    if N > 0:
        tl.store(one, a, mask=ok)
    if N > 1:
        tl.store(two, b, mask=ok)
    if tl.load(row + 5) != 0:
        tl.store(_block(row + 5, begin, tl.bfloat16, B, WIDE), p.to(tl.bfloat16), mask=ok)


@triton.jit
def _step(
    table, places, knobs, poison, factor, begun, first, second, eps, decay,
    KIND: tl.constexpr, N: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    place = places + 3 * tl.program_id(0)
    number, begin, size = tl.load(place), tl.load(place + 1), tl.load(place + 2)
    row, begun = table + C * number, begun + 2 * number
    if (tl.load(poison) == 0) & ((tl.load(row + 4) | tl.load(row + 6)) != 0):
        begin, whole = tl.multiple_of(begin, B), tl.load(row + 7)
        if begin < whole:
            _move(
                row, begin, whole, size, knobs, factor, begun, first, second, eps, decay,
                KIND, N, B, True,
            )  # fmt: skip
        if whole < tl.minimum(begin + B, size):
            _move(
                row, begin, whole, size, knobs, factor, begun, first, second, eps, decay,
                KIND, N, B, False,
            )  # fmt: skip


class FusedOptimizer:
    """The steps of one optimizer. Copies in half precision are by the weight they are of."""

    def __init__(self, optimizer: torch.optim.Optimizer, copies: dict[Tensor, Tensor]) -> None:
        (self.group,) = optimizer.param_groups
        self.optimizer, self.copies = optimizer, copies
        self.kind = KINDS[type(optimizer)]
        plain = self.kind == "sgd" and not self.group["momentum"]
        self.kept = () if plain else KEPT[self.kind]
        self.weights: list[Tensor] = self.group["params"]
        places = [
            (number, begin, weight.numel())
            for number, weight in enumerate(self.weights)
            for begin in range(0, weight.numel(), BLOCK)
        ]
        self.places = torch.tensor(places, device=self.weights[0].device)
        self.sums = self.places.new_empty(len(places), dtype=torch.float)
        self.factor = torch.ones_like(self.sums[0])
        self.begun = self.sums.new_ones(len(self.weights), 2)  # Adam: how far averages are known

    def room(self) -> Tensor:
        """A table that is still empty."""
        return self.places.new_zeros(len(self.weights), COLUMNS)

    def addresses(self) -> Tensor:
        """What belongs into the table now."""
        return torch.tensor([self._row(weight) for weight in self.weights])

    def step(self, table: Tensor, watch: Watch, clip: float, limit: float) -> None:
        """Take the step, unless the loss or the gradient's norm is beyond measure."""
        grid, sizes = (len(self.places),), {"C": COLUMNS, "B": BLOCK, "num_warps": WARPS}
        rows, eps, decay = len(self.weights), self.group.get("eps", 0.0), self.group["weight_decay"]
        pace = pace_of(self.kind, self.group)
        _squares[grid](table, self.places, self.sums, **sizes)
        _judge[(1,)](
            table, self.sums, len(self.places), rows, *watch, self.factor, self.begun,
            clip, limit, pace.log1, pace.log2,
            W=triton.next_power_of_2(rows), **sizes | {"B": 4 * BLOCK},
        )  # fmt: skip
        _step[grid](
            table, self.places, watch[0], watch[4], self.factor, self.begun,
            pace.first, pace.second, eps, decay,
            KIND=self.kind, N=len(self.kept), **sizes,
        )  # fmt: skip

    def _row(self, weight: Tensor) -> list[int]:
        """Where everything of a weight is; 0 where there is nothing."""
        copy = self.copies.get(weight)
        low = None if copy is None else copy.grad
        if weight.grad is None and low is None:
            return [0] * COLUMNS
        *kept, step = self._kept(weight)
        moved = [_at(tensor) for tensor in (weight, *kept, weight.grad, copy, low)]
        return [*moved[:3], _at(step), *moved[3:], together(weight.numel(), moved)]

    def _kept(self, weight: Tensor) -> list[Tensor | None]:
        """What is remembered of a weight, as torch would begin it: up to two tensors of its shape,
        and the number of its steps, which torch may have left on another device.
        """
        if not self.kept:
            return [None] * 3
        state, begin = self.optimizer.state[weight], self.group.get("initial_accumulator_value", 0)
        if self.kind != "sgd":
            step = state["step"] if state else torch.zeros_like(self.factor)
            state["step"] = step.to(self.factor)
        for name in self.kept:
            if state.get(name) is None:
                state[name] = torch.full_like(weight, begin)
        return [*[*map(state.get, self.kept), None][:2], state.get("step")]


def together(size: int, addresses: list[int]) -> int:
    """How many of a weight's numbers can be moved 16 bytes at a time: most of them, or none where
    something begins in between, as a gradient may that is a part of a larger one.

    >>> together(4099, [512, 0, 1040]), together(4099, [512, 0, 1042])
    (4096, 0)
    """
    return size // TOGETHER * TOGETHER if all(at % ALIGNED == 0 for at in addresses) else 0


def _at(tensor: Tensor | None) -> int:
    assert tensor is None or tensor.is_contiguous()
    return 0 if tensor is None else tensor.data_ptr()
