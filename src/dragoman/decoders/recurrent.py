"""The recurrent decoder: the source reaches it once, at every step, or by attention."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from dragoman.attention import AttentionSpec, make_attention, one_place
from dragoman.cells import CELLS, Stack, StackSpec
from dragoman.core import Encoded, State, group, ungroup
from dragoman.decoders.base import Decoder, Written
from dragoman.decoders.unrolled import gaps, given_of, memory_of, plan_of
from dragoman.encoders.base import Sizes
from dragoman.errors import UserError
from dragoman.kernels import recurrence
from dragoman.kernels.choice import settle, tell
from dragoman.kernels.contract import Parts
from dragoman.kernels.products import Dense
from dragoman.spec import Size


class RecurrentSpec(StackSpec):
    """Options of the recurrent decoder."""

    kind: Literal["recurrent"] = "recurrent"
    context: Literal["initial", "every-step", "attention"] = "attention"
    start: Literal["copy", "dense", "zero", "learned"] = "dense"
    readout: Literal["plain", "tanh", "maxout"] = "tanh"
    readout_size: Size | None = None  # as wide as `hidden` when not given
    readout_word: bool = False  # the last word reaches the output directly (deep output)


class Fixed(NamedTuple):
    """What a decoder keeps of the source: read-only, one row per item, never reordered or tiled."""

    enc: Encoded
    keys: Tensor  # (B, S, A); (B, 0) without attention


class Memory(NamedTuple):
    """What a decoder carries from step to step, one row per hypothesis."""

    cells: State
    fed: Tensor  # (N, F) the last features under input feeding; (N, 0) otherwise
    masks: Tensor  # (N, L, hidden) recurrent dropout; (N, 0, 0) when there is none
    seen: Tensor  # (N, S) coverage, the sum of all weights so far; (N, 0) otherwise
    drawn: State = ()  # (B, T) after training: places that hard attention drew; -1: it drew none


class Readout(nn.Module):
    """From the decoder's state, the context and perhaps the last word to the features of the
    output.
    """

    def __init__(self, spec: RecurrentSpec, context: int, word: int) -> None:
        super().__init__()
        self.kind, self.reads_word = spec.readout, spec.readout_word
        width = spec.hidden + context + (word if spec.readout_word else 0)
        self.size = width if self.kind == "plain" else spec.readout_size or spec.hidden
        if self.kind != "plain":
            self.mix = Dense(width, self.size * (2 if self.kind == "maxout" else 1))
        self.dropout = nn.Dropout(spec.dropout)

    def forward(self, h: Tensor, context: Tensor, word: Tensor) -> Tensor:
        mixed = torch.cat([h, context, word] if self.reads_word else [h, context], -1)
        if self.kind == "tanh":
            mixed = torch.tanh(self.mix(mixed))
        elif self.kind == "maxout":  # Goodfellow et al. 2013, as in Cho et al. 2014, eq. 11
            mixed = self.mix(mixed)
            mixed = mixed.view(*mixed.shape[:-1], self.size, 2).amax(-1)
        return self.dropout(mixed)  # type: ignore[no-any-return]


class Recurrent(Decoder):
    """z_i = φ'(c, u_{i-1}, z_{i-1}), with the context c given once, at every step, or attended."""

    def __init__(
        self, spec: RecurrentSpec, word: int, source: Sizes, attention: AttentionSpec | None = None
    ) -> None:
        super().__init__()
        _check(spec, source, attention)
        self.spec = spec
        self.attention = (
            make_attention(attention, spec.hidden, source.memory) if attention else None
        )
        self.before = attention is not None and attention.when == "before"
        self.feed = attention is not None and attention.feed
        given = source.summary if spec.context == "every-step" else 0
        self.readout = Readout(spec, source.memory if attention else given, word)
        self.size = self.readout.size
        self.covers = attention is not None and attention.coverage
        self.hard = attention is not None and attention.hard
        self.gate = nn.Linear(spec.hidden, 1) if attention and attention.gate else None
        self.stack = Stack(spec, word + given)
        self.dropout = nn.Dropout(spec.dropout)
        late = source.memory if self.before else self.readout.size if self.feed else 0
        if late:  # what a step learns only from the step before it, beside the word
            self.inject = Dense(late, self.stack.bottom.gates * spec.hidden, bias=False)
        if self.hard:  # what a drawn path is expected to be worth: a moving average
            self.baseline = nn.Buffer(torch.zeros(()))
        if spec.start == "dense":
            self.bridge = nn.Linear(source.summary, spec.layers * spec.hidden)
        if spec.start == "learned":  # the same for every source
            self.first = nn.Parameter(torch.zeros(spec.layers, CELLS[spec.cell].slots, spec.hidden))

    @property
    def looped(self) -> bool:
        """Whether a step depends on what was attended to before it."""
        return self.before or self.feed or self.covers

    def prepare(self, enc: Encoded) -> Fixed:
        """What is computed once per source: projected keys."""
        none = enc.summary.new_zeros(len(enc.mask), 0)
        return Fixed(enc, self.attention.prepare(enc.memory) if self.attention else none)

    def start(self, enc: Encoded) -> Memory:
        """Where decoding begins: one row per item."""
        rows, spec = len(enc.mask), self.spec
        none = enc.summary.new_zeros(rows, spec.hidden)
        if spec.start == "copy":
            cells = enc.finals
        elif spec.start == "dense":
            tops = torch.tanh(self.bridge(enc.summary))
            cells = self.stack.start(list(tops.chunk(spec.layers, -1)))
        elif spec.start == "learned":
            cells = tuple(
                tuple(slot.expand(rows, -1) for slot in level.unbind()) for level in self.first
            )
        else:
            cells = self.stack.start([none] * spec.layers)
        fed = none.new_zeros(rows, self.readout.size if self.feed else 0)
        seen = none.new_zeros(rows, enc.mask.size(1) if self.covers else 0)
        return Memory(cells, fed, self.stack.masks(none), seen)

    def step(self, x: Tensor, state: Memory, fixed: Fixed) -> Written:
        """One symbol further: x (N, E)."""
        x = self.dropout(x)
        given = self._given(fixed, x.unsqueeze(1))[:, 0]
        gates = self.stack.bottom.project(torch.cat([x, given], -1))
        h, context, state, weights, _ = self._move(gates, state, fixed)
        features = self.readout(h, given if context is None else context, x)
        return Written(features, state._replace(fed=features) if self.feed else state, weights)

    def unroll(self, xs: Tensor, state: Memory, fixed: Fixed) -> Written:
        """Teacher forcing over all T at once, xs (B, T, E). Equals stepping."""
        xs = self.dropout(xs)
        if self.looped:
            choice = settle(gaps(self), xs.device, xs.dtype)
            tell(choice)
            if choice.name == "reference" or not xs.size(1):
                return self._loop(xs, state, fixed)
            return self._run(xs, state, fixed, choice.name)
        given = self._given(fixed, xs)
        hs, cells = self.stack.unroll(torch.cat([xs, given], -1), state.cells, state.masks)
        contexts, weights = given, None
        if self.attention:
            contexts, weights = self.attention(hs, fixed.keys, fixed.enc.memory, fixed.enc.mask)
        return Written(self.readout(hs, contexts, xs), state._replace(cells=cells), weights)

    def _run(self, xs: Tensor, state: Memory, fixed: Fixed, parts: Parts) -> Written:
        """The unrolling by a kernel: it equals `_loop`."""
        first = state.cells[-1][0]
        given = given_of(self, xs.transpose(0, 1).contiguous(), state, fixed, parts)
        plan = plan_of(self, parts)
        with torch.autocast(xs.device.type, enabled=False):
            result = recurrence.run(plan, given)
        state, weights = memory_of(self, state, result), result.weights.transpose(0, 1)
        if result.features is not None:
            return Written(result.features.transpose(0, 1), state, weights)
        memory, tops = fixed.enc.memory, result.tops.transpose(0, 1)
        contexts = weights.to(memory.dtype) @ memory
        if self.gate:
            asked = torch.cat([first.to(tops.dtype)[:, None], tops[:, :-1]], 1)
            contexts = contexts * torch.sigmoid(self.gate(asked))
        return Written(self.readout(tops, contexts, xs), state, weights)

    def _loop(self, xs: Tensor, state: Memory, fixed: Fixed) -> Written:
        """The unrolling for steps that depend on what was attended to before."""
        shares = self.stack.bottom.project(xs).unbind(1)
        hs, contexts, features, weights, drawn = [], [], [], [], []
        coin = None  # with hard attention, every other row draws; the others see what is expected
        if self.hard and self.training:
            coin = torch.rand(len(xs), 1, device=xs.device) < 0.5
        for gates, x in zip(shares, xs.unbind(1), strict=True):
            h, context, state, seen, places = self._move(gates, state, fixed, coin)
            if self.feed:  # the features enter the next step: they cannot wait
                state = state._replace(fed=self.readout(h, context, x))
                features.append(state.fed)
            assert context is not None
            assert seen is not None
            hs.append(h)
            contexts.append(context)
            weights.append(seen)
            if places is not None:
                drawn.append(places)
        if self.feed:
            whole = torch.stack(features, 1)
        else:
            whole = self.readout(torch.stack(hs, 1), torch.stack(contexts, 1), xs)
        if drawn:
            state = state._replace(drawn=torch.cat(drawn, 1))
        return Written(whole, state, torch.stack(weights, 1))

    def _move(
        self, gates: Tensor, state: Memory, fixed: Fixed, coin: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Memory, Tensor | None, Tensor | None]:
        """Cells and attention, one step on: h, the attended context, the new state, the weights,
        the places drawn.
        """
        context = weights = drawn = None
        if self.before:
            query = state.cells[-1][0]
            context, weights = self._attend(query, state.seen, fixed)
            if self.hard:
                context, drawn = self._pinned(context, weights, fixed, coin)
            if self.gate:
                context = context * torch.sigmoid(self.gate(query))
            gates = gates + self.inject(context)
        elif self.feed:
            gates = gates + self.inject(state.fed)
        h, cells = self.stack.step(gates, state.cells, state.masks)
        if self.attention and not self.before:
            context, weights = self._attend(h, state.seen, fixed)
        seen = state.seen + weights if self.covers and weights is not None else state.seen
        return h, context, state._replace(cells=cells, seen=seen), weights, drawn

    def _pinned(
        self, context: Tensor, weights: Tensor, fixed: Fixed, coin: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Hard attention: what stands at one place, where the coin says so, and which it is."""
        rows = group(weights, len(fixed.enc.mask))
        found, places = one_place(rows, fixed.enc.memory, coin is not None)
        if coin is None:
            return found.flatten(0, 1), None
        return torch.where(coin, found.flatten(0, 1), context), places.masked_fill(~coin, -1)

    def _given(self, fixed: Fixed, xs: Tensor) -> Tensor:
        """The context that is the same at every step, for rows (N, T, E): (N, T, C), C may be 0."""
        if self.spec.context != "every-step":
            return xs.new_zeros(*xs.shape[:2], 0)
        return ungroup(fixed.enc.summary, len(xs)).unsqueeze(1).expand(-1, xs.size(1), -1)

    def _attend(self, query: Tensor, seen: Tensor, fixed: Fixed) -> tuple[Tensor, Tensor]:
        """N queries meet B memories."""
        assert self.attention is not None
        enc, items = fixed.enc, len(fixed.enc.mask)
        past = group(seen, items) if self.covers else None
        context, weights = self.attention(
            group(query, items), fixed.keys, enc.memory, enc.mask, past
        )
        return context.flatten(0, 1), weights.flatten(0, 1)


def _check(spec: RecurrentSpec, source: Sizes, attention: AttentionSpec | None) -> None:
    """Refuse parts that do not fit, with the setting to change."""
    if (spec.context == "attention") != (attention is not None):
        raise UserError(
            "model.attention belongs to model.decoder.context=attention, and to that alone"
        )
    if attention and attention.feed and attention.when == "before":
        raise UserError("model.attention.feed needs model.attention.when=after")
    if attention and (attention.gate or attention.hard) and attention.when != "before":
        raise UserError("model.attention.gate and .hard need model.attention.when=before")
    if not source.summary and (spec.context != "initial" or spec.start != "zero"):
        raise UserError(
            "without an encoder there is no context: set model.decoder.context=initial and "
            "model.decoder.start=zero"
        )
    if source.summary and spec.context == "initial" and spec.start in ("zero", "learned"):
        raise UserError(
            f"model.decoder.start={spec.start} with context=initial would never see the source"
        )
    ours = ((spec.hidden,) * CELLS[spec.cell].slots,) * spec.layers
    if spec.start == "copy" and source.finals != ours:
        raise UserError(
            f"model.decoder.start=copy needs the encoder's last states to fit: "
            f"{_widths(source.finals)} there, {_widths(ours)} here; make cells, layers and "
            "sizes equal (a bidirectional encoder is twice its `hidden` wide), or use start=dense"
        )


def _widths(finals: tuple[tuple[int, ...], ...]) -> str:
    inside = " + ".join(str(w) for w in finals[0]) if finals else "0"
    return f"{len(finals)} x ({inside})"
