"""One optimizer step: batches in, moved weights out."""

import contextlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.average import Average
from dragoman.config import TrainSpec
from dragoman.core import Padded, Source, leaves, move, rebuild, tree_map
from dragoman.crew import ALONE, Crew
from dragoman.data.batches import Batch, nothing
from dragoman.errors import DragomanError, UserError
from dragoman.graphs import LOOK_EVERY, Recorder, give_up, heal, recordable
from dragoman.halves import Halves
from dragoman.kernels.choice import logger, using
from dragoman.kernels.packed import has_bf16
from dragoman.memory import complaint, joined, let_go, parted, starved
from dragoman.model import Carried, Model
from dragoman.objectives import Aims, Loss
from dragoman.optimizers import make_optimizer
from dragoman.rounding import pinned, rounded
from dragoman.validate import EXPLODED

RANKS_APART = 1_000_000_007  # between the seeds of two processes


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
        self.crew, self.parts = ALONE, 1
        self.lesson: nn.Module = Lesson(model)
        self.aims = Aims(
            spec.label_smoothing,
            spec.coverage,
            spec.sampling,
            spec.doubly_stochastic,
            spec.reward,
            spec.entropy,
        )
        if spec.precision == "bf16" and device.type == "cpu" and not has_bf16():
            logger.warning("train.precision=bf16: this processor has no bf16, fp32 is faster")
        with using(spec.kernel):
            records = recordable(spec.optimizer, device)
        self.optimizer = make_optimizer(spec, model.parameters(), records)
        self.average = Average(model, spec.ema) if spec.ema else None
        self.carried: Carried | None = None
        self.lr = spec.lr
        self.heard = torch.zeros((), dtype=torch.float64, device=device)  # nll, not yet read
        self.halves: Halves | None = None
        self.recorder = self._recorder() if records else None

    def step(self, group: Sequence[Batch], number: int, lr: float) -> Outcome:
        """The step of that number (from 1) over some batches, each symbol counting the same."""
        self.lr = lr
        tokens = int(self.crew.sums(sum(int(batch.target.mask.sum()) for batch in group))[0])
        if (recorded := self._replayed(group, number, lr, tokens)) is not None:
            return Outcome(recorded, tokens)
        mine = self._gradients(group, number, tokens)
        while mine is None:
            mine = self._gradients(group, number, tokens)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.spec.clip or math.inf)
        total = mine if self.crew.size == 1 else mine.new_tensor(self.crew.sums(float(mine))[0])
        guard(float(total) / max(tokens, 1), norm, number, group)
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.average:
            self.average.move(self.average.weight(number))
        self.heard += total
        return Outcome(total / max(tokens, 1), tokens)

    def listen(self) -> float:
        """The summed loss since the last call; it lives on the device until somebody asks."""
        self._look()
        heard = float(self.heard)
        self.heard.zero_()
        return heard

    def carry(self, state: Sequence[Tensor], last: Tensor, path: Path) -> None:
        """Go on where a running text stopped: the state in each of its streams, the last symbol."""
        like = self.model.decoder.start(self.model.encoder(move(nothing(len(last)), self.device)))
        wanted = [(leaf.shape, leaf.is_floating_point()) for leaf in leaves(like)]
        found = [(tensor.shape, tensor.is_floating_point()) for tensor in state]
        if found != wanted or last.dtype != torch.long:
            raise UserError(f"{path}: the state of the running text is not this model's")
        there = [t.to(self.device) for t in state]
        self.carried = Carried(rebuild(like, there), last.to(self.device))

    def join(self, crew: Crew) -> None:
        """Step together with other processes from now on."""
        self.crew, self.lesson = crew, crew.join(Lesson(self.model))
        if crew.size > 1:  # gradients travel between steps of the way back: no graph holds that
            self.recorder = None

    def _gradients(self, group: Sequence[Batch], number: int, tokens: int) -> Tensor | None:
        """The gradients of this process's share, and its -log p. Nothing where memory ran out and
        batches shall be read in smaller parts.
        """
        torch.manual_seed(_mix(self.spec.seed, number - 1) + self.crew.rank * RANKS_APART)
        carried, total = self.carried, torch.zeros((), device=self.device)
        try:
            for place, batch in enumerate(group, 1):
                with self._synced(place == len(group)):
                    total = total + self._backward(batch, tokens)
            return total
        except (RuntimeError, MemoryError) as error:
            if not starved(error):
                raise
            if not self._halve(group):
                raise DragomanError(complaint(group, self.parts, number)) from None
        self.carried = carried
        self.optimizer.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        let_go()
        return None

    def _halve(self, group: Sequence[Batch]) -> bool:
        """Read batches in twice as many parts, where that is wanted and can be; the step stays the
        same. Processes that step together would lose each other.
        """
        longest = max(len(batch.rows) for batch in group)
        if not self.spec.auto_batch or self.parts >= longest or self.crew.size > 1:
            return False
        self.parts *= 2
        return True

    def _synced(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Gradients travel between processes once a step, with its last batch."""
        if isinstance(self.lesson, nn.parallel.DistributedDataParallel) and not last:
            return self.lesson.no_sync()
        return contextlib.nullcontext()

    def prepare(self, batch: Batch) -> Batch:
        """A batch as steps like it; may be called from another thread, ahead of time."""
        if self.recorder is None:
            return batch
        return pinned(batch if self.carries else rounded(batch))  # padding would be carried along

    def _recorder(self) -> Recorder:
        if self._half():
            self.halves = Halves(self.lesson, torch.bfloat16)
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        with using(self.spec.kernel):
            return Recorder(
                self._learn,
                parameters,
                self.optimizer,
                self.average,
                self.spec.clip,
                self.heard,
                self.halves,
            )

    def _learn(
        self, source: Source, target: Padded, carried: Carried | None, tokens: Tensor
    ) -> tuple[Tensor, Carried | None]:
        """Gradients of a batch; its -log p, and where a running text stands after it."""
        runs = self.halves or self.lesson
        with self._precision(), using(self.spec.kernel):
            loss, after = runs(source, target, self.aims, carried)
        (loss.total / tokens).backward()
        return loss.nll, after if self.carries else None

    def _replayed(
        self, group: Sequence[Batch], number: int, lr: float, tokens: int
    ) -> Tensor | None:
        """The step by CUDA graphs, where they are to be had: the mean -log p."""
        if self.recorder is None or self.parts > 1:
            return None
        torch.manual_seed(_mix(self.spec.seed, number - 1))
        before = self.carried and tree_map(torch.clone, self.carried)  # a step overwrites it
        try:
            mean = self.recorder.step(list(group), number, lr, tokens, self.carried)
        except RuntimeError as error:
            give_up(error)
            heal()
            self.recorder, self.carried = None, before
            self.optimizer.zero_grad(set_to_none=True)
            return None
        self.carried = self.recorder.carried
        if number % LOOK_EVERY == 0:
            self._look()
        return mean

    def _look(self) -> None:
        """Stop if a recorded step would have poisoned the weights."""
        if self.recorder and (poison := self.recorder.poisoned()):
            guard(poison.mean, torch.tensor(poison.norm), poison.number, poison.group)

    def _backward(self, batch: Batch, tokens: int) -> Tensor:
        total, after = torch.zeros((), device=self.device), []
        for place, part in enumerate(parted(batch, self.parts)):
            source, target = move(part.source, self.device), move(part.target, self.device)
            before = parted(self.carried, self.parts)[place] if self.carried else None
            with self._precision(), using(self.spec.kernel):
                loss, carried = self.lesson(source, target, self.aims, before)
            after.append(carried)
            scale = self.crew.size / max(tokens, 1)  # processes together take the mean
            (loss.total * scale).backward()
            total = total + loss.nll
        self.carried = joined(after) if self.carries else None
        return total

    def _half(self) -> bool:
        wanted, gpu = self.spec.precision, self.device.type == "cuda"
        return wanted == "bf16" or (wanted == "auto" and gpu and torch.cuda.is_bf16_supported())

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if not self._half():
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)


class Lesson(nn.Module):
    """A model's loss, as a module of its own: that is what processes join."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: Source, target: Padded, aims: Aims, carried: Carried | None
    ) -> tuple[Loss, Carried]:
        return self.model.loss(source, target, aims, carried)


def guard(mean: float, norm: Tensor, number: int, group: Sequence[Batch]) -> None:
    """Stop before a poisoned step."""
    if mean < EXPLODED and torch.isfinite(norm):
        return
    rows = [int(row) for batch in group for row in batch.rows][:8]
    lines = [int(line) for batch in group if batch.lines is not None for line in batch.lines][:8]
    where = f"lines {lines} of the training data" if lines else f"training rows {rows}"
    what = "the gradient is not finite" if mean < EXPLODED else f"the loss is {mean:.3g}"
    raise DragomanError(
        f"{what} at step {number} ({where} ...): "
        "lower train.lr or train.clip; the last checkpoint is unharmed"
    )


def _mix(seed: int, step: int) -> int:
    """A seed for each step: resuming needs no random state."""
    return (seed * 1_000_003 + step) % (1 << 63)
