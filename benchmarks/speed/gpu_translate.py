"""A trained translator's own searches on a GPU, whole: with items that are done left behind, and
kept to the end.

    python benchmarks/speed/gpu_translate.py SOURCE TARGET TEST [OUT.json]

SOURCE and TARGET are lines to train on (Multi30k's, 1 500 steps), TEST lines to translate.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from dragoman import load, train
from dragoman.predict import Predictor
from dragoman.search import graphs

WAYS = {"kept to the end": 1 << 30, "left behind": graphs.FEWEST, "left behind to 32": 32}
SPEC = {
    "train": {"max_steps": 1500, "evaluate_every": 500, "device": "cuda"},
    "data": {"dev_rows": 500},
}


def trained(source: list[str], target: list[str], folder: Path) -> Predictor:
    rows = list(zip(source, target, strict=True))
    train(rows, folder, recipe="bahdanau2015-small", config=SPEC, quiet=True)
    model = load(folder, "cuda")
    model.model.search_in("bf16")
    return model


def measure(model: Predictor, texts: list[str], batch: int, beam: int) -> dict[str, Any]:
    """Sentences a second of each way, in turns; the first rounds record graphs."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    told: dict[str, list[str]] = {}
    options = model.options(beam=beam)
    for turn in range(7):
        for way, fewest in WAYS.items():
            graphs.FEWEST = fewest
            torch.cuda.synchronize()
            begun = time.perf_counter()
            told[way] = [one.text for one in model.predict(texts, options, batch)]
            if turn > 2:
                times[way].append(time.perf_counter() - begun)
    first, *others = told.values()
    alike = min(sum(a == b for a, b in zip(first, one, strict=True)) for one in others)
    found = {way: len(texts) / statistics.median(spent) for way, spent in times.items()}
    return {"batch": batch, "beam": beam, "alike": alike / len(texts), **found}


def main() -> None:
    source, target, test = (Path(p).read_text("utf-8").splitlines() for p in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        model = trained(source, target, Path(folder) / "model")
        found = []
        for batch, beam in ((128, 5), (256, 5), (256, 1), (512, 5)):
            found.append(measure(model, test, batch, beam))
            print(*(f"{k} {v:,.4g}" for k, v in found[-1].items()), sep="; ", flush=True)
    if len(sys.argv) > 4:
        Path(sys.argv[4]).write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
