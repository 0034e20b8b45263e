"""From the decoder's modules to the recurrence that `kernels` runs, and back."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dragoman.attention import MLP
from dragoman.cells import LSTM, Cell, GRUBefore
from dragoman.kernels.choice import Gaps
from dragoman.kernels.contract import CellKind, Given, Layer, Parts, Plan, Result
from dragoman.kernels.products import linear, lowered

if TYPE_CHECKING:
    from dragoman.decoders.recurrent import Fixed, Memory, Recurrent


def gaps(decoder: "Recurrent") -> Gaps:
    """What the kernels lack for this decoder."""
    spec, kind = decoder.spec, _kind(decoder.stack.bottom)
    lacking = {
        "coverage after the cell": decoder.covers and not (decoder.before or decoder.feed),
        "a gate over residual layers": decoder.gate is not None
        and spec.residual
        and spec.layers > 1,
        "hard attention": decoder.hard,
        "local attention": decoder.attention is not None and decoder.attention.local is not None,
        "feeding a readout that is not tanh": decoder.feed and decoder.readout.kind != "tanh",
        "feeding over residual layers": decoder.feed and spec.residual and spec.layers > 1,
    }
    fused = {
        "coverage": decoder.covers,
        f"the cell {kind}": kind not in ("gru", "lstm"),
        "recurrent dropout": bool(spec.recurrent_dropout),
    }
    return Gaps(
        next((what for what, lacks in lacking.items() if lacks), None),
        next((what for what, lacks in fused.items() if lacks), None),
        "coverage" if decoder.covers else None,
    )


def plan_of(decoder: "Recurrent", parts: Parts) -> Plan:
    """The kind of recurrence that a decoder is."""
    kind = _kind(decoder.stack.bottom)
    low = parts == "native" and lowered(decoder.stack.bottom.across.weight.device)
    return Plan(kind, decoder.before, decoder.spec.residual, parts, low)


def given_of(
    decoder: "Recurrent", xs: Tensor, state: "Memory", fixed: "Fixed", parts: Parts
) -> Given:
    """What the recurrence reads, for inputs xs (T, B, E): all that needs no past is done here."""
    attention, enc = decoder.attention, fixed.enc
    gates = decoder.stack.bottom.project(xs)
    size = decoder.spec.hidden
    kind = torch.float32 if parts == "native" else gates.dtype  # autocast may have halved them
    mlp = attention if isinstance(attention, MLP) else None
    word = keep = into = None
    if decoder.feed:
        mix = decoder.readout.mix.weight
        width = size + enc.memory.size(-1)
        values = linear(enc.memory, mix[:, size:width])
        word = linear(xs, mix[:, width:]) if decoder.readout.reads_word else None
        keep = _drop(decoder.readout.dropout, gates, decoder.readout.size)
        into = decoder.inject.weight
    else:
        values = decoder.inject(enc.memory)
    given = Given(
        gates=gates,
        keys=fixed.keys,
        values=values,
        real=enc.mask,
        score=mlp.score.weight[0] if mlp else None,
        cover=mlp.cover.weight[:, 0] if mlp and decoder.covers else None,
        seen=state.seen if decoder.covers else None,
        valve=decoder.gate.weight[0] if decoder.gate else None,
        valve_bias=decoder.gate.bias if decoder.gate else None,
        word=word,
        fed=state.fed if decoder.feed else None,
        inject=into,
        keep=keep,
        layers=tuple(_layer(decoder, level, state, gates) for level in range(decoder.spec.layers)),
    )
    return _cast(given, kind)


def memory_of(decoder: "Recurrent", state: "Memory", result: Result) -> "Memory":
    """The state after the last step."""
    fed = result.features[-1] if result.features is not None else state.fed
    seen = state.seen if result.seen is None else result.seen
    return state._replace(cells=result.states, fed=fed, seen=seen)


def _layer(decoder: "Recurrent", level: int, state: "Memory", like: Tensor) -> Layer:
    cells = [cell for cell in decoder.stack.cells if isinstance(cell, Cell)]
    cell, top = cells[level], level == len(cells) - 1
    weights: list[Tensor] = [cell.across.weight]
    biases: list[Tensor] = [cell.across.bias]
    inner = inner_bias = None
    if isinstance(cell, GRUBefore):
        two = 2 * cell.hidden
        inner, inner_bias = cell.across.weight[two:], cell.across.bias[two:]
        weights, biases = [cell.across.weight[:two]], [cell.across.bias[:two]]
    if top and decoder.feed:
        mix = decoder.readout.mix
        weights.insert(0, mix.weight[:, : cell.hidden])
        biases.insert(0, mix.bias)
    if top and isinstance(decoder.attention, MLP):
        weights.insert(0, decoder.attention.query.weight)
        biases.insert(0, decoder.attention.query.bias)
    own = state.cells[level]
    return Layer(
        weight=torch.cat(weights),
        bias=torch.cat(biases),
        inward=cell.inward.weight if level else None,
        inward_bias=cell.inward.bias if level else None,
        inner=inner,
        inner_bias=inner_bias,
        h=own[0],
        c=own[1] if isinstance(cell, LSTM) else None,
        mask=state.masks[:, level] if state.masks.numel() else None,
        drop=_drop(decoder.stack.dropout, like, cell.hidden) if level else None,
    )


def _drop(dropout: nn.Dropout, like: Tensor, size: int) -> Tensor | None:
    """The masks of all steps at once (T, B, size)."""
    if not (dropout.training and dropout.p):
        return None
    keep = 1 - dropout.p
    return like.new_empty(*like.shape[:2], size).bernoulli_(keep).div_(keep)


def _cast(given: Given, kind: torch.dtype) -> Given:
    """Everything in one type, and where a kernel can walk over it row by row."""

    def settle(tensor: Tensor | None) -> Tensor | None:
        if tensor is None or not tensor.is_floating_point():
            return tensor
        return tensor.to(kind).contiguous()

    return Given.of(tuple(settle(tensor) for tensor in given.flat()))


def _kind(cell: Cell) -> CellKind:
    names: dict[str, CellKind] = {
        "RNN": "rnn",
        "GRU": "gru",
        "GRUBefore": "gru-before",
        "LSTM": "lstm",
    }
    return names[type(cell).__name__]
