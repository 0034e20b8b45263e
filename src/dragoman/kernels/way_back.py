"""The gradient of the recurrence: step by step what must be, everything else in one product."""

import torch
from torch import Tensor

from dragoman.kernels.contract import Given, Grads, Layer, Plan, Tape, full
from dragoman.kernels.parts import make_attention, make_cell, past
from dragoman.kernels.products import laid, outer, total


class WayBack:
    """Gradients on their way from the last step to the first."""

    def __init__(self, plan: Plan, given: Given, tape: Tape, grads: Grads) -> None:
        self.plan, self.given, self.tape, self.grads = plan, given, tape, _in_rows(grads)
        self.cells = [make_cell(plan, layer) for layer in given.layers]
        self.attention = make_attention(plan, given)
        self.attention.begin_back()
        tracks = tape.tracks
        self.said = [torch.empty_like(track.said) for track in tracks]
        for said in self.said:  # no step reads what is said after the last, save the readout
            said[-1].zero_()
        if not plan.before:
            self.said[-1][0].zero_()
        self.gates = [torch.empty_like(given.gates) for _ in tracks]
        self.energies = torch.empty_like(tape.weights)
        wide = full(given.gates.dtype)  # what is summed up of many products
        self.valves = None if tape.opened is None else torch.empty_like(tape.opened, dtype=wide)
        self.h, self.c = self._ends()
        self.unsays = [
            laid(layer.weight.t(), None, plan.low) if plan.parts == "native" else None
            for layer in given.layers
        ]
        self.seen = grads.seen
        self.before = self._before()

    def run(self) -> Given:
        """Gradients of everything that was given, in its form."""
        steps, fed = len(self.given.gates), None
        mixed = self._room()
        for t in reversed(range(steps)):
            if not self.plan.before:
                self._unfeature(t, fed, mixed)
            self._uncell(t)
            if self.plan.before:
                self._unvalve(t, mixed[t])
                self._look(t, t, mixed[t])
            else:
                assert self.given.inject is not None
                fed = self.gates[0][t] @ self.given.inject
        return self._collect(mixed, fed)

    def _room(self) -> Tensor:
        """For the gradients of what was seen (T, B, ...): without a gate on it, the cell's own."""
        if self.plan.before:
            return self.gates[0] if self.valves is None else torch.empty_like(self.gates[0])
        assert self.tape.shown is not None
        return torch.empty_like(self.tape.shown)

    def _ends(self) -> tuple[list[Tensor], list[Tensor]]:
        """Where each layer's gradients begin: at its last state's."""
        states, each = self.grads.states, 2 if self.plan.cell == "lstm" else 1
        hs, cs = [], []
        for level, track in enumerate(self.tape.tracks):
            h = states[each * level]
            c = states[each * level + 1] if each == 2 else None
            hs.append(torch.zeros_like(track.h[-1]) if h is None else h.clone())
            cs.append(torch.zeros_like(track.c[-1]) if c is None else c)
        return hs, cs

    def _before(self) -> Tensor | None:
        """What had been seen before each step (T, B, S)."""
        if self.given.seen is None:
            return None
        weights = self.tape.weights
        return self.given.seen + weights.cumsum(0) - weights

    def _uncell(self, t: int) -> None:
        """Through all layers of a step, from the top."""
        tops, last = self.grads.tops, t + 1 == len(self.given.gates)
        x = None if tops is None else tops[t]
        for level in reversed(range(len(self.cells))):
            layer = self.given.layers[level]
            if not last or not self.plan.before:
                self._unsay(level, t + 1)
            rows = self.given.gate_rows(level)
            at, gates = past(self.given, self.tape, level, t), self.gates[level][t]
            said = self.said[level][t][:, -rows:]
            direct, self.c[level] = self.cells[level].back(
                self.h[level], x, self.c[level], at, gates, said
            )
            self.h[level] = direct if layer.mask is None else direct * layer.mask
            if level:
                x = self._unread(layer, gates, x, t)

    def _unread(self, layer: Layer, gates: Tensor, x: Tensor | None, t: int) -> Tensor:
        """What a layer read, from its gates; under a residual, also past it."""
        assert layer.inward is not None
        below = gates @ layer.inward
        if layer.drop is not None:
            below = below * layer.drop[t]
        return below + x if self.plan.residual and x is not None else below

    def _unsay(self, level: int, t: int) -> None:
        """To a layer's state, through the product with its weight."""
        layer, said, h = self.given.layers[level], self.said[level][t], self.h[level]
        if layer.mask is None:
            product = self.unsays[level]
            if product is None:
                h.addmm_(said, layer.weight)
            else:
                h += product(said)
            return
        first = len(layer.weight) - self.given.gate_rows(level)
        h += (said[:, first:] @ layer.weight[first:]) * layer.mask
        if first:
            h.addmm_(said[:, :first], layer.weight[:first])

    def _look(self, t: int, place: int, mixed: Tensor) -> None:
        """Through the attention of step t to its query, which entry `place` asked."""
        top, width = self.tape.tracks[-1], self.given.queries
        query = top.said[place][:, :width] if width else top.h[place]
        found = self.said[-1][place][:, :width] if width else torch.empty_like(query)
        outer = None if self.grads.weights is None else self.grads.weights[t]
        if self.seen is not None:
            outer = self.seen if outer is None else outer + self.seen
        seen = None if self.before is None else self.before[t]
        covered = self.attention.back(
            query, mixed, self.tape.weights[t], outer, seen, self.energies[t], found
        )
        if covered is not None:
            self.seen = covered if self.seen is None else self.seen + covered
        if not width:
            self.h[-1] += found

    def _unvalve(self, t: int, mixed: Tensor) -> None:
        """Through the gate on what is seen, if there is one, and to the state that opened it."""
        if self.valves is None:
            return
        assert self.tape.opened is not None
        assert self.tape.found is not None
        assert self.given.valve is not None
        gates, opened = self.gates[0][t], self.tape.opened[t]
        torch.mul(gates, opened.unsqueeze(1), out=mixed)
        slope = (gates.to(self.valves.dtype) * self.tape.found[t]).sum(1)
        torch.mul(slope, opened * (1 - opened), out=self.valves[t])
        self.h[-1].addr_(self.valves[t].to(gates.dtype), self.given.valve)

    def _unfeature(self, t: int, fed: Tensor | None, mixed: Tensor) -> None:
        """Through the attentional vector of step t."""
        assert self.tape.shown is not None
        grad = torch.zeros_like(self.tape.shown[t]) if fed is None else fed
        if self.grads.features is not None:
            grad = grad + self.grads.features[t]
        if self.given.keep is not None:
            grad = grad * self.given.keep[t]
        torch.mul(grad, 1 - self.tape.shown[t] ** 2, out=mixed[t])
        first = self.given.queries
        self.said[-1][t + 1][:, first : first + self.given.readouts] = mixed[t]
        self._look(t, t + 1, mixed[t])

    def _collect(self, mixed: Tensor, fed: Tensor | None) -> Given:
        """What is summed over the steps, in one product each."""
        given, tape = self.given, self.tape
        top, width = tape.tracks[-1], given.queries
        asked = top.said[..., :width] if width else top.h
        asked = asked[:-1] if self.plan.before else asked[1:]
        keys, values, score, cover = self.attention.grads(asked, tape.weights, self.energies, mixed)
        inject = None
        if given.inject is not None:
            assert tape.features is not None
            assert given.fed is not None
            fed_all = torch.cat([given.fed.unsqueeze(0), tape.features[:-1]])
            inject = self._outer(self.gates[0], fed_all)
        valve = bias = None
        if self.valves is not None:
            slopes, kind = self.valves.flatten(), given.gates.dtype
            valve = (slopes @ top.h[:-1].flatten(0, 1).to(slopes.dtype)).to(kind)
            bias = slopes.sum().view(1).to(kind)
        return Given(
            gates=self.gates[0],
            keys=keys,
            values=values,
            real=None,  # type: ignore[arg-type]
            score=score,
            cover=cover,
            seen=self.seen,
            valve=valve,
            valve_bias=bias,
            word=mixed if given.word is not None else None,
            fed=fed,
            inject=inject,
            keep=None,
            layers=tuple(self._layer(level) for level in range(len(self.cells))),
        )

    def _layer(self, level: int) -> Layer:
        layer, track, said = self.given.layers[level], self.tape.tracks[level], self.said[level]
        gates, masked = self.gates[level], track.h
        if layer.mask is not None:
            masked = track.h * layer.mask
        first = len(layer.weight) - self.given.gate_rows(level)
        weight = self._outer(said, track.h)
        if layer.mask is not None:
            weight[first:] = self._outer(said[..., first:], masked)
        inner = inner_bias = None
        if layer.inner is not None:
            size = track.h.size(2)
            new = gates[..., 2 * size :]
            inner = self._outer(new, track.acts[..., :size] * masked[:-1])
            inner_bias = total(new.flatten(0, 1))
        inward = None if layer.inward is None else self._outer(gates, track.read)
        inward_bias = None if layer.inward is None else total(gates.flatten(0, 1))
        self._unsay(level, 0)
        c = None if layer.c is None else self.c[level]
        return Layer(
            weight,
            total(said.flatten(0, 1)),
            inward,
            inward_bias,
            inner,
            inner_bias,
            self.h[level],
            c,
            None,
            None,
        )

    def _outer(self, grads: Tensor, inputs: Tensor) -> Tensor:
        """The gradient of a weight, from all steps."""
        kind = torch.bfloat16 if self.plan.low else grads.dtype
        return outer(grads.flatten(0, 1).to(kind), inputs.flatten(0, 1).to(kind)).to(grads.dtype)


def _in_rows(grads: Grads) -> Grads:
    """Gradients laid out step by step, once for all steps: they come from views the other way."""
    tops, weights, features = (g if g is None else g.contiguous() for g in grads[:3])
    return grads._replace(tops=tops, weights=weights, features=features)
