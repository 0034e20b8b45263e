# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""A decoder's step in a search, as Triton kernels: everything between two products.

Rows are paths, K of them for each item. A path goes on from its parent's state, which is read where
it lies: states are not put in order, and an item's memory is never copied for its paths. A path
that is done looks at nothing. Where rows are few, several programs share a row, each with some of
its units; all of them weigh the memory.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from dragoman.kernels.fused_attention import energies, normalise
from dragoman.kernels.fused_cells import fast, get, put, sigmoid, tanh, wide
from dragoman.kernels.fused_thin import chain, follow

BUSY = 264  # programs that keep a GPU busy


@triton.jit
def _weigh(
    query, keys, score, real, last, done, weights, n, K, S,
    A: tl.constexpr, TS: tl.constexpr, TJ: tl.constexpr, BA: tl.constexpr, MLP: tl.constexpr,
    FAST: tl.constexpr,
):  # fmt: skip
    """Writes a path's weights; how many places there are to look at."""
    item = n // K
    many = tl.where(tl.load(done + n) != 0, 0, tl.load(last + item))
    energies(query, keys + item * S * A, score, weights, many, A, TJ, BA, MLP, FAST)
    normalise(weights, real + item * S, many, S, TS)
    return many


@triton.jit
def _sum(
    base, values, weights, many, i, END: tl.constexpr, WIDE: tl.constexpr, TJ: tl.constexpr
):  # fmt: skip
    """base + Σ a_j v_j, at those of the columns i that come before END."""
    for j0 in range(0, many, TJ):
        for step in tl.static_range(0, TJ):
            j = j0 + step
            share = tl.load(weights + j, mask=j < many, other=0.0)
            base += share * get(values + j * WIDE + i, i < tl.where(j < many, END, 0))
    return base


@triton.jit
def _gate(
    word, values, weights, many, i,
    H: tl.constexpr, WIDE: tl.constexpr, TJ: tl.constexpr, LOOK: tl.constexpr,
):  # fmt: skip
    """What the last word and the memory say to a gate."""
    said = get(word + i, i < H)
    if LOOK:
        said = _sum(said, values, weights, many, i, H, WIDE, TJ)
    return said


@triton.jit
def _say(
    share, word, values, weights, many, r,
    R: tl.constexpr, WIDE: tl.constexpr, TJ: tl.constexpr, WORD: tl.constexpr,
):  # fmt: skip
    """What the last word and the memory say to the readout."""
    said = get(word + r, r < (R if WORD else 0))
    tl.store(share + r, _sum(said, values, weights, many, r, R, WIDE, TJ), mask=r < R)


