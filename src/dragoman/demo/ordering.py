"""Demonstrations of pointing: sort numbers, find hulls, plan tours, and say how well it went."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from dragoman import plots
from dragoman.config import resolve
from dragoman.data.rows import table_of
from dragoman.demo.orders import Pair, Sizes, pairs
from dragoman.demo.show import tell
from dragoman.metrics import compute
from dragoman.predict import Predictor, load
from dragoman.progress import Reporter
from dragoman.shards import write_lines
from dragoman.training import run

HELD_OUT = 1000
SMALL: Mapping[str, Any] = {
    "model": {
        "encoder": {"embedding": 64, "hidden": 64, "rounds": 2},
        "decoder": {"hidden": 64},
        "head": {"embedding": 64, "size": 64},
    },
    "train": {"lr": 0.003, "warmup": 100, "schedule": "cosine", "evaluate_every": 250},
}


class Task(NamedTuple):
    """What is learned, and what people are told."""

    title: str
    valid: str  # which orders answers are
    sizes: Sizes
    dimensions: int
    metrics: tuple[str, ...]  # those that are told, the first of them watched
    pairs: int
    steps: int


TASKS = {
    "sort": Task(
        "Sorting ten numbers",
        valid="each-once",
        sizes=Sizes(10, 10),
        dimensions=1,
        metrics=("exact",),
        pairs=20_000,
        steps=500,
    ),
    "hull": Task(
        "Finding convex hulls of five to ten points",
        valid="hull",
        sizes=Sizes(5, 10),
        dimensions=2,
        metrics=("hull", "hull-area"),
        pairs=60_000,
        steps=1500,
    ),
    "tsp": Task(
        "Planning tours of five cities",
        valid="tour",
        sizes=Sizes(5, 5),
        dimensions=2,
        metrics=("tour", "tour-valid", "exact"),
        pairs=60_000,
        steps=1000,
    ),
}


def show(name: str, folder: Path, count: int | None = None, steps: int | None = None) -> None:
    """Make a task, train, measure, draw."""
    task = TASKS[name]
    click.secho(f"{task.title}\n", bold=True)
    rows = list(pairs(name, (count or task.pairs) + HELD_OUT, task.sizes, seed=1))
    learn, held_out = rows[:-HELD_OUT], rows[-HELD_OUT:]
    tell(f"{len(learn):,} solved ones to learn from, {HELD_OUT:,} held out, such as")
    for numbers, order in learn[:3]:
        tell(f"    {numbers} → {order}")
    tell("")
    settings = [
        f"train.max_steps={steps or task.steps}",
        f"train.metric={task.metrics[0]}",
        f"data.dev_rows={min(500, len(learn) // 10)}",
        f"data.source.dimensions={task.dimensions}",
        f"search.valid={task.valid}",
    ]
    config = resolve("ptr-net-set", tree=dict(SMALL), settings=settings)
    run(config, folder, Reporter(), table=table_of(learn), overwrite=True)
    model = load(folder)
    report(model, task, held_out)
    draw(model, held_out[0][0], folder)
    tell(f"\nThe model stays in {folder}/:   echo '{held_out[0][0]}' | dragoman predict {folder}")


def report(model: Predictor, task: Task, held_out: list[Pair]) -> None:
    """How good it is on instances it has never seen, and some answers."""
    sources, wanted = (list(column) for column in zip(*held_out, strict=True))
    written = [p.text for p in model.stream(sources, None, 100)]
    scores = compute(task.metrics, written, wanted, sources)
    tell("")
    told = ", ".join(f"{score.name} {score.value:.2f} %" for score in scores)
    click.secho(f"On {len(wanted):,} held out: {told}", bold=True)
    for source, answer, right in list(zip(sources, written, wanted, strict=True))[:6]:
        (score,) = compute(task.metrics[:1], [answer], [right], [source])
        tell(f"    {'✓' if round(score.value, 3) == 100 else '✗'} {source} → {answer}")


def draw(model: Predictor, source: str, folder: Path) -> None:
    """Where the model pointed."""
    (answer,) = model.predict([source])
    if answer.alignment is None:
        return
    path = folder / "alignment.png"
    plots.alignment(answer.alignment, answer.source, answer.tokens, path)
    tell(f"\nWhere it pointed while it wrote “{answer.text}”: {path}")


def write(name: str, path: Path, count: int | None, size: str | None, seed: int) -> None:
    """A file of a task, with answers, to train on or to be examined with."""
    task = TASKS[name]
    sizes = Sizes.of(size) if size else task.sizes
    total = task.pairs if count is None else count
    write_lines(path, ("\t".join(pair) for pair in pairs(name, total, sizes, seed)))
    points = f"{sizes.least}" if sizes.least == sizes.most else f"{sizes.least} to {sizes.most}"
    tell(f"{path}: {total:,} rows of {points} points, seed {seed}")
