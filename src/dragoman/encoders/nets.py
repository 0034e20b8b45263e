"""Convolutional networks that turn a picture into a grid of vectors."""

from math import gcd
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import relu

from dragoman.errors import UserError


class Compact(nn.Module):
    """A small residual network with group normalisation: a picture's grid depends on no other
    picture. Each stage halves the sides.
    """

    def __init__(self, channels: int, widths: tuple[int, ...], blocks: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, widths[0], 3, stride=2, padding=1, bias=False)
        self.norm = _groups(widths[0])
        stages, width = [], widths[0]
        for number, wide in enumerate(widths):
            for block in range(blocks):
                stages.append(Residual(width, wide, 2 if number and not block else 1))
                width = wide
        self.stages = nn.Sequential(*stages)
        self.size, self.halvings = width, len(widths)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.stages(relu(self.norm(self.stem(pictures))))  # type: ignore[no-any-return]


class Residual(nn.Module):
    """x + f(x), both normalised by groups."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = _groups(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = _groups(outside)
        self.skip: nn.Module = nn.Identity()
        if stride > 1 or inside != outside:
            self.skip = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = relu(self.norm1(self.conv1(x)))
        return relu(self.skip(x) + self.norm2(self.conv2(inner)))


def _groups(channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(gcd(channels, 8), channels)


class Depth(NamedTuple):
    """What tells one ResNet from another."""

    blocks: tuple[int, int, int, int]
    bottleneck: bool


RESNETS = {
    "resnet18": Depth((2, 2, 2, 2), False),
    "resnet34": Depth((3, 4, 6, 3), False),
    "resnet50": Depth((3, 4, 6, 3), True),
}


class ResNet(nn.Module):
    """He et al. 2016 without its classifier, under the names that torchvision gives its parts, so
    that weights in that layout fit as they are.
    """

    def __init__(self, channels: int, name: str) -> None:
        super().__init__()
        depth = RESNETS[name]
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        self.bn1 = _batch(64)
        self.size, self.halvings = 64, 5
        self.layer1 = self._layer(depth, 0, 64)
        self.layer2 = self._layer(depth, 1, 128)
        self.layer3 = self._layer(depth, 2, 256)
        self.layer4 = self._layer(depth, 3, 512)

    def _layer(self, depth: Depth, number: int, width: int) -> nn.Sequential:
        made = []
        for block in range(depth.blocks[number]):
            stride = 2 if number and not block else 1
            made.append(Block(self.size, width, stride, depth.bottleneck))
            self.size = 4 * width if depth.bottleneck else width
        return nn.Sequential(*made)

    def forward(self, pictures: Tensor) -> Tensor:
        x = relu(self.bn1(self.conv1(pictures)))
        x = nn.functional.max_pool2d(x, 3, 2, 1)
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Two convolutions, or three around a bottleneck, beside a way around them."""

    def __init__(self, inside: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outside = 4 * width if bottleneck else width
        if bottleneck:
            self.conv1 = nn.Conv2d(inside, width, 1, bias=False)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        else:
            self.conv1 = nn.Conv2d(inside, width, 3, stride, 1, bias=False)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = _batch(width), _batch(width)
        self.bottleneck = bottleneck
        if bottleneck:
            self.conv3 = nn.Conv2d(width, outside, 1, bias=False)
            self.bn3 = _batch(outside)
        self.downsample: nn.Module = nn.Identity()
        if stride > 1 or inside != outside:
            skip = nn.Conv2d(inside, outside, 1, stride, bias=False)
            self.downsample = nn.Sequential(skip, _batch(outside))

    def forward(self, x: Tensor) -> Tensor:
        inner = relu(self.bn1(self.conv1(x)))
        inner = self.bn2(self.conv2(inner))
        if self.bottleneck:
            inner = self.bn3(self.conv3(relu(inner)))
        return relu(inner + self.downsample(x))


def _batch(channels: int) -> nn.BatchNorm2d:
    made = nn.BatchNorm2d(channels)
    made.num_batches_tracked = None  # a fixed momentum needs no count
    return made


def load_weights(net: nn.Module, path: Path) -> int:
    """Weights of a safetensors file with the names of the net's own; how many there were. What a
    classifier would need is passed over.
    """
    try:
        given = load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise UserError(f"{path}: not a safetensors file: {error}") from None
    mine = net.state_dict()
    passed = {name for name in given if name.startswith("fc.") or name.endswith("_tracked")}
    if given.keys() - passed != mine.keys():
        odd = sorted((given.keys() - passed) ^ mine.keys())[0]
        raise UserError(f"{path}: does not fit model.encoder.net: '{odd}' is on one side only")
    for name, tensor in mine.items():
        if given[name].shape != tensor.shape:
            shapes = f"{tuple(given[name].shape)}, the net wants {tuple(tensor.shape)}"
            raise UserError(f"{path}: '{name}' is {shapes}")
    with torch.no_grad():
        for name, tensor in mine.items():
            tensor.copy_(given[name])
    return len(mine)
