"""A GRU, one step forward and one step back, by routines in C: float32 on a CPU."""

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
        parts = h, outer, at.acts, at.gates, at.h, x, gates
        strided = (part for one in parts for part in (one, 0 if one is None else one.stride(0)))
        native.call("gru_back", *strided, *h.shape)
        return h, c
