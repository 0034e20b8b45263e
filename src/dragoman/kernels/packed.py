"""Products with weights that stay as they are: laid out once for the processor that multiplies.

A search multiplies a few rows at a time with the same weights. torch's `linear` reads them in the
order in which they were trained; oneDNN has an order of its own that is up to five times faster for
few rows. With less precision the same products are faster again: bfloat16 halves what must be read,
int8 quarters it.
"""

import functools
import logging
import platform
import warnings
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import linear

logger = logging.getLogger("dragoman")
Precision = Literal["fp32", "bf16", "int8"]
Product = Callable[[Tensor], Tensor]  # (N, in) -> (N, out)
ROWS = 320  # what layouts are chosen for; they serve any other number as well
MANY = 48  # rows from which oneDNN's int8 product is faster than the one for few rows


@functools.cache
def has_bf16() -> bool:
    """Whether this processor multiplies bfloat16 itself. Where it does not, torch takes longer than
    in single precision.
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch._C._has_mkldnn and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def suited(precision: Precision, device: torch.device) -> Precision:
    """What is asked for, or what is faster there and exact.

    >>> suited("int8", torch.device("cpu"))
    'int8'
    """
    if precision != "bf16" or device.type != "cpu" or has_bf16():
        return precision
    logger.warning("precision: fp32, because this processor has no bf16 (faster, and exact)")
    return "fp32"


def packed(weight: Tensor, bias: Tensor | None, precision: Precision = "fp32") -> Product:
    """`linear` with these weights; results are in the type of the weights.

    >>> weight, x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 1.0]])
    >>> packed(weight, None)(x)
    tensor([[3., 7.]])
    """
    weight = weight.detach().contiguous()
    bias = None if bias is None else bias.detach().contiguous()
    if precision == "int8" and weight.device.type == "cpu":
        return _int8(weight, bias)
    if precision != "fp32":
        return _bf16(weight, bias)
    if weight.dtype == torch.float32 and _laid_out(weight):
        return _onednn(weight, bias)
    return lambda x: linear(x, weight, bias)


def _laid_out(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and torch._C._has_mkldnn


def _onednn(weight: Tensor, bias: Tensor | None) -> Product:
    laid = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)

    def product(x: Tensor) -> Tensor:
        if not len(x):
            return linear(x, weight, bias)
        return torch.ops.mkldnn._linear_pointwise(x, laid, bias, "none", [], "")  # type: ignore[no-any-return]

    return product


def _bf16(weight: Tensor, bias: Tensor | None) -> Product:
    kind = weight.dtype
    half = weight.bfloat16()
    if not _laid_out(weight):
        low = None if bias is None else bias.bfloat16()
        return lambda x: linear(x.bfloat16(), half, low).to(kind)
    halves = halved(half)

    def product(x: Tensor) -> Tensor:
        if not len(x):
            return linear(x, weight, bias)
        out = halves(x.bfloat16())
        return out.to(kind) if bias is None else out.to(kind).add_(bias)

    return product


def halved(weight: Tensor) -> Product:
    """x Wᵀ by oneDNN, of some rows, all in bfloat16."""
    laid = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)

    def product(x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, laid, None, "none", [], "")  # type: ignore[no-any-return]

    return product


def _int8(weight: Tensor, bias: Tensor | None) -> Product:
    """Weights in 8 bits with a scale per output, inputs in 8 bits with a scale per call."""
    kind, weight = weight.dtype, weight.float()
    scales = (weight.abs().amax(1) / 127).clamp(min=1e-12)
    zeros = torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():  # the type is to go one day; the products have no other yet
        warnings.filterwarnings("ignore", message=".*quantize_per_channel.*deprecated")
        low = torch.quantize_per_channel(weight, scales.double(), zeros, 0, torch.qint8)
    floats = None if bias is None else bias.float()
    engines = [
        one for one in ("x86", "fbgemm") if one in torch.backends.quantized.supported_engines
    ]
    few = _prepacked(low, floats, engines[0] if engines else "onednn")
    many = _prepacked(low, floats, "onednn")

    def product(x: Tensor) -> Tensor:
        laid = many if len(x) >= MANY else few
        out = torch.ops.quantized.linear_dynamic(x.float(), laid, reduce_range=False)
        return out.to(kind)  # type: ignore[no-any-return]

    return product


def _prepacked(low: Tensor, bias: Tensor | None, engine: str) -> object:
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    try:
        return torch.ops.quantized.linear_prepack(low, bias)
    finally:
        torch.backends.quantized.engine = before
