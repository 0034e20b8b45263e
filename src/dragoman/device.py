"""Where the work is done."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dragoman.errors import UserError


def pick_device(name: str) -> torch.device:
    """The device that is named; `auto` is a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UserError(f"device {name} cannot be used: {str(error).splitlines()[0]}") from None
    if device.type == "cuda":  # fp32 shall mean fp32: cuDNN would round to 10 bits on its own
        torch.backends.cudnn.allow_tf32 = False
    return device


@contextmanager
def recording() -> Iterator[None]:
    """While a CUDA graph is recorded nobody collects garbage: an old graph that is freed meanwhile
    spoils the new one.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
