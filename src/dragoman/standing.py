"""Where a training run stands."""

from dataclasses import dataclass, field

from dragoman.config import TrainSpec
from dragoman.validate import better


@dataclass
class Progress:
    """Where a run stands, apart from its tensors. Chance needs no place here: it is drawn anew for
    each step from the seed and the step's number.
    """

    step: int = 0
    epoch: int = 0
    position: int = 0  # batches of this epoch that are done
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # evaluations since the best
    halvings: int = 0
    since_halving: int = 0
    nll: float = 0.0  # of the training symbols since the last evaluation
    tokens: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)

    def judge(self, metric: str, value: float, spec: TrainSpec) -> bool:
        """Take note of an evaluation; whether it is the best so far."""
        if better(metric, value, self.best):
            self.best, self.best_step, self.stale, self.since_halving = value, self.step, 0, 0
            return True
        self.stale, self.since_halving = self.stale + 1, self.since_halving + 1
        if spec.schedule == "plateau" and self.since_halving >= spec.plateau:
            self.halvings, self.since_halving = self.halvings + 1, 0
        return False
