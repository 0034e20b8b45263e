"""Products of a search on a CPU (`still.c`): weights laid out once, in float32, bfloat16 or int8,
for the lanes of AVX-512 or the tiles of AMX, and the best symbols found while scores are near.

What becomes of a row does not depend on its neighbours: it has a scale of its own wherever numbers
are rounded to whole ones.
"""

import functools
import logging
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from dragoman.kernels import native
from dragoman.kernels.choice import has_native
from dragoman.kernels.packed import Precision, Product, packed

BLOCK = 64  # results that stand together
KINDS: dict[Precision, int] = {"fp32": 0, "bf16": 1, "int8": 2}
DEEPEST = 1 << 15  # numbers of a row whose products, as whole numbers, can be summed
TINY = 1e-30  # rows of smaller numbers are nothing

logger = logging.getLogger("dragoman")


def still(weight: Tensor, bias: Tensor | None, precision: Precision = "fp32") -> Product:
    """`linear` with weights that no longer change, by the fastest way there is.

    >>> weight, x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 1.0]])
    >>> still(weight, None)(x)
    tensor([[3., 7.]])
    """
    can = weight.size(1) <= DEEPEST and has_native(weight.device, weight.dtype)
    if can and precision in (found := ways()):
        return found[precision](weight, bias, precision)
    return packed(weight, bias, precision)


class Still:
    """A product with its weights laid out."""

    first: ClassVar[int]  # of its kinds of numbers, as `still.h` counts them
    columns: ClassVar[bool] = False  # whether numbers of a column may follow each other
    offsets: Tensor | None = None
    scales: Tensor | None = None

    def __init__(self, weight: Tensor, bias: Tensor | None, precision: Precision) -> None:
        self.kind, (self.results, self.size) = self.first + KINDS[precision], weight.shape
        more = -self.results % BLOCK
        laid = self.laid(weight.detach(), precision)
        self.words = laid.numel() * laid.element_size() // (4 * (self.results + more))
        self.weights = laid.contiguous().view(torch.uint8)
        given = weight.new_zeros(self.results) if bias is None else bias.detach()
        self.bias = pad(given, (0, more), value=float("-inf"))

    def laid(self, weight: Tensor, precision: Precision) -> Tensor:
        """The weights as the processor reads them, in whole blocks."""
        raise NotImplementedError

    def __call__(self, x: Tensor) -> Tensor:
        """x Wᵀ + b: (N, in) -> (N, out)."""
        x = x if x.stride(1) == 1 or (self.columns and x.stride(0) == 1) else x.contiguous()
        out = x.new_empty(len(x), self.results)
        native.call("multiply", x, *x.stride(), *self._lead(), out, self.results, *self._sizes(x))
        return out

    def walk(self, gates: Tensor, counts: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        """A GRU or LSTM of which this is the product of the state: outputs (T, B, H) from its
        gates' shares of the input (T, B, G), of which the first so many rows are there at each
        step (T,); zero elsewhere. The state becomes that of each row's last step.
        """
        steps, rows, size = *gates.shape[:2], self.size
        past, hs = gates.new_empty(rows, self.results), gates.new_zeros(steps, rows, size)
        lead, sizes = (
            [gates, counts, *self._lead(), past],
            (self.kind, self.words, steps, rows, size),
        )
        native.call("walk", *lead, *(*state, None)[:2], hs, *sizes)
        return hs

    def best(self, x: Tensor, rule: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """As `native.pick` of the product."""
        count, parts = min(count, self.results), torch.get_num_threads()
        values, sums = x.new_empty(parts, len(x), count), x.new_empty(parts, len(x), 2)
        places = x.new_empty(parts, len(x), count, dtype=torch.long)
        x = x if x.stride(1) == 1 else x.contiguous()
        rooms = rule, values, places, sums
        native.call("best", x, x.stride(0), *self._lead(), *rooms, *self._sizes(x), count)
        return values[0], places[0]

    def _lead(self) -> tuple[Tensor | None, ...]:
        return self.weights, self.bias, self.scales, self.offsets

    def _sizes(self, x: Tensor) -> tuple[int, ...]:
        return self.kind, len(x), self.size, self.words, self.results


class Lanes(Still):
    """By AVX-512: four bytes of each of a block's results follow each other."""

    first = 0

    def laid(self, weight: Tensor, precision: Precision) -> Tensor:
        each = (1, 2, 4)[KINDS[precision]]  # numbers in four bytes
        weight = pad(weight.contiguous(), (0, -weight.size(1) % each, 0, -len(weight) % BLOCK))
        if precision == "int8":
            weight = self._whole(weight)
            self.offsets = weight.sum(1, dtype=torch.int32) * 128
        elif precision == "bf16":
            weight = weight.bfloat16()
        blocks = weight.view(len(weight) // BLOCK, BLOCK, weight.size(1) // each, each)
        return blocks.transpose(1, 2)

    def _whole(self, weight: Tensor) -> Tensor:
        """Weights as whole numbers, each row in steps of its own, as `still.h` and `laying.h` round
        them.
        """
        most = weight.abs().amax(1)
        scales = torch.where(most > TINY, most / 127, 1).masked_fill(~most.isfinite(), torch.nan)
        self.scales = scales
        exact = weight.double() * (1 / scales).double()[:, None] + 128.5
        return exact.float().nan_to_num(128).trunc().sub(128).to(torch.int8)


class Tiles(Still):
    """By AMX: 64 bytes of each of 16 results make a tile. Float32 is three digits of a whole number
    of 24 bits, the most significant first, each a tile of its own. That loses what float32 loses
    by rounding, or a few times that where some numbers of a row are much larger than the others.
    """

    first, columns = 3, True

    def laid(self, weight: Tensor, precision: Precision) -> Tensor:
        weight = weight if 1 in weight.stride() else weight.contiguous()
        numbers, digits = 32 if precision == "bf16" else 64, 3 if precision == "fp32" else 1
        panels = -(-len(weight) // BLOCK) * (BLOCK // 16)
        words = -(-weight.size(1) // numbers) * 16 * digits
        out = weight.new_empty(panels, 64 * words, dtype=torch.uint8)
        self.scales = weight.new_empty(16 * panels)
        sizes = self.kind, *weight.shape, panels, words
        native.call("lay", weight, *weight.stride(), out, self.scales, *sizes)
        return out


@functools.cache
def ways() -> dict[Precision, type[Still]]:
    """The fastest of these for each kind of numbers that this processor multiplies, and multiplies
    rightly.
    """
    bits, found = torch.zeros(1, dtype=torch.long), dict[Precision, type[Still]]()
    native.call("lanes", bits)
    every: tuple[type[Still], ...] = Lanes, Tiles
    for way in every:
        for precision, kind in KINDS.items():
            if int(bits) >> (way.first + kind) & 1:
                if _agrees(way, precision):
                    found[precision] = way
                else:
                    logger.info("kernel: no %s of %s: wrong here", way.__name__, precision)
    return found


def _agrees(way: type[Still], precision: Precision) -> bool:
    """Whether a small product is what it should be."""
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return _close(way, precision)


def _close(way: type[Still], precision: Precision) -> bool:
    numbers = torch.arange(90 * 70, dtype=torch.float32).sin()
    weight, x = numbers.view(90, 70), numbers.flip(0)[: 40 * 70].view(40, 70)
    error = {"fp32": 1e-5, "bf16": 0.02, "int8": 0.05}[precision]
    wanted = linear(x, weight)
    return bool((way(weight, None, precision)(x) - wanted).norm() <= error * wanted.norm())
