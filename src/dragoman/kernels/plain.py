"""Attention and cells, one step forward and one step back, with torch's own operations.

These are the parts that `recurrence` puts together. They write into buffers that are given, and
leave to the end of the loop whatever can be computed for all steps at once.
"""

import torch
from torch import Tensor

from dragoman.kernels.contract import full


class Attention:
    """Energies, softmax and sum over the memory.

    An MLP's energies v·tanh(q + k_j) are taken as 2v·σ(2q + 2k_j): the difference is the same for
    all j, so the softmax does not see it, and a sigmoid costs a sixth of a tanh on a CPU.
    """

    def __init__(
        self,
        keys: Tensor,  # (B, S, A)
        values: Tensor,  # (B, S, D)
        score: Tensor | None,  # (A,) of the MLP; a dot product where there is none
        real: Tensor,  # (B, S)
        cover: Tensor | None,  # (A,) how coverage enters the MLP
    ) -> None:
        self.values, self.real, self.full = values, real, full(keys.dtype)
        self.low = torch.zeros(real.shape, dtype=self.full, device=real.device)
        self.low.masked_fill_(~real, torch.finfo(self.full).min)
        self.keys = keys if score is None else keys * 2
        self.score = None if score is None else score * 2
        self.cover = None if cover is None else cover * 2
        if score is not None:
            self.hidden = torch.empty_like(keys)

    def look(self, query: Tensor, base: Tensor, seen: Tensor | None, weights: Tensor) -> Tensor:
        """base + Σ a_j v_j (B, D); the weights a (B, S) are written."""
        if self.score is None:
            energies = torch.bmm(self.keys, query.unsqueeze(2)).squeeze(2)
        else:
            self._activate(query, seen)
            energies = (self.hidden.flatten(0, 1) @ self.score).view(self.real.shape)
        torch.softmax(energies.to(self.full) + self.low, -1, out=weights)
        weights *= self.real
        kind = self.values.dtype
        return torch.baddbmm(base.unsqueeze(1), weights.unsqueeze(1).to(kind), self.values)[:, 0]

    def begin_back(self) -> None:
        """Make room for what the way back sums up."""
        if self.score is not None:
            shape = self.keys.shape
            self.key_grad = torch.zeros_like(self.keys)
            self.score_grad = self.keys.new_zeros(shape[0], shape[2])
            self.cover_grad = torch.zeros_like(self.score_grad)

    def back(
        self,
        query: Tensor,
        mixed_grad: Tensor,  # (B, D)
        weights: Tensor,
        weights_grad: Tensor | None,
        seen: Tensor | None,
        energies_grad: Tensor,  # (B, S) is written
        query_grad: Tensor,  # (B, A) is written
    ) -> Tensor | None:
        """The gradient of `seen`."""
        inner = torch.bmm(self.values, mixed_grad.unsqueeze(2)).squeeze(2).to(self.full)
        if weights_grad is not None:
            inner = inner + weights_grad
        inner = weights * (inner - (weights * inner).sum(-1, keepdim=True))
        energies_grad.copy_(inner)
        small = inner.to(self.keys.dtype)
        if self.score is None:
            query_grad.copy_(torch.bmm(small.unsqueeze(1), self.keys)[:, 0])
            return None
        self._activate(query, seen)
        self.score_grad += torch.bmm(small.unsqueeze(1), self.hidden)[:, 0]
        slope = self.hidden.addcmul_(self.hidden, self.hidden, value=-1)  # σ' = σ - σ²
        self.key_grad.addcmul_(small.unsqueeze(2), slope)
        torch.mul(torch.bmm(small.unsqueeze(1), slope)[:, 0], 2 * self.score, out=query_grad)
        if seen is None or self.cover is None:
            return None
        covered = (small * seen).unsqueeze(1).to(slope.dtype)
        self.cover_grad += torch.bmm(covered, slope)[:, 0]
        return inner * (slope @ (self.score * self.cover))

    def grads(
        self, queries: Tensor, weights: Tensor, energies_grad: Tensor, mixed_grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Gradients of keys, values, score and cover, from all steps (T, B, ...)."""
        kind = self.values.dtype
        values = torch.bmm(weights.permute(1, 2, 0).to(kind), mixed_grad.transpose(0, 1))
        if self.score is None:
            keys = torch.bmm(energies_grad.permute(1, 2, 0).to(kind), queries.transpose(0, 1))
            return keys, values, None, None
        cover = self.cover_grad.sum(0) * 2 * self.score if self.cover is not None else None
        return self.key_grad * (2 * self.score), values, 2 * self.score_grad.sum(0), cover

    def _activate(self, query: Tensor, seen: Tensor | None) -> None:
        torch.add(self.keys, query.unsqueeze(1), alpha=2, out=self.hidden)
        if seen is not None and self.cover is not None:
            self.hidden += seen.unsqueeze(2).to(self.hidden.dtype) * self.cover
        self.hidden.sigmoid_()


class Past:
    """Where a cell was before a step, and what the step said: views of the loop's buffers."""

    __slots__ = ("acts", "c", "gates", "h", "new_c", "new_h")

    def __init__(
        self, h: Tensor, c: Tensor, gates: Tensor, acts: Tensor, new_h: Tensor, new_c: Tensor
    ) -> None:
        self.h, self.c = h, c  # (B, H) the state; c is empty where there is no memory cell
        self.gates = gates  # (B, G) the state's share of the gates
        self.acts = acts  # (B, ...) the gates as they opened
        self.new_h, self.new_c = new_h, new_c


class RNN:
    """h' = tanh(x + h)."""

    acts = 0

    @staticmethod
    def step(x: Tensor, at: Past) -> None:
        torch.tanh(x + at.gates, out=at.new_h)

    @staticmethod
    def back(
        h: Tensor, outer: Tensor | None, c: Tensor, at: Past, x: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        """From the gradient of the new state (h plus `outer`, c) to that of the old one, as far as
        it does not pass through the gates; `x` and `gates` take those of the gates.
        """
        h = h if outer is None else h + outer
        torch.mul(h, 1 - at.new_h * at.new_h, out=x)
        gates.copy_(x)
        return torch.zeros_like(h), c


class GRU:
    """Reset after the product; acts are reset, update, new."""

    acts = 3

    @staticmethod
    def step(x: Tensor, at: Past) -> None:
        size = at.h.size(1)
        two, acts = 2 * size, at.acts
        torch.sigmoid(x[:, :two] + at.gates[:, :two], out=acts[:, :two])
        new = torch.addcmul(x[:, two:], acts[:, :size], at.gates[:, two:])
        torch.tanh(new, out=acts[:, two:])
        torch.lerp(acts[:, two:], at.h, acts[:, size:two], out=at.new_h)

    @staticmethod
    def back(
        h: Tensor, outer: Tensor | None, c: Tensor, at: Past, x: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        h = h if outer is None else h + outer
        size = h.size(1)
        two = 2 * size
        reset, update, new = at.acts.chunk(3, 1)
        direct = h * update
        torch.mul(h - direct, 1 - new * new, out=x[:, two:])
        torch.mul((at.h - new).mul_(direct), 1 - update, out=x[:, size:two])
        torch.mul(x[:, two:], reset, out=gates[:, two:])
        torch.mul(gates[:, two:] * at.gates[:, two:], 1 - reset, out=x[:, :size])
        gates[:, :two] = x[:, :two]
        return direct, c


class LSTM:
    """Acts are enter, forget, new, leave."""

    acts = 4

    @staticmethod
    def step(x: Tensor, at: Past) -> None:
        size, acts = at.h.size(1), at.acts
        two, three = 2 * size, 3 * size
        gates = x + at.gates
        torch.sigmoid(gates, out=acts)
        torch.tanh(gates[:, two:three], out=acts[:, two:three])
        torch.mul(acts[:, size:two], at.c, out=at.new_c)
        at.new_c.addcmul_(acts[:, :size], acts[:, two:three])
        torch.mul(acts[:, three:], at.new_c.tanh().to(acts.dtype), out=at.new_h)

    @staticmethod
    def back(
        h: Tensor, outer: Tensor | None, c: Tensor, at: Past, x: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        h = h if outer is None else h + outer
        size = h.size(1)
        enter, forget, new, leave = at.acts.chunk(4, 1)
        shown = at.new_c.tanh()
        c = c + h * leave * (1 - shown * shown)
        x[:, :size] = c * new * enter * (1 - enter)
        x[:, size : 2 * size] = c * at.c * forget * (1 - forget)
        x[:, 2 * size : 3 * size] = c * enter * (1 - new * new)
        x[:, 3 * size :] = h * shown * leave * (1 - leave)
        gates.copy_(x)
        return torch.zeros_like(h), c * forget


class GRUBefore:
    """Reset before the product: the product stands inside the step; acts as for the GRU."""

    acts = 3

    def __init__(self, inner: Tensor, bias: Tensor) -> None:
        self.inner, self.bias = inner, bias

    def step(self, x: Tensor, at: Past) -> None:
        size = at.h.size(1)
        two, acts = 2 * size, at.acts
        torch.sigmoid(x[:, :two] + at.gates, out=acts[:, :two])
        new = torch.addmm(self.bias, acts[:, :size] * at.h, self.inner.t()).add_(x[:, two:])
        torch.tanh(new, out=acts[:, two:])
        torch.lerp(acts[:, two:], at.h, acts[:, size:two], out=at.new_h)

    def back(
        self, h: Tensor, outer: Tensor | None, c: Tensor, at: Past, x: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor]:
        h = h if outer is None else h + outer
        size = h.size(1)
        two = 2 * size
        reset, update, new = at.acts.chunk(3, 1)
        direct = h * update
        torch.mul(h - direct, 1 - new * new, out=x[:, two:])
        torch.mul((at.h - new).mul_(direct), 1 - update, out=x[:, size:two])
        through = (x[:, two:] @ self.inner).mul_(reset)  # of the state, through the product
        torch.mul(through * at.h, 1 - reset, out=x[:, :size])
        gates.copy_(x[:, :two])
        return direct + through, c
