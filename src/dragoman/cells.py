"""Recurrent cells behind one call, (x, state) -> (h, state), and stacks of them.

A cell's work is cut in two so that the half that does not depend on the past can be done for all
steps at once: `project` reads the input, `advance` moves the state. `forward` is both.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.core import Padded, State
from dragoman.kernels import sequence
from dragoman.kernels.choice import has_triton
from dragoman.kernels.products import Dense
from dragoman.spec import Layers, Rate, Size, Spec

CellName = Literal["rnn", "gru", "lstm"]


class StackSpec(Spec):
    """Options of a stack of recurrent layers."""

    cell: CellName = "gru"
    reset: Literal["before", "after"] = "after"  # GRU: as in the papers, or as in cuDNN (faster)
    hidden: Size = 256
    layers: Layers = 1
    dropout: Rate = 0.0  # between layers
    recurrent_dropout: Rate = 0.0  # on the hidden state: one mask for all steps of a sequence
    residual: bool = False  # a layer's input is added to its output, where the sizes allow


class Cell(nn.Module):
    """What all cells share: input weights, recurrent weights, and how a state begins."""

    gates: int
    slots: int  # tensors in a state; the first is h

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.size, self.hidden = size, hidden
        self.inward = Dense(size, self.gates * hidden)
        self.across = nn.Linear(hidden, self.gates * hidden)
        bound = hidden**-0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def project(self, x: Tensor) -> Tensor:
        """The input's share of the gates, for one step or all steps: (..., size) -> (..., G)."""
        return self.inward(x)  # type: ignore[no-any-return]

    def advance(self, gates: Tensor, state: State) -> State:
        """One step: input gates (N, G) and a state give the next state."""
        raise NotImplementedError

    def start(self, h: Tensor) -> State:
        """The state that shows `h` (N, hidden); a memory cell, where there is one, is empty."""
        return (h, *(torch.zeros_like(h) for _ in range(self.slots - 1)))

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        state = self.advance(self.project(x), state)
        return state[0], state

    def native(self) -> str | None:
        """The name of torch's own whole-sequence routine for this cell, if there is one."""
        return None


class RNN(Cell):
    """Elman's network: h' = tanh(U x + W h + b)."""

    gates, slots = 1, 1

    def advance(self, gates: Tensor, state: State) -> State:
        return (torch.tanh(gates + self.across(state[0])),)

    def native(self) -> str:
        return "rnn_tanh"


class GRU(Cell):
    """Cho et al. 2014, with the reset gate applied after the product, as cuDNN does."""

    gates, slots = 3, 1

    def advance(self, gates: Tensor, state: State) -> State:
        (h,) = state
        reset, update, new = gates.chunk(3, -1)
        reset_h, update_h, new_h = self.across(h).chunk(3, -1)
        reset = torch.sigmoid(reset + reset_h)
        update = torch.sigmoid(update + update_h)
        new = torch.tanh(new + reset * new_h)
        return (new + update * (h - new),)

    def native(self) -> str:
        return "gru"


class GRUBefore(Cell):
    """Cho et al. 2014, eq. 8, to the letter: the reset gate is applied before the product."""

    gates, slots = 3, 1

    def advance(self, gates: Tensor, state: State) -> State:
        (h,) = state
        weight, bias = self.across.weight, self.across.bias
        two = 2 * self.hidden
        both = torch.sigmoid(gates[..., :two] + nn.functional.linear(h, weight[:two], bias[:two]))
        reset, update = both.chunk(2, -1)
        inner = nn.functional.linear(reset * h, weight[two:], bias[two:])
        new = torch.tanh(gates[..., two:] + inner)
        return (new + update * (h - new),)


