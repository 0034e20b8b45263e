"""Nothing: a language model is a decoder that was told nothing."""

from typing import Literal

import torch
from torch import nn

from dragoman.core import Encoded, Source
from dragoman.encoders.base import Encoder, Sizes
from dragoman.spec import Spec


class NothingSpec(Spec):
    """No options: there is nothing to read."""

    kind: Literal["nothing"] = "nothing"


class Nothing(Encoder):
    """No annotations, an empty summary."""

    options = NothingSpec
    columns = None
    sizes = Sizes(0, 0, ())

    def __init__(self, spec: NothingSpec, sizes: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.like = nn.Buffer(torch.zeros(()), persistent=False)  # knows the device and the type

    def forward(self, source: Source) -> Encoded:
        rows = len(source.values)
        none = self.like.new_zeros(rows, 0)
        return Encoded(none.unsqueeze(-1), none.bool(), none, ())
