"""Sound: frames of a spectrogram, read by a pyramid of recurrent layers (Chan et al. 2016)."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.cells import CELLS, CellName, Reader, StackSpec
from dragoman.core import Encoded, Padded, Source
from dragoman.encoders.base import Encoder, Layout, Sizes
from dragoman.errors import UserError
from dragoman.spec import Count, Layers, Rate, Size, Spec


class MaskingSpec(Spec):
    """SpecAugment (Park et al. 2019): in training, bands and times of a sound are blotted out."""

    masks: Count = 2  # of each kind
    bands: Rate = 0.2  # of all bands that a mask hides, at most
    times: Rate = 0.1  # of the sound's own length


class SoundSpec(StackSpec):
    """Options of the sound encoder."""

    kind: Literal["sound"] = "sound"
    cell: CellName = "lstm"
    layers: Layers = 4
    halvings: Annotated[int, Field(ge=0, le=8)] = 3  # so many upper layers read pairs of frames
    front: Size | None = None  # channels of two convolutions below, each twice coarser; or none
    bidirectional: bool = True  # `hidden` is the size of each direction
    masking: MaskingSpec | None = None


class Sound(Encoder):
    """Layers that each read pairs of what the layer below has written, so that a second of sound
    becomes a dozen annotations instead of a hundred.
    """

    options = SoundSpec

    def __init__(self, spec: SoundSpec, bands: int) -> None:
        super().__init__()
        if spec.halvings > spec.layers:
            raise UserError(
                "model.encoder.halvings: a layer halves once; raise model.encoder.layers"
            )
        self.spec = spec
        self.masking = Masking(spec.masking) if spec.masking else None
        self.front = Front(spec.front, bands) if spec.front else None
        one = spec.model_copy(update={"layers": 1, "residual": False})
        width = spec.hidden * (2 if spec.bidirectional else 1)
        below = [self.front.size if self.front else bands] + [width] * (spec.layers - 1)
        plain = spec.layers - spec.halvings
        self.readers = nn.ModuleList(
            Reader(one, size * (1 if level < plain else 2), spec.bidirectional)
            for level, size in enumerate(below)
        )
        self.dropout = nn.Dropout(spec.dropout)
        self.sizes = Sizes(width, width, ((width,) * CELLS[spec.cell].slots,) * spec.layers)

    def forward(self, source: Source) -> Encoded:
        xs, mask = source.values * source.mask.unsqueeze(-1), source.mask
        if self.training and self.masking:
            xs = self.masking(xs, mask)
        if self.front:
            xs, mask = self.front(xs, mask)
        finals = []
        for level, reader in enumerate(self.readers):
            if level >= self.spec.layers - self.spec.halvings:
                xs, mask = pairs(xs, mask)
            hs, final = reader(Padded(self.dropout(xs) if level else xs, mask))
            xs = hs + xs if self.spec.residual and hs.shape == xs.shape else hs
            finals.append(final[0])
        return Encoded(self.dropout(xs), mask, finals[-1][0], tuple(finals))

    def layouts(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Layout, ...]:
        stride = 1 << self.spec.halvings + (2 if self.front else 0)
        return (Layout("times", (-(-shapes[0][0] // stride),), stride),)


def pairs(xs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Two neighbours side by side, (B, S, D) -> (B, S / 2, 2 D); the last may stand alone.

    >>> xs, mask = pairs(torch.arange(6.0).view(1, 3, 2), torch.ones(1, 3, dtype=torch.bool))
    >>> xs.tolist(), mask.tolist()
    ([[[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 0.0, 0.0]]], [[True, True]])
    """
    odd = xs.size(1) % 2
    xs, mask = nn.functional.pad(xs, (0, 0, 0, odd)), nn.functional.pad(mask, (0, odd))
    return xs.reshape(len(xs), xs.size(1) // 2, 2 * xs.size(2)), mask[:, ::2]


class Front(nn.Module):
    """Two convolutions over time and pitch, each halving both."""

    def __init__(self, channels: int, bands: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(inside, channels, 3, stride=2, padding=1) for inside in (1, channels)
        )
        self.size = channels * -(-bands // 4)
        self.norm = nn.LayerNorm(self.size)

    def forward(self, xs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(B, S, bands) -> (B, S / 4, size). Padding stays zero, as what lies beyond the edge."""
        xs = xs.unsqueeze(1)
        for layer in self.layers:
            mask = mask[:, ::2]
            if xs.size(2):
                xs = torch.relu(layer(xs)) * mask[:, None, :, None]
        if not xs.size(2):
            return xs.new_zeros(len(xs), 0, self.size), mask
        return self.norm(xs.transpose(1, 2).flatten(2)) * mask.unsqueeze(2), mask


class Masking(nn.Module):
    """Stripes of a spectrogram set to zero, which is its mean after normalisation."""

    def __init__(self, spec: MaskingSpec) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, xs: Tensor, mask: Tensor) -> Tensor:
        spec, lengths = self.spec, mask.sum(1)
        bands = torch.full_like(lengths, xs.size(2))
        for _ in range(spec.masks):
            times = stripe(lengths, spec.times, xs.size(1))
            across = stripe(bands, spec.bands, xs.size(2))
            xs = xs.masked_fill(times.unsqueeze(2) | across.unsqueeze(1), 0)
        return xs


def stripe(sizes: Tensor, share: float, width: int) -> Tensor:
    """For each row a random run of places (B, width), up to a share of the row's size.

    >>> runs = stripe(torch.full((100,), 20), 0.5, 30)
    >>> bool((runs.sum(1) <= 10).all()), bool(runs[:, 20:].any())
    (True, False)
    """
    long = (torch.rand(len(sizes), device=sizes.device) * (share * sizes + 1)).floor()
    begin = (torch.rand(len(sizes), device=sizes.device) * (sizes - long + 1)).floor()
    place = torch.arange(width, device=sizes.device)
    return (place >= begin[:, None]) & (place < (begin + long)[:, None])
