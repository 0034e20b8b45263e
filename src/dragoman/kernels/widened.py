"""The recurrence at sizes that a GPU multiplies fast: what it reads widened, its results cut."""

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.kernels.contract import Given, Layer, Result
from dragoman.kernels.widths import spread, wide


class Widths(NamedTuple):
    """A recurrence's sizes: of its states, its queries, its readout."""

    states: int
    queries: int
    readouts: int

    @classmethod
    def of(cls, given: Given) -> "Widths":
        return cls(given.layers[0].h.size(1), given.queries, given.readouts)

    def wider(self, like: Tensor) -> "Widths":
        return Widths(*(wide(size, like) for size in self))


def widen(given: Given, old: Widths, new: Widths) -> Given:
    """The same recurrence with units that stay zero."""
    states, readouts = (old.states, new.states), (old.readouts, new.readouts)
    asked = states if given.score is None else (old.queries, new.queries)
    fed = given.fed is not None
    return Given(
        gates=spread(given.gates, *states),
        keys=spread(given.keys, *asked),
        values=spread(given.values, *(readouts if fed else states)),
        real=given.real,
        score=_spread(given.score, asked),
        cover=_spread(given.cover, asked),
        seen=given.seen,
        valve=_spread(given.valve, states),
        valve_bias=given.valve_bias,
        word=_spread(given.word, readouts),
        fed=_spread(given.fed, readouts),
        inject=_spread(_spread(given.inject, readouts), states, 0),
        keep=_spread(given.keep, readouts),
        layers=tuple(
            _layer(layer, given.gate_rows(level), old, new)
            for level, layer in enumerate(given.layers)
        ),
    )


def cut(result: Result, old: Widths) -> Result:
    """What comes of it, without those units."""
    return Result(
        tops=result.tops[..., : old.states],
        weights=result.weights,
        features=None if result.features is None else result.features[..., : old.readouts],
        seen=result.seen,
        states=tuple(tuple(s[:, : old.states] for s in layer) for layer in result.states),
    )


def _layer(layer: Layer, gates: int, old: Widths, new: Widths) -> Layer:
    states = old.states, new.states
    return Layer(
        weight=spread(_rows(layer.weight, gates, old, new), *states),
        bias=_rows(layer.bias, gates, old, new),
        inward=_spread(_spread(layer.inward, states), states, 0),
        inward_bias=_spread(layer.inward_bias, states),
        inner=_spread(_spread(layer.inner, states), states, 0),
        inner_bias=_spread(layer.inner_bias, states),
        h=spread(layer.h, *states),
        c=_spread(layer.c, states),
        mask=_spread(layer.mask, states),
        drop=_spread(layer.drop, states),
    )


def _rows(weight: Tensor, gates: int, old: Widths, new: Widths) -> Tensor:
    """In the top layer the rows of query and readout stand before those of the gates."""
    before = len(weight) - gates
    parts = [spread(weight[before:], old.states, new.states, 0)]
    if before:
        ask, read = weight[: old.queries], weight[old.queries : before]
        parts.insert(0, spread(read, old.readouts, new.readouts, 0) if len(read) else read)
        parts.insert(0, spread(ask, old.queries, new.queries, 0) if len(ask) else ask)
    return torch.cat(parts)


def _spread(tensor: Tensor | None, sizes: tuple[int, int], dim: int = -1) -> Tensor | None:
    return None if tensor is None else spread(tensor, *sizes, dim)
