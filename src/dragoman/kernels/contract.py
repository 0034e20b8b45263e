"""What a recurrence with attention inside reads and gives, whoever computes it.

    before   m = x_t + β Σ_j a_j(h) v_j       h' = φ(m, h)          v_j: memory through the gates
    fed      m = x_t + F f                    h' = φ(m, h)
             f' = keep_t ⊙ tanh(w_t + R h' + Σ_j a_j(h') v_j)       v_j: memory through the readout

Attention stands before the cell (Bahdanau et al. 2015), perhaps behind a gate β = σ(g·h + b) (Xu et
al. 2015), or after it with the attentional vector f fed to the next step (Luong et al. 2015). Above
the first layer, φ reads the layer below.
"""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

CellKind = Literal["rnn", "gru", "gru-before", "lstm"]
Parts = Literal["torch", "native", "triton"]


class Plan(NamedTuple):
    """What kind of recurrence it is."""

    cell: CellKind
    before: bool  # attention before the cell; else after it, fed
    residual: bool = False  # a layer's input is added to its output, above the first
    parts: Parts = "torch"  # who computes a step
    low: bool = False  # native: products in bfloat16


class Layer(NamedTuple):
    """One layer: weights, and where it begins."""

    weight: Tensor  # (Q + R + G, H): in the top layer the query and the readout, then the gates
    bias: Tensor
    inward: Tensor | None  # (G, H) reads the layer below
    inward_bias: Tensor | None
    inner: Tensor | None  # (H, H) a GRU's candidate, where the reset comes before the product
    inner_bias: Tensor | None
    h: Tensor  # (B, H)
    c: Tensor | None  # (B, H) an LSTM's memory
    mask: Tensor | None  # (B, H) recurrent dropout
    drop: Tensor | None  # (T, B, H) dropout of what the layer reads


class Given(NamedTuple):
    """What the recurrence reads."""

    gates: Tensor  # (T, B, G) the input's share of the bottom gates
    keys: Tensor  # (B, S, A)
    values: Tensor  # (B, S, G), or (B, S, R) when fed
    real: Tensor  # (B, S)
    score: Tensor | None  # (A,) of an MLP; energies are dot products where there is none
    cover: Tensor | None  # (A,) how coverage enters the MLP
    seen: Tensor | None  # (B, S) coverage so far
    valve: Tensor | None  # (H,) before: how the top state opens the gate on what is seen
    valve_bias: Tensor | None  # (1,)
    word: Tensor | None  # (T, B, R) fed: the input's share of the readout, if it has one
    fed: Tensor | None  # (B, R) fed: the last features
    inject: Tensor | None  # (G, R) fed: features to gates
    keep: Tensor | None  # (T, B, R) fed: dropout of the features
    layers: tuple[Layer, ...]

    def flat(self) -> list[Tensor | None]:
        return [*self[:-1], *(tensor for layer in self.layers for tensor in layer)]

    @classmethod
    def of(cls, flat: tuple[Any, ...]) -> "Given":
        own, width = len(cls._fields) - 1, len(Layer._fields)
        rest = flat[own:]
        layers = tuple(Layer(*rest[i : i + width]) for i in range(0, len(rest), width))
        return cls._make((*flat[:own], layers))

    @property
    def queries(self) -> int:
        """Rows of the top layer's weight that make the query; a dot product asks with h itself."""
        return 0 if self.score is None else self.keys.size(2)

    @property
    def readouts(self) -> int:
        """Rows of the top layer's weight that make the readout."""
        return 0 if self.fed is None else self.fed.size(1)

    def gate_rows(self, level: int) -> int:
        """Rows of a layer's weight that make gates; they are the last ones."""
        top = level == len(self.layers) - 1
        return len(self.layers[level].weight) - (self.queries + self.readouts if top else 0)


class Track(NamedTuple):
    """One layer's course; entry t of `h`, `c` and `said` is before step t, so there are T + 1."""

    h: Tensor  # (T + 1, B, H)
    c: Tensor  # (T + 1, B, H); no columns where there is no memory cell
    said: Tensor  # (T + 1, B, Q + R + G) the product of h and the layer's weight
    acts: Tensor  # (T, B, ...) the gates as they opened
    read: Tensor  # (T, B, H) what came from below; no columns in the bottom layer


class Tape(NamedTuple):
    """What the way back needs of the way there."""

    weights: Tensor  # (T, B, S)
    features: Tensor | None  # (T, B, R) when fed
    shown: Tensor | None  # (T, B, R) the same before dropout
    opened: Tensor | None  # (T, B) the gate on what is seen
    found: Tensor | None  # (T, B, G) what stood before that gate
    tracks: tuple[Track, ...]

    def flat(self) -> list[Tensor | None]:
        return [*self[:-1], *(tensor for track in self.tracks for tensor in track)]

    @classmethod
    def of(cls, flat: tuple[Any, ...]) -> "Tape":
        own, width = len(cls._fields) - 1, len(Track._fields)
        rest = flat[own:]
        tracks = tuple(Track(*rest[i : i + width]) for i in range(0, len(rest), width))
        return cls._make((*flat[:own], tracks))


class Result(NamedTuple):
    """What comes of it."""

    tops: Tensor  # (T, B, H)
    weights: Tensor  # (T, B, S)
    features: Tensor | None  # (T, B, R) when fed
    seen: Tensor | None
    states: tuple[tuple[Tensor, ...], ...]  # per layer


class Grads(NamedTuple):
    """Gradients of a result; None is zero."""

    tops: Tensor | None
    weights: Tensor | None
    features: Tensor | None
    seen: Tensor | None
    states: tuple[Tensor | None, ...]  # of all layers, side by side


def full(dtype: torch.dtype) -> torch.dtype:
    """The type in which weights of attention and memory cells are kept.

    >>> full(torch.bfloat16), full(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.float32 if dtype.itemsize < 4 else dtype
