"""The Triton optimizers against torch's, as in `interpreted`:
TRITON_INTERPRET=1 python tests/interpreted_optimizers.py
"""

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.config import TrainSpec
from dragoman.device import pick_device
from dragoman.kernels.fused_optimizer import FusedOptimizer
from dragoman.optimizers import make_optimizer, optimizer_tensors, restore_optimizer

SHAPES = ((70, 90), (5000,), (3,), (4097,), (2048,), (4,))
INFINITE = float("inf")
KINDS: list[dict[str, Any]] = [
    {"optimizer": "adam"},
    {"optimizer": "adamw"},
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "adadelta"},
    {"optimizer": "adadelta", "eps": 1e-4},
    {"optimizer": "adagrad"},
]


class Side:
    """Weights and an optimizer of theirs; all sides begin alike."""

    def __init__(self, spec: TrainSpec, device: str) -> None:
        torch.manual_seed(0)
        self.weights = [torch.nn.Parameter(torch.randn(s, device=device)) for s in SHAPES]
        self.optimizer = make_optimizer(spec, self.weights)

    def kept(self) -> dict[str, Tensor]:
        return optimizer_tensors(self.optimizer)


class Fused(Side):
    """By the kernels; the first weight has a copy in half precision."""

    def __init__(self, spec: TrainSpec, device: str) -> None:
        super().__init__(spec, device)
        self.low = self.weights[0].detach().bfloat16().requires_grad_()
        self.fused = FusedOptimizer(self.optimizer, {self.weights[0]: self.low})
        self.knobs = torch.tensor([spec.lr, 8.0, 0.0, 0.0], dtype=torch.float64, device=device)
        self.total, self.mean, self.poison = torch.zeros(3, device=device).unbind()
        self.first, self.heard = self.knobs.new_zeros(3), self.knobs.new_zeros(())

    def step(self, number: int, loss: float, clip: float) -> None:
        self.knobs[2] = number
        self.total.fill_(loss)
        told = (self.knobs, self.total, self.mean, self.first, self.poison, self.heard)
        self.fused.step(self.fused.addresses().to(self.knobs.device), told, clip, 700.0)


def gradients(number: int, device: str) -> list[Tensor | None]:
    """Of one step; the last weight never learns. From the second step on they are parts of one
    tensor, so that some begin at odd addresses.
    """
    sizes = [torch.Size(shape).numel() for shape in SHAPES]
    flat = torch.randn(sum(sizes) + 1, device=device)
    parts = flat[number > 1 :][: sum(sizes)].split(sizes)
    shaped = [part.view(shape) for part, shape in zip(parts, SHAPES, strict=True)]
    alone = [g.clone() if number == 1 else g for g in shaped]
    alone[0] = alone[0].bfloat16().float()
    return [*alone[:-1], None]


def given(mine: Fused, theirs: Side, number: int, device: str) -> None:
    """The same gradients to both sides; to the first weight by its copy, at times by both."""
    found = gradients(number, device)
    for a, b, g in zip(mine.weights, theirs.weights, found, strict=True):
        a.grad, b.grad = g, None if g is None else g.clone()
    first, wanted = found[0], theirs.weights[0].grad
    assert first is not None
    assert wanted is not None
    mine.low.grad = first.bfloat16()
    mine.weights[0].grad = torch.ones_like(first) if number == 2 else None
    wanted += number == 2


def differences(spec: TrainSpec, clip: float, device: str) -> Iterator[str]:
    """Between a few steps of both; the last must not be taken. After the second, a checkpoint of
    torch's goes to the kernels.
    """
    mine, theirs = Fused(spec, device), Side(spec, device)
    for number in range(1, 5):
        given(mine, theirs, number, device)
        mine.step(number, 24.0 if number < 4 else float("nan"), clip)
        if number == 4:
            break
        torch.nn.utils.clip_grad_norm_(theirs.weights, clip)
        theirs.optimizer.step()
        if mine.mean != 3 or mine.total or mine.poison or mine.heard != 24 * number:
            yield f"step {number}: {mine.mean} {mine.total} {mine.poison} {mine.heard}"
        if number == 2:
            saved = {name: tensor.clone() for name, tensor in theirs.kept().items()}
            restore_optimizer(mine.optimizer, saved, Path())
    if not mine.poison or mine.first[0] != 4 or not mine.mean.isnan():
        yield f"a poisoned step was not noticed: {mine.poison} {mine.first}"
    yield from unequal(mine, theirs)


def unequal(mine: Fused, theirs: Side) -> Iterator[str]:
    for a, b in zip(mine.weights, theirs.weights, strict=True):
        if not torch.allclose(a, b, atol=2e-5):
            yield f"{tuple(a.shape)}: off by {(a - b).abs().max():.2g}"
    kept, wanted = mine.kept(), theirs.kept()
    if kept.keys() != wanted.keys():
        yield f"keeps {sorted(kept)}, not {sorted(wanted)}"
        return
    for name, tensor in wanted.items():
        if not torch.allclose(kept[name], tensor, atol=1e-6, rtol=1e-5):
            yield f"{name}: off by {(kept[name] - tensor).abs().max():.2g}"
        if (kept[name].dtype, kept[name].shape) != (tensor.dtype, tensor.shape):
            yield f"{name}: {kept[name].dtype} {tuple(kept[name].shape)}"
    if not torch.allclose(
        mine.low.float(), mine.weights[0], rtol=2**-7
    ):  # interpreted: not rounded
        yield "the copy is not the weight's"


def optimizers(device: str) -> list[str]:
    """Clipping and a step in one: against torch's, weight by weight."""
    wrong = []
    for kind, decay, clip in product(KINDS, (0.0, 0.01), (0.5, INFINITE)):
        spec = TrainSpec(lr=0.1, weight_decay=decay, **kind)
        wrong += [f"{kind} {decay} {clip} {one}" for one in differences(spec, clip, device)]
    return wrong


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    pick_device(device)
    wrong = optimizers(device)
    print("\n".join(wrong) or "all is right")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
