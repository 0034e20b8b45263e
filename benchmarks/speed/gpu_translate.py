"""A trained translator on a GPU: whole predictions, text to text, and their searches alone, with
sentences that are done left behind or kept to the end.

    python benchmarks/speed/gpu_translate.py SOURCE TARGET TEST [OUT.json]

SOURCE and TARGET are lines to train on (Multi30k's, 1 500 steps), TEST lines to translate.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dragoman import load, train
from dragoman.core import Hypotheses
from dragoman.decode import Asked, ask, decode
from dragoman.predict import Predictor
from dragoman.search import graphs

WAYS = {"kept to the end": 1 << 30, "left behind": graphs.MANY, "always left behind": 1}
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


def seconds(work: Callable[[], object]) -> float:
    torch.cuda.synchronize()
    begun = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - begun


def measure(model: Predictor, texts: list[str], batch: int, beam: int) -> dict[str, Any]:
    """Sentences a second, of each way in turns; the first rounds record graphs."""
    options = model.options(beam=beam)
    queries = sorted(
        (ask(model.team.first, Asked((t,))) for t in texts), key=lambda q: len(q.ids[0])
    )
    parts = [queries[i : i + batch] for i in range(0, len(queries), batch)]
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    found: dict[str, list[Hypotheses]] = {}
    whole = []

    @torch.inference_mode()
    def searches(way: str) -> None:
        found[way] = [decode(model.team, part, options, range(len(part))) for part in parts]

    for turn in range(8):
        for way, graphs.MANY in WAYS.items():
            spent = seconds(lambda way=way: searches(way))
            times[way] += [spent] if turn > 2 else []
        graphs.MANY = WAYS["left behind"]
        spent = seconds(lambda: model.predict(texts, options, batch))
        whole += [spent] if turn > 2 else []
    paths = [[trimmed(one.tokens[:, 0]) for one in every] for every in found.values()]
    alike = all(one == paths[0] for one in paths)
    told = {way: len(texts) / statistics.median(spent) for way, spent in times.items()}
    told |= {"text to text": len(texts) / statistics.median(whole)}
    return {"batch": batch, "beam": beam, "alike": alike, **told}


def trimmed(paths: torch.Tensor) -> list[list[int]]:
    return [[i for i in path if i] for path in paths.tolist()]


def main() -> None:
    source, target, test = (Path(p).read_text("utf-8").splitlines() for p in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        model = trained(source, target, Path(folder) / "model")
        found = []
        for batch, beam in ((256, 5), (512, 5), (512, 1), (1000, 5)):
            found.append(measure(model, test, batch, beam))
            print(*(f"{k} {v:,.4g}" for k, v in found[-1].items()), sep="; ", flush=True)
    if len(sys.argv) > 4:
        Path(sys.argv[4]).write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
