"""What every decoder is: a language model that steps a state, told about the source."""

from typing import Literal, NamedTuple

from torch import Tensor, nn

from dragoman.core import Encoded, State

Ends = Literal["sign", "source", "once"]  # at an end sign, with the source, or after one symbol


class Written(NamedTuple):
    """What a decoder says before the head turns it into symbols."""

    features: Tensor  # (N, F), or (B, T, F) when unrolled
    state: State
    weights: Tensor | None  # (N, S), or (B, T, S) when unrolled


class Decoder(nn.Module):
    """Steps a state. What it keeps of the source (`Fixed`) is read-only and one row per item."""

    size: int  # how wide the features are that the head reads
    ends: Ends = "sign"
    beyond: int = 0  # symbols on top of the source's, where it ends with the source

    def prepare(self, enc: Encoded) -> State:
        """What is computed once per source; never reordered or tiled."""
        raise NotImplementedError

    def start(self, enc: Encoded) -> State:
        """Where decoding begins: one row per item."""
        raise NotImplementedError

    def step(self, x: Tensor, state: State, fixed: State) -> Written:
        """One symbol further: x (N, E)."""
        raise NotImplementedError

    def unroll(self, xs: Tensor, state: State, fixed: State) -> Written:
        """Teacher forcing over all T at once, xs (B, T, E). Equals stepping."""
        raise NotImplementedError
