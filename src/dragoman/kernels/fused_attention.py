# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Attention, one step forward and one step back, as Triton kernels: one program per row.

A program walks over its row's memory up to the last real position, so padding costs nothing. It
keeps energies in the row of weights it is about to write, hence the barriers. What differs by j is
summed elementwise in a tile and reduced once per tile.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from dragoman.kernels.fused_cells import fast, tanh, wide


@triton.jit
def _look(
    q, k, v, score, real, last, base, weights, out, S, q_row, base_row,
    A: tl.constexpr, D: tl.constexpr, TS: tl.constexpr, TJ: tl.constexpr, BA: tl.constexpr,
    BD: tl.constexpr, MLP: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    n = tl.load(last + b)
    k += b * S * A
    v += b * S * D
    weights += b * S
    energies(q + b * q_row, k, score, weights, n, A, TJ, BA, MLP, FAST)
    normalise(weights, real + b * S, n, S, TS)
    for d0 in tl.static_range(0, D, BD):
        d = d0 + tl.arange(0, BD)
        mixed = tl.load(base + b * base_row + d, mask=d < D, other=0.0).to(tl.float32)
        for j0 in range(0, n, TJ):
            for step in tl.static_range(0, TJ):
                at = j0 + step
                share = tl.load(weights + at, mask=at < n, other=0.0)
                mixed += share * tl.load(v + at * D + d, mask=d < tl.where(at < n, D, 0), other=0.0)
        tl.store(out + b * D + d, mixed.to(out.dtype.element_ty), mask=d < D)


@triton.jit
def energies(
    q, k, score, out, n,
    A: tl.constexpr, TJ: tl.constexpr, BA: tl.constexpr, MLP: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """How a query meets the first n keys of its item."""
    for j0 in range(0, n, TJ):
        j = j0 + tl.arange(0, TJ)
        summed = tl.zeros([TJ, BA], tl.float32)
        for a0 in tl.static_range(0, A, BA):
            a = a0 + tl.arange(0, BA)
            query = tl.load(q + a, mask=a < A, other=0.0).to(tl.float32)
            inside = (j < n)[:, None] & (a < A)[None, :]
            keys = tl.load(k + j[:, None] * A + a[None, :], mask=inside, other=0.0).to(tl.float32)
            if MLP:
                by = tl.load(score + a, mask=a < A, other=0.0).to(tl.float32)
                summed += by[None, :] * tanh(query[None, :] + keys, FAST)
            else:
                summed += query[None, :] * keys
        tl.store(out + j, tl.sum(summed, 1), mask=j < n)


@triton.jit
def normalise(weights, real, n, S, TS: tl.constexpr):
    """Energies to weights, in place; a row with nothing to see sees nothing."""
    tl.debug_barrier()
    j = tl.arange(0, TS)
    counts = tl.load(real + j, mask=j < n, other=0) != 0
    found = tl.load(weights + j, mask=counts, other=-float("inf"))
    tl.debug_barrier()
    top = tl.maximum(tl.max(found, 0), -1e30)
    grown = tl.where(counts, tl.exp(found - top), 0.0)
    total = tl.sum(grown, 0)
    tl.store(weights + j, grown / tl.where(total > 0, total, 1.0), mask=j < S)
    tl.debug_barrier()


@triton.jit
def _back(
    q, k, v, score, last, mixed_grad, weights, outer, energies_grad, query_grad, S, q_row, out_row,
    A: tl.constexpr, D: tl.constexpr, TS: tl.constexpr, TJ: tl.constexpr, BA: tl.constexpr,
    BD: tl.constexpr, MLP: tl.constexpr, OUTER: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0).to(tl.int64)
    n = tl.load(last + b)
    k += b * S * A
    v += b * S * D
    energies_grad += b * S
    for j0 in range(0, n, TJ):
        j = j0 + tl.arange(0, TJ)
        summed = tl.zeros([TJ, BD], tl.float32)
        for d0 in tl.static_range(0, D, BD):
            d = d0 + tl.arange(0, BD)
            by = tl.load(mixed_grad + b * D + d, mask=d < D, other=0.0).to(tl.float32)
            inside = (j < n)[:, None] & (d < D)[None, :]
            values = tl.load(v + j[:, None] * D + d[None, :], mask=inside, other=0.0)
            summed += by[None, :] * values.to(tl.float32)
        tl.store(energies_grad + j, tl.sum(summed, 1), mask=j < n)
    tl.debug_barrier()
    _through_softmax(weights + b * S, outer + b * S, energies_grad, n, S, TS, OUTER)
    for a0 in tl.static_range(0, A, BA):
        a = a0 + tl.arange(0, BA)
        query = tl.load(q + b * q_row + a, mask=a < A, other=0.0).to(tl.float32)
        found = tl.zeros([BA], tl.float32)
        for j0 in range(0, n, TJ):
            for step in tl.static_range(0, TJ):
                at = j0 + step
                grad = tl.load(energies_grad + at, mask=at < n, other=0.0)
                inside_row = a < tl.where(at < n, A, 0)
                keys = tl.load(k + at * A + a, mask=inside_row, other=0.0).to(tl.float32)
                if MLP:
                    hidden = tanh(query + keys, FAST)
                    found += grad * (1 - hidden * hidden)
                else:
                    found += grad * keys
        if MLP:
            found *= tl.load(score + a, mask=a < A, other=0.0).to(tl.float32)
        tl.store(query_grad + b * out_row + a, found.to(query_grad.dtype.element_ty), mask=a < A)


@triton.jit
def _through_softmax(weights, outer, energies_grad, n, S, TS: tl.constexpr, OUTER: tl.constexpr):
    """The weights' gradient to the energies', in place."""
    j = tl.arange(0, TS)
    share = tl.load(weights + j, mask=j < S, other=0.0)
    inner = tl.load(energies_grad + j, mask=j < n, other=0.0)
    if OUTER:
        inner += tl.load(outer + j, mask=j < S, other=0.0).to(tl.float32)
    tl.debug_barrier()
    tl.store(energies_grad + j, share * (inner - tl.sum(share * inner, 0)), mask=j < S)
    tl.debug_barrier()


@triton.jit
def _keys(
    q, energies_grad, k, score, last, keys_grad, score_grad, T, B, S, q_row, q_step,
    A: tl.constexpr, TJ: tl.constexpr, BA: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """Gradients of an MLP's keys and score: all steps of a tile of keys, recomputing its tanh."""
    b = tl.program_id(0).to(tl.int64)
    a = tl.program_id(1) * BA + tl.arange(0, BA)
    block = tl.program_id(2)
    j = block * TJ + tl.arange(0, TJ)
    n = tl.load(last + b)
    inside = (j < n)[:, None] & (a < A)[None, :]
    place = b * S * A + j[:, None] * A + a[None, :]
    keys = tl.load(k + place, mask=inside, other=0.0).to(tl.float32)
    by = tl.load(score + a, mask=a < A, other=0.0).to(tl.float32)
    slopes = tl.zeros([TJ, BA], tl.float32)
    scores = tl.zeros([TJ, BA], tl.float32)
    for t in range(T):
        query = tl.load(q + t * q_step + b * q_row + a, mask=a < A, other=0.0).to(tl.float32)
        grad = tl.load(energies_grad + (t * B + b) * S + j, mask=j < n, other=0.0)
        hidden = tanh(query[None, :] + keys, FAST)
        slopes += grad[:, None] * (1 - hidden * hidden)
        scores += grad[:, None] * hidden
    kept = (j < S)[:, None] & (a < A)[None, :]
    tl.store(keys_grad + place, (slopes * by[None, :]).to(keys_grad.dtype.element_ty), mask=kept)
    row = b * tl.num_programs(2) + block
    tl.store(score_grad + row * A + a, tl.sum(scores, 0), mask=a < A)


class Attention:
    """`plain.Attention` without coverage."""

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        score: Tensor | None,
        real: Tensor,
        cover: Tensor | None,
    ) -> None:
        assert cover is None
        self.keys, self.values, self.score = keys, values, score
        self.real = real.to(torch.int8)
        places = torch.arange(1, real.size(1) + 1, device=real.device, dtype=torch.int32)
        self.last = torch.zeros(len(real), dtype=torch.int32, device=real.device)
        if real.size(1):
            self.last = (real * places).amax(1)
        A, D = keys.size(2), values.size(2)
        large = max(A, D) > 2048
        self.sizes = {
            "A": A,
            "D": D,
            "TS": wide(real.size(1)),
            "TJ": 8 if large else 16,
            "MLP": score is not None,
            "FAST": fast(keys),
        }
        self.there = {"BA": min(wide(A), 1024 if large else 512), "BD": min(wide(D), 1024)}
        self.home = {"BA": min(wide(A), 512), "BD": min(wide(D), 512)}

    def look(self, query: Tensor, base: Tensor, seen: Tensor | None, weights: Tensor) -> Tensor:
        out = base.new_empty(base.shape)
        _look[(len(query),)](
            query, self.keys, self.values, self._score(), self.real, self.last, base, weights, out,
            self.real.size(1), query.stride(0), base.stride(0),
            **self.sizes, **self.there, num_warps=8,
        )  # fmt: skip
        return out

    def begin_back(self) -> None:
        pass

    def back(
        self,
        query: Tensor,
        mixed_grad: Tensor,
        weights: Tensor,
        weights_grad: Tensor | None,
        seen: Tensor | None,
        energies_grad: Tensor,
        query_grad: Tensor,
    ) -> Tensor | None:
        outer = weights if weights_grad is None else weights_grad.contiguous()
        _back[(len(query),)](
            query, self.keys, self.values, self._score(), self.last, mixed_grad, weights, outer,
            energies_grad, query_grad, self.real.size(1), query.stride(0), query_grad.stride(0),
            **self.sizes, **self.home, OUTER=weights_grad is not None, num_warps=8,
        )  # fmt: skip
        return None

    def grads(
        self, queries: Tensor, weights: Tensor, energies_grad: Tensor, mixed_grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        kind = self.values.dtype
        values = torch.bmm(weights.permute(1, 2, 0).to(kind), mixed_grad.transpose(0, 1))
        if self.score is None:
            keys = torch.bmm(energies_grad.permute(1, 2, 0).to(kind), queries.transpose(0, 1))
            return keys, values, None, None
        (steps, rows, width), long = energies_grad.shape, self.keys.size(2)
        keys, tile, blocks = torch.empty_like(self.keys), 64, max(1, triton.cdiv(width, 16))
        score = self.keys.new_empty(rows * blocks, long, dtype=torch.float32)
        _keys[(rows, triton.cdiv(long, tile), blocks)](
            queries, energies_grad, self.keys, self.score, self.last, keys, score,
            steps, rows, width, queries.stride(1), queries.stride(0),
            A=long, TJ=16, BA=tile, FAST=self.sizes["FAST"], num_warps=4,
        )  # fmt: skip
        return keys, values, score.sum(0), None

    def _score(self) -> Tensor:
        return self.keys if self.score is None else self.score
