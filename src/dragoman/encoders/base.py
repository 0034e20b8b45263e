"""What every encoder is: a module that reads a source into `Encoded` and says how wide the result
is and what it lies over.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Annotated, Any, ClassVar, NamedTuple

from torch import nn

from dragoman.core import Encoded, Source
from dragoman.errors import UserError
from dragoman.spec import Kinds, Spec


class Sizes(NamedTuple):
    """How wide an encoder's results are, so that a decoder can be built to fit."""

    memory: int
    summary: int
    finals: tuple[tuple[int, ...], ...]  # per layer, the width of each tensor of its last state


class Layout(NamedTuple):
    """What the annotations of a source lie over: tokens in a row, a grid of rows and columns."""

    over: str  # tokens, grid, frames, times, points
    shape: tuple[int, ...]
    stride: int = 1  # places of the row that one annotation stands for

    @property
    def size(self) -> int:
        """How many annotations there are."""
        return prod(self.shape)

    def labels(self) -> list[str]:
        """The places by name.

        >>> Layout("grid", (2, 2)).labels()
        ['0:0', '0:1', '1:0', '1:1']
        """
        names = [""]
        for count in self.shape:
            names = [f"{name}:{i}" for name in names for i in range(count)]
        return [name[1:] for name in names]


class Encoder(nn.Module):
    """Reads anything into annotation vectors and a summary. It is made of its options and the size
    of the column it reads; one that reads several columns gets the sizes of all.
    """

    options: ClassVar[type[Spec]]
    columns: ClassVar[int | None] = 1  # how many it reads; None: it looks for itself
    sizes: Sizes

    def __init__(self, *parts: Any) -> None:  # the options, and the size or sizes
        super().__init__()

    def forward(self, source: Source) -> Encoded:
        raise NotImplementedError

    def begin(self, say: Callable[[str], None]) -> None:
        """What a new model begins with beside fresh weights, said in a line."""

    def layouts(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Layout, ...]:
        """What the annotations of a source lie over, in their order: a layout for each column,
        whose rows have these shapes (length, ...).
        """
        return tuple(Layout("tokens", shape[:1]) for shape in shapes)


ENCODERS: dict[str, type[Encoder]] = {}
EncoderSpec = Annotated[Any, Kinds(ENCODERS, usual="text")]  # the options of an encoder of any kind


def make_encoder(spec: Any, sizes: tuple[int, ...]) -> Encoder:
    """The encoder that a spec names, for source columns of the given sizes."""
    encoder = ENCODERS[spec.kind]
    if encoder.columns is None:
        return encoder(spec, sizes)
    if len(sizes) != encoder.columns:
        raise UserError(
            f"model.encoder reads one source column, the data has {len(sizes)}: "
            "use model.encoder.kind=several, or data.more"
        )
    return encoder(spec, sizes[0])
