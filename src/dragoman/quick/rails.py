"""A model for searches that are recorded as graphs: encoder and steps over buffers that stay where
they are.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dragoman.core import Encoded, Source, State, leaf, leaves, repeat, select, tree_map
from dragoman.kernels.beams import Front
from dragoman.kernels.choice import has_triton
from dragoman.quick.course import Course, Quick
from dragoman.search.recorded import Track

LARGE = 2**28  # bytes that the weights of attention of all steps may take


class Rails:
    """What recorded searches ask of a model (`search.recorded`)."""

    def __init__(self, encoder: nn.Module, quick: Quick) -> None:
        self.encoder, self.quick = encoder, quick
        self.graphs: OrderedDict[Hashable, Any] = quick.graphs
        self.low = _low(encoder) if quick.precision != "fp32" else {}

    def read(self, source: Source) -> Encoded:
        """What the encoder makes of a source; in half precision where searches are."""
        if not self.low:
            return self.encoder(source)  # type: ignore[no-any-return]
        with torch.autocast(leaf(source).device.type, torch.bfloat16):
            return functional_call(self.encoder, self.low, (source,))  # type: ignore[no-any-return]

    def lay(self, source: Source, each: int, steps: int) -> Track:
        """Buffers for sources of this shape, `each` paths an item and so many steps."""
        enc = self.read(source)
        memory, kind = enc.memory, self.quick.words.words.dtype
        places = memory.size(1) if self.quick.look is not None else 0
        if len(memory) * each * places * steps * 4 > LARGE:
            raise RuntimeError("the weights of attention of all steps would not fit")
        if has_triton(memory.device, kind):
            from dragoman.quick.fused import Fused, covers

            if covers(self.quick, places):
                return Fused(self, enc, each, steps)
        return Stepped(self, enc, each, steps)


class Stepped:
    """A course's own steps: torch's operations, for whatever has a quick form."""

    def __init__(self, rails: Rails, enc: Encoded, each: int, steps: int) -> None:
        self.rails, self.each = rails, each
        self.quick = rails.quick
        course, state = self._begin(enc)
        self.held = tree_map(torch.zeros_like, course.held)
        self.course = course.over(self.held)
        self.state = tree_map(torch.zeros_like, repeat(state, each))
        self.symbols, self.like = self.quick.symbols, self.quick.words.words
        self.looks: Tensor | None = None
        if self.quick.look is not None:
            places = course.held.keys.size(1)
            self.looks = self.like.new_zeros(steps, 1, len(leaf(self.state)), places)

    def _begin(self, enc: Encoded) -> tuple[Course, State]:
        whole = tree_map(lambda t: _like(t, self.quick.words.words), enc)
        return self.quick.begin(whole), self.quick.decoder.start(whole)

    def begin(self, source: Source) -> None:
        course, state = self._begin(self.rails.read(source))
        _fill(self.held, course.held)
        _fill(self.state, repeat(state, self.each))

    def adopt(self, other: "Stepped", items: Tensor, rows: Tensor, steps: int) -> None:
        """Go on where another track stands after so many steps, with these of its items."""
        _fill(self.held, select(other.held, items))
        _fill(self.state, select(other.state, rows))
        if self.looks is not None and other.looks is not None:
            self.looks[:steps] = other.looks[:steps, :, rows]

    def move(self, front: Front, time: Tensor) -> Tensor:
        """One symbol further on all paths: scores (N, V or more)."""
        before = select(self.state, front.parents)
        features, after, weights = self.course.move(front.tokens, before)
        _fill(self.state, after)
        if self.looks is not None and weights is not None:
            self.looks[:, 0].index_copy_(0, time, weights[None])
        return self.course.scores(features)


def _low(encoder: nn.Module) -> dict[str, Tensor]:
    """Weights of linear layers in half precision, by name; autocast would cast them at each use."""
    return {
        f"{path}.{name}" if path else name: own.detach().bfloat16()
        for path, part in encoder.named_modules()
        if isinstance(part, nn.Linear)
        for name, own in part.named_parameters(recurse=False)
    }


def _like(tensor: Tensor, weights: Tensor) -> Tensor:
    """Numbers in the type of the weights."""
    return tensor.to(weights.dtype) if tensor.is_floating_point() else tensor


def _fill(buffers: State, values: State) -> None:
    for buffer, value in zip(leaves(buffers), leaves(values), strict=True):
        buffer.copy_(value)
