# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
"""How a beam goes on, as Triton kernels: scores of all symbols in, the next paths out.

`_pick` finds the best few symbols of a part of a row, and what the part sums to. `_merge` sets all
parts of all paths of an item against each other. `_trace` follows the best paths to the start.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from dragoman.core import BOS, EOS, PAD
from dragoman.kernels.beams import Found, Front, Record
from dragoman.kernels.fused_cells import wide
from dragoman.kernels.fused_thin import chain, follow

LOW = tl.constexpr(-float("inf"))
NOTHING, BEGIN, END = tl.constexpr(PAD), tl.constexpr(BOS), tl.constexpr(EOS)
PART = 2048  # scores that one program looks at
WAYS = 4096  # candidates of an item that are set against each other


@triton.jit
def _allowed(x, symbols, late, early):
    """Scores (in any tile) with those ruled out that may not come now."""
    banned = (symbols == NOTHING) | (symbols == BEGIN)
    banned |= (late & (symbols != END)) | (early & (symbols == END))
    return tl.where(banned, LOW, x)


@triton.jit
def _pick(
    scores, done, bounds, time, tops, symbols, highs, sums, V, row, K,
    COUNT: tl.constexpr, NB: tl.constexpr, BL: tl.constexpr, CHAIN: tl.constexpr,
):  # fmt: skip
    """The best few of a part of a row stand in its blocks with the largest maxima."""
    follow(CHAIN)
    n = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    place = n * tl.num_programs(1) + part
    scores += n * row
    begin = part * NB * BL
    block, inner = tl.arange(0, NB), tl.arange(0, BL)
    here = begin + block[:, None] * BL + inner[None, :]
    size = tl.where(tl.load(done + n) != 0, 0, V)  # nothing is read for a path that is done
    x = tl.load(scores + here, mask=here < size, other=LOW).to(tl.float32)
    high = tl.maximum(tl.max(tl.max(x, 1), 0), -1e30)
    tl.store(highs + place, high)
    tl.store(sums + place, tl.sum(tl.sum(tl.exp(x - high), 1), 0))
    now, items = tl.load(time), tl.num_programs(0) // K
    late = now >= tl.load(bounds + items + n // K)
    early = (now < tl.load(bounds + n // K)) & (late == 0)
    best = tl.max(_allowed(x, here, late, early), 1)  # of each block, what was not taken yet
    last = tl.full([], float("inf"), tl.float32)  # what was taken last ...
    at = tl.full([], -1, tl.int32)  # ... and where it stands
    for i in range(COUNT):
        chosen = tl.argmax(best, 0)
        there = begin + chosen * BL + inner
        y = tl.load(scores + there, mask=there < size, other=LOW).to(tl.float32)
        y = _allowed(y, there, late, early)
        y = tl.where((y < last) | ((y == last) & (there > at)), y, LOW)
        last, inside = tl.max(y, 0, return_indices=True)
        at = begin + chosen * BL + inside
        tl.store(tops + place * COUNT + i, last)
        tl.store(symbols + place * COUNT + i, at)
        rest = tl.where((y < last) | ((y == last) & (there > at)), y, LOW)
        best = tl.where(block == chosen, tl.max(rest, 0), best)


@triton.jit
def _whole(highs, sums, out, b, C, WIDTH: tl.constexpr, KW: tl.constexpr, CP: tl.constexpr):
    """log Σ exp of all parts, of each path of an item."""
    k, part = tl.arange(0, KW), tl.arange(0, CP)
    at = (b * WIDTH + k[:, None]) * C + part[None, :]
    ok = (k < WIDTH)[:, None] & (part < C)[None, :]
    high = tl.load(highs + at, mask=ok, other=-1e30)
    some = tl.load(sums + at, mask=ok, other=0.0)
    top = tl.max(high, 1)
    whole = tl.sum(some * tl.exp(high - top[:, None]), 1)
    tl.store(out + b * WIDTH + k, top + tl.log(whole), mask=k < WIDTH)


@triton.jit
def _gains(tops, wholes, done, c, n, ok, PART: tl.constexpr):
    """What ways to go on add to their paths, and whether those are done; these wait for free."""
    ended = tl.load(done + n, mask=ok, other=1) != 0
    top = tl.load(tops + c, mask=ok, other=LOW)
    top = tl.where(ended, tl.where(c % PART == 0, 0.0, LOW), top)
    return ended, top, tl.where(ended, top, top - tl.load(wholes + n, mask=ok, other=0.0))


@triton.jit
def _choose(
    rank, leading, top,
    WIDTH: tl.constexpr, KK: tl.constexpr, KW: tl.constexpr,
):  # fmt: skip
    """The best ways in turn, and which of them are none; the greedy path's way is among them."""
    c, k = tl.arange(0, KK), tl.arange(0, KW)
    wanted = tl.argmax(tl.where(leading, top, LOW), 0)
    chosen, dead = tl.zeros([KW], tl.int32), tl.zeros([KW], tl.int32)
    found, place = wanted * 0, wanted * 0
    for i in range(WIDTH):
        best, at = tl.max(rank, 0, return_indices=True)
        forced = (i == WIDTH - 1) & (found == 0)
        at = tl.where(forced, wanted, at)
        lost = tl.where((best == LOW) & (forced == 0), 1, 0)
        chosen, dead = tl.where(k == i, at, chosen), tl.where(k == i, lost, dead)
        here = (at == wanted) & (lost == 0) & (found == 0)
        place = tl.where(here, i, place)
        found = tl.where(here, 1, found)
        rank = tl.where(c == at, LOW, rank)
    return chosen, dead != 0, place


