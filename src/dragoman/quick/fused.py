"""A decoder's steps by Triton kernels: two products, and four kernels around them."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

from dragoman.attention import MLP, Bilinear
from dragoman.cells import GRU, LSTM
from dragoman.core import Encoded, Source, repeat
from dragoman.decoders.recurrent import Recurrent
from dragoman.kernels import fused_step
from dragoman.kernels.beams import Front
from dragoman.kernels.fused_step import Place, Seen, Shape, States
from dragoman.kernels.fused_thin import suits, thin
from dragoman.quick.course import LONG, Quick
from dragoman.quick.rails import Rails


def covers(quick: Quick, places: int) -> bool:
    """Whether there are kernels for a decoder: a GRU or LSTM that attends before its cell, or
    after it with a readout of tanh.
    """
    decoder = quick.decoder
    known = type(decoder.stack.bottom) in (GRU, LSTM) and decoder.spec.layers == 1
    readouts = ("tanh", "maxout") if quick.before else ("tanh",)
    known = known and quick.look is not None and not quick.gated
    return known and quick.kind in readouts and 0 < places <= LONG


class Weights:
    """A decoder's weights, side by side where they read the same vector, in one type."""

    def __init__(self, quick: Quick) -> None:
        decoder, self.mlp = quick.decoder, quick.mlp
        self.kind = torch.float32 if quick.precision == "fp32" else torch.bfloat16
        size, mix = decoder.spec.hidden, decoder.readout.mix
        cell, reads_word = decoder.stack.bottom, decoder.readout.reads_word
        words = quick.words.words.size(1)
        context = mix.weight[:, size : -words if reads_word else None]
        weight, bias = [cell.across.weight], [cell.across.bias]
        top, top_bias = [mix.weight[:, :size]], [mix.bias]
        asking, asking_bias = (weight, bias) if quick.before else (top, top_bias)
        if self.mlp:
            asking.insert(0, self.mlp.query.weight)
            asking_bias.insert(0, self.mlp.query.bias)
        if quick.before:
            weight, bias = [*weight, *top], [*bias, *top_bias]
            context = torch.cat([decoder.inject.weight, context])
        elif decoder.feed:  # both halves of the state in one product
            weight = [torch.cat([weight[0], decoder.inject.weight], 1)]
        self.past, self.past_bias = self._join(weight), self._join(bias)
        self.top, self.top_bias = self._join(top), self._join(top_bias)
        self.context = self._set(context)
        self.table = self._set(quick.words.table())
        key = quick.look.key.weight if isinstance(quick.look, MLP | Bilinear) else None
        self.key = None if key is None else self._set(key)
        self.score = self._set(self.mlp.score.weight[0]) if self.mlp else self.past_bias
        out, out_bias = quick.output
        more = -len(out) % 64  # products of unaligned rows are slow
        self.out = self._set(pad(out, (0, 0, 0, more)))
        self.out_bias = self._set(pad(out_bias, (0, more)))

    def _set(self, weight: Tensor) -> Tensor:
        return weight.detach().to(self.kind).contiguous()

    def _join(self, weights: Sequence[Tensor]) -> Tensor:
        return self._set(torch.cat(list(weights)))


def weights_of(quick: Quick) -> Weights:
    """Made once for all shapes."""
    if not isinstance(quick.fused, Weights):
        quick.fused = Weights(quick)
    return quick.fused


