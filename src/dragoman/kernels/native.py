"""Routines in C for a CPU (the `.c` files here), compiled by the machine's own compiler when first
needed.

Without a compiler, or where its work does not compute what torch computes, torch's operations do
the same; DRAGOMAN_NATIVE=0 in the environment turns the routines off.
"""

import ctypes
import functools
import logging
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.kernels.compiling import compiled

MOST = 40  # two powers of e up to this can be multiplied
SMALL = 1 << 15  # numbers below which a second thread is not worth waking

logger = logging.getLogger("dragoman")
_pointer, _count, _float, _int = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
KINDS = {  # of arrays
    torch.float32, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool
}  # fmt: skip
NUMBERS = {int, float}
SIGNATURES = {  # p: an array, n: a number, f: a float; the number of threads comes last
    "pick": "pnpppnnn",
    "slopes": "pnpfpnn",
    "slopes_low": "pnppfpnn",
    "look": "pppppfpnpnppnnnnnn",
    "look_back": "pppppfpnpnppppnppnnnn",
    "gru": "pnpnpnpnpnpnn",
    "gru_back": "pnpnpnpnpnpnpnnn",
    "lstm": "pnpnpnpnpnpnpnnn",
    "lstm_back": "pnpnpnpnpnpnpnpnnn",
    "tanh_sum": "pnpnpnpnn",
    "lanes": "p",
    "lay": "pnnppnnnnn",
    "multiply": "pnnpppppnnnnnn",
    "best": "pnppppppppnnnnnn",
    "gather": "pnppnn",
    "walk": "ppppppppppnnnnn",
    "again": "pn",
    "turn": "pn",
    "trace": "pnnpppp",
}


