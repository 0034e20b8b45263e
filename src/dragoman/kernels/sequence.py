"""One recurrent layer over a whole sequence: a plain loop, and torch's routines where they fit."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.core import State, masked_select_state
from dragoman.kernels import layer as layer_by_hand
from dragoman.kernels import portable, reading
from dragoman.kernels.choice import has_native, has_triton
from dragoman.kernels.products import linear, lowered


class Cell(Protocol):
    """What a layer needs to know of its cell (see `dragoman.cells.Cell`)."""

    @property
    def inward(self) -> nn.Linear: ...
    @property
    def across(self) -> nn.Linear: ...
    def project(self, x: Tensor) -> Tensor: ...
    def advance(self, gates: Tensor, state: State) -> State: ...
    def native(self) -> str | None: ...


# cell, xs (T, B, D), state, lengths (B,), longest first -> outputs (T, B, H), state at each end
Walk = Callable[[Any, Tensor, State, Tensor], tuple[Tensor, State]]


def run(
    cell: Cell,
    xs: Tensor,  # (B, T, D)
    state: State,
    mask: Tensor | None = None,  # (B, T); padding, if any, stands at the end
    reverse: bool = False,
    dropped: Tensor | None = None,  # (B, hidden) recurrent dropout, one mask for all steps
) -> tuple[Tensor, State]:
    """Outputs (B, T, hidden), zero where padded, and the state after each row's last real step."""
    if torch.compiler.is_exporting() and mask is not None:
        return portable.run(cell, xs, state, mask, reverse)
    name = cell.native()
    if name is None or dropped is not None or not xs.size(1):
        return reference(cell, xs, state, mask, reverse, dropped)
    if name in layer_by_hand.CELLS and has_triton(xs.device, xs.dtype):
        whole = torch.ones(xs.shape[:2], dtype=torch.bool, device=xs.device)
        return layer([cell], xs, [state], whole if mask is None else mask, first_back=reverse)
    known = name in layer_by_hand.CELLS and has_native(xs.device, cell.across.weight.dtype)
    if known and torch.is_grad_enabled():
        return _sorted(_by_hand, cell, xs, state, mask, reverse)
    if known and (how := reading.now()) is not None:
        return _sorted(partial(reading.walk, how), cell, xs, state, mask, reverse)
    return _by_torch(cell, xs, state, mask, reverse)


