"""Embedding tables whose gradient is added up row by row: torch would sort the symbols first."""

from typing import Any

import torch
from torch import Tensor, nn

from dragoman.kernels.products import lowered


class Table(nn.Embedding):
    """`nn.Embedding`, faster to learn on a GPU. Sums there are taken in no fixed order."""

    def forward(self, ids: Tensor) -> Tensor:
        if ids.is_cuda and torch.is_grad_enabled():
            return _Lookup.apply(self.weight, ids, self.padding_idx)  # type: ignore[no-untyped-call,no-any-return]
        return super().forward(ids)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, ids: Tensor, padding: int | None) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.rows, ctx.padding, ctx.kind = len(weight), padding, weight.dtype
        low = lowered(weight.device)  # all that is done with a row is: cast it once
        found = nn.functional.embedding(ids, weight)
        return found.bfloat16() if low else found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (ids,) = ctx.saved_tensors
        summed = grad.new_zeros(ctx.rows, grad.size(-1), dtype=ctx.kind)
        summed.index_add_(0, ids.flatten(), grad.flatten(0, -2).to(ctx.kind))
        if ctx.padding is not None:
            summed[ctx.padding] = 0
        return summed, None, None
