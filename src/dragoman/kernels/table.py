"""Embedding tables whose gradient is added up row by row: torch would sort the symbols first."""

from typing import Any

import torch
from torch import Tensor, nn


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
        ctx.rows, ctx.padding = len(weight), padding
        return nn.functional.embedding(ids, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (ids,) = ctx.saved_tensors
        summed = grad.new_zeros(ctx.rows, grad.size(-1))
        summed.index_add_(0, ids.flatten(), grad.flatten(0, -2))
        if ctx.padding is not None:
            summed[ctx.padding] = 0
        return summed, None, None
