"""The demo: learn to read dates in many languages, say how well it went, and answer the user."""

import sys
from pathlib import Path

import click

from dragoman import plots
from dragoman.config import resolve
from dragoman.data.rows import table_of
from dragoman.demo import dates
from dragoman.metrics import exact
from dragoman.predict import Predictor, load
from dragoman.progress import Reporter
from dragoman.training import run

HELD_OUT = 1000
TREE = {
    "model": {
        "encoder": {"cell": "gru", "embedding": 64, "hidden": 96, "dropout": 0.0},
        "attention": {"size": 96},
        "decoder": {"cell": "gru", "hidden": 128, "dropout": 0.0, "readout_size": 64},
        "head": {"embedding": 64},
    },
    "train": {
        "batch_tokens": 2048,
        "lr": 0.004,
        "label_smoothing": 0.0,
        "schedule": "cosine",
        "warmup": 50,
        "evaluate_every": 100,
        "metric": "exact",
    },
}


def show(folder: Path, pairs: int | None = None, steps: int = 1000) -> None:
    """Train, measure, draw, and parse what the user types."""
    click.secho(f"Reading dates in {dates.LANGUAGES} languages\n", bold=True)
    rows = dates.pairs((pairs or 40_000) + HELD_OUT, seed=1)
    learn, held_out = dates.split(rows, HELD_OUT, seed=1)
    tell(
        f"{len(learn):,} pairs to learn from, {len(held_out):,} held out, drawn from CLDR, such as"
    )
    for text, iso in learn[:3]:
        tell(f"    {text} → {iso}")
    tell("")
    settings = [f"train.max_steps={steps}", f"data.dev_rows={min(500, len(learn) // 10)}"]
    config = resolve("transduce", tree=TREE, settings=settings)
    run(config, folder, Reporter(), table=table_of(learn), overwrite=True)
    model = load(folder)
    report(model, held_out)
    draw(model, folder)
    converse(model, folder)


def report(model: Predictor, held_out: list[dates.Pair]) -> None:
    """Accuracy on dates that the model has never seen in any language, and some answers."""
    options = model.options(beam=1)
    written = [p.text for p in model.stream([text for text, _ in held_out], options, 64)]
    accuracy = exact(written, [iso for _, iso in held_out]).value
    tell("")
    click.secho(f"Held-out accuracy: {accuracy:.1f} % of {len(held_out):,} dates", bold=True)
    for text, iso in dates.examples():
        (answer,) = model.predict([text], options)
        tell(f"    {'✓' if answer.text == iso else '✗'} {text} → {answer.text}")


def draw(model: Predictor, folder: Path) -> None:
    """Where the model looked while it read one date."""
    (answer,) = model.predict([dates.examples()[0][0]], model.options(beam=1))
    if answer.alignment is None:
        return
    path = folder / "alignment.png"
    plots.alignment(answer.alignment, answer.source, answer.tokens, path)
    tell(f"\nWhere it looked while it wrote “{answer.text}”: {path}")


def converse(model: Predictor, folder: Path) -> None:
    """Parse lines typed by the user, or piped in."""
    live = sys.stdin.isatty()
    if live:
        tell("\nType a date in any of these languages (an empty line ends):")
    for line in sys.stdin:
        if not line.strip() and live:
            break
        (answer,) = model.predict([line.strip()])
        tell(f"    {line.strip()} → {answer.text}")
    command = sys.argv[0] if Path(sys.argv[0]).name == "dragoman" else "dragoman"
    tell(f"\nThe model stays in {folder}/:   echo '5 November 2024' | {command} predict {folder}")


def tell(line: str) -> None:
    """A line of the show, in its turn: progress goes to stderr, which is not buffered."""
    click.echo(line)
    sys.stdout.flush()
