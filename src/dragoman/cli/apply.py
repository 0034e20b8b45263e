"""The verbs that use models: they read stdin or files and write lines to stdout."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from dragoman.cli.options import MODEL, data_tree, load, search_options
from dragoman.errors import UserError


@click.command()
@MODEL
@click.argument("inputs", default="-")
@search_options
@click.option("--n-best", type=int, help="Answers per input.")
@click.option(
    "--format", "layout", type=click.Choice(["text", "jsonl", "nbest", "pharaoh"]), default="text"
)
@click.option("--column", help="Read this column of a tsv, csv or jsonl file, by number or name.")
@click.option("--sample", is_flag=True, default=None, help="Draw answers at random.")
@click.option("--temperature", type=float)
@click.option("--top-k", type=int)
@click.option("--top-p", type=float)
@click.option("--seed", type=int, help="Of the draw.")
def predict(
    model: Path,
    inputs: str,
    batch_size: int,
    device: str,
    layout: str,
    column: str | None,
    **search: Any,
) -> None:
    """Answer each line of INPUTS (default: stdin) with one line on stdout."""
    from dragoman.output import FORMATS

    predictor = load(model, device)
    options, write = predictor.options(**search), FORMATS[layout]
    lines = _lines(inputs, column)
    if inputs == "-" and sys.stdin.isatty():
        batch_size = 1  # somebody is typing: answer each line at once
    for place, prediction in enumerate(predictor.stream(lines, options, batch_size)):
        click.echo(write(prediction, place))


def _lines(path: str, column: str | None) -> Iterator[str]:
    from dragoman.data.rows import iter_inputs

    columns = None if column is None else [int(column) if column.isdigit() else column]
    layout: Any = "lines" if column is None else "auto"
    return (row[0] for row in iter_inputs([path], format=layout, columns=columns, count=1))


@click.command()
@MODEL
@click.argument("data", nargs=-1)
@click.option("--format", "layout", type=click.Choice(["text", "jsonl"]), default="text")
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True)
@click.option("--device", default="cpu", show_default=True)
def score(model: Path, data: tuple[str, ...], layout: str, batch_size: int, device: str) -> None:
    """Log-probability of each given target, given its source (if there is one)."""
    from itertools import islice

    from dragoman.data.rows import iter_inputs
    from dragoman.output import score_json, score_text

    predictor = load(model, device)
    count = 2 if predictor.fields.source else 1
    rows = iter_inputs(list(data) or ["-"], format="auto" if count == 2 else "lines", count=count)
    write = score_text if layout == "text" else score_json
    while chunk := [(row[0], row[-1]) for row in islice(rows, batch_size * 16)]:
        for scored in predictor.score(chunk, batch_size):
            click.echo(write(scored))


@click.command()
@MODEL
@click.argument("data", nargs=-1, required=True)
@search_options
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="exact, cer, wer, per, bleu, chrf ...; else what fits.",
)
@click.option("--columns", help="Columns to read, by number or name.")
@click.option(
    "--on-bad-line", type=click.Choice(["error", "skip"]), default="error", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def evaluate(
    model: Path,
    data: tuple[str, ...],
    batch_size: int,
    device: str,
    metrics: tuple[str, ...],
    as_json: bool,
    **rest: Any,
) -> None:
    """How good the model is on DATA, judged by what it writes by itself."""
    import json

    from dragoman.evaluate import evaluate_files

    predictor = load(model, device)
    table = data_tree(data, rest | {"dev": (), "layout": None})["data"]
    search = {key: rest[key] for key in ("beam", "max_length", "min_length", "normalize")}
    tell = partial(click.echo, err=True)
    scores = evaluate_files(predictor, table, search, list(metrics), batch_size, tell)
    if as_json:
        click.echo(json.dumps({score.name: round(score.value, 4) for score in scores}))
        return
    for score in scores:
        click.echo(
            f"{score.name:<12} {score.value:10.3f}"
            + (f"   {score.signature}" if score.signature else "")
        )


@click.command()
@MODEL
@click.argument("text")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="alignment.png", show_default=True
)
@click.option("--style", type=click.Choice(["heat", "edges"]), default="heat", show_default=True)
@click.option("--beam", type=int)
def plot(model: Path, text: str, output: Path, style: str, beam: int | None) -> None:
    """Draw where the model looked while it wrote its answer to TEXT."""
    from dragoman import plots

    predictor = load(model)
    (prediction,) = predictor.predict([text], predictor.options(beam=beam))
    if prediction.alignment is None:
        why = "this model has no attention" if text.strip() else "the text is blank"
        raise UserError(f"{model}: there is nothing to draw: {why}")
    plots.alignment(prediction.alignment, prediction.source, prediction.tokens, output, style=style)  # type: ignore[arg-type]
    click.echo(f"{prediction.text}", err=False)
    click.echo(f"drawn: {output}", err=True)
