# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""Kernels that follow each other closely, and products of a few rows among them.

A kernel that reads what the one before it wrote may begin before that one ends, and do so far what
depends on nothing: a product fetches its weights. NVIDIA's GPUs know that from Hopper on. Each
kernel of such a chain first lets the next one begin, and waits before it reads or writes.
"""

import functools

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from dragoman.kernels.fused_cells import wide

FEW = 16  # rows
COLUMNS = 64  # of one program
DEEP = 512  # numbers of a row that are multiplied at a time


@triton.jit
def let(CHAIN: tl.constexpr):
    """The next kernel may begin."""
    if CHAIN:
        gdc_launch_dependents()


@triton.jit
def wait(CHAIN: tl.constexpr):
    """Until the kernel before this one has ended."""
    if CHAIN:
        gdc_wait()


@triton.jit
def follow(CHAIN: tl.constexpr):
    """Of kernels that do nothing beforehand."""
    let(CHAIN)
    wait(CHAIN)


def chain(like: Tensor) -> dict[str, bool]:
    """What a kernel of a chain is told."""
    can = like.is_cuda and _chains(like.device)
    return {"CHAIN": True, "launch_pdl": True} if can else {"CHAIN": False}


@functools.cache
def _chains(device: torch.device) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device)[0] >= 9


@triton.jit
def _thin(
    x, weight, bias, out, N, x_row, out_row,
    M: tl.constexpr, K: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    CHAIN: tl.constexpr,
):  # fmt: skip
    n, m, k = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BM), tl.arange(0, BK)
    let(CHAIN)
    weight += n[None, :].to(tl.int64) * K + k[:, None]
    part = tl.load(weight, mask=(n < N)[None, :] & (k < K)[:, None], other=0.0)
    total = tl.zeros([BM, BN], tl.float32)
    total += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    wait(CHAIN)
    for k0 in tl.static_range(0, K, BK):
        there = k0 + k < K
        if k0 > 0:
            part = tl.load(weight + k0, mask=(n < N)[None, :] & there[:, None], other=0.0)
        rows = x + m[:, None] * x_row + k0 + k[None, :]
        mine = tl.load(rows, mask=(m < M)[:, None] & there[None, :], other=0.0)
        total = tl.dot(mine, part, total, input_precision="ieee")
    inside = (m < M)[:, None] & (n < N)[None, :]
    tl.store(out + m[:, None] * out_row + n[None, :], total.to(out.dtype.element_ty), mask=inside)


def thin(x: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> None:
    """x Wᵀ + b of a few rows: x (M, K), weight (N, K) without gaps, bias (N,), out (M, N)."""
    (rows, size), columns = x.shape, len(weight)
    assert rows <= FEW
    _thin[(triton.cdiv(columns, COLUMNS),)](
        x, weight, bias, out, columns, x.stride(0), out.stride(0),
        M=rows, K=size, BM=FEW, BN=COLUMNS, BK=max(16, min(wide(size), DEEP)),
        **chain(x), num_warps=4,
    )  # fmt: skip


def suits(rows: int, weight: Tensor) -> bool:
    """Whether products of so many rows take less time so: in half precision, within a chain."""
    return rows <= FEW and weight.dtype == torch.bfloat16 and chain(weight)["CHAIN"]
