"""Demonstrations of looking: sentences about drawn scenes, and answers to questions about them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dragoman.config import resolve
from dragoman.data.rows import read_table
from dragoman.demo import scenes
from dragoman.demo.show import tell
from dragoman.metrics import compute
from dragoman.predict import load
from dragoman.progress import Reporter
from dragoman.recipes import merge
from dragoman.training import run

HELD_OUT = 300
SIDES = {"height": scenes.SIDE, "width": scenes.SIDE}
NET = {"widths": [24, 32, 48], "blocks": 1, "coordinates": True, "dropout": 0.0, "augment": {}}
TRAIN = {"batch_size": 32, "lr": 0.003, "schedule": "cosine", "warmup": 50, "evaluate_every": 200}
TRAIN |= {"epochs": None, "patience": None}
TREES: dict[str, Mapping[str, Any]] = {
    "scenes": {
        "data": {"source": SIDES, "target": {"min_count": 1}, "dev_rows": 100},
        "model": {
            "encoder": NET | {"pool": "max"},  # what is there, be it ever so small
            "attention": {"size": 64},
            "decoder": {"hidden": 96, "readout_size": 48, "dropout": 0.0},
            "head": {"embedding": 48},
        },
        "train": TRAIN | {"metric": "exact", "doubly_stochastic": 0.0},
    },
    "vqa": {
        "data": {"source": SIDES, "dev_rows": 200},
        "model": {
            "encoder": {
                "size": 96,
                "parts": [
                    {"kind": "image", **NET, "dense": 96},
                    {"embedding": 32, "cell": "gru", "hidden": 48},
                ],
            },
            "attention": {"size": 64},
            "decoder": {"hidden": 96, "dropout": 0.0},
        },
        "train": TRAIN,
    },
}
RECIPES = {"scenes": "show-attend-tell", "vqa": "vqa-attend"}
STEPS = {"scenes": 2400, "vqa": 1200}
TITLES = {"scenes": "Describing drawn scenes", "vqa": "Answering questions about drawn scenes"}


def show(what: str, folder: Path, pairs: int | None = None, steps: int | None = None) -> None:
    """Draw, train, measure on scenes that were never seen, and leave the model to be asked."""
    click.secho(f"{TITLES[what]}\n", bold=True)
    data, asked = folder / "data", what == "vqa"
    table = scenes.write(data, pairs or 4000, seed=1, asked=asked)
    held_out = scenes.write(data, HELD_OUT, seed=2, asked=asked)
    rows = read_table(table, count=3 if asked else 2)
    tell(f"{len(rows):,} rows to learn from, of pictures drawn on the spot, such as")
    for row in list(rows)[:3]:
        tell(f"    {' | '.join(row[:-1])} → {row[-1]}")
    tell("")
    told = {"data": {"train": [str(table)]}, "train": {"max_steps": steps or STEPS[what]}}
    config = resolve(RECIPES[what], tree=merge(dict(TREES[what]), told))
    run(config, folder / "model", Reporter(), overwrite=True)
    report(folder / "model", held_out, asked)
    tell(f"\ntry: dragoman evaluate {folder / 'model'} {held_out}")
    tell(f"     dragoman predict {folder / 'model'} {held_out} --format jsonl   (where it looked)")


def report(model: Path, held_out: Path, asked: bool) -> None:
    """How often the model is right, and some of what it writes."""
    predictor = load(model)
    rows = list(read_table(held_out, count=3 if asked else 2, files=[0]))
    given = [row[:-1] for row in rows]
    written = [one.text for one in predictor.stream(given, predictor.options(beam=1), 64)]
    (score,) = compute(["exact"], written, [row[-1] for row in rows])
    tell(f"\nright to the letter on {len(rows):,} rows that it has never seen: {score.value:.1f} %")
    for row, text in list(zip(rows, written, strict=True))[:5]:
        sign = "✓" if text == row[-1] else f"✗ (it is: {row[-1]})"
        tell(f"    {' | '.join((Path(row[0]).name, *row[1:-1]))} → {text} {sign}")
