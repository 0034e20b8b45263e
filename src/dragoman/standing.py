"""Where a training run stands."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from dragoman.config import TrainSpec
from dragoman.errors import UserError
from dragoman.validate import better

MOST = 1 << 50
Many = Annotated[int, Field(ge=0, le=MOST)]


@dataclass
class Progress:
    """Where a run stands, apart from its tensors. Chance needs no place here: it is drawn anew for
    each step from the seed and the step's number.
    """

    step: Many = 0
    epoch: Many = 0
    position: Many = 0  # batches of this epoch that are done
    parts: Annotated[int, Field(ge=1, le=MOST)] = 1  # of batches, since memory ran out
    best: float | None = None
    best_step: Many = 0
    stale: Many = 0  # evaluations since the best
    halvings: Many = 0
    since_halving: Many = 0
    nll: FiniteFloat = 0.0  # of the training symbols since the last evaluation
    tokens: Many = 0
    seconds: FiniteFloat = 0.0
    data: str = ""  # a mark of the rows; checkpoints of earlier versions have none
    commands: list[str] = field(default_factory=list)  # that began the run, and went on with it
    history: list[dict[str, float]] = field(default_factory=list)

    @property
    def evaluated(self) -> int:
        """The step of the last evaluation; 0 where there was none."""
        return int(self.history[-1]["step"]) if self.history else 0

    def due(self, every: int) -> bool:
        """Whether something that happens so often happens after this step.

        >>> Progress(step=6).due(3), Progress(step=6).due(4), Progress().due(3)
        (True, False, False)
        """
        return self.step > 0 and self.step % every == 0

    def judge(self, metric: str, value: float, spec: TrainSpec) -> bool:
        """Take note of an evaluation; whether it is the best so far."""
        if better(metric, value, self.best):
            self.best, self.best_step, self.stale, self.since_halving = value, self.step, 0, 0
            return True
        self.stale, self.since_halving = self.stale + 1, self.since_halving + 1
        if spec.schedule == "plateau" and self.since_halving >= spec.plateau:
            self.halvings, self.since_halving = self.halvings + 1, 0
        return False


def standing(tree: dict[str, Any], folder: Path) -> Progress:
    """The progress that a checkpoint tells of."""
    try:
        found = TypeAdapter(Progress).validate_python(tree)
        steps = [int(figures["step"]) for figures in found.history]
        if steps != sorted(steps) or max([0, found.best_step, *steps]) > found.step:
            raise ValueError("evaluations of steps that were never made")
        return found
    except (ValidationError, ValueError, KeyError, OverflowError):
        raise UserError(f"{folder}: the progress in the last checkpoint is damaged") from None
