"""A moving average of the weights: what is judged and kept where `train.ema` is set."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.errors import UserError


class Average:
    """Polyak's average, exponentially weighted. It warms up: at first it follows closely.

    >>> model = nn.Linear(1, 1)
    >>> average = Average(model, 0.5)
    >>> with average.worn(): same = bool(model.weight == average.tensors["weight"])
    >>> same
    True
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.tensors = {n: p.detach().clone() for n, p in model.named_parameters()}

    def weight(self, step: int) -> float:
        """How far the average moves after the given step (counted from 1)."""
        return 1 - min(self.decay, (1 + step) / (10 + step))

    def move(self, weight: float | Tensor) -> None:
        """Move towards the weights, so far."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                self.tensors[name].lerp_(parameter, weight)

    @contextmanager
    def worn(self) -> Iterator[None]:
        """The model with the average as its weights, for a while."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def load(self, tensors: dict[str, Tensor], path: Path) -> None:
        """Go on from an average, or, where there was none yet, from the weights as they are."""
        mine = {name: p.detach() for name, p in self.model.named_parameters()}
        found = tensors or mine
        if {n: t.shape for n, t in found.items()} != {n: t.shape for n, t in mine.items()}:
            raise UserError(f"{path}: the moving average is not of this model's weights")
        for name, tensor in found.items():
            self.tensors[name].copy_(tensor)

    def _swap(self) -> None:
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                kept = parameter.detach().clone()
                parameter.copy_(self.tensors[name])
                self.tensors[name].copy_(kept)
