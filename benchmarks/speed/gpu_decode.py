"""Searches on a GPU, whole ones, encoder and copies to the host included: recorded ones against
batched eager beams, in one run on the same weights and the same work.

    python benchmarks/speed/gpu_decode.py [OUT.json] [--only main|growth]

`peer` is a batched eager beam as other toolkits take it (peer_beam.py); `plain` is Dragoman's own
general search over the decoder's own steps, which projects keys once and tiles nothing. Answers
have exactly as many symbols as there are steps, so that nobody gains by ending early.
"""

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from peer_beam import peer_beam

from dragoman import search
from dragoman.core import BOS, EOS, PAD, Padded, Source, move
from dragoman.device import pick_device
from dragoman.model import Model, ModelSpec, build


class Size(NamedTuple):
    """A model and what it is asked: Multi30k size."""

    vocabulary: int = 10_000
    embedding: int = 256
    hidden: int = 512
    cell: str = "gru"
    fed: bool = False  # Luong's attention with input feeding, else Bahdanau's
    batch: int = 64
    length: int = 16  # of sources and of answers
    beam: int = 5


M30K = Size()


def model_of(size: Size) -> Model:
    """Random weights with sharp choices."""
    torch.manual_seed(0)
    luong = {"score": "bilinear", "when": "after", "feed": True}
    tree: dict[str, Any] = {
        "encoder": {"cell": size.cell, "embedding": size.embedding, "hidden": size.hidden},
        "attention": luong if size.fed else {"size": size.hidden},
        "decoder": {
            "cell": size.cell,
            "hidden": size.hidden,
            "readout_size": size.hidden,
            "readout_word": True,
        },
        "head": {"embedding": size.embedding},
    }
    model = build(ModelSpec.model_validate(tree), (size.vocabulary,), size.vocabulary).eval()
    with torch.no_grad():
        model.head.weight.mul_(6)
    return model.cuda()


def source_of(size: Size) -> Source:
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(4, size.vocabulary, (size.batch, size.length), generator=draw)
    ids[:, -1] = EOS
    return move(Padded(ids, ids != PAD), torch.device("cuda"))


def plain(model: Model, source: Source, size: Size, half: bool) -> torch.Tensor:
    """The general search, over the decoder's own steps."""
    kept, model.quick = model.quick, lambda: None  # type: ignore[method-assign]
    precision = torch.autocast("cuda", torch.bfloat16) if half else contextlib.nullcontext()
    with torch.inference_mode(), precision:
        length = torch.full((size.batch,), size.length - 1, device="cuda")
        pair = search.within(search.never(model.begin(source), [PAD, BOS]), length, length)
        found = search.beam(*pair, size.length, width=size.beam, normalize=1.0)
    model.quick = kept  # type: ignore[method-assign]
    return found.tokens[:, 0].cpu()


def ours(model: Model, source: Source, size: Size) -> torch.Tensor:
    """What `predict` does once a shape has come before."""
    length = torch.full((size.batch,), size.length - 1)
    with torch.inference_mode():
        rails, limits = model.rails(), search.Limits(length, length)
        assert rails is not None
        ask: dict[str, Any] = {"width": size.beam, "rank": search.Rank(1.0)}
        found = search.recorded_beam(rails, source, limits, **ask)
        if found is None:
            found = search.recorded_beam(rails, source, limits, **ask)
        assert found is not None
    return found.tokens[:, 0]


def seconds(work: Callable[[], Any], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def same(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The share of symbols that are the same."""
    return float((found[:, : wanted.size(1)] == wanted.cpu()).float().mean())


def measure(size: Size, sides: str) -> dict[str, Any]:
    """Sentences a second of each side (of `peer`, `plain` and ours)."""
    model, source = model_of(size), source_of(size)
    half = torch.nn.Module.bfloat16(model_of(size))
    wanted = plain(model, source, size, half=False)
    found: dict[str, Any] = size._asdict()
    eager: dict[str, Callable[[], torch.Tensor]] = {}
    if "peer" in sides and not size.fed:
        steps = size.length, size.beam
        eager["peer fp32"] = lambda: peer_beam(model, source, *steps)[0]
        eager["peer bf16"] = lambda: peer_beam(half, source, *steps)[0]
    if "plain" in sides:
        eager["plain fp32"] = lambda: plain(model, source, size, half=False)
        eager["plain bf16"] = lambda: plain(model, source, size, half=True)
    for name, work in eager.items():
        found[f"{name} same"] = same(work().cpu(), wanted)
        found[name] = size.batch / seconds(work, 5)
    for precision in ("fp32", "bf16"):
        model.search_in(precision)  # type: ignore[arg-type]
        begin = time.perf_counter()
        ours(model, source, size)
        found[f"{precision} recording s"] = time.perf_counter() - begin
        found[f"{precision} same"] = same(ours(model, source, size), wanted)
        found[precision] = size.batch / seconds(lambda: ours(model, source, size), 15)
    model.search_in("fp32")
    for name in eager:
        found[f"bf16 / {name}"] = found["bf16"] / found[name]
    return found


def cases(only: str) -> list[tuple[str, Size, str]]:
    """Orders: name, size, and which eager sides are measured beside ours."""
    found = []
    if only in ("all", "main"):
        every = [(f"batch {b}", M30K._replace(batch=b), "peer plain") for b in (1, 16, 64, 256)]
        found += every
        for batch in (1, 64, 256):
            size = M30K._replace(batch=batch)
            found.append((f"lstm, batch {batch}", size._replace(cell="lstm"), "peer"))
            fed = size._replace(cell="lstm", fed=True)
            found.append((f"lstm fed, batch {batch}", fed, "plain"))
    if only in ("all", "growth"):
        for beam in (1, 10):
            found += [
                (f"beam {beam}, batch {b}", M30K._replace(beam=beam, batch=b), "peer")
                for b in (1, 16, 64, 256)
            ]
        for many in (1000, 32_000):
            found.append((f"vocabulary {many}", M30K._replace(vocabulary=many), "peer"))
        for length in (8, 32, 64):
            found.append((f"length {length}", M30K._replace(length=length), "peer"))
        wmt = Size(32_000, 640, 1024, length=40)
        found += [(f"WMT size, batch {b}", wmt._replace(batch=b), "peer") for b in (1, 64, 256)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--only", choices=["all", "main", "growth"], default="all")
    options = parser.parse_args()
    pick_device("cuda")
    report: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, size, sides in cases(options.only):
        report[name] = measure(size, sides)
        shown = {k: round(v, 3) for k, v in report[name].items() if isinstance(v, float)}
        print(name, json.dumps(shown), flush=True)
        if options.out:
            options.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
