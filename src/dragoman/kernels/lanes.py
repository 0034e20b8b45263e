"""Products of a search on a CPU with AVX-512 (`lanes.c`): weights laid out once for its registers,
in float32, bfloat16 or int8, and the best symbols found without their scores leaving the cache.

In int8 every row has a scale of its own: what becomes of it does not depend on its neighbours.
"""

import functools

import torch
from torch import Tensor
from torch.nn.functional import pad

from dragoman.kernels import native
from dragoman.kernels.choice import has_native
from dragoman.kernels.packed import Precision, Product, packed

BLOCK = 64  # results that stand together
KINDS: dict[Precision, int] = {"fp32": 0, "bf16": 1, "int8": 2}
EACH = (1, 2, 4)  # numbers of a kind in four bytes


def still(weight: Tensor, bias: Tensor | None, precision: Precision = "fp32") -> Product:
    """`linear` with weights that no longer change, by the fastest way there is.

    >>> weight, x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 1.0]])
    >>> still(weight, None)(x)
    tensor([[3., 7.]])
    """
    if has_native(weight.device, weight.dtype) and _kinds() >> KINDS[precision] & 1:
        return Lanes(weight, bias, precision)
    return packed(weight, bias, precision)


@functools.cache
def _kinds() -> int:
    """The kinds of numbers that this processor multiplies, one bit each."""
    found = torch.zeros(1, dtype=torch.long)
    native.call("lanes", found)
    return int(found)


class Lanes:
    """A product with its weights laid out."""

    def __init__(self, weight: Tensor, bias: Tensor | None, precision: Precision) -> None:
        self.kind, (self.results, self.size) = KINDS[precision], weight.shape
        each, more = EACH[self.kind], -self.results % BLOCK
        whole = pad(weight.detach(), (0, -self.size % each, 0, more))
        self.scales = self.offsets = None
        if precision == "int8":
            self.scales = (whole.abs().amax(1) / 127).clamp(min=1e-12)
            whole = (whole / self.scales[:, None]).round_().to(torch.int8)
            self.offsets = whole.sum(1, dtype=torch.int32) * 128
        elif precision == "bf16":
            whole = whole.bfloat16()
        self.words = whole.size(1) // each
        blocks = whole.view(len(whole) // BLOCK, BLOCK, self.words, each)
        self.weights = blocks.transpose(1, 2).contiguous().view(torch.uint8)
        given = weight.new_zeros(self.results) if bias is None else bias.detach()
        self.bias = pad(given, (0, more), value=float("-inf"))

    def __call__(self, x: Tensor) -> Tensor:
        """x Wᵀ + b: (N, in) -> (N, out)."""
        out = x.new_empty(len(x), self.results)
        lead, sizes = self._given(x)
        native.call("multiply", *lead, out, self.results, *sizes)
        return out

    def best(self, x: Tensor, rule: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """As `native.pick` of the product."""
        count, parts = min(count, self.results), torch.get_num_threads()
        values, sums = x.new_empty(parts, len(x), count), x.new_empty(parts, len(x), 2)
        places = torch.empty(parts, len(x), count, dtype=torch.long)
        lead, sizes = self._given(x)
        native.call("best", *lead, rule, values, places, sums, *sizes, count)
        return values[0], places[0]

    def _given(self, x: Tensor) -> tuple[list[Tensor | int | None], list[int]]:
        """What a routine reads, and its sizes."""
        x = x if x.stride(-1) == 1 else x.contiguous()
        lead: list[Tensor | int | None] = [x, x.stride(0), self.weights, self.bias]
        lead += [self.scales, self.offsets]
        return lead, [self.kind, len(x), self.size, self.words, self.results]
