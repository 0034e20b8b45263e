"""Sizes that a GPU multiplies fast.

Tensor cores take rows of 16 bytes at a time: in half precision, a product whose sizes are no
multiples of eight runs on routines of another age. Such sizes are widened with zeros where a
kernel begins, and its results are cut where it ends. Nobody else sees it: a unit whose weights are
zero stays zero in every cell, adds nothing to an energy, and takes no gradient home.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.nn import functional

ROW = 16  # bytes that tensor cores take at a time
FULL = 64  # the multiple that suits the tiles of a product
MOST = 8  # one part in so many may be added to reach it; else only whole rows are made
_wanted: ContextVar[int | None] = ContextVar("widths", default=None)


@contextmanager
def multiples(of: int) -> Iterator[None]:
    """Ask for multiples of a size on every device, whatever that costs; of 1: sizes as they are.

    >>> with multiples(of=8): wide(3, torch.empty(1))
    8
    """
    token = _wanted.set(of)
    try:
        yield
    finally:
        _wanted.reset(token)


def wide(size: int, like: Tensor) -> int:
    """The size at which a product of such tensors runs."""
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return size
    wanted = _wanted.get()
    if wanted is not None:
        return _up(size, wanted)
    if like.device.type != "cuda":
        return size
    return fitting(size, _kind(like).itemsize)


def fitting(size: int, itemsize: int) -> int:
    """What suits a GPU: only half precision runs on tensor cores here.

    >>> [fitting(size, itemsize=2) for size in (512, 1000, 620, 500, 100, 99)]
    [512, 1000, 640, 512, 104, 104]
    """
    row = ROW // itemsize
    if itemsize != 2 or size % row == 0:
        return size
    full = _up(size, FULL)
    return full if (full - size) * MOST <= size else _up(size, row)


def spread(tensor: Tensor, size: int, to: int, dim: int = -1) -> Tensor:
    """Zeros behind every `size` entries along a dimension, up to `to`.

    >>> spread(torch.tensor([1, 2, 3, 4]), size=2, to=3).tolist()
    [1, 2, 0, 3, 4, 0]
    """
    if size == to:
        return tensor
    dim %= tensor.dim()
    shape, behind = tensor.shape, [0, 0] * (tensor.dim() - 1 - dim)
    groups = tensor.reshape(*shape[:dim], shape[dim] // size, size, *shape[dim + 1 :])
    return functional.pad(groups, [*behind, 0, to - size]).flatten(dim, dim + 1)


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _kind(like: Tensor) -> torch.dtype:
    device = like.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else like.dtype
