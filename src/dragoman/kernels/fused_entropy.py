# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Scores to their gradient in place, as a Triton kernel: one program per row, two passes."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 2048


@triton.jit
def _slopes(scores, targets, sums, V, row, smoothing, BV: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    target = tl.load(targets + i)
    scores += i * row
    o = tl.arange(0, BV)
    high = tl.full([BV], -1e30, tl.float32)
    grown = tl.zeros([BV], tl.float32)
    plain = tl.zeros([BV], tl.float32)
    for begin in range(0, V, BV):
        ok = begin + o < V
        x = tl.load(scores + begin + o, mask=ok, other=-1e30).to(tl.float32)
        higher = tl.maximum(high, x)
        grown = grown * tl.exp(high - higher) + tl.where(ok, tl.exp(x - higher), 0.0)
        plain += tl.where(ok, x, 0.0)
        high = higher
    top = tl.max(high, 0)
    whole = top + tl.log(tl.sum(grown * tl.exp(high - top), 0))
    counts = tl.where(target >= 0, 1.0, 0.0)
    own = tl.load(scores + tl.maximum(target, 0)).to(tl.float32)
    nll = (whole - own) * counts
    spread = (whole - tl.sum(plain, 0) / V) * counts
    tl.store(sums + 2 * i, (1 - smoothing) * nll + smoothing * spread)
    tl.store(sums + 2 * i + 1, nll)
    for begin in range(0, V, BV):
        ok = begin + o < V
        x = tl.load(scores + begin + o, mask=ok, other=-1e30).to(tl.float32)
        here = tl.where(begin + o == target, 1 - smoothing, 0.0) + smoothing / V
        slope = (tl.exp(x - whole) - here) * counts
        tl.store(scores + begin + o, slope.to(scores.dtype.element_ty), mask=ok)


def slopes(scores: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """`entropy._plain`: what is minimised and −Σ log p; the scores become the gradient."""
    rows, size = scores.shape
    sums = scores.new_empty(rows, 2, dtype=torch.float32)
    _slopes[(rows,)](
        scores, targets, sums, size, scores.stride(0), smoothing, BV=BLOCK, num_warps=8
    )
    return sums.sum(0)
