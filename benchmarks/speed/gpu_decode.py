"""Beam search on a GPU: quick steps in graphs against a batched eager beam, in one run.

    python benchmarks/speed/gpu_decode.py [OUT.json]

The eager beam is Dragoman's own general search over the decoder's own steps, in fp32: keys are
projected once and nothing is tiled, as in no slower a toolkit.
"""

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

from dragoman import search
from dragoman.core import BOS, EOS, PAD, Hypotheses, Padded, Source, move
from dragoman.model import Model, ModelSpec, build

STEPS, WIDTH = 16, 5


def model_of(cell: str, luong: bool) -> Model:
    """Multi30k size: 10,000 words, 256, 512; with sharp choices, and no end before the limit."""
    torch.manual_seed(0)
    attention = {"score": "bilinear", "when": "after", "feed": True} if luong else {"size": 512}
    tree: dict[str, Any] = {
        "encoder": {"cell": cell, "embedding": 256, "hidden": 512},
        "attention": attention,
        "decoder": {"cell": cell, "hidden": 512, "readout_size": 512},
        "head": {"embedding": 256},
    }
    model = build(ModelSpec.model_validate(tree), (10_000,), 10_000).eval()
    with torch.no_grad():
        model.head.weight.mul_(6)
    return model.cuda()


def decode(model: Model, source: Source, quick: bool, width: int = WIDTH) -> Hypotheses:
    length = torch.full((len(source.mask),), STEPS - 1, device=source.mask.device)
    if quick:
        way = model.course(source)
        assert way is not None
        limits = search.Limits(length, length)
        if width == 1:
            return search.direct_greedy(*way, limits)
        return search.direct_beam(*way, limits, width=width, rank=search.Rank(1.0))
    kept, model.quick = model.quick, lambda: None
    pair = search.within(search.never(model.begin(source), [PAD, BOS]), length, length)
    model.quick = kept
    if width == 1:
        return search.greedy(*pair, STEPS)
    return search.beam(*pair, STEPS, width=width, normalize=1.0)


def seconds(work: Any, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(model: Model, items: int, width: int) -> dict[str, Any]:
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 10_000, (items, 16), generator=draw)
    ids[:, -1] = EOS
    source = move(Padded(ids, ids != PAD), torch.device("cuda"))
    found: dict[str, Any] = {}
    eager = decode(model, source, quick=False, width=width)
    found["eager"] = items / seconds(lambda: decode(model, source, False, width), 3)
    for precision in ("fp32", "bf16"):
        model.search_in(precision)
        first = decode(model, source, quick=True, width=width)
        begin = time.perf_counter()
        again = decode(model, source, quick=True, width=width)
        found[f"{precision} recording s"] = time.perf_counter() - begin
        for other in (first, again):
            same = other.tokens.cpu() == eager.tokens.cpu()
            found.setdefault(f"{precision} same tokens", []).append(float(same.float().mean()))
        found[precision] = items / seconds(lambda: decode(model, source, True, width), 5)
        found[f"{precision} ratio"] = found[precision] / found["eager"]
    model.search_in("fp32")
    found["quick, no graph"] = items / seconds(lambda: _ungraphed(model, source, width), 3)
    return found


def _ungraphed(model: Model, source: Source, width: int) -> None:
    way = model.course(source)
    assert way is not None
    way[0].graphs.clear()
    decode_again = search.Limits(*(torch.full((len(source.mask),), STEPS - 1, device="cuda"),) * 2)
    search.direct_beam(*way, decode_again, width=width, rank=search.Rank(1.0))


@torch.inference_mode()
def main() -> None:
    report: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, cell, luong in (("bahdanau gru", "gru", False), ("luong lstm", "lstm", True)):
        model = model_of(cell, luong)
        for items in (1, 16, 64, 256):
            for width in (WIDTH, 1) if name.startswith("b") else (WIDTH,):
                order = f"{name}, beam {width}, batch {items}"
                report[order] = measure(model, items, width)
                print(order, json.dumps(report[order]), flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(report, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
