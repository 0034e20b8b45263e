"""The decoder's recurrence over all steps, with its gradient written out by hand.

What does not depend on the past is computed for all steps before the loop, by the caller; what a
gradient sums over the steps, after it. Inside remain one product per layer, one look at the memory
and one cell, each way. A step's parts come from `plain` (torch's operations; any device and type)
or `fused` (Triton).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dragoman.kernels.contract import Given, Grads, Plan, Result, Tape, Track, full
from dragoman.kernels.parts import Attention, make_attention, make_cell, past
from dragoman.kernels.products import laid
from dragoman.kernels.way_back import WayBack
from dragoman.kernels.widened import Widths, cut, widen

Say = Callable[[Tensor, Tensor], Tensor]  # a state, and where its product goes


def run(plan: Plan, given: Given) -> Result:
    """All steps at once."""
    sizes = Widths.of(given)
    wider = sizes.wider(given.gates)
    if wider != sizes:
        return cut(_run(plan, widen(given, sizes, wider)), sizes)
    return _run(plan, given)


def _run(plan: Plan, given: Given) -> Result:
    tops, weights, features, seen, *states = _Loop.apply(plan, *given.flat())  # type: ignore[no-untyped-call]
    slots = 2 if plan.cell == "lstm" else 1
    grouped = tuple(tuple(states[i : i + slots]) for i in range(0, len(states), slots))
    return Result(tops, weights, features, seen, grouped)


class _Loop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, *flat: Any) -> tuple[Any, ...]:
        given = Given.of(flat)
        tape, tops, seen = way_there(plan, given)
        ctx.plan, ctx.given = plan, len(flat)
        ctx.save_for_backward(*flat, *tape.flat())
        ctx.set_materialize_grads(False)
        states = [
            last.clone()
            for track in tape.tracks
            for last in ((track.h[-1], track.c[-1]) if plan.cell == "lstm" else (track.h[-1],))
        ]
        return tops, tape.weights, tape.features, seen, *states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        saved = ctx.saved_tensors
        given, tape = Given.of(saved[: ctx.given]), Tape.of(saved[ctx.given :])
        found = WayBack(
            ctx.plan, given, tape, Grads(grads[0], grads[1], grads[2], grads[3], grads[4:])
        ).run()
        return None, *found.flat()


def way_there(plan: Plan, given: Given) -> tuple[Tape, Tensor, Tensor | None]:
    """The loop forward: its tape, the top layer's outputs, and the coverage at the end."""
    cells = [make_cell(plan, layer) for layer in given.layers]
    tape = _tape(plan, given, [cell.acts for cell in cells])
    attention = make_attention(plan, given)
    top, seen, fed = tape.tracks[-1], given.seen, given.fed
    sums = plan.residual and len(cells) > 1
    tops = torch.empty_like(top.h[1:]) if sums else top.h[1:]
    says = [_sayer(plan, given, level) for level in range(len(cells))]
    for level, say in enumerate(says):
        _say(given, tape, level, 0, say)
    for t in range(len(given.gates)):
        x = given.gates[t]
        if plan.before:
            x = _glimpse(given, tape, attention, seen, t)
        else:
            assert given.inject is not None
            assert fed is not None
            x = torch.addmm(x, fed, given.inject.t())
        out = top.h[t]  # replaced by the bottom layer's output before anything reads it
        for level, (cell, track) in enumerate(zip(cells, tape.tracks, strict=True)):
            if level:
                x = _read(given, tape, level, t, out)
            cell.step(x, past(given, tape, level, t))
            if t + 1 < len(given.gates) or not plan.before:
                _say(given, tape, level, t + 1, says[level])
            out = out + track.h[t + 1] if plan.residual and level else track.h[t + 1]
        if sums:
            tops[t] = out
        if not plan.before:
            fed = _feature(given, tape, attention, seen, t)
        seen = None if seen is None else seen + tape.weights[t]
    return tape, tops, seen


