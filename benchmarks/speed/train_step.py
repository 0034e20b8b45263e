"""How long a training step takes: kernels against the plain loop, in one run, as ratios.

    python benchmarks/speed/train_step.py cpu              # one thread, minutes
    python benchmarks/speed/train_step.py cuda --out train_cuda.json
    python benchmarks/speed/train_step.py cuda --only growth
    python benchmarks/speed/train_step.py cuda --only sizes     # as they are, and widened inside

Both sides train the same model on the same batches in the same precision, with dropout, clipping
and Adam. `plain` is the loop over cells, attention and loss as anybody would write them in torch,
with torch's own routine for the encoder; `ours` is what `dragoman train` does. Lengths are those
of Multi30k's training rows (multi30k_lengths.json; twice as long for the WMT size), sorted into
batches as in training.
"""

import argparse
import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from dragoman.attention import AttentionSpec
from dragoman.config import TrainSpec
from dragoman.data.ahead import Ahead
from dragoman.data.batches import Batch, Budget, Examples, Ragged, plan
from dragoman.decoders import RecurrentSpec
from dragoman.encoders import TextSpec
from dragoman.heads import VocabularySpec
from dragoman.kernels.widths import multiples
from dragoman.model import Model, ModelSpec, build
from dragoman.stepping import Stepper

HERE = Path(__file__).parent
Make = Callable[[], Model]


class Size(NamedTuple):
    """A model and its batches."""

    vocabulary: int = 10_000
    embedding: int = 256
    hidden: int = 512
    readout: int = 512
    rows: int = 128
    stretch: float = 1.0  # of Multi30k's lengths; 0: all rows are `longest`
    longest: int = 100
    cell: str = "gru"
    way: str = "before"  # or fed: Luong's attention with input feeding
    dropout: float = 0.2


M30K = Size()
WMT = Size(32_000, 640, 1024, 640, 256, 2.0)


def model_spec(size: Size) -> ModelSpec:
    """RNNsearch, or its relative after Luong."""
    fed = size.way == "fed"
    drop = {"dropout": size.dropout}
    return ModelSpec(
        encoder=TextSpec(cell=size.cell, embedding=size.embedding, hidden=size.hidden, **drop),
        attention=AttentionSpec(
            score="bilinear" if fed else "mlp", when="after" if fed else "before", feed=fed
        ),
        decoder=RecurrentSpec(
            cell=size.cell, hidden=size.hidden, readout_size=size.readout, readout_word=True, **drop
        ),
        head=VocabularySpec(embedding=size.embedding),
    )


def examples(size: Size, batches: int) -> tuple[Examples, list[Any]]:
    """Random symbols with a real corpus's lengths, and some of its batches."""
    chance = np.random.default_rng(1)
    known = np.array(json.loads((HERE / "multi30k_lengths.json").read_text())["pairs"])
    pairs = np.repeat(known[:, :2], known[:, 2], 0)
    pairs = pairs[chance.permutation(len(pairs))[: 100 * size.rows]]
    lengths = (pairs * size.stretch).round().astype(int) if size.stretch else 0 * pairs + 10**6
    lengths = np.clip(lengths, 2, size.longest)
    sides = [
        Ragged.of([*chance.integers(4, size.vocabulary, n - 1).tolist(), 2] for n in column)
        for column in lengths.T
    ]
    corpus = Examples([sides[0]], sides[1])
    every = plan(corpus.lengths, Budget(0, size.rows), seed=1, epoch=0)
    return corpus, [rows for rows in every if len(rows) == size.rows][:batches]


def text_model(size: Size) -> Make:
    return lambda: build(model_spec(size), (size.vocabulary,), size.vocabulary)


