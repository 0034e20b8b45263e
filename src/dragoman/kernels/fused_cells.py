# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""GRU and LSTM, one step forward and one step back, as Triton kernels.

Where rows have lengths, a step at or past a row's end leaves its state as it was. It is written
down as gates that change nothing (update = 1; forget = 1, the others 0), so the way back needs to
know of lengths only where a state passes by the gates.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from dragoman.kernels.plain import Past


@triton.jit
def tanh(x, FAST: tl.constexpr):
    if FAST:
        return tl.inline_asm_elementwise(
            "tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def sigmoid(x, FAST: tl.constexpr):
    return 0.5 * tanh(0.5 * x, FAST) + 0.5


@triton.jit
def get(at, mask):
    return tl.load(at, mask=mask, other=0.0).to(tl.float32)


@triton.jit
def put(at, value, mask):
    tl.store(at, value.to(at.dtype.element_ty), mask=mask)


@triton.jit
def _said(at, bias, mask, BIAS: tl.constexpr):
    """The state's share of a gate, with a bias where the product came without."""
    value = get(at, mask)
    if BIAS:
        value += get(bias, mask)
    return value


@triton.jit
def _gru(
    x, gates, bias, h, lengths, acts, new_h, t, x_row, gates_row, per,
    H: tl.constexpr, BH: tl.constexpr, BIAS: tl.constexpr, ENDS: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BH + tl.arange(0, BH)
    ok = i < H
    x += b * x_row + i
    gates += b * gates_row + i
    bias += (b // per) * 3 * H + i
    reset = sigmoid(get(x, ok) + _said(gates, bias, ok, BIAS), FAST)
    update = sigmoid(get(x + H, ok) + _said(gates + H, bias + H, ok, BIAS), FAST)
    inner = _said(gates + 2 * H, bias + 2 * H, ok, BIAS)
    new = tanh(get(x + 2 * H, ok) + reset * inner, FAST)
    old = get(h + b * H + i, ok)
    if ENDS:
        update = tl.where(t < tl.load(lengths + b), update, 1.0)
    shown = tl.where(update == 1.0, old, new + update * (old - new))
    acts += b * 3 * H + i
    put(acts, reset, ok)
    put(acts + H, update, ok)
    put(acts + 2 * H, new, ok)
    put(new_h + b * H + i, shown, ok)


@triton.jit
def _gru_back(
    dh, more, outer, gates, bias, h, acts, dx, dgates, direct, gates_row, dgates_row, per,
    H: tl.constexpr, BH: tl.constexpr, BIAS: tl.constexpr, MORE: tl.constexpr, OUTER: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BH + tl.arange(0, BH)
    ok = i < H
    acts += b * 3 * H + i
    reset, update, new = get(acts, ok), get(acts + H, ok), get(acts + 2 * H, ok)
    inner = _said(
        gates + b * gates_row + 2 * H + i, bias + (b // per) * 3 * H + 2 * H + i, ok, BIAS
    )
    grad = get(dh + b * H + i, ok)
    if MORE:
        grad += get(more + b * H + i, ok)
    if OUTER:
        grad += get(outer + b * H + i, ok)
    d_new = grad * (1 - update) * (1 - new * new)
    d_update = grad * (get(h + b * H + i, ok) - new) * update * (1 - update)
    d_reset = d_new * inner * reset * (1 - reset)
    put(direct + b * H + i, grad * update, ok)
    dx += b * 3 * H + i
    put(dx, d_reset, ok)
    put(dx + H, d_update, ok)
    put(dx + 2 * H, d_new, ok)
    dgates += b * dgates_row + i
    put(dgates, d_reset, ok)
    put(dgates + H, d_update, ok)
    put(dgates + 2 * H, d_new * reset, ok)


@triton.jit
def _lstm(
    x, gates, bias, h, c, lengths, acts, new_h, new_c, t, x_row, gates_row, per,
    H: tl.constexpr, BH: tl.constexpr, BIAS: tl.constexpr, ENDS: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BH + tl.arange(0, BH)
    ok = i < H
    x += b * x_row + i
    gates += b * gates_row + i
    bias += (b // per) * 4 * H + i
    enter = sigmoid(get(x, ok) + _said(gates, bias, ok, BIAS), FAST)
    forget = sigmoid(get(x + H, ok) + _said(gates + H, bias + H, ok, BIAS), FAST)
    new = tanh(get(x + 2 * H, ok) + _said(gates + 2 * H, bias + 2 * H, ok, BIAS), FAST)
    leave = sigmoid(get(x + 3 * H, ok) + _said(gates + 3 * H, bias + 3 * H, ok, BIAS), FAST)
    if ENDS:
        on = t < tl.load(lengths + b)
        enter, forget = tl.where(on, enter, 0.0), tl.where(on, forget, 1.0)
        new, leave = tl.where(on, new, 0.0), tl.where(on, leave, 0.0)
    memory = forget * get(c + b * H + i, ok) + enter * new
    shown = leave * tanh(memory, FAST)
    if ENDS:
        shown = tl.where(on, shown, get(h + b * H + i, ok))
    acts += b * 4 * H + i
    put(acts, enter, ok)
    put(acts + H, forget, ok)
    put(acts + 2 * H, new, ok)
    put(acts + 3 * H, leave, ok)
    put(new_c + b * H + i, memory, ok)
    put(new_h + b * H + i, shown, ok)


@triton.jit
def _lstm_back(
    dh, more, outer, dc, c, new_c, lengths, acts, dx, dgates, direct, old_dc, t, dgates_row,
    H: tl.constexpr, BH: tl.constexpr, MORE: tl.constexpr, OUTER: tl.constexpr, ENDS: tl.constexpr,
    FAST: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BH + tl.arange(0, BH)
    ok = i < H
    acts += b * 4 * H + i
    enter, forget = get(acts, ok), get(acts + H, ok)
    new, leave = get(acts + 2 * H, ok), get(acts + 3 * H, ok)
    grad = get(dh + b * H + i, ok)
    if MORE:
        grad += get(more + b * H + i, ok)
    if OUTER:
        grad += get(outer + b * H + i, ok)
    shown = tanh(get(new_c + b * H + i, ok), FAST)
    memory = get(dc + b * H + i, ok) + grad * leave * (1 - shown * shown)
    d_enter = memory * new * enter * (1 - enter)
    d_forget = memory * get(c + b * H + i, ok) * forget * (1 - forget)
    d_new = memory * enter * (1 - new * new)
    d_leave = grad * shown * leave * (1 - leave)
    passed = tl.zeros([BH], tl.float32)
    if ENDS:
        passed = tl.where(t < tl.load(lengths + b), passed, grad)
    put(direct + b * H + i, passed, ok)
    put(old_dc + b * H + i, memory * forget, ok)
    _four(dx + b * 4 * H + i, d_enter, d_forget, d_new, d_leave, H, ok)
    _four(dgates + b * dgates_row + i, d_enter, d_forget, d_new, d_leave, H, ok)


@triton.jit
def _four(at, one, two, three, four, H: tl.constexpr, ok):
    put(at, one, ok)
    put(at + H, two, ok)
    put(at + 2 * H, three, ok)
    put(at + 3 * H, four, ok)


class GRU:
    """`plain.GRU`; rows may have lengths (N,), and products come without their bias (D, G)."""

    acts = 3

    def __init__(self, lengths: Tensor | None = None, bias: Tensor | None = None) -> None:
        self.lengths, self.bias = lengths, bias

    def step(self, x: Tensor, at: Past, t: int = 0) -> None:
        rows, size = at.h.shape
        ends = self.lengths is not None
        _gru[_grid(rows, size)](
            x, at.gates, _or(self.bias, x), at.h, _or(self.lengths, x), at.acts, at.new_h,
            t, x.stride(0), at.gates.stride(0), _per(rows, self.bias),
            H=size, BH=_block(size), BIAS=self.bias is not None, ENDS=ends, FAST=fast(at.h),
            num_warps=4,
        )  # fmt: skip

    def back(
        self,
        h: Tensor,
        outer: Tensor | None,
        c: Tensor,
        at: Past,
        x: Tensor,
        gates: Tensor,
        t: int = 0,
        more: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        rows, size = h.shape
        direct = torch.empty_like(h)
        _gru_back[_grid(rows, size)](
            h, _or(more, h), _or(outer, h), at.gates, _or(self.bias, h), at.h, at.acts, x, gates,
            direct, at.gates.stride(0), gates.stride(0), _per(rows, self.bias),
            H=size, BH=_block(size), BIAS=self.bias is not None, MORE=more is not None,
            OUTER=outer is not None, num_warps=4,
        )  # fmt: skip
        return direct, c


class LSTM:
    """`plain.LSTM`; rows may have lengths (N,), and products come without their bias (D, G)."""

    acts = 4

    def __init__(self, lengths: Tensor | None = None, bias: Tensor | None = None) -> None:
        self.lengths, self.bias = lengths, bias

    def step(self, x: Tensor, at: Past, t: int = 0) -> None:
        rows, size = at.h.shape
        ends = self.lengths is not None
        _lstm[_grid(rows, size)](
            x, at.gates, _or(self.bias, x), at.h, at.c, _or(self.lengths, x), at.acts, at.new_h,
            at.new_c, t, x.stride(0), at.gates.stride(0), _per(rows, self.bias),
            H=size, BH=_block(size), BIAS=self.bias is not None, ENDS=ends, FAST=fast(at.h),
            num_warps=4,
        )  # fmt: skip

    def back(
        self,
        h: Tensor,
        outer: Tensor | None,
        c: Tensor,
        at: Past,
        x: Tensor,
        gates: Tensor,
        t: int = 0,
        more: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        rows, size = h.shape
        direct, before = torch.empty_like(h), torch.empty_like(c)
        ends = self.lengths is not None
        _lstm_back[_grid(rows, size)](
            h, _or(more, h), _or(outer, h), c, at.c, at.new_c, _or(self.lengths, h),
            at.acts, x, gates, direct, before, t, gates.stride(0),
            H=size, BH=_block(size), MORE=more is not None, OUTER=outer is not None, ENDS=ends,
            FAST=fast(h), num_warps=4,
        )  # fmt: skip
        return direct, before


def fast(tensor: Tensor) -> bool:
    """Whether the hardware's coarse tanh is fine enough: in half precision, on a GPU."""
    return tensor.is_cuda and tensor.dtype.itemsize < 4


def wide(size: int) -> int:
    """A tile at least so wide.

    >>> wide(20), wide(1)
    (32, 16)
    """
    return 1 << max(4, (size - 1).bit_length())


def _or(tensor: Tensor | None, other: Tensor) -> Tensor:
    """A kernel wants some address, even where it reads nothing there."""
    return other if tensor is None else tensor


def _per(rows: int, bias: Tensor | None) -> int:
    """Rows of one direction."""
    return rows if bias is None else rows // len(bias)


def _block(size: int) -> int:
    return min(wide(size), 1024)


def _grid(rows: int, size: int) -> tuple[int, int]:
    return rows, -(-size // _block(size))
