"""Where the work is done."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from dragoman.errors import UserError

_lock = threading.Lock()
_recorders: list[bool] = []  # of graphs, in whatever threads: whether garbage was collected before


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
    """While CUDA graphs are recorded nobody collects garbage: an old graph that is freed meanwhile
    spoils a new one.
    """
    with _lock:
        _recorders.append(gc.isenabled())
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            collects, _ = _recorders[0], _recorders.pop()  # as it was before the first of them
            if collects and not _recorders:
                gc.enable()
