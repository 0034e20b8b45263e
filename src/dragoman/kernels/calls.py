"""Calls of routines in C, written down while they are made, and made again with no Python between
them: a step of a search is always the same calls, over tensors that stay where they are.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from dragoman.kernels import native
from dragoman.kernels.native import Call

NAMES = "multiply", "look", "gru", "lstm", "tanh_sum", "gather"  # as `calls.c` counts them
LONGEST = 24  # a routine's number, what it is given, and how many threads take part


class Calls:
    """Calls in the order in which they are made, with the tensors that they read and write."""

    def __init__(self) -> None:
        self.made: list[Call] = []
        self.laid: Tensor | None = None

    @contextmanager
    def written(self) -> Iterator[None]:
        """Calls inside are made, and written down."""
        token = native.noted.set(self.made.append)
        try:
            yield
        finally:
            native.noted.reset(token)

    def again(self) -> None:
        """All of them once more."""
        if self.laid is None:
            self.laid = torch.tensor([number for call in self.made for number in _numbers(call)])
        native.call("again", self.laid, len(self.made))


def _numbers(call: Call) -> list[int]:
    """A call as `calls.c` reads it."""
    own = [NAMES.index(call.name)]
    for one in call.given:
        if isinstance(one, Tensor):
            own.append(one.data_ptr())
        elif isinstance(one, float):
            own.append(struct.unpack("<i", struct.pack("<f", one))[0])
        else:
            own.append(one or 0)
    return [*own, call.threads, *[0] * (LONGEST - len(own) - 1)]
