"""Clips: each frame seen by the encoder of pictures, and the frames read in their order."""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.cells import CELLS, Reader, StackSpec
from dragoman.core import Encoded, Padded, Source, State
from dragoman.encoders.base import Encoder, EncoderSpec, Layout, Sizes, make_encoder
from dragoman.encoders.image import ImageSpec


class VideoSpec(StackSpec):
    """Options of the clip encoder."""

    kind: Literal["video"] = "video"
    frame: EncoderSpec = ImageSpec()  # how each frame is seen
    layers: Annotated[int, Field(ge=0, le=64)] = 1  # recurrent ones above; 0: frames as they are
    bidirectional: bool = False  # `hidden` is the size of each direction
    pool: Literal["mean", "attention"] = "mean"  # over the places of a frame, to one vector
    summary: Literal["final", "mean"] = "final"  # what sums the clip up


class Video(Encoder):
    """One annotation per frame: what is seen in it, in the light of the frames before."""

    options = VideoSpec

    def __init__(self, spec: VideoSpec, channels: int) -> None:
        super().__init__()
        self.spec = spec
        self.frame = make_encoder(spec.frame, (channels,))
        self.dropout = nn.Dropout(spec.dropout)
        looks = spec.pool == "attention"
        seen = width = self.frame.sizes.memory if looks else self.frame.sizes.summary
        self.look = nn.Linear(seen, 1, bias=False) if looks else None
        self.place = nn.Linear(2, seen, bias=False) if looks else None
        self.reader = Reader(spec, seen, spec.bidirectional) if spec.layers else None
        if self.reader:
            width = self.reader.width
        self.around = spec.residual and seen == width  # frames also reach beyond their reader
        slots = CELLS[spec.cell].slots
        self.sizes = Sizes(width, width, ((width,) * slots,) * spec.layers)

    def begin(self, say: Callable[[str], None]) -> None:
        self.frame.begin(say)

    def forward(self, source: Source) -> Encoded:
        seen = xs = self.dropout(self._seen(source))
        finals: State = ()
        if self.reader:
            xs, finals = self.reader(Padded(seen, source.mask))
            xs = xs + seen if self.around else xs
        summary = self._summary(xs, source.mask, finals)
        return Encoded(self.dropout(xs) if self.reader else xs, source.mask, summary, finals)

    def layouts(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Layout, ...]:
        return (Layout("frames", shapes[0][:1]),)

    def _seen(self, source: Source) -> Tensor:
        """(B, S, C, H, W) -> (B, S, D): only real frames are looked at, padding is zero."""
        values, mask = source
        if torch.compiler.is_exporting():  # how many are real is nothing that a graph can know
            every = self._frames(values.flatten(0, 1)).view(*mask.shape, -1)
            return every.masked_fill(~mask.unsqueeze(-1), 0)
        seen = self._frames(values[mask])
        places = mask.flatten().nonzero().squeeze(1)
        rows = seen.new_zeros(mask.numel(), seen.size(1)).index_copy(0, places, seen)
        return rows.view(*mask.shape, -1)

    def _frames(self, values: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, D)."""
        frames = values.unsqueeze(1)
        whole = torch.ones(len(frames), 1, dtype=torch.bool, device=frames.device)
        enc = self.frame(Padded(frames, whole))
        seen: Tensor = enc.summary
        if self.look and self.place:  # what stands out, and where (Levine et al. 2016)
            weights = self.look(enc.memory).softmax(1)
            where = _places(self.frame.layouts([frames.shape[1:]])[0].shape, seen)
            seen = (weights * (enc.memory + self.place(where))).sum(1)
        return seen

    def _summary(self, xs: Tensor, mask: Tensor, finals: State) -> Tensor:
        if self.reader and self.spec.summary == "final":
            top: Tensor = finals[-1][0]
            return top
        return xs.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def _places(grid: tuple[int, ...], like: Tensor) -> Tensor:
    """How far down and how far right each place of a grid is, from -1 to 1, rows first."""
    down, right = (torch.linspace(-1, 1, n, device=like.device, dtype=like.dtype) for n in grid)
    return torch.cartesian_prod(down, right)
