"""A recurrent layer over whole rows when nobody learns: weights laid out once, by routines in C."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from dragoman.core import State
from dragoman.kernels import native
from dragoman.kernels.lanes import Still, still
from dragoman.kernels.packed import Precision, Product, has_bf16


class Cell(Protocol):
    """What is laid out of a cell (see `dragoman.cells.Cell`)."""

    @property
    def inward(self) -> nn.Linear: ...
    @property
    def across(self) -> nn.Linear: ...
    def native(self) -> str | None: ...


class Laid(NamedTuple):
    """A cell's products, and which weights they were made of."""

    key: Hashable
    inward: Product
    across: Product


class Shelf:
    """Cells laid out for reading: when they are first read with, and when weights changed."""

    def __init__(self) -> None:
        self.cells: dict[int, Laid] = {}

    def laid(self, cell: Cell, precision: Precision) -> Laid:
        """The cell, laid out in this precision."""
        weights = cell.inward.weight, cell.inward.bias, cell.across.weight, cell.across.bias
        key = precision, *map(mark, weights)
        found = self.cells.get(id(cell))
        if found is None or found.key != key:
            products = (
                still(one.weight, one.bias, precision) for one in (cell.inward, cell.across)
            )
            found = self.cells[id(cell)] = Laid(key, *products)
        return found


class Reading(NamedTuple):
    """How layers are read now."""

    shelf: Shelf
    precision: Precision


_now: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def reading(shelf: Shelf, precision: Precision) -> Iterator[None]:
    """Layers are read with what is on this shelf. What a search multiplies in int8 is read in
    bfloat16, where the processor has it: annotations are made once and looked at many times.
    """
    if precision == "int8":
        precision = "bf16" if has_bf16() else "fp32"
    token = _now.set(Reading(shelf, precision))
    try:
        yield
    finally:
        _now.reset(token)


def now() -> Reading | None:
    """How layers are read, if this was said."""
    return _now.get()


def walk(
    how: Reading, cell: Cell, xs: Tensor, state: State, lengths: Tensor
) -> tuple[Tensor, State]:
    """Over xs (T, B, D), rows of the given lengths, the longest first: outputs (T, B, H), zero
    where padded, and where each row ended.
    """
    laid, name = how.shelf.laid(cell, how.precision), cell.native()
    steps, rows, size = *xs.shape[:2], state[0].size(1)
    gates = laid.inward(xs.flatten(0, 1)).view(steps, rows, -1)
    state = tuple(part.clone(memory_format=torch.contiguous_format) for part in state)
    counts = (lengths[:, None] > torch.arange(steps)).sum(0)
    if isinstance(laid.across, Still):
        return laid.across.walk(gates, counts, state), state
    hs = gates.new_zeros(steps, rows, size)
    for t, count in enumerate(counts.tolist()):
        if not count:
            break
        past, x = laid.across(state[0][:count]), gates[t, :count]
        if name == "gru":
            native.gru(x, None, past, state[0][:count], hs[t, :count])
        else:
            c = state[1][:count]
            native.lstm(x, None, past, c, (hs[t, :count], c))
        state[0][:count] = hs[t, :count]
    return hs, state


class Watch:
    """The weights of modules, found again without a walk through the modules: that takes longer
    than a step. Weights that are replaced are seen, modules that are not.
    """

    def __init__(self, *modules: nn.Module) -> None:
        self.modules = modules
        self.rooms = [
            (part._parameters, name)
            for module in modules
            for part in module.modules()
            for name in part._parameters
        ]

    def of(self, *modules: nn.Module) -> bool:
        """Whether it is these that are watched."""
        return [*map(id, self.modules)] == [*map(id, modules)]

    def marks(self) -> tuple[Hashable, ...]:
        """Of all weights, as they are now."""
        found = (room.get(name) for room, name in self.rooms)
        return tuple(mark(weight) for weight in found if weight is not None)


def mark(weight: Tensor) -> Hashable:
    """What tells a weight from another, and from itself after a change."""
    version = 0 if weight.is_inference() else weight._version
    return weight.data_ptr(), version, weight.dtype, weight.device
