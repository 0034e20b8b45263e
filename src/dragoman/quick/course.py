"""A decoder and a head for searches: what does not change from symbol to symbol is done once."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from dragoman.attention import MLP, Bilinear
from dragoman.cells import GRU, LSTM, Cell
from dragoman.core import Encoded, group
from dragoman.decoders import Recurrent, Written
from dragoman.decoders.recurrent import Memory
from dragoman.heads import Vocabulary
from dragoman.kernels import native
from dragoman.kernels.best import fill
from dragoman.kernels.choice import has_native
from dragoman.kernels.lanes import Still, still
from dragoman.kernels.packed import Precision, Product
from dragoman.quick.parts import Layer, Words, tanh
from dragoman.search.courses import Best

NEAR = 2**20  # scores that stay near a CPU until they are looked at
LONG = 256  # annotations of longer sources are summed first and multiplied then
LONGEST = 2048  # the same in less precision: batches on both sides of it differ by its rounding


class Held(NamedTuple):
    """What a search keeps of its sources: read-only, one row per item."""

    keys: Tensor  # (B, S, A)
    values: Tensor  # (B, S, C)
    shade: Tensor  # (B, 1, S) added to energies: lowest where there is nothing to see
    real: Tensor  # (B, 1, S) 1 where there is something to see
    given: Tensor  # (B, C) share of a context that stays the same; (B, 0) for none
    mask: Tensor  # (B, S) True where there is something to see
    powers: Tensor  # (B, S, A) what `native.look` wants of the keys; (B, 0) for nothing


class Quick:
    """The weights of a decoder and a head, arranged for stepping."""

    def __init__(self, decoder: Recurrent, head: Vocabulary, precision: Precision) -> None:
        self.decoder, self.precision = decoder, precision
        self.gates = decoder.stack.bottom.gates * decoder.spec.hidden
        self.look, self.before, self.feed = decoder.attention, decoder.before, decoder.feed
        self.mlp = self.look if isinstance(self.look, MLP) else None
        self.kind, self.gated = decoder.readout.kind, decoder.gate is not None
        self.layers = self._layers()
        self.words = self._words(head)
        self.top = self._top()
        self.inject = still(decoder.inject.weight, None, precision) if self.feed else None
        self.scale = 2 * self.mlp.score.weight[0] if self.mlp else None
        self.keys = self._keys()
        self.spread = self._spread()
        weight = head.table.weight if head.weight is None else head.weight
        self.output, self.symbols = (weight, head.bias), len(weight)
        more = fill(len(weight))
        bias = pad(head.bias, (0, more), value=float("-inf"))
        self.scores = still(pad(weight, (0, 0, 0, more)), bias, precision)
        self.still = self._still()
        near = weight.device.type == "cpu" and precision != "int8"
        self.rows = max(16, NEAR // len(bias)) if near else 2**31
        self.graphs: OrderedDict[Hashable, Any] = OrderedDict()  # of searches on a GPU
        self.fused: object = None  # the weights as those searches want them

    def _layers(self) -> list[Layer]:
        """Attention before the cell asks with the last output, which the top cell multiplies,
        too; the last output also opens the gate on what is seen.
        """
        cells = [cell for cell in self.decoder.stack.cells if isinstance(cell, Cell)]
        asked = [_doubled(self.mlp.query)] if self.mlp and self.before else []
        if self.decoder.gate:
            asked.append((self.decoder.gate.weight, self.decoder.gate.bias))
        more = _stacked(asked)
        last = len(cells) - 1
        return [
            Layer(cell, self.precision, more if level == last else None, level > 0)
            for level, cell in enumerate(cells)
        ]

    def _words(self, head: Vocabulary) -> Words:
        """A word's share of the gates and, if the readout has one for it, of the readout."""
        inward, words = self.decoder.stack.bottom.inward, head.table.weight
        weight: Tensor = inward.weight[:, : words.size(1)]
        bias: Tensor = inward.bias
        readout = self.decoder.readout
        if readout.reads_word:
            plain = torch.eye(words.size(1), dtype=words.dtype, device=words.device)
            share = plain if self.kind == "plain" else readout.mix.weight[:, -words.size(1) :]
            weight, bias = torch.cat([weight, share]), pad(bias, (0, len(share)))
        return Words(words, weight, bias)

    def _top(self) -> Product | None:
        """What is made of the new state: the query of attention after the cell, and its share of
        the readout.
        """
        weights, biases = [], []
        if self.mlp and not self.before:
            weight, bias = _doubled(self.mlp.query)
            weights, biases = [weight], [bias]
        self.asked = sum(map(len, weights))
        if self.kind != "plain":
            mix = self.decoder.readout.mix
            weights.append(mix.weight[:, : self.decoder.spec.hidden])
            biases.append(mix.bias)
        return still(torch.cat(weights), torch.cat(biases), self.precision) if weights else None

    def _keys(self) -> Product:
        if self.mlp:
            return still(2 * self.mlp.key.weight, None, self.precision)
        if isinstance(self.look, Bilinear):
            return still(self.look.key.weight, None, self.precision)
        return lambda memory: memory

    def _spread(self) -> Product:
        """From a context, attended or given, to its shares of gates and readout. It is linear: a
        weighted sum of what it makes of annotations is what it makes of their weighted sum.
        """
        decoder, readout = self.decoder, self.decoder.readout
        if decoder.spec.context == "initial":
            return lambda context: context
        begin, end = decoder.spec.hidden, None
        if readout.reads_word and self.kind != "plain":
            end = -self.words.words.size(1)
        parts = []
        if self.before:
            parts.append(decoder.inject.weight)
        elif decoder.spec.context == "every-step":
            parts.append(decoder.stack.bottom.inward.weight[:, self.words.words.size(1) :])
        if self.kind != "plain":
            parts.append(readout.mix.weight[:, begin:end])
            return still(torch.cat(parts), None, self.precision)
        if not parts:
            return lambda context: context
        product = still(torch.cat(parts), None, self.precision)
        return lambda context: torch.cat([product(context), context], -1)

    def _still(self) -> Still | None:
        """The output layer, where only routines in C make one step different from another."""
        products = [self.words.product, self.top, self.inject]
        products += [layer.past for layer in self.layers]
        products += [layer.inward for layer in self.layers]
        if self.look is not None and self.decoder.spec.context != "initial":
            products.append(self.spread)
        known = all(one is None or isinstance(one, Still) for one in products)
        known = known and all(type(layer.cell) in (GRU, LSTM) for layer in self.layers)
        alone = self.look is None and self.decoder.spec.context != "every-step"
        alone = alone and self.kind == "plain" and not self.decoder.readout.reads_word
        known = known and not self.gated and (self.kind == "tanh" or alone)
        return self.scores if known and isinstance(self.scores, Still) else None

    def begin(self, enc: Encoded) -> "Course":
        """A search over these sources."""
        keys = values = enc.memory.contiguous()
        longest = LONG if self.precision == "fp32" else LONGEST
        folded = self.look is not None and enc.memory.size(1) <= longest
        if self.look is not None:
            keys = _each(self.keys, enc.memory)
        if folded:
            values = _each(self.spread, enc.memory)
        real = enc.mask.unsqueeze(1).to(enc.memory.dtype)
        shade = (1 - real) * torch.finfo(real.dtype).min
        given = enc.summary[:, :0]
        if self.decoder.spec.context == "every-step":
            given = self.spread(enc.summary)
        mask, powers = enc.mask.contiguous(), None
        routines = has_native(keys.device, keys.dtype)
        if self.mlp and routines:
            powers = native.powers(keys, 1.0)
        if folded and routines and self.precision != "fp32":
            values = values.bfloat16()  # they are read anew at each step
        powers = enc.summary[:, :0] if powers is None else powers
        return Course(self, Held(keys, values, shade, real, given, mask, powers), folded)


