"""What every encoder is: a module that reads a source into `Encoded` and says how wide the result
is.
"""

from typing import NamedTuple

from torch import nn

from dragoman.core import Encoded, Source


class Sizes(NamedTuple):
    """How wide an encoder's results are, so that a decoder can be built to fit."""

    memory: int
    summary: int
    finals: tuple[tuple[int, ...], ...]  # per layer, the width of each tensor of its last state


class Encoder(nn.Module):
    """Reads anything into annotation vectors and a summary."""

    sizes: Sizes

    def forward(self, source: Source) -> Encoded:
        raise NotImplementedError
