"""Training steps recorded as CUDA graphs, one for each shape of batch, and replayed.

A step is many hundred small kernels; launched one by one, the device waits for Python. The first
batch of a shape runs as usual, the second is recorded, all later ones are replayed: no launches and
nothing that waits for the device. Where a running text goes on from batch to batch, its state stays
in place between steps. A step that would poison the weights is skipped on the device, and so are
all after it; the host looks every few steps, and always before it writes anything down. Triton's
kernels can skip a step of any optimizer, torch's own only one of Adam, AdamW and SGD.
"""

import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.average import Average
from dragoman.carrying import Places
from dragoman.core import Padded, Source, leaves, tree_map
from dragoman.data.batches import Batch
from dragoman.device import recording
from dragoman.halves import Halves
from dragoman.kernels.choice import has_triton, logger
from dragoman.model import Carried
from dragoman.validate import EXPLODED

if TYPE_CHECKING:
    from dragoman.kernels.fused_optimizer import FusedOptimizer

GRAPHS = 96  # kept at a time
LOOK_EVERY = 50  # steps between looks at whether all is well
NO_GRAPH = "no CUDA graph for the training step, it runs without: %s"
SKIPPING = ("adam", "adamw", "sgd")  # optimizers that can skip a step without Triton

# (source, target, where a running text stood, tokens) -> nll, where it stands; gradients
Learn = Callable[[Source, Padded, Carried | None, Tensor], tuple[Tensor, Carried | None]]


class Inputs(NamedTuple):
    """What a step reads."""

    source: Source
    target: Padded
    carried: Carried | tuple[()]  # nothing where no running text goes on


class Poison(NamedTuple):
    """The first step that was skipped, and the batches it was made of."""

    number: int
    mean: float  # -log p of a symbol
    norm: float  # of the gradient
    group: tuple[Batch, ...]


