"""Decoders: `Recurrent` writes a sequence, `Still` a label, `Aligned` a symbol per position."""

from typing import Annotated

from pydantic import Field

from dragoman.attention import AttentionSpec
from dragoman.decoders.base import Decoder, Written
from dragoman.decoders.recurrent import Recurrent, RecurrentSpec
from dragoman.decoders.still import Aligned, AlignedSpec, Still, StillSpec
from dragoman.encoders.base import Sizes
from dragoman.errors import UserError

DecoderSpec = Annotated[RecurrentSpec | StillSpec | AlignedSpec, Field(discriminator="kind")]


def make_decoder(
    spec: RecurrentSpec | StillSpec | AlignedSpec,
    word: int,
    source: Sizes,
    attention: AttentionSpec | None,
) -> Decoder:
    """The decoder that a spec names, for words and sources of the given sizes."""
    if isinstance(spec, RecurrentSpec):
        return Recurrent(spec, word, source, attention)
    if isinstance(spec, StillSpec):
        return Still(spec, source, attention)
    if attention is not None:
        raise UserError("model.attention has no place where each position has its own symbol")
    return Aligned(spec, source)


__all__ = [
    "Aligned",
    "AlignedSpec",
    "Decoder",
    "DecoderSpec",
    "Recurrent",
    "RecurrentSpec",
    "Still",
    "StillSpec",
    "Written",
    "make_decoder",
]
