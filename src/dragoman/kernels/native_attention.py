"""Attention, one step forward and one step back, by routines in C: float32 on a CPU."""

import torch
from torch import Tensor

from dragoman.kernels import native


class Attention:
    """As `plain.Attention`, without coverage: each look is one pass over the memory."""

    def __init__(
        self,
        keys: Tensor,  # (B, S, A)
        values: Tensor,  # (B, S, D)
        score: Tensor | None,  # (A,) of the MLP; a dot product where there is none
        real: Tensor,  # (B, S)
        cover: Tensor | None,
    ) -> None:
        assert cover is None
        powers = None if score is None else native.powers(keys, 2.0)
        self.memory = native.Seen(keys, powers, values, real.contiguous())
        self.score = None if score is None else score * 2

    def look(self, query: Tensor, base: Tensor, seen: Tensor | None, weights: Tensor) -> Tensor:
        """base + Σ a_j v_j (B, D); the weights a (B, S) are written."""
        return native.look(self.memory, self.score, 2.0, query, base, weights)

    def begin_back(self) -> None:
        """Make room for what the way back sums up."""
        keys = self.memory.keys
        self.key_grad = torch.zeros_like(keys)
        self.score_grad = keys.new_zeros(len(keys), keys.size(2))

    def back(
        self,
        query: Tensor,
        mixed_grad: Tensor,
        weights: Tensor,
        weights_grad: Tensor | None,
        seen: Tensor | None,
        energies_grad: Tensor,
        query_grad: Tensor,
    ) -> None:
        """Writes the gradients of energies (B, S) and query (B, A)."""
        keys, values = self.memory.keys, self.memory.values
        outer = None if weights_grad is None else weights_grad.contiguous()
        lead = *self.memory, self.score, 2.0, query, query.stride(0)
        more = mixed_grad, mixed_grad.stride(0), weights, outer, energies_grad
        sums = query_grad, query_grad.stride(0), self.key_grad, self.score_grad
        native.call("look_back", *lead, *more, *sums, *keys.shape, values.size(2))

    def grads(
        self, queries: Tensor, weights: Tensor, energies_grad: Tensor, mixed_grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Gradients of keys, values, score and cover, from all steps (T, B, ...)."""
        values = torch.bmm(weights.permute(1, 2, 0), mixed_grad.transpose(0, 1))
        if self.score is None:
            keys = torch.bmm(energies_grad.permute(1, 2, 0), queries.transpose(0, 1))
            return keys, values, None, None
        return self.key_grad * (2 * self.score), values, 2 * self.score_grad.sum(0), None