class Side:
    """One way to train, stepped batch by batch."""

    def __init__(self, make: Make, device: str, precision: str, plain: bool) -> None:
        torch.manual_seed(0)
        spec = TrainSpec(precision=precision, kernel="reference" if plain else "auto", lr=1e-4)
        where = torch.device(device)
        model = make().to(where).train()
        self.stepper, self.number = Stepper(model, spec, where, carries=False), 0
        if plain:
            self.stepper.recorder = None

    def run(self, batches: list[Batch]) -> tuple[float, int]:
        """Seconds and target symbols."""
        begun, tokens = _now(self.stepper.device), 0
        for batch in batches:
            self.number += 1
            tokens += self.stepper.step([batch], self.number, 1e-4).tokens
        return _now(self.stepper.device) - begun, tokens


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()  # of this process: others may share the machine


def compare(
    name: str, size: Size, device: str, precision: str, batches: int = 12
) -> dict[str, Any]:
    """Both sides on the same batches, in turns."""
    corpus, rows = examples(size, batches)
    plain, ours = (Side(text_model(size), device, precision, one) for one in (True, False))
    given = [corpus.batch(r) for r in rows]
    ready = [ours.stepper.prepare(batch) for batch in given]
    rounds = 3 if device == "cuda" else 1
    for _ in range(2 if device == "cuda" else 0):
        ours.run(ready)
    for side, work in ((plain, given[:3]), (ours, ready[:3])):
        side.run(work)
    slow, fast = [], []
    for _ in range(rounds):
        slow.append(plain.run(given)[0])
        seconds, tokens = ours.run(ready)
        fast.append(seconds)
    a, b = statistics.median(slow), statistics.median(fast)
    found = {
        "name": name,
        "device": device,
        "precision": precision,
        **size._asdict(),
        "plain_ms": 1000 * a / len(given),
        "ours_ms": 1000 * b / len(given),
        "ratio": a / b,
        "tokens_per_s": tokens / b,
        "padding": 1 - tokens / sum(batch.target.mask.numel() for batch in given),
        "shapes": len({tuple(x.target.mask.shape) + tuple(x.source.mask.shape) for x in ready}),
    }
    if device == "cuda":
        found["memory_mib"] = torch.cuda.max_memory_allocated() // 2**20
        torch.cuda.reset_peak_memory_stats()
    print(
        f"{name:<34} {precision:<5} {found['plain_ms']:9.2f} {found['ours_ms']:9.3f} ms"
        f" {found['ratio']:7.2f} x {found['tokens_per_s']:11,.0f} tok/s",
        flush=True,
    )
    return found


