"""Products of a training step. On a CPU they are oneDNN's, a tenth to a fifth faster than those of
torch's `linear` and its gradients, and in bfloat16 their results go on in float32; in float32 they
are tiles' (`lanes.py`), where the processor has them. On a GPU they are torch's, with a bias that
learns faster.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from dragoman.kernels.choice import has_native
from dragoman.kernels.lanes import DEEPEST, Tiles, ways
from dragoman.kernels.packed import Precision, Product, packed
from dragoman.kernels.widths import spread, wide

FEW = 16  # rows that are not worth it
MANY = 128  # rows that make up for the time in which weights are laid out


def lowered(device: torch.device) -> bool:
    """Whether products are wanted in bfloat16."""
    if not torch.is_autocast_enabled(device.type):
        return False
    return torch.get_autocast_dtype(device.type) == torch.bfloat16


class Dense(nn.Linear):
    """`nn.Linear`, faster to train."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b.

    >>> linear(torch.ones(1, 2), torch.tensor([[1.0, 2.0]]))
    tensor([[3.]])
    """
    learns = torch.is_grad_enabled() and x.numel() >= FEW * x.size(-1) > 0
    if learns:
        wider = wide(weight.size(1), x), wide(len(weight), x)
        if wider != (weight.size(1), len(weight)):
            return _widened(x, weight, bias, wider)
    if learns and x.is_cuda and bias is not None and x.dtype == weight.dtype == bias.dtype:
        return _Biased.apply(x, weight, bias)  # type: ignore[no-untyped-call,no-any-return]
    if not learns or not has_native(x.device, weight.dtype):
        return functional.linear(x, weight, bias)
    low = lowered(x.device)
    return _Linear.apply(x, weight, bias, low)  # type: ignore[no-untyped-call,no-any-return]


def _widened(x: Tensor, weight: Tensor, bias: Tensor | None, wider: tuple[int, int]) -> Tensor:
    """The same, by larger sizes."""
    rows, columns = weight.shape
    weight = spread(spread(weight, columns, wider[0]), rows, wider[1], dim=0)
    bias = None if bias is None else spread(bias, rows, wider[1])
    return linear(spread(x, columns, wider[0]), weight, bias)[..., :rows].contiguous()


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, low: bool) -> Tensor:
        kind = torch.bfloat16 if low else torch.float32
        rows, by = x.flatten(0, -2).to(kind).contiguous(), _dense(weight.to(kind))
        ctx.save_for_backward(rows, by)
        ctx.shape, ctx.kind, ctx.biased = x.shape, x.dtype, bias is not None
        out = times(rows, by, None if bias is None else bias.to(kind)).float()
        return out.view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, by = ctx.saved_tensors
        flat = grad.flatten(0, -2)
        low = flat.to(rows.dtype).contiguous()
        needs = ctx.needs_input_grad
        dx = times(low, by.t()).to(ctx.kind).view(ctx.shape) if needs[0] else None
        dw = outer(low, rows).float() if needs[1] else None
        return dx, dw, total(flat) if ctx.biased and needs[2] else None, None


class _Biased(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows, needs = grad.flatten(0, -2), ctx.needs_input_grad
        dx = (rows @ weight).view_as(x) if needs[0] else None
        dw = outer(rows, x.flatten(0, -2)) if needs[1] else None
        return dx, dw, total(rows) if needs[2] else None


def times(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b: x (N, in), W (out, in) or its transpose without gaps."""
    if len(x) >= MANY and tiled(x, x.size(1)):
        return Tiles(weight, bias, "fp32")(x)
    return _onednn(x, weight, bias)


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]


def _dense(weight: Tensor) -> Tensor:
    """Without gaps between its rows: with them, oneDNN is a thousand times slower."""
    whole = weight.is_contiguous() or weight.t().is_contiguous()
    return weight if whole else weight.contiguous()


def outer(grads: Tensor, inputs: Tensor) -> Tensor:
    """The gradient of a weight (out, in), from those of its results (N, out) and its inputs."""
    wide, size = grads.size(1), inputs.size(1)
    if wide * size >= MANY * (wide + size) and len(grads) >= MANY and tiled(grads, len(grads)):
        return Tiles(inputs.contiguous().t(), None, "fp32")(grads.contiguous().t())
    if worth(wide * size) and has_native(grads.device, grads.dtype) and len(grads):
        return _onednn(_dense(grads).t(), _dense(inputs).t())
    return grads.t() @ inputs


def worth(weights: int) -> bool:
    """Whether products with so many weights are worth oneDNN's making of a plan for their shape."""
    return weights >= MANY * MANY


def tiled(x: Tensor, deep: int) -> bool:
    """Whether tiles multiply numbers of this type, and sum so many of their products."""
    return deep <= DEEPEST and has_native(x.device, x.dtype) and ways().get("fp32") is Tiles


def total(rows: Tensor) -> Tensor:
    """The sum of all rows; a product sums faster than a sum."""
    return (rows.new_ones(1, len(rows)) @ rows)[0]


def laid(weight: Tensor, bias: Tensor | None, low: bool) -> Product:
    """x Wᵀ + b with weights laid out for many small products."""
    if not low and tiled(weight, weight.size(1)):
        return Tiles(weight, bias, "fp32")
    precision: Precision = "bf16" if low else "fp32"
    return packed(weight, bias, precision)