@triton.jit
def _merge(
    tops, symbols, highs, sums, wholes,
    tokens, parents, scores, lengths, done, lead, divisors, time,
    log_parents, log_tokens, log_gains, C: tl.constexpr, WIDTH: tl.constexpr,
    KK: tl.constexpr, KW: tl.constexpr, CP: tl.constexpr, CHAIN: tl.constexpr,
):  # fmt: skip
    """First which ways are chosen; then all that is known of them, at once."""
    follow(CHAIN)
    b = tl.program_id(0).to(tl.int64)
    PART: tl.constexpr = C * WIDTH  # ways to go on from a path: part of the alphabet, symbol
    WAYS: tl.constexpr = WIDTH * PART
    _whole(highs, sums, wholes, b, C, WIDTH, KW, CP)
    tl.debug_barrier()
    c, k = tl.arange(0, KK), tl.arange(0, KW)
    ok, mine = c < WAYS, k < WIDTH
    path = tl.where(ok, c // PART, 0)
    n = b * WIDTH + path
    ended, top, gain = _gains(tops, wholes, done, b * WAYS + c, n, ok, PART)
    length = tl.load(lengths + n, mask=ok, other=0) + tl.where(ended, 0, 1)
    score = tl.where(ok, tl.load(scores + n, mask=ok, other=LOW) + gain, LOW)
    rank = tl.where(ok, score / tl.load(divisors + length, mask=ok, other=1.0), LOW)
    chosen, dead, place = _choose(rank, ok & (path == tl.load(lead + b)), top, WIDTH, KK, KW)
    parent = tl.where(mine, chosen // PART, 0)
    n = b * WIDTH + parent
    ended, top, gain = _gains(tops, wholes, done, b * WAYS + chosen, n, mine, PART)
    token = tl.load(symbols + b * WAYS + chosen, mask=mine, other=NOTHING)
    token = tl.where(dead | ended, NOTHING, token)
    length = tl.load(lengths + n, mask=mine, other=0) + tl.where(ended, 0, 1)
    score = tl.where(dead, LOW, tl.load(scores + n, mask=mine, other=LOW) + gain)
    log = (tl.load(time) * tl.num_programs(0) + b) * WIDTH + k
    row = b * WIDTH + k
    tl.debug_barrier()  # all is read before anything is written
    tl.store(tokens + row, token, mask=mine)
    tl.store(parents + row, n, mask=mine)
    tl.store(scores + row, score, mask=mine)
    tl.store(lengths + row, length, mask=mine)
    tl.store(done + row, (dead | ended | (token == END)).to(tl.int8), mask=mine)
    tl.store(log_parents + log, parent, mask=mine)
    tl.store(log_tokens + log, token, mask=mine)
    tl.store(log_gains + log, tl.where(dead, LOW, gain), mask=mine)
    tl.store(lead + b, place)


@triton.jit
def _trace(
    scores, lengths, divisors, log_parents, log_tokens, log_gains, looks, time,
    out_scores, out_tokens, out_gains, out_looks, S, looks_step,
    WIDTH: tl.constexpr, KP: tl.constexpr, TS: tl.constexpr, LOOK: tl.constexpr,
):  # fmt: skip
    b, r = tl.program_id(0).to(tl.int64), tl.program_id(1)
    items, wanted = tl.num_programs(0), tl.num_programs(1)
    k = tl.arange(0, KP)
    length = tl.load(lengths + b * WIDTH + k, mask=k < WIDTH, other=0)
    rank = tl.load(scores + b * WIDTH + k, mask=k < WIDTH, other=LOW)
    rank = tl.maximum(rank / tl.load(divisors + length), -1e30)  # the dead come last, in order
    rank = tl.where(k < WIDTH, rank, LOW)
    slot = tl.argmax(rank, 0)
    for better in range(r):  # noqa: B007
        rank = tl.where(k == slot, LOW, rank)
        slot = tl.argmax(rank, 0)
    tl.store(out_scores + b * wanted + r, tl.load(scores + b * WIDTH + slot))
    steps = tl.load(time)
    j = tl.arange(0, TS)
    for back in range(steps):
        t = steps - 1 - back
        at = (t * items + b) * WIDTH + slot
        out = (t * items + b) * wanted + r
        token = tl.load(log_tokens + at)
        tl.store(out_tokens + out, token)
        tl.store(out_gains + out, tl.where(token == NOTHING, 0.0, tl.load(log_gains + at)))
        slot = tl.load(log_parents + at)
        if LOOK:
            seen = looks + t * looks_step + (b * WIDTH + slot) * S + j
            tl.store(out_looks + out * S + j, tl.load(seen, mask=j < S, other=0.0), mask=j < S)


def parts(symbols: int, width: int) -> tuple[int, int] | None:
    """Into how many parts an alphabet is cut, and how large they are; None where that is too much.

    >>> parts(10_000, 5), parts(60, 1)
    ((5, 2048), (1, 64))
    """
    size = min(wide(symbols), PART)
    while width * width * -(-symbols // size) > WAYS and size < 8 * PART:
        size *= 2
    many = -(-symbols // size)
    return (many, size) if width * width * many <= WAYS else None


class Choice:
    """Room for what `_pick` finds, for beams of one shape."""

    def __init__(self, front: Front, symbols: int, divisors: Tensor) -> None:
        rows, self.symbols, self.divisors = len(front.tokens), symbols, divisors
        self.items = len(front.lead)
        self.width = rows // self.items
        cut = parts(symbols, self.width)
        assert cut is not None
        self.many, self.size = cut
        like = divisors.new_empty
        self.tops = like(rows, self.many, self.width)
        self.found = like(rows, self.many, self.width, dtype=torch.int32)
        self.highs, self.sums = like(rows, self.many), like(rows, self.many)
        self.wholes = like(rows)

    def take(
        self, scores: Tensor, front: Front, bounds: Tensor, record: Record, time: Tensor
    ) -> None:
        """One step of a beam, from the scores of all symbols (N, V or more). Bounds (2, B) int32
        say how many symbols an answer must and may have before its end.
        """
        rows, block = len(scores), min(32, self.size // 16)
        _pick[(rows, self.many)](
            scores, front.done, bounds, time, self.tops, self.found, self.highs, self.sums,
            self.symbols, scores.stride(0), self.width,
            COUNT=self.width, NB=self.size // block, BL=block, **chain(scores),
            num_warps=max(1, self.size // PART),
        )  # fmt: skip
        ways = wide(self.width * self.width * self.many)
        _merge[(self.items,)](
            self.tops, self.found, self.highs, self.sums, self.wholes,
            *front, self.divisors, time, *record,
            C=self.many, WIDTH=self.width, KK=ways, KW=wide(self.width), CP=wide(self.many),
            **chain(scores), num_warps=1 if ways <= 128 else 4,
        )  # fmt: skip

    def trace(
        self, front: Front, record: Record, looks: Tensor | None, found: Found, time: Tensor
    ) -> None:
        """The best paths, from the end to the start; weights (T, P, N, S) as `fused_step`'s."""
        seen = front.scores if looks is None else looks
        out = found.scores if found.looks is None else found.looks
        places = 0 if looks is None else looks.size(3)
        _trace[(self.items, found.scores.size(1))](
            front.scores, front.lengths, self.divisors, *record, seen, time,
            *found[:3], out, places, seen.stride(0),
            WIDTH=self.width, KP=wide(self.width), TS=wide(places), LOOK=looks is not None,
            num_warps=1,
        )  # fmt: skip
