"""Recorded steps without a GPU: where a graph would be replayed, its work is done again, on tensors
that stay where they were when it was recorded.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman import stepping
from dragoman.config import TrainSpec
from dragoman.core import leaves, tree_map
from dragoman.data.batches import Stream
from dragoman.decoders import RecurrentSpec
from dragoman.device import pick_device
from dragoman.encoders import NothingSpec
from dragoman.graphs import Inputs, Recorder
from dragoman.heads import VocabularySpec
from dragoman.model import ModelSpec, build
from dragoman.stepping import Stepper


class Again:
    """In the place of a tape."""

    def __init__(self, recorder: Recorder, work: Callable[..., None], inputs: Inputs | None):
        self.recorder, self.work, self.given = recorder, work, inputs
        self.inputs, self.graph = [] if inputs is None else leaves(inputs), self

    def replay(self) -> None:
        self.work(self.given)

    @property
    def carried(self) -> Any:
        return self.recorder.carried


class Queue:
    def __init__(self, *_: object) -> None: ...

    def wait_stream(self, other: "Queue") -> None: ...


def moved(recorder: Recorder, inputs: Inputs | None) -> Inputs | None:
    """Copies, as on another device; not of what is there already."""
    if inputs is None:
        return None
    source, target = tree_map(torch.clone, (inputs.source, inputs.target))
    return Inputs(source, target, inputs.carried)


def taped(recorder: Recorder, work: Callable[..., None], inputs: Inputs | None) -> Again:
    return Again(recorder, work, inputs)


def recorded_on_cpu(patch: pytest.MonkeyPatch) -> None:
    """All steps, of any optimizer, from now on."""
    patch.setattr(stepping, "recordable", lambda *_: True)
    patch.setattr(Recorder, "_record", taped)
    patch.setattr(Recorder, "_moved", moved)
    patch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    patch.setattr(torch.cuda, "Stream", Queue)
    patch.setattr(torch.cuda, "current_stream", Queue)
    patch.setattr(torch.cuda, "stream", nullcontext)
    patch.setattr(torch.cuda, "graph_pool_handle", tuple)


def reader(device: str, **changes: object) -> Stepper:
    """A language model of running text, about to learn."""
    torch.manual_seed(0)
    spec = ModelSpec(
        encoder=NothingSpec(),
        decoder=RecurrentSpec(
            cell="lstm", hidden=16, layers=2, context="initial", start="zero", dropout=0.0
        ),
        head=VocabularySpec(embedding=16),
    )
    settings = TrainSpec(**({"precision": "fp32", "lr": 0.01} | changes))
    device = pick_device(device)
    return Stepper(build(spec, (), 50).to(device), settings, device, carries=True)


def epochs() -> list[Stream]:
    """Of a text of which the last piece is shorter; later, in another number of streams."""
    text = np.random.default_rng(0).integers(4, 50, 3 * 23, np.int32)
    return [Stream(text, streams, steps=5) for streams in (3, 3, 3, 4, 4, 3)]


def course(run: Stepper, size: int = 1) -> tuple[list[float], list[Tensor]]:
    """The losses of a running text's steps of so many batches, and all that was carried."""
    run.model.train()
    losses, states = [], []
    for stream in epochs():
        run.carried = None
        for begin in range(0, len(stream), size):
            places = range(begin, min(begin + size, len(stream)))
            group = [run.prepare(stream.batch(place)) for place in places]
            losses.append(float(run.step(group, len(losses) + 1, 0.01).nll))
            states += [tensor.clone() for tensor in leaves(run.carried)]
    return losses, states
