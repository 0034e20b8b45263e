"""Routines in C for a CPU (`native.c`), compiled by the machine's own compiler when first needed.

What is compiled is kept in the user's cache folder under a name that tells source, compiler and
processor apart. Without a compiler, or where its work does not compute what torch computes, torch's
operations do the same; DRAGOMAN_NATIVE=0 in the environment turns the routines off.
"""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

SOURCE = Path(__file__).with_name("native.c")
FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-std=gnu11"]
SHARED = ["-shared", "-fPIC"]
THREADS = ["-fopenmp"]  # simd loops and threads; where a compiler lacks it, the former alone
PATIENCE = 60  # seconds for a compiler
MOST = 40  # two powers of e up to this can be multiplied
SMALL = 1 << 15  # numbers below which a second thread is not worth waking

logger = logging.getLogger("dragoman")
_pointer, _count, _float, _int = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
KINDS = {torch.float32, torch.int64, torch.uint8, torch.bool}  # of arrays
SIGNATURES = {  # p: an array, n: a number, f: a float; the number of threads comes last
    "pick": "pnpppnnn",
    "slopes": "pnpfpnn",
    "look": "pppppfpnpnppnnnnn",
    "look_back": "pppppfpnpnppppnppnnnn",
    "gru": "pnpnpnpnpnpnn",
    "gru_back": "pnpnpnpnpnpnpnnn",
    "tanh_sum": "pnpnpnpnn",
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
    nll, even = sums.sum(0)
    return torch.stack([(1 - smoothing) * nll + smoothing * even, nll])


class Seen(NamedTuple):
    """What is looked at."""

    keys: Tensor  # (B, S, A)
    powers: Tensor | None  # (B, S, A) e^(-twice * keys), where that is small enough
    values: Tensor  # (B, S, D)
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
    lead = *memory, score, twice, query, query.stride(0)
    call("look", *lead, base, step, weights, out, *sizes)
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


def tanh_sum(shares: Sequence[Tensor]) -> Tensor:
    """tanh of the sum of one to three (N, D)."""
    out = shares[0].new_empty(shares[0].shape)
    each = [*shares, None, None][:3]
    call("tanh_sum", *(part for share in each for part in _rows(share)), out, *out.shape)
    return out


def _rows(matrix: Tensor | None) -> tuple[Tensor | None, int]:
    """A matrix and how far its rows are apart."""
    return matrix, 0 if matrix is None else matrix.stride(0)


def call(name: str, *given: Tensor | float | None) -> None:
    """A routine by its name, with arrays and numbers as its source has them."""
    library = routines()
    assert library is not None
    _invoke(library, name, *given)


def _invoke(library: ctypes.CDLL, name: str, *given: Tensor | float | None) -> None:
    if strange := {one.dtype for one in given if isinstance(one, Tensor)} - KINDS:
        raise TypeError(f"the routine {name} does not read {strange}")
    work = max(one.numel() for one in given if isinstance(one, Tensor))
    threads = torch.get_num_threads() if work > SMALL else 1
    plain = (one.data_ptr() if isinstance(one, Tensor) else one for one in given)
    getattr(library, name)(*plain, threads)


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
    compiler = _compiler()
    place = _folder() / f"native-{_mark(compiler)}.so"
    if not place.exists():
        _compile(compiler, place)
    library = ctypes.CDLL(str(place))
    kinds = {"p": _pointer, "n": _count, "f": _float}
    for name, form in SIGNATURES.items():
        routine = getattr(library, name)
        routine.argtypes, routine.restype = [*(kinds[letter] for letter in form), _int], None
    if not _sound(library):
        raise ValueError(f"{place} does not compute what it should")
    return library


def _compiler() -> list[str]:
    wanted = shlex.split(os.environ.get("CC", ""))
    for name in [wanted[:1], ["cc"], ["gcc"], ["clang"]]:
        if name and (found := shutil.which(name[0])):
            return [found, *wanted[1:]] if name == wanted[:1] else [found]
    raise OSError("there is no C compiler (cc, gcc or clang)")


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(home) / "dragoman" / "native"


def _mark(compiler: list[str]) -> str:
    """What tells this source, compiler and processor from others."""
    about = os.stat(compiler[0])
    told = [SOURCE.read_text("utf-8"), *compiler, *FLAGS, str(about.st_size), str(about.st_mtime)]
    told += [platform.machine(), platform.processor(), torch.backends.cpu.get_cpu_capability()]
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        lines = cpu.read_text("utf-8", "replace").splitlines()
        told += sorted(
            {one for one in lines if one.startswith(("model name", "flags", "Features"))}
        )
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _compile(compiler: list[str], place: Path) -> None:
    """Into a file of its own first: others may be at it as well."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = Path(folder) / place.name
        for more in (THREADS, ["-fopenmp-simd"], []):
            command = [*compiler, *FLAGS, *more, *SHARED, str(SOURCE), "-o", str(made), "-lm"]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PATIENCE
            )
            if done.returncode == 0:
                os.replace(made, place)
                return
    raise OSError(f"{compiler[0]} failed: {done.stderr.strip().splitlines()[-1:]}")


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
    _invoke(library, "look", *lead, scores.new_empty(1, 5), out, 1, 1, 5, 26, 26)
    weights = (torch.sigmoid(2 * (query + keys)) @ query[0]).softmax(-1)
    pairs = (values, best.values), (out, (weights @ keys)[0])
    same = all(torch.allclose(one, other, atol=1e-5) for one, other in pairs)
    return same and torch.equal(places, best.indices + 2)