def _tape(plan: Plan, given: Given, acts: list[int]) -> Tape:
    """Room for the course of the loop, with its beginning filled in."""
    gates = given.gates
    (steps, rows), kind = gates.shape[:2], full(gates.dtype)
    tracks = []
    for layer, count in zip(given.layers, acts, strict=True):
        size = layer.h.size(1)
        h = gates.new_empty(steps + 1, rows, size)
        c = gates.new_empty(steps + 1, rows, size if plan.cell == "lstm" else 0, dtype=kind)
        h[0] = layer.h
        if layer.c is not None:
            c[0] = layer.c
        read = gates.new_empty(steps, rows, 0 if layer.inward is None else size)
        said = gates.new_empty(steps + 1, rows, len(layer.weight))
        tracks.append(Track(h, c, said, gates.new_empty(steps, rows, count * size), read))
    weights = gates.new_empty(steps, *given.real.shape, dtype=kind)
    features = shown = opened = found = None
    if given.fed is not None:
        features = gates.new_empty(steps, *given.fed.shape)
        shown = features if given.keep is None else torch.empty_like(features)
    if given.valve is not None:
        opened, found = gates.new_empty(steps, rows), torch.empty_like(gates)
    return Tape(weights, features, shown, opened, found, tuple(tracks))


def _query(given: Given, top: Track, t: int) -> Tensor:
    return top.said[t][:, : given.queries] if given.queries else top.h[t]


def _glimpse(given: Given, tape: Tape, attention: Attention, seen: Tensor | None, t: int) -> Tensor:
    """What the bottom gates are told at a step: by the input, and by what is seen, perhaps behind
    a gate.
    """
    top, x = tape.tracks[-1], given.gates[t]
    query = _query(given, top, t)
    if tape.opened is None or tape.found is None:
        return attention.look(query, x, seen, tape.weights[t])
    assert given.valve is not None
    assert given.valve_bias is not None
    torch.sigmoid(top.h[t] @ given.valve + given.valve_bias, out=tape.opened[t])
    tape.found[t] = attention.look(query, torch.zeros_like(x), seen, tape.weights[t])
    return torch.addcmul(x, tape.opened[t].unsqueeze(1), tape.found[t])


def _sayer(plan: Plan, given: Given, level: int) -> Say:
    """How the product of a layer's state and its weight is written."""
    weight, bias = given.layers[level].weight, given.layers[level].bias
    if plan.parts == "native":
        product = laid(weight, bias, plan.low)
        return lambda h, said: said.copy_(product(h))
    return lambda h, said: torch.addmm(bias, h, weight.t(), out=said)


def _say(given: Given, tape: Tape, level: int, t: int, say: Say) -> None:
    """The product of a layer's state and its weight."""
    layer, track = given.layers[level], tape.tracks[level]
    weight, bias, said, h = layer.weight, layer.bias, track.said[t], track.h[t]
    if layer.mask is None:
        say(h, said)
        return
    before = len(weight) - given.gate_rows(level)
    said[:, before:] = torch.addmm(bias[before:], h * layer.mask, weight[before:].t())
    if before:  # attention sees the state whole
        said[:, :before] = torch.addmm(bias[:before], h, weight[:before].t())


def _read(given: Given, tape: Tape, level: int, t: int, below: Tensor) -> Tensor:
    """The share of a layer's gates that comes from the layer below."""
    layer, read = given.layers[level], tape.tracks[level].read[t]
    assert layer.inward is not None
    assert layer.inward_bias is not None
    if layer.drop is None:
        read.copy_(below)
    else:
        torch.mul(below, layer.drop[t], out=read)
    return torch.addmm(layer.inward_bias, read, layer.inward.t())


def _feature(given: Given, tape: Tape, attention: Attention, seen: Tensor | None, t: int) -> Tensor:
    """The attentional vector of a step, which the next step is fed."""
    assert tape.shown is not None
    assert tape.features is not None
    top, first = tape.tracks[-1], given.queries
    base = top.said[t + 1][:, first : first + given.readouts]
    base = base if given.word is None else base + given.word[t]
    mixed = attention.look(_query(given, top, t + 1), base, seen, tape.weights[t])
    torch.tanh(mixed, out=tape.shown[t])
    if given.keep is not None:
        torch.mul(tape.shown[t], given.keep[t], out=tape.features[t])
    return tape.features[t]
