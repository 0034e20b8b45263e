"""How long a training step takes that reads pictures or sound: kernels against the plain loop.

    python benchmarks/speed/senses_step.py [cpu|cuda] [OUT.json]

Models are the recipes' own, batches random, sounds of unequal length; else as train_step.py. Most
of such a step is what the encoder multiplies, with or without kernels. Without a name, results go
to results/senses_DEVICE.json.
"""

import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from train_step import Side

from dragoman.core import EOS, Padded
from dragoman.data.batches import Batch
from dragoman.model import Model, ModelSpec, build
from dragoman.recipes import recipe

HERE = Path(__file__).parent
CASES = {  # recipe: what one item is made of, items (on a GPU four times as many), target symbols
    "show-attend-tell": ((1, 3, 64, 64), 16, 12),
    "las-small": ((400, 40), 8, 60),
}


def model_of(name: str) -> Model:
    known = recipe(name)
    return build(ModelSpec.model_validate(known.tree["model"]), known.sources, known.target)


def batch_of(name: str, device: str) -> Batch:
    shape, items, length = CASES[name]
    items *= 4 if device == "cuda" else 1
    draw = torch.Generator().manual_seed(1)
    values = torch.randn(items, *shape, generator=draw)
    target = torch.randint(4, recipe(name).target, (items, length), generator=draw)
    target[:, -1] = EOS
    lengths = torch.randint(-(-shape[0] // 2), shape[0] + 1, (items, 1), generator=draw)
    lengths[0] = shape[0]
    real = torch.arange(shape[0]) < lengths
    return Batch(Padded(values, real), Padded(target, target > 0), np.arange(items))


def compare(name: str, device: str, precision: str) -> dict[str, Any]:
    """Both sides on the same batch, in turns."""
    sides = [Side(lambda: model_of(name), device, precision, plain) for plain in (True, False)]
    given = [side.stepper.prepare(batch_of(name, device)) for side in sides]
    warm, rounds = (3, 7) if device == "cuda" else (1, 3)  # a GPU records its second step
    times: list[list[float]] = [[], []]
    for turn in range(warm + rounds):
        for side, batch, spent in zip(sides, given, times, strict=True):
            seconds, _ = side.run([batch])
            if turn >= warm:
                spent.append(seconds)
    plain, ours = (1000 * statistics.median(spent) for spent in times)
    found = {"name": name, "device": device, "precision": precision, "items": len(given[0].rows)}
    found |= {"plain_ms": plain, "ours_ms": ours, "ratio": plain / ours}
    print(
        f"{name:<18} {precision:<5} {plain:8.1f} {ours:8.1f} ms {plain / ours:6.2f} x", flush=True
    )
    return found


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    if device == "cpu":
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    found = [compare(name, device, p) for name in CASES for p in ("fp32", "bf16")]
    usual = HERE / "results" / f"senses_{device}.json"
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else usual
    place.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
