"""Training: one loop that knows no task."""

import contextlib
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from dragoman.card import card, command
from dragoman.checkpoint import compare, restore, save_model, weights_of
from dragoman.config import Config, TrainSpec, dump
from dragoman.core import leaves
from dragoman.corpus import Corpus, Running, mark, steps_of
from dragoman.crew import ALONE, Crew, unhurried
from dragoman.data.ahead import Ahead
from dragoman.data.batches import Batch, Stream, muted
from dragoman.device import pick_device
from dragoman.errors import DragomanError
from dragoman.fresh import new_model
from dragoman.optimizers import optimizer_tensors, rate, restore_optimizer
from dragoman.progress import Reporter
from dragoman.signals import Calls
from dragoman.snapshots import Snapshot, save_snapshot
from dragoman.standing import Progress, standing
from dragoman.stepping import Outcome, Stepper
from dragoman.validate import Evaluation, evaluate, watched

METRICS_FILE, SAMPLES_FILE = "metrics.jsonl", "samples.json"
CARRIED, AVERAGE = "carried.", "average."  # what a checkpoint holds beside the weights


class Trainer:
    """A run: a corpus, a model, a folder."""

    def __init__(
        self,
        corpus: Corpus,
        folder: Path,
        reporter: Reporter,
        calls: Calls | None = None,
        crew: Crew = ALONE,
    ) -> None:
        self.corpus, self.folder, self.reporter = corpus, folder, reporter
        self.calls, self.crew = calls or Calls(), crew
        self.config: Config = corpus.config
        self.spec: TrainSpec = corpus.config.train
        self.device = pick_device(crew.device(self.spec.device))
        self.metric = watched(self.config, corpus.fields)
        torch.manual_seed(self.spec.seed)
        self.model = new_model(self.config, corpus.fields, reporter.say).to(self.device)
        carries = isinstance(corpus.train, Running)
        self.stepper = Stepper(self.model, self.spec, self.device, carries)
        self.progress = Progress(data=mark(corpus), commands=[command()])
        self.batches = steps_of(corpus, 0)
        self.per_epoch = max(1, math.ceil(len(self.batches) / self.spec.accumulate))  # of the first
        self.ahead: Ahead[Batch] | None = None
        self.ahead_of: object = None  # the batches that are made ahead
        self.begun = time.monotonic()
        self.best = weights_of(self.model)
        self.proof: Evaluation | None = None  # what the best weights wrote; not known once resumed
        self.saved: int | None = None  # the step of the last checkpoint

    def resume(self, snapshot: Snapshot) -> None:
        """Go on from a checkpoint."""
        carried = _pop(snapshot.weights, CARRIED)
        averaged = _pop(snapshot.weights, AVERAGE)
        restore(self.model, snapshot.weights, self.folder)
        compare(self.model, snapshot.best, self.folder)
        if self.stepper.average:
            self.stepper.average.load(averaged, self.folder)
        restore_optimizer(self.stepper.optimizer, snapshot.optimizer, self.folder)
        self.progress = standing(snapshot.progress, self.folder)
        self.progress.commands = [*dict.fromkeys([*self.progress.commands, command()])]
        self.stepper.parts = self.progress.parts
        self.batches = steps_of(self.corpus, self.progress.epoch)
        self._carry([*carried.values()])
        self.best, self.saved = snapshot.best, self.progress.step

    def _carry(self, carried: list[Tensor]) -> None:
        """Go on in the middle of a running text; in other streams (batch sizes) it begins anew."""
        if not carried or not isinstance(self.batches, Stream):
            return
        *state, last = (self.crew.share(t) if t.dim() else t for t in carried)
        if last.shape == self.crew.share(self.batches.rows).shape[:1]:
            self.stepper.carry(state, last, self.folder)

    def run(self) -> None:
        """Train until the epochs, the steps or the patience are spent; leave the best model in the
        folder.
        """
        self.model.train()
        self.begun = time.monotonic() - self.progress.seconds
        self.reporter.start(self.total_steps(), self.progress.step)
        with self.calls.waiting():
            self._checkpoint()  # from now on, whatever happens, there is something to resume
            if self.crew.writes:
                self.crew.tell(dump(self.config))  # the others begin with what is written now
            self.stepper.join(self.crew)
            self._attend()
            while not self._finished():
                outcome = self._step()
                self.reporter.step(self.progress.step, outcome.nll, outcome.tokens)
                self._attend()
            self._checkpoint()  # first: a longer run might not evaluate here
            if self.progress.evaluated != self.progress.step:
                self._evaluate()
        self.reporter.say(self._end())
        self.reporter.close()
        if self.ahead is not None:
            self.ahead.close()

    def _attend(self) -> None:
        """What is due after a step: to leave, if asked to; to evaluate; to save. A resumed run
        comes here first: it may have been asked to leave before its evaluation.
        """
        progress = self.progress
        try:
            if self.crew.any(self.calls.signum is not None):
                self.calls.leave()
            if progress.due(self.interval()) and progress.evaluated != progress.step:
                self._evaluate()
        except (KeyboardInterrupt, SystemExit):
            with unhurried():
                self._checkpoint()
                self.crew.wait()  # torchrun and srun end all as soon as one has left
            raise
        if progress.due(self.spec.checkpoint_every or self.interval()):
            self._checkpoint()

    def _finished(self) -> bool:
        patience = self.spec.patience
        tired = patience is not None and self.progress.stale >= patience
        return tired or self.progress.step >= self.total_steps()

    def _end(self) -> str:
        """Why training is over, and which of its models is kept."""
        progress, patience = self.progress, self.spec.patience
        tired = patience is not None and progress.stale >= patience
        why = f"no better for {progress.stale} evaluations" if tired else "all steps are done"
        value = "" if progress.best is None else f", {self.metric} {progress.best:.2f}"
        return f"{why}; the best is that of step {progress.best_step}{value}"

    def total_steps(self) -> int:
        """How many steps there can be at most."""
        limits = [
            math.ceil(self.spec.epochs * self.per_epoch) if self.spec.epochs else None,
            self.spec.max_steps,
        ]
        return min((limit for limit in limits if limit is not None), default=1 << 62)

    def interval(self) -> int:
        """Steps between evaluations: about an epoch, neither too rare nor too often."""
        return self.spec.evaluate_every or min(max(self.per_epoch, 100), 2000)

    def _step(self) -> Outcome:
        progress = self.progress
        group = list(self._next_batches())
        epoch = progress.epoch + progress.position / max(len(self.batches), 1)
        number = progress.step + 1
        lr = rate(self.spec, number, epoch, self.total_steps(), progress.halvings)
        outcome = self.stepper.step(group, number, lr)
        progress.step, progress.tokens = number, progress.tokens + outcome.tokens
        if self.stepper.parts > progress.parts:
            progress.parts = self.stepper.parts
            self.reporter.say(f"out of memory: from now on, batches in {progress.parts} parts each")
        return outcome

    def _next_batches(self) -> Iterator[Batch]:
        """The next group of batches; an epoch's last group may be smaller."""
        progress = self.progress
        if progress.position >= len(self.batches):
            progress.epoch, progress.position = progress.epoch + 1, 0
            self.stepper.carried = None
            self.batches = steps_of(self.corpus, progress.epoch)
        for _ in range(min(self.spec.accumulate, len(self.batches) - progress.position)):
            yield self._next(progress.position)
            progress.position += 1

    def _next(self, position: int) -> Batch:
        """A batch, made ahead of its time where a device would otherwise wait for it."""
        if self.device.type == "cpu":
            return self._batch(position)
        if self.ahead is None or self.ahead_of is not self.batches:
            if self.ahead is not None:
                self.ahead.close()
            self.ahead_of = self.batches
            self.ahead = Ahead(
                lambda place: self.stepper.prepare(self._batch(place)), len(self.batches)
            )
        return self.ahead.get(position)

    def _batch(self, position: int) -> Batch:
        if isinstance(self.batches, list):
            assert not isinstance(self.corpus.train, Running)
            rows = self.crew.share(self.batches[position])
            if not len(rows):  # more processes than rows: this one only keeps the others company
                return muted(self.corpus.train.batch(self.batches[position][:1]))
            return self.corpus.train.batch(rows)
        return self.batches.batch(position, self.crew.share)

    def _evaluate(self) -> None:
        """Judge the model by what it writes, and publish it if it is the best so far."""
        progress = self.progress
        self._listen()
        average = self.stepper.average
        with average.worn() if average else contextlib.nullcontext():
            found, judged = self._judged(), weights_of(self.model)
        told = self.crew.tell(found.figures if found else None)
        if told is None:
            self.calls.leave()
        figures = {
            "step": progress.step,
            "epoch": round(progress.epoch + progress.position / max(len(self.batches), 1), 3),
            "lr": self.stepper.lr,
            "train_loss": progress.nll / max(progress.tokens, 1),
            **{f"dev_{name}": value for name, value in told.items()},
        }
        progress.nll, progress.tokens = 0.0, 0
        progress.history.append(figures)
        improved = progress.judge(self.metric, told[self.metric], self.spec)
        if improved or len(progress.history) == 1:
            self.best, self.proof = judged, found
        if found:
            self.reporter.evaluation(figures, self.metric, improved, found.sample)
            self._publish([sample._asdict() for sample in found.samples])

    def _judged(self) -> Evaluation | None:
        """What the first process finds; nothing for the others, or where a signal came. It may take
        long, and changes nothing.
        """
        if not self.crew.writes:
            return None
        try:
            with self.calls.waiting(False):
                return evaluate(self.corpus, self.model, self.metric)
        except (KeyboardInterrupt, SystemExit):
            return None

    def _publish(self, samples: list[dict[str, object]]) -> None:
        """The model folder always holds the best model so far, with all metrics."""
        lines = "".join(json.dumps(figures) + "\n" for figures in self.progress.history)
        history, commands = self.progress.history, self.progress.commands
        about = card(self.corpus, self.best, history, self.metric, commands, self.proof)
        extra = {
            METRICS_FILE: lines.encode(),
            SAMPLES_FILE: json.dumps(samples, indent=1).encode(),
            "README.md": about.encode("utf-8", "replace"),
        }
        save_model(self.folder, self.config, self.corpus.fields, self.best, extra)

    def _checkpoint(self) -> None:
        if self.saved == self.progress.step:
            return
        self._listen()
        self.saved, carried = self.progress.step, self._carried()
        if not self.crew.writes:
            return
        weights = weights_of(self.model)
        if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
            raise DragomanError(
                f"the weights are not finite numbers after step {self.progress.step}: "
                "lower train.lr; the last checkpoint is unharmed"
            )
        weights |= {f"{CARRIED}{i:03d}": t for i, t in enumerate(carried)}
        if self.stepper.average:
            weights |= {
                f"{AVERAGE}{name}": t.cpu() for name, t in self.stepper.average.tensors.items()
            }
        snapshot = Snapshot(
            self.config,
            self.corpus.fields,
            weights,
            self.best,
            optimizer_tensors(self.stepper.optimizer),
            asdict(self.progress),
        )
        with unhurried():
            save_snapshot(self.folder, snapshot)

    def _carried(self) -> list[Tensor]:
        """Where a running text stopped, in all of its streams."""
        carried = self.stepper.carried
        tensors = [*leaves(carried.state), carried.last] if carried else []
        return [self.crew.gather(tensor).cpu().contiguous() for tensor in tensors]

    def _listen(self) -> None:
        """Bring the clock and the summed loss, which lives on the device, up to date."""
        self.progress.seconds = time.monotonic() - self.begun
        self.progress.nll += self.stepper.listen()


def _pop(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Take out the tensors whose names begin with `prefix`, under the rest of the name."""
    names = sorted(name for name in weights if name.startswith(prefix))
    return {name.removeprefix(prefix): weights.pop(name) for name in names}
