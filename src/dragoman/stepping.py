"""One optimizer step: batches in, moved weights out."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.average import Average
from dragoman.config import TrainSpec
from dragoman.core import move
from dragoman.data.batches import Batch
from dragoman.errors import DragomanError
from dragoman.kernels.choice import using
from dragoman.model import Carried, Model
from dragoman.objectives import Aims
from dragoman.optimizers import make_optimizer
from dragoman.validate import EXPLODED


class Outcome(NamedTuple):
    """One optimizer step."""

    nll: Tensor  # () mean over the symbols
    tokens: int


class Stepper:
    """A model, its optimizer and its moving average; `carries` where a running text's state goes
    on from batch to batch.
    """

    def __init__(self, model: Model, spec: TrainSpec, device: torch.device, carries: bool) -> None:
        self.model, self.spec, self.device, self.carries = model, spec, device, carries
        self.aims = Aims(spec.label_smoothing, spec.coverage, spec.sampling)
        self.optimizer = make_optimizer(spec, model.parameters())
        self.average = Average(model, spec.ema) if spec.ema else None
        self.carried: Carried | None = None
        self.heard = torch.zeros((), dtype=torch.float64, device=device)  # nll, not yet read

    def step(self, group: Sequence[Batch], number: int, lr: float) -> Outcome:
        """The step of that number (from 1) over some batches, each symbol counting the same."""
        torch.manual_seed(_mix(self.spec.seed, number - 1))
        tokens = sum(int(batch.target.mask.sum()) for batch in group)
        total = torch.zeros((), device=self.device)
        for batch in group:
            total = total + self._backward(batch, tokens)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.spec.clip or math.inf)
        guard(float(total) / max(tokens, 1), norm, number, group)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average:
            self.average.update(number)
        self.heard += total
        return Outcome(total / max(tokens, 1), tokens)

    def listen(self) -> float:
        """The summed loss since the last call; it lives on the device until somebody asks."""
        heard = float(self.heard)
        self.heard = torch.zeros_like(self.heard)
        return heard

    def _backward(self, batch: Batch, tokens: int) -> Tensor:
        source, target = move(batch.source, self.device), move(batch.target, self.device)
        with self._precision(), using(self.spec.kernel):
            loss, carried = self.model.loss(source, target, self.aims, self.carried)
        self.carried = carried if self.carries else None
        (loss.total / max(tokens, 1)).backward()  # type: ignore[no-untyped-call]
        return loss.nll

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        wanted = self.spec.precision
        bf16 = wanted == "bf16" or (
            wanted == "auto" and self.device.type == "cuda" and torch.cuda.is_bf16_supported()
        )
        return (
            torch.autocast(self.device.type, torch.bfloat16) if bf16 else contextlib.nullcontext()
        )


def guard(mean: float, norm: Tensor, number: int, group: Sequence[Batch]) -> None:
    """Stop before a poisoned step."""
    if mean < EXPLODED and torch.isfinite(norm):
        return
    rows = [int(row) for batch in group for row in batch.rows][:8]
    what = "the gradient is not finite" if mean < EXPLODED else f"the loss is {mean:.3g}"
    raise DragomanError(
        f"{what} at step {number} (training rows {rows} ...): "
        "lower train.lr or train.clip; the last checkpoint is unharmed"
    )


def _mix(seed: int, step: int) -> int:
    """A seed for each step: resuming needs no random state."""
    return (seed * 1_000_003 + step) % (1 << 63)
