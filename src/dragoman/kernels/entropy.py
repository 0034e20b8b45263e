"""The output layer and its cross-entropy in one: scores of a few rows at a time, turned into their
own gradient in place, so that the scores of all rows never stand in memory.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.kernels import native
from dragoman.kernels.choice import has_native, has_triton
from dragoman.kernels.contract import full
from dragoman.kernels.packed import halved
from dragoman.kernels.products import laid, outer, tiled, times, total, worth
from dragoman.kernels.widths import FULL, spread, wide

SCORES = {"cpu": 1 << 22, "cuda": 1 << 28}  # as many at a time; a GPU wants few large products
# features (n, F) and targets -> the gradient of their scores; what is minimised and −Σ log p (2,)
Sloper = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def cross_entropy(
    features: Tensor,  # (N, F)
    weight: Tensor,  # (V, F)
    bias: Tensor,  # (V,)
    targets: Tensor,  # (N,); a row whose target is negative does not count
    smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """What `objectives.cross_entropy` makes of log-probabilities: what is minimised, and −Σ log p.

    >>> total, nll = cross_entropy(torch.zeros(1, 2), torch.zeros(4, 2), torch.zeros(4),
    ...                            torch.tensor([3]))
    >>> nll
    tensor(1.3863)
    """
    device = features.device.type
    kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features.dtype
    size, wider = features.size(1), wide(features.size(1), features)
    features, weight = spread(features, size, wider), spread(weight, size, wider)
    with torch.autocast(device, enabled=False):
        return _Entropy.apply(features, weight, bias, targets, smoothing, kind)  # type: ignore[no-untyped-call,no-any-return]


class _Entropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        smoothing: float,
        kind: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        xs, by, learns = features.to(kind).contiguous(), weight.to(kind), any(ctx.needs_input_grad)
        rows = max(1, SCORES.get(xs.device.type, 1 << 22) // len(weight))
        sums = torch.zeros(2, dtype=full(kind), device=xs.device)
        slope, back = _sloper(weight, bias, smoothing, by), _back(by) if learns else None
        dx, grads = (
            torch.empty_like(xs),
            [torch.zeros_like(t) for t in (weight, bias) if not len(xs)],
        )
        for begin in range(0, len(xs), rows):
            x, y = xs[begin : begin + rows], targets[begin : begin + rows]
            slopes, heard = slope(x, y)
            sums += heard
            if back is not None:
                into = dx[begin : begin + rows]
                back(slopes, into)
                more = [outer(slopes, x).to(weight.dtype), total(slopes).to(bias.dtype)]
                grads = [a.add_(b) for a, b in zip(grads, more, strict=True)] if begin else more
        if learns:
            ctx.save_for_backward(dx, *grads)
        whole, nll = sums[0].clone(), sums[1].clone()
        ctx.mark_non_differentiable(nll)
        return whole, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        dx, dw, db = ctx.saved_tensors
        return dx * grad.to(dx.dtype), dw.mul_(grad), db.mul_(grad), None, None, None


def _back(by: Tensor) -> Callable[[Tensor, Tensor], object]:
    """Where the gradient of scores goes on to that of features."""
    if tiled(by, len(by)):
        product = laid(by.t(), None, low=False)
        return lambda slopes, into: into.copy_(product(slopes))
    if worth(by.numel()) and has_native(by.device, by.dtype):
        turned = by.contiguous().t()
        return lambda slopes, into: into.copy_(times(slopes, turned))
    return lambda slopes, into: torch.mm(slopes, by, out=into)


def _sloper(weight: Tensor, bias: Tensor, smoothing: float, by: Tensor) -> Sloper:
    """From features to the gradient of their scores; `by` is the weight in the features' type."""
    known = by.dtype in (torch.float32, torch.bfloat16)
    if known and has_native(weight.device, weight.dtype):
        return _native(by, bias, smoothing)
    kind, plus, size = by.dtype, bias.to(by.dtype), len(weight)
    slopes = _fused if has_triton(weight.device, kind) else _plain

    def slope(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        room = x.new_empty(len(x), -(-size // FULL) * FULL)[:, :size]
        scores = torch.addmm(plus, x, by.t(), out=room)
        return scores, slopes(scores, targets, smoothing)

    return slope


def _native(by: Tensor, bias: Tensor, smoothing: float) -> Sloper:
    if by.dtype != torch.bfloat16:
        score = laid(by, bias, low=False)

        def slope(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
            scores = score(x)
            return scores, native.slopes(scores, targets, smoothing)

        return slope
    halves = halved(by)

    def slope_low(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        scores = halves(x)
        return scores, native.slopes_low(scores, bias, targets, smoothing)

    return slope_low


def _plain(scores: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """What is minimised and −Σ log p (2,); the scores (N, V) become the gradient of the former."""
    counts, place = (targets >= 0).unsqueeze(1), targets.clamp(min=0).unsqueeze(1)
    logs = scores.to(full(scores.dtype)).log_softmax(-1)
    nll = -(logs.gather(1, place) * counts).sum()
    whole = nll
    if smoothing:
        whole = (1 - smoothing) * nll - smoothing * (logs.mean(-1, keepdim=True) * counts).sum()
    slopes = logs.exp_()
    if smoothing:
        slopes -= smoothing / scores.size(1)
    slopes.scatter_add_(1, place, slopes.new_full(place.shape, smoothing - 1))
    scores.copy_(slopes.mul_(counts))
    return torch.stack([whole, nll])


def _fused(scores: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    from dragoman.kernels.fused_entropy import slopes

    return slopes(scores, targets, smoothing)
