"""Which kernel runs: asked for, or the fastest that covers the model on its device."""

import functools
import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple

import torch

from dragoman.kernels import native

Kernel = Literal["auto", "reference", "torch", "native", "triton"]
logger = logging.getLogger("dragoman")
_wanted: ContextVar[Kernel] = ContextVar("kernel", default="auto")
_told: set[str] = set()


class Choice(NamedTuple):
    """The kernel that runs, and why it is this one."""

    name: Literal["reference", "torch", "native", "triton"]
    reason: str
    lesser: bool = False  # something faster was wanted, or would have been there


class Gaps(NamedTuple):
    """What keeps a recurrence from a kernel; None where nothing does."""

    torch: str | None = None
    triton: str | None = None
    native: str | None = None


@contextmanager
def using(kernel: Kernel) -> Iterator[None]:
    """Ask for a kernel.

    >>> with using("reference"): settle(Gaps(), torch.device("cpu")).name
    'reference'
    """
    token = _wanted.set(kernel)
    try:
        yield
    finally:
        _wanted.reset(token)


def settle(gaps: Gaps, device: torch.device, kind: torch.dtype = torch.float32) -> Choice:
    """The kernel for a recurrence with such gaps.

    >>> settle(Gaps(torch="local attention"), torch.device("cpu"))
    Choice(name='reference', reason='no kernel covers local attention', lesser=True)
    """
    wanted = _wanted.get()
    if wanted == "reference":
        return Choice("reference", "asked for")
    if gaps.torch:
        return Choice("reference", f"no kernel covers {gaps.torch}", lesser=True)
    if wanted == "torch":
        return Choice("torch", "asked for")
    if device.type == "cpu" and not _interpreted() and wanted != "triton":
        return _in_c(gaps, device, kind)
    return _in_triton(gaps, device, kind)


def _in_c(gaps: Gaps, device: torch.device, kind: torch.dtype) -> Choice:
    if missing := _without_native(device, kind):
        single = kind == torch.float32
        return Choice("torch", missing, lesser=single or _wanted.get() == "native")
    if gaps.native:
        return Choice("torch", f"the kernel in C does not cover {gaps.native}", lesser=True)
    return Choice("native", "a CPU with a C compiler")


def _in_triton(gaps: Gaps, device: torch.device, kind: torch.dtype) -> Choice:
    missing = _without_triton(device, kind)
    if missing:
        return Choice("torch", missing, lesser=_wanted.get() == "triton")
    if gaps.triton:
        return Choice("torch", f"the triton kernel does not cover {gaps.triton}", lesser=True)
    return Choice("triton", "a GPU" if device.type == "cuda" else "Triton's interpreter")


def tell(choice: Choice) -> None:
    """One line in the log where a slower kernel had to do, once for each reason."""
    if choice.lesser and choice.reason not in _told:
        _told.add(choice.reason)
        told = "kernel: %s, because %s (slower, same results)"
        logger.warning(told, choice.name, choice.reason)


def has_triton(device: torch.device, kind: torch.dtype) -> bool:
    """Whether Triton's kernels may run there, and are not unwanted; they never leave torch."""
    if torch.compiler.is_exporting():
        return False
    return _wanted.get() in ("auto", "triton") and _without_triton(device, kind) is None


def has_native(device: torch.device, kind: torch.dtype) -> bool:
    """Whether routines in C may run there, and are not unwanted."""
    if torch.compiler.is_compiling() or torch.compiler.is_exporting() or _interpreted():
        return False
    return _wanted.get() in ("auto", "native") and _without_native(device, kind) is None


def plainly() -> bool:
    """Whether the plain code is asked for."""
    return _wanted.get() == "reference"


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def _interpreted() -> bool:
    """Whether Triton's kernels are to run without a GPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def _without_native(device: torch.device, kind: torch.dtype) -> str | None:
    """Why routines in C cannot run there."""
    if device.type != "cpu":
        return f"routines in C need a CPU, this is {device.type}"
    if kind != torch.float32:
        return "routines in C are for single precision"
    return None if native.routines() else f"there are no routines in C ({native.lack()})"


def _without_triton(device: torch.device, kind: torch.dtype) -> str | None:
    """Why Triton cannot run there."""
    if device.type != "cuda" and not _interpreted():
        return f"Triton needs a GPU, this is {device.type}"
    if not _installed():
        return "Triton is not installed"
    return "Triton's kernels have no double precision" if kind == torch.float64 else None