def _by_torch(
    cell: Cell, xs: Tensor, state: State, mask: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """torch's own routine, for rows as they are."""
    if mask is not None and xs.is_cuda and torch.cuda.is_current_stream_capturing():
        return reference(cell, xs, state, mask, reverse)  # packing asks the device for lengths
    if mask is None:
        return _native(cell, xs, None, state)
    lengths = mask.sum(1)
    if reverse:
        xs = flip(xs, lengths)
    hs, final = _ragged(cell, xs, lengths, state)
    return (flip(hs, lengths) if reverse else hs), final


def _sorted(
    walk: Walk, cell: Cell, xs: Tensor, state: State, mask: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """Rows sorted by their lengths, and back."""
    lengths = xs.new_full((len(xs),), xs.size(1), dtype=torch.long)
    lengths = lengths if mask is None else mask.sum(1)
    inputs, order = flip(xs, lengths) if reverse else xs, lengths.argsort(descending=True)
    sorts = bool((lengths[1:] > lengths[:-1]).any())
    if sorts:
        inputs, state = inputs[order], tuple(s[order] for s in state)
    rows = lengths[order] if sorts else lengths
    hs, final = walk(cell, inputs.transpose(0, 1).contiguous(), state, rows)
    hs = hs.transpose(0, 1)
    if sorts:
        back = order.argsort()
        hs, final = hs[back], tuple(s[back] for s in final)
    return (flip(hs, lengths) if reverse else hs), final


def _by_hand(cell: Cell, xs: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
    """With a gradient that was written out."""
    gates, low, across = cell.project(xs).float(), lowered(xs.device), cell.across
    begun = tuple(s.float() for s in state)
    with torch.autocast(xs.device.type, enabled=False):
        return layer_by_hand.run(
            str(cell.native()), gates, across.weight, across.bias, begun, lengths, low
        )


def layer(
    cells: Sequence[Cell],
    xs: Tensor,
    states: Sequence[State],
    mask: Tensor,
    first_back: bool = False,
) -> tuple[Tensor, State]:
    """Cells of one kind over the same rows, the second (or a single one, if told) in reverse order:
    `run` of each, side by side, by Triton.
    """
    from dragoman.kernels import fused_sequence

    lengths, ways = mask.sum(1), len(cells)
    inward = [cell.inward for cell in cells]
    weight, bias = (
        torch.cat(parts) for parts in zip(*((i.weight, i.bias) for i in inward), strict=True)
    )
    gates = linear(xs, weight, bias)
    weight = torch.stack([cell.across.weight for cell in cells])
    bias = torch.stack([cell.across.bias for cell in cells])
    begun = tuple(torch.cat(parts) for parts in zip(*states, strict=True))
    with torch.autocast(xs.device.type, enabled=False):
        by_step = fused_sequence.turn(gates, lengths, ways, first_back, inward=True)
        hs, final = fused_sequence.run(by_step, weight, bias, begun, lengths.repeat(ways))
        shown = fused_sequence.turn(hs, lengths, ways, first_back, inward=False)
    return shown, tuple(torch.cat(end.chunk(ways), -1) if ways > 1 else end for end in final)


def reference(
    cell: Cell,
    xs: Tensor,
    state: State,
    mask: Tensor | None = None,
    reverse: bool = False,
    dropped: Tensor | None = None,
) -> tuple[Tensor, State]:
    """The plain loop. A padded step leaves the state as it was and shows zero."""
    gates, steps = cell.project(xs).unbind(1), range(xs.size(1))
    outputs: list[Tensor] = [xs.new_empty(0)] * xs.size(1)
    for t in reversed(steps) if reverse else steps:
        past = state if dropped is None else (state[0] * dropped, *state[1:])
        new = cell.advance(gates[t], past)
        outputs[t] = new[0]
        if mask is not None:
            new = masked_select_state(mask[:, t], new, state)
            outputs[t] = outputs[t] * mask[:, t, None]
        state = new
    if not outputs:
        return xs.new_zeros(len(xs), 0, state[0].size(-1)), state
    return torch.stack(outputs, 1), state


def flip(xs: Tensor, lengths: Tensor) -> Tensor:
    """Each row's first `length` entries in reverse order; its padding stays where it is.

    >>> flip(torch.tensor([[1, 2, 3, 0], [4, 5, 0, 0]]), torch.tensor([3, 2])).tolist()
    [[3, 2, 1, 0], [5, 4, 0, 0]]
    """
    place = torch.arange(xs.size(1), device=xs.device)
    back = lengths[:, None] - 1 - place
    index = torch.where(back >= 0, back, place)
    first = torch.arange(len(xs), device=xs.device)[:, None] * xs.size(1)
    return _Flip.apply(xs, (first + index).flatten())  # type: ignore[no-any-return, no-untyped-call]


class _Flip(torch.autograd.Function):
    """A flip undoes itself, so its gradient is one too; torch would scatter and add."""

    @staticmethod
    def forward(ctx: Any, xs: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return xs.flatten(0, 1).index_select(0, rows).view_as(xs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        rows = ctx.saved_tensors[0]
        return grad.flatten(0, 1).index_select(0, rows).view_as(grad), None


def _ragged(cell: Cell, xs: Tensor, lengths: Tensor, state: State) -> tuple[Tensor, State]:
    """Rows of unequal length through torch's packed form, which cannot hold a row of length 0."""
    packed = pack_padded_sequence(
        xs, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
    )
    order, back = packed.sorted_indices, packed.unsorted_indices
    begun = tuple(s.index_select(0, order) for s in state)
    data, final = _native(cell, packed.data, packed.batch_sizes, begun)
    final = tuple(s.index_select(0, back) for s in final)
    hs, _ = pad_packed_sequence(
        packed._replace(data=data), batch_first=True, total_length=xs.size(1)
    )
    some = lengths > 0
    return hs * some[:, None, None], masked_select_state(some, final, state)


def _native(cell: Cell, xs: Tensor, sizes: Tensor | None, state: State) -> tuple[Tensor, State]:
    """torch's fused routine, on (B, T, D), or on packed rows if their batch sizes are given."""
    name = cell.native()
    hidden = [s.unsqueeze(0).contiguous() for s in state]
    weights = [cell.inward.weight, cell.across.weight, cell.inward.bias, cell.across.bias]
    start = hidden if name == "lstm" else hidden[0]
    routine = getattr(torch, str(name))
    with (
        warnings.catch_warnings()
    ):  # cuDNN would like the weights in one chunk; they work as they are
        warnings.filterwarnings("ignore", message=".*contiguous chunk.*")
        if sizes is None:
            hs, *final = routine(xs, start, weights, True, 1, 0.0, True, False, True)
        else:
            hs, *final = routine(xs, sizes, start, weights, True, 1, 0.0, True, False)
    return hs, tuple(s.squeeze(0) for s in final)
