"""Demonstrations for the ear and the eye: make sounds or clips, learn to write what happens in
them, say how well it went.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from dragoman.config import resolve
from dragoman.demo import clips, speech
from dragoman.demo.media import Pair, manifest
from dragoman.demo.show import tell
from dragoman.metrics import exact, wer
from dragoman.plots.looks import look
from dragoman.predict import Predictor, load
from dragoman.progress import Reporter
from dragoman.training import run

HELD_OUT = 200


class Show(NamedTuple):
    """What is made, what learns from it, and what people are told."""

    title: str
    write: Callable[[Path, int, int], list[Pair]]  # (folder, count, seed)
    recipe: str
    tree: Mapping[str, Any]
    pairs: int
    steps: int


SPEECH = Show(
    "Listening to numbers" if speech.can_speak() else "Listening to melodies",
    speech.write,
    "las-small",
    {
        "data": {"target": {"units": "word"}},
        "model": {"encoder": {"hidden": 64, "dropout": 0.0}, "decoder": {"dropout": 0.0}},
        "train": {"metric": "wer", "evaluate_every": 200, "batch_size": 16},
    },
    pairs=1200,
    steps=1000,
)
CLIPS = Show(
    "Watching shapes move",
    clips.write,
    "video-attend",
    {
        "data": {"source": {"frames": 8, "height": clips.SIDE, "width": clips.SIDE}},
        "model": {
            "encoder": {"hidden": 32, "dropout": 0.0, "frame": {"widths": [16, 32], "hidden": 64}},
            "attention": {"size": 64},
            "decoder": {"hidden": 128, "dropout": 0.0},
            "head": {"embedding": 64},
        },
        "train": {"lr": 0.002, "schedule": "cosine", "warmup": 50, "batch_size": 16}
        | {"metric": "exact", "evaluate_every": 200},
    },
    pairs=1500,
    steps=800,
)


def show(task: Show, folder: Path, pairs: int | None = None, steps: int | None = None) -> None:
    """Make the data, train, measure, draw."""
    click.secho(f"{task.title}\n", bold=True)
    data = folder / "data"
    rows = task.write(data, (pairs or task.pairs) + HELD_OUT, 1)
    learn, held_out = rows[:-HELD_OUT], rows[-HELD_OUT:]
    train, test = manifest(data / "train.tsv", learn), manifest(data / "test.tsv", held_out)
    tell(f"{len(learn):,} pairs to learn from, {HELD_OUT} held out, in {data}, such as")
    for name, said in learn[:3]:
        tell(f"    {name} → {said}")
    tell("")
    settings = [f"train.max_steps={steps or task.steps}", f"data.train=['{train}']"]
    config = resolve(task.recipe, tree=dict(task.tree), settings=settings)
    run(config, folder, Reporter(), overwrite=True)
    model = load(folder)
    report(model, [(str(data / name), said) for name, said in held_out])
    draw(model, str(data / max(held_out, key=lambda pair: len(pair[1]))[0]), folder)
    tell(f"\nThe model stays in {folder}/:   dragoman evaluate {folder} {test}")


def report(model: Predictor, held_out: list[Pair]) -> None:
    """How good it is on what it has never heard or seen, and some answers."""
    options = model.options(beam=1)
    written = [p.text for p in model.stream([name for name, _ in held_out], options, 32)]
    wanted = [said for _, said in held_out]
    right, wrong = exact(written, wanted).value, wer(written, wanted).value
    tell("")
    click.secho(
        f"Held out: {right:.1f} % of {len(wanted)} exactly right, word error rate {wrong:.1f} %",
        bold=True,
    )
    for (name, said), answer in list(zip(held_out, written, strict=True))[:6]:
        tell(f"    {'✓' if answer == said else '✗'} {Path(name).name} → {answer}")


def draw(model: Predictor, name: str, folder: Path) -> None:
    """Where the model listened or looked while it wrote."""
    (answer,) = model.predict([name], model.options(beam=1))
    if answer.alignment is None or not answer.tokens:
        return
    path = folder / "alignment.png"
    look(model, (name,), answer, path)
    tell(f"\nWhere it looked while it wrote “{answer.text}”: {path}")
