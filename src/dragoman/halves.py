"""Weights of linear layers in half precision, all cast in one go.

Under autocast each weight is cast by a kernel of its own, and its gradient back by another; at the
size of a sentence model those small kernels are a good part of a step. Here one kernel casts all,
the model runs on the copies, and one kernel brings their gradients home.
`kernels.fused_optimizer` does both on its way.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dragoman.heads import Vocabulary


class Halves:
    """A module whose linear layers run on copies in half precision."""

    def __init__(self, module: nn.Module, kind: torch.dtype) -> None:
        self.module = module
        found = dict(_linear_weights(module))
        self.wholes: list[Tensor] = list(found.values())
        self.halves = {name: whole.detach().to(kind) for name, whole in found.items()}
        self.stale, self.versions = False, self._versions()

    def __call__(self, *args: Any) -> Any:
        """What the module says, by the copies of its weights."""
        self.forget()
        for half in self.halves.values():
            half.requires_grad_()
        return functional_call(self.module, self.halves, args)

    def forget(self) -> None:
        """Begin the copies' gradients anew."""
        for half in self.halves.values():
            half.grad = None

    def copies(self) -> dict[Tensor, Tensor]:
        """Of each weight that has one."""
        return dict(zip(self.wholes, self.halves.values(), strict=True))

    def refresh(self) -> None:
        """Copy the weights anew, if they have changed: `stale` says so of what a graph did to them,
        torch counts what else was done.
        """
        if self.stale or self.versions != self._versions():
            with torch.no_grad():
                torch._foreach_copy_(list(self.halves.values()), self.wholes)
        self.stale, self.versions = False, self._versions()

    def bring_home(self) -> None:
        """Add the copies' gradients to the weights' own."""
        pairs = [
            (whole, half.grad)
            for whole, half in zip(self.wholes, self.halves.values(), strict=True)
            if half.grad is not None
        ]
        arrived = [torch.empty_like(whole) for whole, _ in pairs]
        torch._foreach_copy_(arrived, [grad for _, grad in pairs])
        kept: list[tuple[Tensor, Tensor]] = []
        for (whole, _), grad in zip(pairs, arrived, strict=True):
            if whole.grad is None:
                whole.grad = grad
            else:
                kept.append((whole.grad, grad))
        if kept:
            torch._foreach_add_([own for own, _ in kept], [grad for _, grad in kept])

    def _versions(self) -> list[int]:
        return [whole._version for whole in self.wholes]


def _linear_weights(module: nn.Module) -> list[tuple[str, nn.Parameter]]:
    """By name, once each; tables stay whole: their gradient is a sum of many rows."""
    found = {}
    for path, part in module.named_modules():
        if isinstance(part, nn.Linear | Vocabulary):
            for name, own in part.named_parameters(path, recurse=False):
                if own.requires_grad:
                    found[name] = own
    return list(found.items())
