"""Words and cells of a decoder whose weights no longer change."""

import torch
from torch import Tensor

from dragoman.cells import GRU, LSTM, RNN, Cell, GRUBefore
from dragoman.core import State
from dragoman.kernels import native
from dragoman.kernels.choice import has_native
from dragoman.kernels.lanes import still
from dragoman.kernels.packed import Precision, Product

TABLE = 512 * 2**20  # bytes that a table of all words may take
LEAST = 64  # a product of fewer rows takes as long: the weights must be read


class Words:
    """The last word's share of gates and readout: multiplied at first, and looked up as soon as a
    table of all words costs no more than what was multiplied so far. A GPU makes it at once.
    """

    def __init__(self, words: Tensor, weight: Tensor, bias: Tensor) -> None:
        self.words = words.contiguous()
        self.product = still(weight, bias)
        self.price = len(words) if words.device.type == "cpu" else 0
        self.small = len(words) * len(weight) * weight.element_size() <= TABLE
        self.rows: Tensor | None = None

    def __call__(self, tokens: Tensor) -> Tensor:
        """(N,) -> (N, G + R)."""
        if self.rows is None and self.small and self.price <= 0:
            with native.unnoted():
                self.rows = self.table()
        if self.rows is not None:
            return _rows(self.rows, tokens)
        self.took(len(tokens))
        return self.product(_rows(self.words, tokens))

    def took(self, rows: int, times: int = 1) -> None:
        """So many words were multiplied, so many times."""
        self.price -= times * max(rows, LEAST)

    def table(self) -> Tensor:
        """All words' shares (V, G + R)."""
        return self.product(self.words)


class Layer:
    """A cell with its products laid out. `past` multiplies the cell's last output; what else is to
    be made of that output is made by the same product.
    """

    def __init__(
        self, cell: Cell, precision: Precision, beside: tuple[Tensor, Tensor] | None, above: bool
    ) -> None:
        weight: Tensor = cell.across.weight
        bias: Tensor = cell.across.bias
        self.cell, self.inner = cell, None
        if isinstance(cell, GRUBefore):  # the candidate waits for the reset gate
            own = 2 * cell.hidden
            self.inner = still(weight[own:], bias[own:], precision)
            weight, bias = weight[:own], bias[:own]
        self.own = len(weight)
        if beside is not None:
            weight, bias = torch.cat([weight, beside[0]]), torch.cat([bias, beside[1]])
        self.past: Product = still(weight, bias, precision)
        self.inward: Product | None = None  # the bottom layer's input comes as gates
        if above:
            self.inward = still(cell.inward.weight, cell.inward.bias, precision)

    def advance(self, gates: Tensor, more: Tensor | None, past: Tensor, state: State) -> State:
        """One step, as `Cell.advance`, from all shares of the gates (N, G)."""
        if isinstance(self.cell, GRU) and has_native(past.device, past.dtype):
            return (native.gru(gates, more, past, state[0], torch.empty_like(state[0])),)
        if isinstance(self.cell, LSTM) and has_native(past.device, past.dtype):
            room = torch.empty_like(state[0]), torch.empty_like(state[1])
            return native.lstm(gates, more, past, state[1], room)
        gates = gates if more is None else gates + more
        if isinstance(self.cell, RNN):
            return (tanh(gates + past),)
        if isinstance(self.cell, GRU):
            return (_gru(gates, past, state[0]),)
        if self.inner is not None:
            return (_gru_before(gates, past, state[0], self.inner),)
        return _lstm(gates + past, state[1])


def _rows(table: Tensor, tokens: Tensor) -> Tensor:
    if has_native(table.device, table.dtype):
        return native.gather(table, tokens)
    return table.index_select(0, tokens)


def tanh(x: Tensor) -> Tensor:
    """On a CPU a sigmoid takes a sixth of the time: tanh x = 2 sigmoid 2x - 1.

    >>> tanh(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
    return torch.tanh(x) if x.is_cuda else (x * 2).sigmoid_().mul_(2).sub_(1)


def _gru(gates: Tensor, past: Tensor, h: Tensor) -> Tensor:
    size = h.size(1)
    both = torch.sigmoid(gates[:, : 2 * size] + past[:, : 2 * size])
    new = tanh(torch.addcmul(gates[:, 2 * size :], both[:, :size], past[:, 2 * size :]))
    return torch.lerp(new, h, both[:, size:])


def _gru_before(gates: Tensor, past: Tensor, h: Tensor, inner: Product) -> Tensor:
    size = h.size(1)
    both = torch.sigmoid(gates[:, : 2 * size] + past)
    new = tanh(gates[:, 2 * size :] + inner(both[:, :size] * h))
    return torch.lerp(new, h, both[:, size:])


def _lstm(gates: Tensor, c: Tensor) -> State:
    size = c.size(1)
    both, leave = torch.sigmoid(gates[:, : 2 * size]), torch.sigmoid(gates[:, 3 * size :])
    new = tanh(gates[:, 2 * size : 3 * size])
    c = torch.addcmul(both[:, size:] * c, both[:, :size], new)
    return (leave * tanh(c), c)