class Course:
    """A way through the decoder for a search: `move` takes a step, `scores` tells how good each
    symbol is (not normalised, and perhaps followed by symbols of no chance), `keep` goes on with
    some of the items.
    """

    def __init__(self, quick: Quick, held: Held, folded: bool) -> None:
        self.quick, self.held, self.folded = quick, held, folded
        self.scores, self.rows = quick.scores, quick.rows
        self.best: Best | None = quick.scores.best if isinstance(quick.scores, Still) else None
        self.still = quick.still
        self.took = quick.words.took
        self.room = held.keys.new_empty(0)  # for what is computed anew at each step

    def keep(self, items: Tensor) -> "Course":
        """The same for the given items alone, in that order."""
        return self.over(Held(*(part.index_select(0, items) for part in self.held)))

    def over(self, held: Held) -> "Course":
        """The same over what is kept of other sources."""
        return Course(self.quick, held, self.folded)

    def move(self, tokens: Tensor, state: Memory) -> Written:
        """One symbol further, as `Recurrent.step`: tokens (N,)."""
        quick, size = self.quick, self.quick.gates
        word = quick.words(tokens)
        gates, said = word[:, :size], word[:, size:]
        past = [layer.past(own[0]) for layer, own in zip(quick.layers, state.cells, strict=True)]
        seen, weights = self._given(len(tokens)), None
        if quick.before:
            seen, weights = self._before(past[-1][:, quick.layers[-1].own :], state.cells[-1][0])
        more = None
        if seen is not None:
            more, seen = seen[:, :size], seen[:, size:]
        if quick.inject is not None:
            more = quick.inject(state.fed)
        cells, h = [], gates
        for layer, own, before in zip(quick.layers, state.cells, past, strict=True):
            inward = h if layer.inward is None else layer.inward(h)
            cells.append(layer.advance(inward, more, before[:, : layer.own], own))
            h, more = cells[-1][0], None
        top = h if quick.top is None else quick.top(h)
        if quick.look is not None and not quick.before:
            seen, weights = self._attend(top[:, : quick.asked], h)
        features = self._read(h if quick.kind == "plain" else top[:, quick.asked :], seen, said)
        state = state._replace(cells=tuple(cells), fed=features if quick.feed else state.fed)
        return Written(features, state, weights)

    def _given(self, rows: int) -> Tensor | None:
        given = self.held.given
        return given.repeat_interleave(rows // len(given), 0) if given.size(1) else None

    def _before(self, asked: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Attention before the cell, perhaps behind a gate."""
        if not self.quick.gated:
            return self._attend(asked, h)
        seen, weights = self._attend(asked[:, :-1], h)
        return seen * asked[:, -1:].sigmoid(), weights

    def _attend(self, asked: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Shares of the context in gates (before the cell) and readout (N, C); weights (N, S)."""
        held, quick, items = self.held, self.quick, len(self.held.keys)
        if has_native(h.device, h.dtype):
            weights = h.new_empty(len(h), held.keys.size(1))
            query = h if quick.scale is None else asked
            powers = held.powers if held.powers.dim() > 2 else None
            memory = native.Seen(held.keys, powers, held.values, held.mask)
            seen = native.look(memory, quick.scale, 1.0, query, None, weights)
            return seen if self.folded else quick.spread(seen), weights
        if quick.scale is not None:
            keys, query = held.keys.unsqueeze(1), group(asked, items).unsqueeze(2)
            shape = *query.shape[:2], *held.keys.shape[1:]
            if self.room.shape != shape:
                self.room = keys.new_empty(shape)
            energies = torch.add(keys, query, out=self.room).sigmoid_() @ quick.scale
        else:
            energies = group(h, items) @ held.keys.transpose(1, 2)
        weights = (energies + held.shade).softmax(-1) * held.real
        seen = (weights @ held.values).flatten(0, 1)
        return seen if self.folded else quick.spread(seen), weights.flatten(0, 1)

    def _read(self, h: Tensor, seen: Tensor | None, said: Tensor) -> Tensor:
        """The features of the output, as `Readout`, from the shares of its inputs."""
        kind = self.quick.kind
        shares = [h, *([] if seen is None else [seen]), *([said] if said.size(1) else [])]
        if kind == "plain":
            return torch.cat(shares, -1) if len(shares) > 1 else h
        if kind == "tanh" and has_native(h.device, h.dtype):
            return native.tanh_sum(shares)
        mixed = shares[0]
        for share in shares[1:]:
            mixed = mixed + share
        if kind == "maxout":
            return mixed.view(len(mixed), -1, 2).amax(-1)
        return tanh(mixed)


def _doubled(query: nn.Linear) -> tuple[Tensor, Tensor]:
    """softmax_j(v · tanh u_j) = softmax_j(2v · sigmoid 2u_j), and a sigmoid is cheaper."""
    return 2 * query.weight, 2 * query.bias


def _stacked(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor] | None:
    """Linear layers of the same input as one."""
    return (torch.cat([w for w, _ in parts]), torch.cat([b for _, b in parts])) if parts else None


def _each(product: Product, memory: Tensor) -> Tensor:
    """Of each annotation (B, S, D)."""
    made = product(memory.flatten(0, 1))
    return made.view(*memory.shape[:2], made.size(1))