class Tape(NamedTuple):
    """A recorded piece of work and the tensors it reads."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    table: Tensor | None  # where the step finds its weights and gradients
    carried: Carried | None  # where it leaves how far a running text has come


class Recorder:
    """Steps of one model with one optimizer on one GPU."""

    def __init__(
        self,
        learn: Learn,
        parameters: list[nn.Parameter],
        optimizer: torch.optim.Optimizer,
        average: Average | None,
        clip: float | None,
        heard: Tensor,
        halves: Halves | None = None,
    ) -> None:
        self.learn, self.parameters, self.average = learn, parameters, average
        self.optimizer, self.clip, self.heard = optimizer, clip or math.inf, heard
        self.halves, self.fused = halves, _fused(optimizer, halves)
        device = heard.device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        self.tapes: OrderedDict[tuple[object, ...], Tape] = OrderedDict()
        self.met: set[tuple[object, ...]] = set()
        self.places = Places()
        self.carried: Carried | None = None  # where a running text stands
        self.kept: list[Tensor] = []  # gradients that outlive a batch, under accumulation
        self.recent: deque[tuple[int, tuple[Batch, ...]]] = deque(maxlen=LOOK_EVERY + 1)
        self.knobs = torch.zeros(4, dtype=torch.float64, device=device)
        self.total, self.mean = torch.zeros(2, device=device).unbind()
        self.first = torch.zeros(3, dtype=torch.float64, device=device)  # number, mean, norm
        self.poison = torch.zeros((), device=device)
        self.table: Tensor | None = None  # of the step that is being recorded
        self.addresses: Tensor | None = None  # what belongs into it
        if self.fused is None:
            optimizer.found_inf = self.poison  # type: ignore[attr-defined]  # 1: no step

    def step(
        self, group: list[Batch], number: int, lr: float, tokens: int, carried: Carried | None
    ) -> Tensor:
        """One step; the mean -log p, which the next step overwrites, as it does `carried`."""
        weight = self.average.weight(number) if self.average else 0.0
        knobs = torch.tensor([lr, max(tokens, 1), number, weight], dtype=torch.float64)
        self.recent.append((number, tuple(group)))
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            if self.halves:
                self.halves.refresh()
            self.knobs.copy_(knobs.pin_memory(), non_blocking=True)
            self.carried = carried and self.places.settle(carried)
            if len(group) == 1:
                self._play("whole", group[0], self._whole)
            else:
                self._keep_gradients()
                for batch in group:
                    self._play("part", batch, self._part)
                self._play("move", None, lambda nothing: self._together())
            if self.halves:  # a replay leaves no trace in torch's counts
                self.halves.stale = self.fused is None
        torch.cuda.current_stream().wait_stream(self.stream)
        return self.mean

    def poisoned(self) -> Poison | None:
        """Wait for the device and see whether a step was skipped."""
        number, mean, norm = self.first.tolist()
        if not number:
            return None
        groups = dict(self.recent)
        return Poison(int(number), mean, norm, groups.get(int(number), ()))

    def _play(self, kind: str, batch: Batch | None, work: Callable[[Inputs | None], None]) -> None:
        """Do a piece of work: as usual, recording it, or from its record."""
        inputs = batch and Inputs(batch.source, batch.target, self.carried or ())
        tensors = [] if inputs is None else leaves(inputs)
        key = (kind, *((tuple(t.shape), t.dtype) for t in tensors))
        if key not in self.met:
            self.met.add(key)
            work(self._moved(inputs))
            return
        tape = self.tapes.get(key)
        if tape is None:
            tape = self._record(work, self._moved(inputs))
            self.tapes[key] = tape
            if len(self.tapes) > GRAPHS:
                self.tapes.popitem(last=False)
        else:
            self.tapes.move_to_end(key)
            for static, tensor in zip(tape.inputs, tensors, strict=True):
                static.copy_(tensor, non_blocking=True)
        tape.graph.replay()
        if inputs is not None:
            self.carried = tape.carried

    def _record(self, work: Callable[[Inputs | None], None], inputs: Inputs | None) -> Tape:
        graph = torch.cuda.CUDAGraph()
        kept = [] if inputs is None else leaves(inputs)
        self.table = self.fused.room() if self.fused else None  # not in the graph's own memory
        self.addresses = None
        torch.cuda.synchronize()
        with recording():
            graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")
            try:
                work(inputs)
            finally:
                graph.capture_end()
        table, self.table = self.table, None
        if table is not None and self.addresses is not None:
            table.copy_(self.addresses)
        return Tape(graph, kept, table, self.carried)

    def _moved(self, inputs: Inputs | None) -> Inputs | None:
        device = self.heard.device
        return inputs and tree_map(lambda t: t.to(device, non_blocking=True), inputs)

    def _keep_gradients(self) -> None:
        if not self.kept:
            self.kept = [torch.zeros_like(p) for p in self.parameters]
        for parameter, kept in zip(self.parameters, self.kept, strict=True):
            parameter.grad = kept

    def _whole(self, inputs: Inputs | None) -> None:
        for parameter in self.parameters:
            parameter.grad = None
        if self.fused:
            self._learn(inputs)
            self._take(self.fused)
        else:
            self._part(inputs)
            self._move()

    def _part(self, inputs: Inputs | None) -> None:
        self._learn(inputs)
        if self.halves:
            self.halves.bring_home()

    def _together(self) -> None:
        """The step after several batches, whose gradients are all at home."""
        if self.fused:
            if self.halves:
                self.halves.forget()
            self._take(self.fused)
        else:
            self._move()
        torch._foreach_zero_(self.kept)

    def _learn(self, inputs: Inputs | None) -> None:
        assert inputs is not None
        source, target, before = inputs
        nll, after = self.learn(source, target, before or None, self.knobs[1].float())
        self.total += nll
        self.carried = after and self.places.settle(after)

    def _take(self, fused: "FusedOptimizer") -> None:
        """`_move` in three kernels."""
        self.addresses = fused.addresses()
        table = self.addresses.to(self.heard.device) if self.table is None else self.table
        told = (self.knobs, self.total, self.mean, self.first, self.poison, self.heard)
        fused.step(table, told, self.clip, EXPLODED)
        if self.average:
            self.average.move(self.knobs[3].float())

    def _move(self) -> None:
        """From gradients to weights."""
        norm = nn.utils.clip_grad_norm_(self.parameters, self.clip)
        torch.div(self.total, self.knobs[1].float(), out=self.mean)
        bad = ~((self.mean < EXPLODED) & torch.isfinite(norm))
        found = torch.stack([self.knobs[2], self.mean.double(), norm.double()])
        self.first.copy_(torch.where(bad & (self.first[0] == 0), found, self.first))
        torch.maximum(self.poison, bad.float(), out=self.poison)
        for group in self.optimizer.param_groups:
            group["lr"].copy_(self.knobs[0])
        self.optimizer.step()
        if self.average:
            self.average.move(self.knobs[3].float())
        self.heard += self.total
        self.total.zero_()


def recordable(optimizer: str, device: torch.device) -> bool:
    """Whether steps of an optimizer can be recorded: it must be able to skip one on the device, as
    Triton's kernels are for all, torch's own only for some.
    """
    if device.type != "cuda":
        return False
    if optimizer in SKIPPING or has_triton(device, torch.float):
        return True
    logger.warning(NO_GRAPH, f"without Triton, {optimizer} cannot skip a step on the device")
    return False


def _fused(optimizer: torch.optim.Optimizer, halves: Halves | None) -> "FusedOptimizer | None":
    """Where there is Triton."""
    if not has_triton(optimizer.param_groups[0]["params"][0].device, torch.float):
        return None
    from dragoman.kernels.fused_optimizer import FusedOptimizer

    return FusedOptimizer(optimizer, halves.copies() if halves else {})


def heal() -> None:
    """Bring the random numbers of the device back to order after a recording that failed."""
    torch.cuda.synchronize()
    for generator in torch.cuda.default_generators:
        generator.graphsafe_set_state(generator.clone_state())


def give_up(error: Exception) -> None:
    """Say, once, that steps run one kernel at a time from now on."""
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    logger.warning(NO_GRAPH, first)
