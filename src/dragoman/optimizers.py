"""Optimizers and learning-rate schedules. A rate is a pure function of progress, so that it resumes
by itself.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import TrainSpec
from dragoman.errors import UserError

KEPT = {  # what optimizers remember of each parameter
    torch.optim.SGD: {"momentum_buffer"},
    torch.optim.Adam: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.AdamW: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.Adadelta: {"step", "square_avg", "acc_delta"},
    torch.optim.Adagrad: {"step", "sum"},
}


def make_optimizer(
    spec: TrainSpec, parameters: Iterable[nn.Parameter], recorded: bool = False
) -> torch.optim.Optimizer:
    """The optimizer that a spec names; `recorded` where its steps go into a CUDA graph, which reads
    the rate from the device.

    >>> type(make_optimizer(TrainSpec(optimizer="adagrad"), [nn.Parameter(torch.ones(1))])).__name__
    'Adagrad'
    """
    options: dict[str, Any] = {"lr": spec.lr, "weight_decay": spec.weight_decay}
    if spec.eps is not None and spec.optimizer != "sgd":
        options["eps"] = spec.eps
    parameters = list(parameters)
    if recorded:
        options["lr"] = torch.tensor(spec.lr, device=parameters[0].device)
    if spec.optimizer == "sgd":
        return torch.optim.SGD(parameters, momentum=spec.momentum, fused=recorded, **options)
    if spec.optimizer == "adadelta":
        return torch.optim.Adadelta(parameters, rho=0.95, **options)
    if spec.optimizer == "adagrad":
        # from zero, the very first steps would be as large as the rate itself
        return torch.optim.Adagrad(parameters, initial_accumulator_value=0.1, **options)
    kind = torch.optim.AdamW if spec.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, fused=True, capturable=recorded, **options)


def rate(spec: TrainSpec, step: int, epoch: float, total: int, halvings: int) -> float:
    """The learning rate of a step (counted from 1). `halvings` is what `plateau` has decided so
    far.

    >>> rate(TrainSpec(lr=1.0, schedule="halve", halve_after=5, halve_every=0.5), 1, 5.6, 10, 0)
    0.25
    >>> rate(TrainSpec(lr=1.0, schedule="inverse-sqrt", warmup=4), 16, 0, 100, 0)
    0.5
    """
    warm = min(1.0, step / spec.warmup) if spec.warmup else 1.0
    factor = 1.0
    if spec.schedule == "halve" and epoch >= spec.halve_after:
        factor = 0.5 ** (1 + math.floor((epoch - spec.halve_after) / spec.halve_every))
    elif spec.schedule == "plateau":
        factor = 0.5**halvings
    elif spec.schedule == "inverse-sqrt":
        factor = (max(spec.warmup, 1) / max(step, spec.warmup, 1)) ** 0.5
    elif spec.schedule == "cosine":
        done = (step - spec.warmup) / max(total - spec.warmup, 1)
        factor = 0.5 * (1 + math.cos(math.pi * min(max(done, 0.0), 1.0)))
    return spec.lr * warm * factor


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer as named tensors."""
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": torch.as_tensor(value).detach().cpu().contiguous()
        for index, values in state.items()
        for name, value in values.items()
        if value is not None
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], path: Path
) -> None:
    """The inverse of `optimizer_tensors`; what is not this optimizer's state is refused."""
    state: dict[int, dict[str, Tensor]] = {}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        place = int(index) if index.isdecimal() and len(index) < 10 else len(parameters)
        shape = parameters[place].shape if place < len(parameters) else None
        if value.shape != (shape if name != "step" else ()) or not value.is_floating_point():
            raise UserError(f"{path}: '{key}' is no part of this run's optimizer")
        state.setdefault(place, {})[name] = value
    kept = KEPT[type(optimizer)]
    if any(values.keys() != kept for values in state.values()):
        raise UserError(
            f"{path}: not the state of train.optimizer={type(optimizer).__name__.lower()}: "
            "resume with the optimizer that the run began with"
        )
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