@triton.jit
def _advance(
    tokens, parents, done, time, past, table, keys, values, score, real, last, h, c, looks,
    new_h, new_c, share, K, S, past_row, h_row, looks_step,
    A: tl.constexpr, H: tl.constexpr, R: tl.constexpr, TS: tl.constexpr, TJ: tl.constexpr,
    BA: tl.constexpr, BH: tl.constexpr, BR: tl.constexpr, QUERY: tl.constexpr,
    LOOK: tl.constexpr, LSTM: tl.constexpr, WORD: tl.constexpr, FAST: tl.constexpr,
    CHAIN: tl.constexpr,
):  # fmt: skip
    """Attention before the cell, if any, and the cell; the readout's share of word and context."""
    follow(CHAIN)
    n = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    parent = tl.load(parents + n)
    GATES: tl.constexpr = 4 * H if LSTM else 3 * H
    WIDE: tl.constexpr = GATES + R  # of values
    word = table + tl.load(tokens + n) * (GATES + (R if WORD else 0))
    past += parent * past_row
    weights = looks + tl.load(time) * looks_step + (block * tl.num_programs(0) + n) * S
    many, i = 0, block * BH + tl.arange(0, BH)
    if LOOK:
        query = past if QUERY else h + parent * h_row
        many = _weigh(
            query, keys, score, real, last, done, weights, n, K, S, A, TS, TJ, BA, QUERY, FAST
        )
        values += (n // K) * S * WIDE
    past += A if QUERY else 0
    ok = i < H
    one = _gate(word, values, weights, many, i, H, WIDE, TJ, LOOK)
    two = _gate(word + H, values + H, weights, many, i, H, WIDE, TJ, LOOK)
    three = _gate(word + 2 * H, values + 2 * H, weights, many, i, H, WIDE, TJ, LOOK)
    one = sigmoid(one + get(past + i, ok), FAST)
    two = sigmoid(two + get(past + H + i, ok), FAST)
    if LSTM:  # enter, forget, new, leave
        four = _gate(word + 3 * H, values + 3 * H, weights, many, i, H, WIDE, TJ, LOOK)
        new = tanh(three + get(past + 2 * H + i, ok), FAST)
        memory = two * get(c + parent * H + i, ok) + one * new
        put(new_c + n * H + i, memory, ok)
        shown = sigmoid(four + get(past + 3 * H + i, ok), FAST) * tanh(memory, FAST)
    else:  # reset, update, new
        new = tanh(three + one * get(past + 2 * H + i, ok), FAST)
        shown = new + two * (get(h + parent * h_row + i, ok) - new)
    put(new_h + n * h_row + i, shown, ok)
    if LOOK:
        r = block * BR + tl.arange(0, BR)
        _say(share + n * R, word + GATES, values + GATES, weights, many, r, R, WIDE, TJ, WORD)


@triton.jit
def _attend(
    tokens, done, time, top, h, table, keys, values, score, real, last, looks, features,
    K, S, top_row, h_row, out_row, looks_step, GATES,
    A: tl.constexpr, R: tl.constexpr, TS: tl.constexpr, TJ: tl.constexpr, BA: tl.constexpr,
    BR: tl.constexpr, QUERY: tl.constexpr, WORD: tl.constexpr, FAST: tl.constexpr,
    CHAIN: tl.constexpr,
):  # fmt: skip
    """Attention after the cell, and the readout."""
    follow(CHAIN)
    n = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    top += n * top_row
    weights = looks + tl.load(time) * looks_step + (block * tl.num_programs(0) + n) * S
    query = top if QUERY else h + n * h_row
    many = _weigh(
        query, keys, score, real, last, done, weights, n, K, S, A, TS, TJ, BA, QUERY, FAST
    )
    r = block * BR + tl.arange(0, BR)
    within = r < R
    if QUERY:
        top += A
    said = get(top + r, within)
    if WORD:
        said += get(table + tl.load(tokens + n) * (GATES + R) + GATES + r, within)
    said = _sum(said, values + (n // K) * S * R, weights, many, r, R, R, TJ)
    put(features + n * out_row + r, tanh(said, FAST), within)


@triton.jit
def _read(
    past, share, features, first, past_row,
    R: tl.constexpr, BR: tl.constexpr, MAXOUT: tl.constexpr, FAST: tl.constexpr,
    CHAIN: tl.constexpr,
):  # fmt: skip
    """The features of the output, from both shares of the readout."""
    follow(CHAIN)
    n = tl.program_id(0).to(tl.int64)
    r = tl.arange(0, BR)
    past += n * past_row + first
    share += n * R
    if MAXOUT:
        ok = r < R // 2
        one = get(past + 2 * r, ok) + get(share + 2 * r, ok)
        two = get(past + 2 * r + 1, ok) + get(share + 2 * r + 1, ok)
        put(features + n * (R // 2) + r, tl.maximum(one, two), ok)
    else:
        ok = r < R
        put(features + n * R + r, tanh(get(past + r, ok) + get(share + r, ok), FAST), ok)


class Shape(NamedTuple):
    """What a step is made of."""

    rows: int  # N
    each: int  # paths of an item
    places: int  # S
    keys: int  # A
    hidden: int
    readout: int  # R: columns of the readout's product
    lstm: bool
    query: bool  # of an MLP: products with the state begin with it; else the state itself asks
    word: bool  # the table has the word's share of the readout, too

    @property
    def gates(self) -> int:
        return (4 if self.lstm else 3) * self.hidden

    @property
    def parts(self) -> tuple[int, int, int]:
        """Programs for each row, and how many units and readout columns each of them takes.

        >>> Shape(5, 5, 16, 512, 512, 512, False, True, True).parts
        (8, 64, 64)
        """
        parts = 1
        while parts * 2 * self.rows <= BUSY and self.hidden >= 64 * parts * 2:
            parts *= 2
        units, columns = wide(-(-self.hidden // parts)), wide(-(-self.readout // parts))
        return max(-(-self.hidden // units), -(-self.readout // columns)), units, columns

    def tiles(self) -> dict[str, int | bool]:
        """How the memory is cut."""
        large = max(self.keys, self.gates + self.readout) > 4096
        return {
            "A": self.keys,
            "R": self.readout,
            "TS": wide(self.places),
            "TJ": 8 if large else 16,
            "BA": min(wide(self.keys), 512),
            "QUERY": self.query,
            "WORD": self.word,
        }


class Seen(NamedTuple):
    """What there is to look at, one row per item."""

    keys: Tensor  # (B, S, A)
    values: Tensor  # (B, S, G + R) the memory through gates and readout; after the cell (B, S, R)
    score: Tensor  # (A,) of an MLP; else anything
    real: Tensor  # (B, S) int8
    last: Tensor  # (B,) int32: one past the last real place


class Place(NamedTuple):
    """Where a search stands."""

    tokens: Tensor  # (N,) the last symbol of each path
    parents: Tensor  # (N,) the row that each path goes on from
    done: Tensor  # (N,) int8
    time: Tensor  # (1,) how many steps were taken


class States(NamedTuple):
    """Rows of states, read and written; without a memory cell, c is anything."""

    h: Tensor
    c: Tensor
    new_h: Tensor
    new_c: Tensor


def looks(shape: Shape, steps: int, like: Tensor) -> Tensor:
    """Room for the weights of all steps (T, P, N, S); those at [:, 0] are for reading."""
    room = steps, shape.parts[0], shape.rows, shape.places
    return like.new_zeros(room, dtype=torch.float32)


def advance(
    shape: Shape,
    at: Place,
    past: Tensor,  # (N, [A +] G + ...) products with the last states
    table: Tensor,  # (V, G [+ R]) words through gates and readout
    seen: Seen,
    states: States,
    share: Tensor,  # (N, R) float is written, where attention stands before the cell
    looks: Tensor,
    look: bool,  # attention stands before the cell
) -> None:
    """One step of attention, if it stands before the cell, and of a GRU or LSTM."""
    parts, units, columns = shape.parts
    tiles = shape.tiles() | {"QUERY": shape.query and look}
    _advance[(shape.rows, parts)](
        *at, past, table, *seen, states.h, states.c, looks, states.new_h, states.new_c, share,
        shape.each, shape.places, past.stride(0), states.h.stride(0), looks.stride(0),
        **tiles, H=shape.hidden, BH=units, BR=columns, LOOK=look, LSTM=shape.lstm,
        FAST=fast(past), **chain(past), num_warps=4,
    )  # fmt: skip


def attend(
    shape: Shape,
    at: Place,
    top: Tensor,  # (N, [A +] R) products with the new states
    h: Tensor,
    table: Tensor,
    seen: Seen,
    features: Tensor,  # (N, R) is written
    looks: Tensor,
) -> None:
    """Attention after the cell, and the readout."""
    parts, _, columns = shape.parts
    _attend[(shape.rows, parts)](
        at.tokens, at.done, at.time, top, h, table, *seen, looks, features,
        shape.each, shape.places, top.stride(0), h.stride(0), features.stride(0),
        looks.stride(0), shape.gates, **shape.tiles(), BR=columns, FAST=fast(top),
        **chain(top), num_warps=4,
    )  # fmt: skip


def read(past: Tensor, share: Tensor, features: Tensor, maxout: bool) -> None:
    """The features of the output, from both shares of the readout; that of the state is last."""
    rows, width = share.shape
    _read[(rows,)](
        past, share, features, past.size(1) - width, past.stride(0),
        R=width, BR=wide(features.size(1)), MAXOUT=maxout, FAST=fast(past), **chain(past),
        num_warps=2,
    )  # fmt: skip