class LSTM(Cell):
    """Hochreiter and Schmidhuber 1997 with a forget gate; state is (h, c)."""

    gates, slots = 4, 2

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__(size, hidden)
        nn.init.zeros_(self.inward.bias)
        nn.init.zeros_(self.across.bias)
        with torch.no_grad():
            self.inward.bias[hidden : 2 * hidden] = 1  # remember at first: Jozefowicz et al. 2015

    def advance(self, gates: Tensor, state: State) -> State:
        h, c = state
        enter, forget, new, leave = (gates + self.across(h)).chunk(4, -1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(enter) * torch.tanh(new)
        return (torch.sigmoid(leave) * torch.tanh(c), c)

    def native(self) -> str:
        return "lstm"


CELLS: dict[str, type[Cell]] = {"rnn": RNN, "gru": GRU, "lstm": LSTM}


def make_cell(spec: StackSpec, size: int) -> Cell:
    """The cell that a spec names.

    >>> type(make_cell(StackSpec(cell="gru", reset="before"), 4)).__name__
    'GRUBefore'
    """
    if spec.cell == "gru" and spec.reset == "before":
        return GRUBefore(size, spec.hidden)
    return CELLS[spec.cell](size, spec.hidden)


class Stack(nn.Module):
    """Layers of cells, stepped together: the decoder's recurrence, and a language model's."""

    def __init__(self, spec: StackSpec, size: int) -> None:
        super().__init__()
        self.spec = spec
        sizes = [size] + [spec.hidden] * (spec.layers - 1)
        self.cells = nn.ModuleList(make_cell(spec, s) for s in sizes)
        self.dropout = nn.Dropout(spec.dropout)

    @property
    def bottom(self) -> Cell:
        """The layer that meets the input."""
        cell = self.cells[0]
        assert isinstance(cell, Cell)
        return cell

    def start(self, tops: list[Tensor]) -> State:
        """A state per layer from one vector per layer."""
        return tuple(cell.start(h) for cell, h in zip(self._layers(), tops, strict=True))

    def masks(self, like: Tensor) -> Tensor:
        """Recurrent dropout: (N, L, hidden), drawn once per sequence; (N, 0, 0) for none."""
        rate = self.spec.recurrent_dropout
        if not (self.training and rate):
            return like.new_zeros(len(like), 0, 0)
        keep = like.new_full((len(like), self.spec.layers, self.spec.hidden), 1 - rate)
        return torch.bernoulli(keep) / (1 - rate)

    def step(self, gates: Tensor, state: State, masks: Tensor) -> tuple[Tensor, State]:
        """One step of all layers, from the input's share of the bottom layer's gates."""
        states = []
        x = gates  # replaced by the bottom layer's output before anything reads it
        for level, cell in enumerate(self._layers()):
            if level:
                gates = cell.project(self.dropout(x))
            new = cell.advance(gates, _drop_hidden(state[level], masks, level))
            states.append(new)
            x = self.join(x, new[0], level)
        return x, tuple(states)

    def unroll(self, xs: Tensor, state: State, masks: Tensor) -> tuple[Tensor, State]:
        """All steps of all layers, for inputs (B, T, size) known in advance. Equals stepping."""
        finals = []
        for level, cell in enumerate(self._layers()):
            dropped = masks[:, level] if masks.numel() else None
            inputs = self.dropout(xs) if level else xs
            hs, final = sequence.run(cell, inputs, state[level], dropped=dropped)
            finals.append(final)
            xs = self.join(xs, hs, level)
        return xs, tuple(finals)

    def join(self, x: Tensor, h: Tensor, level: int) -> Tensor:
        """What goes up to the next layer."""
        return h + x if self.spec.residual and level else h

    def _layers(self) -> list[Cell]:
        return _cells(self.cells)


def _cells(modules: nn.Module) -> list[Cell]:
    return [module for module in modules.children() if isinstance(module, Cell)]


def _drop_hidden(state: State, masks: Tensor, level: int) -> State:
    """Recurrent dropout on h alone, never on a memory cell (Gal and Ghahramani 2016)."""
    return (state[0] * masks[:, level], *state[1:]) if masks.numel() else state


class Reader(nn.Module):
    """Layers of cells over whole sequences of unequal length, in one direction or both."""

    def __init__(self, spec: StackSpec, size: int, bidirectional: bool) -> None:
        super().__init__()
        self.spec, self.directions = spec, 2 if bidirectional else 1
        self.width = spec.hidden * self.directions
        sizes = [size] + [self.width] * (spec.layers - 1)
        self.layers = nn.ModuleList(
            nn.ModuleList(make_cell(spec, s) for _ in range(self.directions)) for s in sizes
        )
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, source: Padded) -> tuple[Tensor, State]:
        """Annotations (B, S, width) and, per layer, the last state with both directions side by
        side.
        """
        xs, mask = source
        finals = []
        for level, layer in enumerate(self.layers):
            inputs = self.dropout(xs) if level else xs
            hs, final = self._read(_cells(layer), inputs, mask)
            finals.append(final)
            xs = hs + xs if self.spec.residual and level else hs
        return xs, tuple(finals)

    @property
    def bottom(self) -> Cell:
        """The first layer's forward cell."""
        return _cells(self.layers[0])[0]

    def _read(self, cells: list[Cell], xs: Tensor, mask: Tensor) -> tuple[Tensor, State]:
        """One layer, in one direction or both, side by side."""
        states = [cell.start(xs.new_zeros(len(xs), self.spec.hidden)) for cell in cells]
        drops = self.training and self.spec.recurrent_dropout > 0
        both = len(cells) == 2 and cells[0].native() in ("gru", "lstm") and xs.size(1)
        if both and not drops and has_triton(xs.device, xs.dtype):
            return sequence.layer(cells, xs, states, mask)
        found = []
        for way, (cell, state) in enumerate(zip(cells, states, strict=True)):
            keep = torch.full_like(state[0], 1 - self.spec.recurrent_dropout)
            dropped = torch.bernoulli(keep) / keep if drops else None
            found.append(sequence.run(cell, xs, state, mask, reverse=way == 1, dropped=dropped))
        if len(found) == 1:
            return found[0]
        every, ends = zip(*found, strict=True)
        return torch.cat(every, -1), tuple(torch.cat(s, -1) for s in zip(*ends, strict=True))
