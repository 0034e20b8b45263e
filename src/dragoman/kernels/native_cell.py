"""Cells, one step forward and one step back, by routines in C: float32 on a CPU."""

from torch import Tensor

from dragoman.kernels import native
from dragoman.kernels.plain import Past


class GRU:
    """As `plain.GRU`."""

    acts = 3

    @staticmethod
    def step(x: Tensor, at: Past) -> None:
        native.gru(x, None, at.gates, at.h, at.new_h, at.acts)

    @staticmethod
    def back(
        h: Tensor, outer: Tensor | None, c: Tensor, at: Past, x: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The gradient of the state is written over."""
        native.call("gru_back", *_strided(h, outer, at.acts, at.gates, at.h, x, gates), *h.shape)
        return h, c


class LSTM:
    """As `plain.LSTM`."""

    acts = 4

    @staticmethod
    def step(x: Tensor, at: Past) -> None:
        native.lstm(x, None, at.gates, at.c, (at.new_h, at.new_c), at.acts)

    @staticmethod
    def back(
        h: Tensor, outer: Tensor | None, c: Tensor, at: Past, x: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The gradient of the state is written over; that of the memory may be another's."""
        c = c.clone()
        parts = _strided(h, outer, c, at.acts, at.c, at.new_c, x, gates)
        native.call("lstm_back", *parts, *h.shape)
        return h, c


def _strided(*parts: Tensor | None) -> list[Tensor | int | None]:
    """Matrices, and how far their rows are apart."""
    return [part for one in parts for part in (one, 0 if one is None else one.stride(0))]