def pick(scores: Tensor, rule: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best of each row of scores (N, V), largest first, as log-probabilities, and where
    they stand. PAD and BOS are never among them, EOS where `rule` (N,) is not 1, and EOS alone
    where it is 2; a place that nobody takes is -inf.
    """
    rows, size = scores.shape
    count = min(count, size)
    values = scores.new_empty(rows, count)
    places = torch.empty(rows, count, dtype=torch.long)
    call("pick", scores, scores.stride(0), rule, values, places, rows, size, count)
    return values, places


def slopes(scores: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """What is minimised and −Σ log p (2,); the scores (N, V) become the gradient of the former. A
    row whose target is negative does not count.
    """
    sums = scores.new_empty(len(scores), 2)
    call("slopes", scores, scores.stride(0), targets.contiguous(), smoothing, sums, *scores.shape)
    return _heard(sums, smoothing)


def slopes_low(scores: Tensor, bias: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The same for scores in bfloat16 that still lack their bias (V,)."""
    whole, bits = bias.float().contiguous(), scores.view(torch.int16)
    sums, lead = whole.new_empty(len(scores), 2), (bits, scores.stride(0), whole)
    call("slopes_low", *lead, targets.contiguous(), smoothing, sums, *scores.shape)
    return _heard(sums, smoothing)


def _heard(sums: Tensor, smoothing: float) -> Tensor:
    nll, even = sums.sum(0)
    return torch.stack([(1 - smoothing) * nll + smoothing * even, nll])


class Seen(NamedTuple):
    """What is looked at."""

    keys: Tensor  # (B, S, A)
    powers: Tensor | None  # (B, S, A) e^(-twice * keys), where that is small enough
    values: Tensor  # (B, S, D); float32 or, where nobody learns, bfloat16
    real: Tensor  # (B, S)


def powers(keys: Tensor, twice: float) -> Tensor | None:
    """e^(-twice * keys), which saves `look` most of its exponentials; None where it overflows."""
    low, high = torch.aminmax(keys) if keys.numel() else (keys.new_zeros(()),) * 2
    safe = twice * max(-float(low), float(high)) <= MOST
    return torch.exp(keys * -twice) if safe else None


def look(
    memory: Seen,
    score: Tensor | None,  # (A,)
    twice: float,
    query: Tensor,  # (B * K, A)
    base: Tensor | None,  # (B * K, D)
    weights: Tensor,  # (B * K, S) is written
) -> Tensor:
    """base + Σ a_j v_j (B * K, D), with a = softmax over what is real of
    score · σ(twice (query + key_j)), or of query · key_j where there is no score.
    """
    (items, length, size), width, rows = memory.keys.shape, memory.values.size(2), len(query)
    out = query.new_empty(rows, width)
    step = 0 if base is None else base.stride(0)
    sizes = items, rows // max(items, 1), length, size, width
    low, values = memory.values.dtype == torch.bfloat16, memory.values
    memory = memory._replace(values=values.view(torch.int16) if low else values)
    lead = *memory, score, twice, query, query.stride(0)
    call("look", *lead, base, step, weights, out, *sizes, int(low))
    return out


def gru(
    x: Tensor, more: Tensor | None, past: Tensor, h: Tensor, out: Tensor, acts: Tensor | None = None
) -> Tensor:
    """A step of `cells.GRU` from shares of its gates (N, 3H): the input's (and more of them, if
    any), and the state's. `out` (N, H) takes the new state, `acts` (N, 3H) how far gates opened.
    """
    shares = *_rows(x), *_rows(more), *_rows(past), *_rows(h), *_rows(acts)
    call("gru", *shares, out, *out.shape)
    return out


def lstm(
    x: Tensor,
    more: Tensor | None,
    past: Tensor,
    c: Tensor,
    out: tuple[Tensor, Tensor],
    acts: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A step of `cells.LSTM` from shares of its gates (N, 4H), as `gru`: `out` takes the new state
    and the new memory (N, H).
    """
    shares = (x, more, past, c, acts, *out)
    call("lstm", *(part for share in shares for part in _rows(share)), *c.shape)
    return out


def gather(table: Tensor, rows: Tensor) -> Tensor:
    """Rows (N, D) of a table, whose numbers follow each other, by their places (N,)."""
    if table.stride(1) != 1:
        raise ValueError("the routine gather reads rows whose numbers follow each other")
    rows = rows.long()
    if not _inside(table, rows):
        return table.index_select(0, rows)  # says what is wrong; nobody makes this call again
    out = table.new_empty(len(rows), table.size(1))
    call("gather", table, table.stride(0), rows.contiguous(), out, *out.shape)
    return out


def _inside(table: Tensor, rows: Tensor) -> bool:
    """Whether there are such rows in a table."""
    if not len(rows):
        return False
    low, high = torch.aminmax(rows)
    return int(low) >= 0 and int(high) < len(table)


def tanh_sum(shares: Sequence[Tensor]) -> Tensor:
    """tanh of the sum of one to three (N, D)."""
    out = shares[0].new_empty(shares[0].shape)
    each = [*shares, None, None][:3]
    call("tanh_sum", *(part for share in each for part in _rows(share)), out, *out.shape)
    return out


def _rows(matrix: Tensor | None) -> tuple[Tensor | None, int]:
    """A matrix and how far its rows are apart."""
    return matrix, 0 if matrix is None else matrix.stride(0)


class Call(NamedTuple):
    """A routine by its name, and what it was given."""

    name: str
    given: tuple[Tensor | float | None, ...]
    threads: int


noted: ContextVar[Callable[[Call], None] | None] = ContextVar("noted", default=None)


@contextmanager
def unnoted() -> Iterator[None]:
    """Nobody is told of calls inside."""
    token = noted.set(None)
    try:
        yield
    finally:
        noted.reset(token)


def call(name: str, *given: Tensor | float | None) -> None:
    """A routine by its name, with arrays and numbers as its source has them. Whoever wants to know
    is told (`noted`).
    """
    library = routines()
    assert library is not None
    threads = _invoke(library, name, *given)
    if (note := noted.get()) is not None:
        note(Call(name, given, threads))


def _invoke(library: ctypes.CDLL, name: str, *given: Tensor | float | None) -> int:
    """How many threads took part."""
    plain: list[float | None] = []
    work = 0
    for one in given:
        if one is None or type(one) in NUMBERS:  # asking whether something is a tensor takes longer
            plain.append(one)  # type: ignore[arg-type]
            continue
        assert isinstance(one, Tensor)
        if one.dtype not in KINDS:
            raise TypeError(f"the routine {name} does not read {one.dtype}")
        work = max(work, one.numel())
        plain.append(one.data_ptr())
    threads = torch.get_num_threads() if work > SMALL else 1
    getattr(library, name)(*plain, threads)
    return threads


def routines() -> ctypes.CDLL | None:
    """The compiled routines; None where they are not to be had."""
    found = _found()
    return None if isinstance(found, str) else found


def lack() -> str:
    """Why there are none."""
    found = _found()
    return found if isinstance(found, str) else ""


@functools.cache
def _found() -> ctypes.CDLL | str:
    """The routines, or why there are none, which the log says once."""
    try:
        return _load()
    except (OSError, subprocess.SubprocessError, ValueError, AttributeError) as error:
        logger.info("kernel: torch's operations instead of routines in C: %s", error)
        return str(error)


def _load() -> ctypes.CDLL:
    if os.environ.get("DRAGOMAN_NATIVE") == "0":
        raise OSError("DRAGOMAN_NATIVE=0")
    place = compiled()
    library = ctypes.CDLL(str(place))
    kinds = {"p": _pointer, "n": _count, "f": _float}
    for name, form in SIGNATURES.items():
        routine = getattr(library, name)
        routine.argtypes, routine.restype = [*(kinds[letter] for letter in form), _int], None
    if not _sound(library):
        raise ValueError(f"{place} does not compute what it should")
    return library


def _sound(library: ctypes.CDLL) -> bool:
    """Whether the routines compute what torch computes, on a small example."""
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        return _agrees(library)


def _agrees(library: ctypes.CDLL) -> bool:
    scores, size = torch.arange(260, dtype=torch.float32).sin().view(2, 130) * 3, 130
    values, places = scores.new_empty(2, 3), torch.empty(2, 3, dtype=torch.long)
    rule = torch.zeros(2, dtype=torch.uint8)
    _invoke(library, "pick", scores, size, rule, values, places, 2, size, 3)
    best = scores.log_softmax(-1)[:, 2:].topk(3)
    keys, query, out = scores[:1].view(1, 5, 26), scores[1:, :26], scores.new_empty(1, 26)
    real, power = torch.ones(1, 5, dtype=torch.bool), torch.exp(-2 * keys)
    lead = keys, power, keys, real, query, 2.0, query, size, None, 0
    _invoke(library, "look", *lead, scores.new_empty(1, 5), out, 1, 1, 5, 26, 26, 0)
    weights = (torch.sigmoid(2 * (query + keys)) @ query[0]).softmax(-1)
    pairs = (values, best.values), (out, (weights @ keys)[0])
    same = all(torch.allclose(one, other, atol=1e-5) for one, other in pairs)
    return same and torch.equal(places, best.indices + 2)
