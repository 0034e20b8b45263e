"""The verbs that use models: they read stdin or files and write lines to stdout."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from dragoman.cli.options import (
    MODEL,
    helper_options,
    load,
    rule_options,
    search_options,
    speed_options,
)
from dragoman.errors import UserError


@click.command()
@MODEL
@click.argument("inputs", default="-")
@search_options
@click.option("--n-best", type=int, help="Answers per input.")
@click.option(
    "--format", "layout", type=click.Choice(["text", "jsonl", "nbest", "pharaoh"]), default="text"
)
@click.option(
    "--column",
    help="Read this column of a tsv, csv or jsonl file, by number or name; a,b: several.",
)
@click.option("--sample", is_flag=True, default=None, help="Draw answers at random.")
@click.option("--temperature", type=float)
@click.option("--top-k", type=int)
@click.option("--top-p", type=float)
@click.option("--seed", type=int, help="Of the draw.")
@click.option("--stream", is_flag=True, help="Print text as it is written (--beam 1 or --sample).")
@rule_options
@click.option(
    "--require-column",
    metavar="COLUMN",
    help="A column of phrases that the row's answer contains, with ' ||| ' between them.",
)
@helper_options
@speed_options
def predict(
    model: Path, inputs: str, batch_size: int, device: str, layout: str, stream: bool, **given: Any
) -> None:
    """Answer each line of INPUTS (default: stdin) with one line on stdout."""
    from dragoman.output import FORMATS

    jobs = given.pop("jobs")
    helpers = {name: given.pop(name) for name in ("others", "lm", "dictionary", "precision")}
    columns, required = given.pop("column"), given.pop("require_column")
    if given["lm_weight"] is not None and helpers["lm"] is None:
        raise UserError("--lm-weight says how much a language model counts: name one with --lm")
    if helpers["dictionary"]:
        given["replace_unknown"] = True
    predictor = load(model, device, **helpers)
    asked = _asked(
        inputs, columns or _known(predictor, inputs), required, len(predictor.fields.sources)
    )
    # an option that is not given may be repeated, too: then it is an empty tuple
    options = predictor.options(**{name: v for name, v in given.items() if v != ()})
    if stream:
        _write_along(predictor, asked, options, layout)
        return
    if inputs == "-" and sys.stdin.isatty():
        batch_size = 1  # somebody is typing: answer each line at once
    answers = predictor.stream(asked, options, batch_size)
    if jobs > 1 and batch_size > 1:
        from dragoman.jobs import Order, answered

        answers = answered(Order(model, device, helpers, options, batch_size), asked, jobs)
    for place, prediction in enumerate(answers):
        click.echo(FORMATS[layout](prediction, place))


def _write_along(predictor: Any, prompts: Iterator[Any], options: Any, layout: str) -> None:
    """Text while it is written: with its own line breaks, for people and not for line counts."""
    from dragoman.streaming import refuse

    if layout != "text":
        raise UserError(f"--stream writes text alone: leave --format {layout} out")
    refuse(predictor.team, options)  # before anybody has typed a prompt
    for place, prompt in enumerate(prompts):
        for piece in predictor.generate(prompt, options, place):
            click.echo(piece, nl=False)
        click.echo()


def _known(predictor: Any, path: str) -> str | None:
    """The source columns of a table, as the model was trained on them; lines have none."""
    if Path(path.removesuffix(".gz")).suffix not in (".tsv", ".csv", ".jsonl"):
        return None
    count = max(len(predictor.fields.sources), 1)
    trained = predictor.config.data.columns or range(1, count + 1)
    return ",".join(str(column) for column in trained[:count])


def _asked(path: str, columns: str | None, required: str | None, count: int) -> Iterator[Any]:
    """The inputs of a file: `count` columns of source, and perhaps one of required phrases."""
    from dragoman.data.rows import iter_inputs
    from dragoman.decode import Asked

    count = max(count, 1)
    chosen: list[int | str] = list(range(1, count + 1))
    if columns is not None:
        chosen = [int(c) if c.isdigit() else c for c in columns.split(",")]
    if required is not None:
        chosen.append(int(required) if required.isdigit() else required)
    plain = columns is None and required is None and count == 1
    layout: Any = "lines" if plain else "auto"
    wanted = None if plain else chosen
    warned = count == 1
    for line, row in enumerate(
        iter_inputs([path], format=layout, columns=wanted, count=len(chosen)), 1
    ):
        if not warned and any(row[:count]) and not all(row[:count]):
            click.echo(
                f"dragoman: line {line}: this model reads {count} columns, tabs between them; "
                "what is missing is taken as empty",
                err=True,
            )
            warned = True
        phrases = row[-1].split(" ||| ") if required is not None else ()
        texts = row[:-1] if required is not None else row
        yield Asked(tuple(texts), tuple(phrase for phrase in phrases if phrase.strip()))


@click.command()
@MODEL
@click.argument("data", nargs=-1)
@click.option("--format", "layout", type=click.Choice(["text", "jsonl"]), default="text")
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option(
    "--rank",
    is_flag=True,
    help="A line is a source (if there is one) and candidates, between tabs: best first.",
)
def score(
    model: Path, data: tuple[str, ...], layout: str, batch_size: int, device: str, rank: bool
) -> None:
    """Log-probability of each given target, given its source (if there is one)."""
    from itertools import islice

    from dragoman.data.rows import iter_inputs
    from dragoman.output import score_json, score_text

    predictor = load(model, device)
    if rank:
        _rank(predictor, list(data) or ["-"], layout)
        return
    count = len(predictor.fields.sources) + 1
    rows = iter_inputs(list(data) or ["-"], format="auto" if count > 1 else "lines", count=count)
    write = score_text if layout == "text" else score_json
    while chunk := list(islice(rows, batch_size * 16)):
        for scored in predictor.score(chunk, batch_size):
            click.echo(write(scored))


def _rank(predictor: Any, data: list[str], layout: str) -> None:
    """One line a line: its candidates, the likeliest first, each with its log-probability."""
    from dragoman.data.rows import iter_inputs
    from dragoman.output import RANKINGS

    count = len(predictor.fields.sources)
    for (line,) in iter_inputs(data, format="lines"):
        texts = line.split("\t")
        source = (*texts[:count], *[""] * (count - len(texts)))
        candidates = [text for text in texts[count:] if text.strip()]
        click.echo(RANKINGS[layout](predictor.rank(candidates, source)))
