"""Pictures: a convolutional network's grid of annotations, and a dense vector of it all."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from dragoman.cells import Reader, StackSpec
from dragoman.core import Encoded, Padded, Source
from dragoman.encoders.base import Encoder, Layout, Sizes
from dragoman.encoders.nets import RESNETS, Compact, ResNet, load_weights
from dragoman.errors import UserError
from dragoman.spec import Count, Rate, Size, Spec


class AugmentSpec(Spec):
    """How pictures are varied while training, each anew at every step."""

    flip: bool = False  # left and right change places, every other time
    shift: Count = 0  # pixels up, down, left or right, at most
    colour: Annotated[float, Field(ge=0, le=1)] = 0.0  # of brightness and contrast, at most


class ImageSpec(Spec):
    """Options of the picture encoder."""

    kind: Literal["image"] = "image"
    net: Literal["compact", "resnet18", "resnet34", "resnet50"] = "compact"
    widths: Annotated[tuple[Size, ...], Field(min_length=1, max_length=6)] = (64, 128, 256)
    blocks: Size = 1  # compact: residual blocks per stage; `widths` has a stage each
    coordinates: bool = False  # compact: each pixel also tells where it is
    weights: str | None = None  # a safetensors file to begin with (torchvision's names)
    frozen: bool = False  # the network stays as it began
    hidden: Size | None = None  # width of the annotations; the network's own when not given
    rows: bool = False  # a recurrent reader goes along each row of the grid, both ways, and adds
    # what stands around each place
    pool: Literal["mean", "max", "both"] = "mean"  # of all annotations, for the summary; max: what
    # is there, be it ever so small
    dense: Size | None = (
        None  # the summary is a dense layer's over that; that itself when not given
    )
    dropout: Rate = 0.0
    augment: AugmentSpec = AugmentSpec()


class Image(Encoder):
    """a_i: one annotation for each place of the grid, rows first."""

    options = ImageSpec

    def __init__(self, spec: ImageSpec, channels: int) -> None:
        super().__init__()
        self.spec = spec
        if spec.net in RESNETS:
            self.net: Compact | ResNet = ResNet(channels, spec.net)
        else:
            self.net = Compact(channels + 2 * spec.coordinates, spec.widths, spec.blocks)
        width = spec.hidden or self.net.size
        self.project = nn.Linear(self.net.size, width) if spec.hidden else nn.Identity()
        if spec.rows:
            if width % 2:
                raise UserError("model.encoder.rows needs an even model.encoder.hidden")
            each = StackSpec(cell="lstm", hidden=width // 2)
            self.reader = Reader(each, width, bidirectional=True)
        pooled = 2 * width if spec.pool == "both" else width
        self.dense = nn.Linear(pooled, spec.dense) if spec.dense else None
        self.dropout = nn.Dropout(spec.dropout)
        self.sizes = Sizes(width, spec.dense or pooled, ())
        if spec.frozen:
            self.net.requires_grad_(False)

    def begin(self, say: Callable[[str], None]) -> None:
        if self.spec.weights:
            count = load_weights(self.net, Path(self.spec.weights))
            say(f"weights: {count} tensors of {self.spec.net} from {self.spec.weights}")

    def train(self, mode: bool = True) -> "Image":
        super().train(mode)
        if self.spec.frozen:
            self.net.eval()  # the statistics of its batches, too
        return self

    def forward(self, source: Source) -> Encoded:
        values, mask = source  # (B, S, C, H, W): S pictures an item
        memory = self._grids(values.flatten(0, 1))  # (B·S, R·K, D)
        memory = memory.reshape(len(mask), -1, memory.size(-1))
        places = memory.size(1) // max(mask.size(1), 1)
        real = mask.unsqueeze(-1).expand(-1, -1, places).flatten(1)
        pooled = self._pooled(memory, real)
        summary = torch.tanh(self.dense(pooled)) if self.dense else pooled
        return Encoded(self.dropout(memory), real, self.dropout(summary), ())

    def _pooled(self, memory: Tensor, real: Tensor) -> Tensor:
        """(B, P, D) -> (B, D), or twice as wide."""
        there = real.unsqueeze(-1)
        mean = (memory * there).sum(1) / there.sum(1).clamp(min=1)
        if self.spec.pool == "mean":
            return mean
        low = memory.masked_fill(~there, torch.finfo(memory.dtype).min)
        high = low.amax(1).masked_fill(~there.any(1), 0)
        return high if self.spec.pool == "max" else torch.cat([mean, high], -1)

    def layouts(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Layout, ...]:
        count, _, *sides = shapes[0]
        for _ in range(self.net.halvings):
            sides = [(side + 1) // 2 for side in sides]
        grid = (sides[0], sides[1])
        return (Layout("grid", grid) if count == 1 else Layout("grids", (count, *grid)),)

    def _grids(self, pictures: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, R·K, D). Several questions about a picture: it is seen once."""
        if pictures.device.type != "cpu" or torch.compiler.is_exporting():
            return self._grid(pictures)
        first, index = distinct(pictures)
        grids = self._grid(pictures[first] if len(first) < len(index) else pictures)
        return grids[index] if len(first) < len(index) else grids

    def _grid(self, pictures: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, R·K, D)."""
        if self.training:
            pictures = augmented(pictures, self.spec.augment)
        if self.spec.coordinates and isinstance(self.net, Compact):
            pictures = torch.cat([pictures, _coordinates(pictures)], 1)
        grid = self.net(pictures).movedim(1, -1)  # (N, R, K, D)
        grid = self.project(grid)
        if self.spec.rows:
            rows = grid.flatten(0, 1)
            all_real = torch.ones(rows.shape[:2], dtype=torch.bool, device=rows.device)
            grid = grid + self.reader(Padded(rows, all_real))[0].view_as(grid)
        return grid.flatten(1, 2)  # type: ignore[no-any-return]


def _coordinates(pictures: Tensor) -> Tensor:
    """Two more channels: how far down and how far right, from -1 to 1 (Liu et al. 2018)."""
    count, _, height, width = pictures.shape
    down = torch.linspace(-1, 1, height, device=pictures.device, dtype=pictures.dtype)
    right = torch.linspace(-1, 1, width, device=pictures.device, dtype=pictures.dtype)
    planes = [down.view(1, 1, -1, 1), right.view(1, 1, 1, -1)]
    return torch.cat([plane.expand(count, 1, height, width) for plane in planes], 1)


def distinct(pictures: Tensor) -> tuple[list[int], list[int]]:
    """The places of pictures that no earlier one equals, and for each picture which of these it is.

    >>> distinct(torch.tensor([[5.0], [6.0], [5.0]]))
    ([0, 1], [0, 1, 0])
    """
    numbers: dict[bytes, int] = {}
    rows = pictures.detach().contiguous().view(torch.uint8).numpy()
    index = [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
    return [index.index(number) for number in range(len(numbers))], index


def augmented(pictures: Tensor, spec: AugmentSpec) -> Tensor:
    """Varied pictures (N, C, H, W), each in its own way.

    >>> augmented(torch.zeros(2, 3, 4, 4), AugmentSpec(flip=True, shift=1, colour=0.1)).shape
    torch.Size([2, 3, 4, 4])
    """
    if not (spec.flip or spec.shift or spec.colour):
        return pictures
    count, _, height, width = pictures.shape
    chance = torch.rand(count, 5, device=pictures.device)
    down = torch.arange(height, device=pictures.device)
    right = torch.arange(width, device=pictures.device)
    rows, columns = down.expand(count, -1), right.expand(count, -1)
    if spec.flip:
        columns = torch.where(chance[:, :1] < 0.5, width - 1 - columns, columns)
    if spec.shift:  # the edge is repeated
        moves = ((chance[:, 1:3] * 2 - 1) * (spec.shift + 0.5)).round().long()
        rows = (rows + moves[:, :1]).clamp(0, height - 1)
        columns = (columns + moves[:, 1:]).clamp(0, width - 1)
    items = torch.arange(count, device=pictures.device).view(-1, 1, 1)
    varied = pictures.movedim(1, -1)[items, rows.unsqueeze(2), columns.unsqueeze(1)].movedim(-1, 1)
    if spec.colour:
        factors = (1 + spec.colour * (chance[:, 3:] * 2 - 1)).view(-1, 2, 1, 1)
        mean = varied.mean((1, 2, 3), keepdim=True)
        varied = (varied - mean) * factors[:, :1] + mean + factors[:, 1:] - 1
    return varied
