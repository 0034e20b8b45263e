"""Decoders: `Recurrent` writes a sequence, `Still` a label, `Aligned` a symbol per position."""

from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from dragoman.attention import AttentionSpec
from dragoman.decoders.base import Decoder, Written
from dragoman.decoders.recurrent import Recurrent, RecurrentSpec
from dragoman.decoders.still import Aligned, AlignedSpec, Still, StillSpec
from dragoman.decoders.unrolled import gaps
from dragoman.encoders.base import Sizes
from dragoman.errors import UserError
from dragoman.kernels.choice import Choice, settle

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


def chosen(decoder: nn.Module, device: torch.device) -> Choice:
    """Which kernel runs a decoder's recurrence on a device, and why."""
    if not isinstance(decoder, Recurrent):
        return Choice("reference", "this decoder has no recurrence")
    if not decoder.looped:
        return Choice("torch", "attention stands outside the recurrence, torch has a routine")
    return settle(gaps(decoder), device)


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
    "chosen",
    "make_decoder",
]
