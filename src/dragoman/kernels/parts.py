"""Whose attention and whose cells a recurrence is made of."""

from typing import Protocol

from torch import Tensor

from dragoman.kernels import native_cell, plain
from dragoman.kernels.contract import Given, Layer, Plan, Tape
from dragoman.kernels.plain import Past


class Attention(Protocol):
    """One look at the memory, there and back (see `plain.Attention`)."""

    def look(self, query: Tensor, base: Tensor, seen: Tensor | None, weights: Tensor) -> Tensor: ...
    def begin_back(self) -> None: ...
    def back(
        self,
        query: Tensor,
        mixed_grad: Tensor,
        weights: Tensor,
        weights_grad: Tensor | None,
        seen: Tensor | None,
        energies_grad: Tensor,
        query_grad: Tensor,
    ) -> Tensor | None: ...
    def grads(
        self, queries: Tensor, weights: Tensor, energies_grad: Tensor, mixed_grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]: ...


class Cell(Protocol):
    """One step of a cell, there and back (see `plain.GRU`)."""

    acts: int

    def step(self, x: Tensor, at: Past) -> None: ...
    def back(
        self, h: Tensor, outer: Tensor | None, c: Tensor, at: Past, x: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]: ...


def make_attention(plan: Plan, given: Given) -> Attention:
    """The attention of a plan."""
    memory = given.keys, given.values, given.score, given.real, given.cover
    if plan.parts == "triton":
        from dragoman.kernels.fused_attention import Attention as Fused

        return Fused(*memory)
    if plan.parts == "native":
        from dragoman.kernels.native_attention import Attention as Native

        return Native(*memory)
    return plain.Attention(*memory)


def make_cell(plan: Plan, layer: Layer) -> Cell:
    """The cell of a plan's layer."""
    if plan.parts == "triton":
        from dragoman.kernels import fused_cells

        return fused_cells.LSTM() if plan.cell == "lstm" else fused_cells.GRU()
    if plan.cell == "gru-before":
        assert layer.inner is not None
        assert layer.inner_bias is not None
        return plain.GRUBefore(layer.inner, layer.inner_bias)
    if plan.parts == "native" and plan.cell in ("gru", "lstm"):
        return native_cell.GRU() if plan.cell == "gru" else native_cell.LSTM()
    simple: dict[str, type[Cell]] = {"rnn": plain.RNN, "gru": plain.GRU, "lstm": plain.LSTM}
    return simple[plan.cell]()


def past(given: Given, tape: Tape, level: int, t: int) -> Past:
    """What a cell has before it at step t."""
    track, mask = tape.tracks[level], given.layers[level].mask
    h = track.h[t] if mask is None else track.h[t] * mask
    gates = track.said[t][:, -given.gate_rows(level) :]
    return Past(h, track.c[t], gates, track.acts[t], track.h[t + 1], track.c[t + 1])