def widening(name: str, size: Size, device: str, precision: str) -> dict[str, Any]:
    """Steps at sizes as they are, widened inside to multiples of 64, as Dragoman chooses, and of a
    model whose own sizes are multiples of 64, in turns.
    """
    corpus, rows = examples(size, 8 if device == "cuda" else 3)
    own = ("embedding", "hidden", "readout")
    full = size._replace(**{part: -(-getattr(size, part) // 64) * 64 for part in own})
    ways = {"plain": (size, 1), "widened": (size, 64), "chosen": (size, None), "full": (full, 1)}
    sides = {
        way: Side(text_model(one), device, precision, plain=False) for way, (one, _) in ways.items()
    }
    given = [corpus.batch(r) for r in rows]
    ready = {way: [side.stepper.prepare(b) for b in given] for way, side in sides.items()}
    found: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(5):
        for way, side in sides.items():
            step = ways[way][1]
            with contextlib.nullcontext() if step is None else multiples(of=step):
                seconds, _ = side.run(ready[way])
            if turn > 1 or (turn and device == "cpu"):  # the first ones record graphs
                found[way].append(1000 * seconds / len(given))
    times = {f"{way}_ms": statistics.median(spent) for way, spent in found.items()}
    print(f"{name:<34} {precision:<5}", *(f"{t:9.3f}" for t in times.values()), "ms", flush=True)
    return {"name": name, "device": device, "precision": precision, **size._asdict(), **times}


def all_widenings(device: str) -> list[dict[str, Any]]:
    """Sizes that are no multiples of 64: of 8 only, of 4, odd ones."""
    base = M30K if device == "cuda" else Size(4000, rows=64)
    sizes = {n: base._replace(embedding=n, hidden=n, readout=n) for n in (100, 250, 300, 500, 620)}
    usual = "bf16" if device == "cuda" else "fp32"
    cases = [(f"sizes of {n}", size, usual) for n, size in sizes.items()]
    if device == "cuda":
        cases.append(("sizes of 500", sizes[500], "fp32"))
        cases += [(f"hidden {n}", base._replace(hidden=n), "bf16") for n in (488, 999, 1000)]
        wmt = WMT._replace(embedding=620, hidden=1000, readout=620)
        cases.append(("WMT size, 620 and 1000", wmt, "bf16"))
    return [widening(name, size, device, kind) for name, size, kind in cases]


def pipeline(size: Size) -> dict[str, Any]:
    """How long a batch takes to make, and how much of that a step has to wait for."""
    corpus, rows = examples(size, 60)
    side = Side(text_model(size), "cuda", "bf16", plain=False)
    begun = time.perf_counter()
    made = [side.stepper.prepare(corpus.batch(r)) for r in rows]
    making = (time.perf_counter() - begun) / len(rows)
    for _ in range(3):
        side.run(made)
    alone = side.run(made)[0] / len(rows)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    ahead = Ahead(lambda n: side.stepper.prepare(corpus.batch(rows[n])), len(rows))
    for n in range(len(rows)):
        side.number += 1
        side.stepper.step([ahead.get(n)], side.number, 1e-4)
    torch.cuda.synchronize()
    whole = (time.perf_counter() - begun) / len(rows)
    ahead.close()
    found = {"name": "pipeline", "making_ms": 1000 * making, "step_ms": 1000 * alone}
    found |= {"with_pipeline_ms": 1000 * whole, "share": max(0.0, 1 - alone / whole)}
    print({k: round(v, 3) if isinstance(v, float) else v for k, v in found.items()}, flush=True)
    return found


def suite(device: str, only: str, out: Path | None) -> list[dict[str, Any]]:
    """All cases; what is found so far is always in the file."""
    found = []
    cases: list[tuple[str, Size, str]] = []
    both = ["fp32", "bf16"]
    if only in ("all", "main"):
        size = M30K if device == "cuda" else M30K._replace(rows=80, vocabulary=8000)
        cases += [("Multi30k size", size, p) for p in both]
        for cell, way in (("lstm", "before"), ("gru", "fed"), ("lstm", "fed")):
            other = size._replace(cell=cell, way=way)
            cases.append((f"Multi30k size, {cell}, {way}", other, both[device == "cuda"]))
        small = Size(60, 128, 256, 128, 128, 0.7)
        cases.append(("characters", small, both[device == "cuda"]))
        if device == "cuda":
            cases.append(("WMT size", WMT, "bf16"))
    if only in ("all", "growth"):
        base = M30K if device == "cuda" else Size(4000, 128, 256, 256, 32)
        kind = both[device == "cuda"]
        for longest in (10, 20, 40, 80):
            cases.append((f"length {longest}", base._replace(stretch=0, longest=longest), kind))
        for rows in (32, 64, 256, 512) if device == "cuda" else (16, 64):
            cases.append((f"batch {rows}", base._replace(rows=rows), kind))
        for many in (1000, 32_000) if device == "cuda" else (1000, 16_000):
            cases.append((f"vocabulary {many}", base._replace(vocabulary=many), kind))
    for name, size, precision in cases:
        batches = 12 if device == "cuda" else 3
        found.append(compare(name, size, device, precision, batches))
        if out:
            out.write_text(json.dumps(found, indent=1) + "\n")
    if device == "cuda" and only in ("all", "main"):
        found.append(pipeline(M30K))
    if only == "sizes":
        found = all_widenings(device)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("--only", choices=["all", "main", "growth", "sizes"], default="all")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    print(f"torch {torch.__version__}; step of the plain loop, of ours, ratio, target symbols/s")
    found = suite(options.device, options.only, options.out)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
