"""Memory: kept from step to step. When it runs out: how to tell, what to say, and batches in
smaller parts.
"""

import ctypes
import os
import sys
from collections.abc import Sequence
from typing import Any

import torch

from dragoman.core import leaves, rebuild, tree_map
from dragoman.data.batches import Batch
from dragoman.model import Carried

# the last are what oneDNN says when it gets no memory
SAID = ("allocate memory", "not enough memory", "out of memory", "bad_alloc", "could not create a")
_held: list[bool] = []  # whether this process keeps memory, call by call
MAPPED, TRIM = -3, -1  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h


def hold() -> bool:
    """Let this process keep what it frees, up to 2 GiB, for its next step. Whether it does.

    glibc gives large blocks back, and the system clears each of their pages anew: up to a tenth
    of a step. Another allocator, or one that somebody has set up by its variables, stays as it is.
    This is for processes of Dragoman's own: others may want their memory back.
    """
    told = "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if told or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    sizes = 2**31 - 1, 2**25  # older ones take no more than the latter
    kept = any(_told("mallopt", MAPPED, size) for size in sizes)
    _held.append(kept and _told("mallopt", TRIM, 2**31 - 1))
    return _held[-1]


def let_go() -> None:
    """Give back what was kept and is not in use, now and from now on."""
    if not any(_held):
        return
    for what in (MAPPED, TRIM):
        _told("mallopt", what, 2**17)
    _told("malloc_trim", 0)


def _told(name: str, *given: int) -> bool:
    """What glibc's allocator answers, where it is there."""
    if sys.platform != "linux":
        return False
    routine = getattr(ctypes.CDLL(None), name, None)
    return routine is not None and routine(*given) == 1


def starved(error: BaseException) -> bool:
    """Whether an error means that there is no memory left; the CPU has no class for that.

    >>> starved(MemoryError()), starved(RuntimeError("std::bad_alloc")), starved(ValueError("x"))
    (True, True, False)
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error).lower() for said in SAID)


def complaint(group: Sequence[Batch], parts: int, number: int) -> str:
    """What people need to know: how large the batch was that did not fit."""
    batch = max(group, key=lambda batch: batch.target.mask.numel())
    rows, target = batch.target.mask.shape
    sources = [t.shape[1] for t in leaves(batch.source) if t.dtype == torch.bool]
    told = f"a batch of {rows} rows" + (f", read in {parts} parts" if parts > 1 else "")
    lengths = f"sources of up to {max(sources)} and " if any(sources) else ""
    return (
        f"out of memory at step {number}: {told}, {lengths}targets of up to {target} symbols: "
        "lower train.batch_tokens (or train.batch_size) or max_length, or try --auto-batch; "
        "the last checkpoint is unharmed"
    )


def parted(tree: Any, parts: int) -> list[Any]:
    """A batch, or a state that is carried along, cut by rows; fewer parts where rows are few.

    >>> [one.tolist() for one in parted(torch.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    if parts == 1:
        return [tree]
    rows = len(tree.rows) if isinstance(tree, Batch) else len(leaves(tree)[0])
    width = -(-rows // parts)
    return [_rows(tree, slice(begin, begin + width)) for begin in range(0, rows, width)]


def _rows(tree: Any, some: slice) -> Any:
    if isinstance(tree, Batch):
        return Batch(_rows(tree.source, some), _rows(tree.target, some), tree.rows[some])
    return tree_map(lambda t: t[some], tree)


def joined(parts: Sequence[Carried]) -> Carried:
    """The states of all parts as one."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(leaves(part) for part in parts), strict=True)
    found: Carried = rebuild(parts[0], [torch.cat(column) for column in columns])
    return found