class Fused:
    """Steps of a decoder over sources of one shape (`search.recorded.Track`)."""

    def __init__(self, rails: Rails, enc: Encoded, each: int, steps: int) -> None:
        self.rails, self.each, self.weights = rails, each, weights_of(rails.quick)
        quick, by = rails.quick, self.weights
        decoder: Recurrent = quick.decoder
        items, places = enc.mask.shape
        size, rows = decoder.spec.hidden, items * each
        self.before, self.feed, self.maxout = quick.before, quick.feed, quick.kind == "maxout"
        keys = enc.memory.size(2) if by.key is None else len(by.key)
        self.shape = Shape(
            rows,
            each,
            places,
            keys,
            size,
            decoder.readout.mix.out_features,
            isinstance(decoder.stack.bottom, LSTM),
            by.mlp is not None,
            decoder.readout.reads_word,
        )
        self.symbols = quick.symbols
        self.like = by.out.new_zeros((), dtype=torch.float32)
        new = by.out.new_zeros
        fed = decoder.readout.size if quick.feed else 0
        self.states = [new(rows, size + fed) for _ in range(2)]  # they take turns
        wide = size if self.shape.lstm else 1
        self.memories = [new(rows, wide, dtype=torch.float32) for _ in range(2)]
        self.past, self.top = new(rows, len(by.past)), new(rows, len(by.top))
        self.share = new(rows, self.shape.readout, dtype=torch.float32)
        self.features, self.scores = new(rows, decoder.readout.size), new(rows, len(by.out))
        self.seen = Seen(
            new(items, places, keys),
            new(items, places, len(by.context)),
            by.score,
            new(items, places, dtype=torch.int8),
            new(items, dtype=torch.int32),
        )
        self.looks: Tensor | None = fused_step.looks(self.shape, steps, self.like)
        self.turn, self.few = 0, suits(rows, by.out)

    def begin(self, source: Source) -> None:
        """Read a source; all paths of an item begin alike."""
        enc, by, seen = self.rails.read(source), self.weights, self.seen
        memory = enc.memory.to(by.kind)
        seen.keys.copy_(memory if by.key is None else linear(memory, by.key))
        seen.values.copy_(linear(memory, by.context))
        seen.real.copy_(enc.mask)
        places = torch.arange(1, enc.mask.size(1) + 1, device=memory.device)
        seen.last.copy_((enc.mask * places).amax(1))
        floats = enc._replace(summary=enc.summary.float())
        state = self.rails.quick.decoder.start(floats)
        h, *c = repeat(state.cells[0], self.each)
        size = self.shape.hidden
        self.states[0][:, :size].copy_(h)
        self.states[0][:, size:].zero_()
        if c:
            self.memories[0].copy_(c[0])
        self.turn = 0
        self._times(self.states[0], by.past, by.past_bias, self.past)

    def adopt(self, other: "Fused", items: Tensor, rows: Tensor, steps: int) -> None:
        """Go on where another track stands after so many steps, with these of its items."""
        pairs = zip(self.seen, other.seen, strict=True)
        for mine, theirs in (pair for pair in pairs if pair[0] is not self.weights.score):
            mine.copy_(theirs[items])
        for ours, others in ((self.states, other.states), (self.memories, other.memories)):
            ours[0].copy_(others[0][rows])
        self.past.copy_(other.past[rows])
        if self.looks is not None and other.looks is not None:
            self.looks[:steps, 0] = other.looks[:steps, 0, rows]

    def move(self, front: Front, time: Tensor) -> Tensor:
        """One symbol further on all paths: scores (N, V or more)."""
        by, shape, turn, looks = self.weights, self.shape, self.turn, self.looks
        assert looks is not None
        at = Place(front.tokens, front.parents, front.done, time)
        h, new = self.states[turn], self.states[1 - turn]
        states = States(h, self.memories[turn], new, self.memories[1 - turn])
        fused_step.advance(
            shape, at, self.past, by.table, self.seen, states, self.share, looks, self.before
        )
        features, size = self.features, shape.hidden
        if self.before:
            self._times(new, by.past, by.past_bias, self.past)
            fused_step.read(self.past, self.share, features, self.maxout)
        else:
            self._times(new[:, :size], by.top, by.top_bias, self.top)
            if self.feed:
                features = new[:, size:]
            fused_step.attend(shape, at, self.top, new, by.table, self.seen, features, looks)
            self._times(new, by.past, by.past_bias, self.past)
        self.turn = 1 - turn
        return self._times(features, by.out, by.out_bias, self.scores)

    def _times(self, x: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> Tensor:
        if self.few:
            thin(x, weight, bias, out)
        else:
            torch.addmm(bias, x, weight.t(), out=out)
        return out
