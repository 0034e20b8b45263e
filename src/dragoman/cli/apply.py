"""The verbs that use models: they read stdin or files and write lines to stdout."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from dragoman.cli.options import (
    MODEL,
    bad_line_option,
    delivery_options,
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
@delivery_options
def predict(model: Path, inputs: str, batch_size: int, device: str, **given: Any) -> None:
    """Answer each line of INPUTS (default: stdin) with one line on stdout."""
    from dragoman.inputs import known_columns
    from dragoman.memory import hold
    from dragoman.output import unanswered
    from dragoman.shards import Task

    hold()
    how = {name: given.pop(name) for name in ("jobs", "stream", "output", "shard", "engine")}
    helpers = {name: given.pop(name) for name in ("others", "lm", "dictionary", "precision")}
    columns, required, layout, on_bad = (
        given.pop(name) for name in ("column", "require_column", "layout", "on_bad_line")
    )
    if given["lm_weight"] is not None and helpers["lm"] is None:
        raise UserError("--lm-weight says how much a language model counts: name one with --lm")
    if helpers["dictionary"]:
        given["replace_unknown"] = True
    predictor = load(model, device, **helpers)
    if on_bad != "error":
        predictor.on_bad = unanswered
    # an option that is not given may be repeated, too: then it is an empty tuple
    options = predictor.options(**{name: v for name, v in given.items() if v != ()})
    columns = columns or known_columns(predictor, inputs)
    task = Task(model, inputs, columns, required, layout, options, helpers, on_bad)
    if how["stream"]:
        _write_along(predictor, task)
    elif how["shard"] or how["engine"] == "ray":
        _write_apart(predictor, task, how, device, batch_size)
    else:
        _write(predictor, task, how, device, batch_size)


def _write(predictor: Any, task: Any, how: dict[str, Any], device: str, batch_size: int) -> None:
    """All answers in one stream, to stdout or, whole or not at all, to a file."""
    from dragoman.output import FORMATS
    from dragoman.shards import write_lines

    if task.inputs == "-" and sys.stdin.isatty():
        batch_size = 1  # somebody is typing: answer each line at once
        click.echo("type a line to have it answered; Ctrl-D ends", err=True)
    asked = task.read(predictor)
    answers = predictor.stream(asked, task.options, batch_size)
    if how["jobs"] > 1 and batch_size > 1:
        from dragoman.jobs import Order, answered

        order = Order(task.model, device, task.helpers, task.options, batch_size, predictor.on_bad)
        answers = answered(order, asked, how["jobs"])
    lines = (FORMATS[task.layout](answer, place) for place, answer in enumerate(answers))
    if how["output"]:
        write_lines(how["output"], lines)
    else:
        for line in lines:
            click.echo(line)
    asked.complain(partial(click.echo, err=True))


def _write_apart(
    predictor: Any, task: Any, how: dict[str, Any], device: str, batch_size: int
) -> None:
    """Answers in pieces, by this process or by many."""
    from dragoman.shards import finished, parse_shard, write_shard

    if how["output"] is None or task.inputs == "-":
        raise UserError("--shard and --on ray need a file of inputs and an output: -o out.txt")
    if how["engine"] == "ray":
        from dragoman.rays import on_ray

        total = on_ray(task, how["output"], how["jobs"], device, batch_size)
        click.echo(f"{how['output']}: {total:,} inputs answered", err=True)
        asked = task.read(predictor)
        asked.total()  # the workers' own complaints are heard by nobody
        asked.complain(partial(click.echo, err=True))
        return
    shard = parse_shard(how["shard"])
    path = shard.path(how["output"])
    if finished(task, path, shard):
        click.echo(f"{path}: there already, skipped", err=True)
        return
    asked = write_shard(task, how["output"], shard, predictor, batch_size)
    asked.complain(partial(click.echo, err=True))


@click.command()
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--keep", is_flag=True, help="Leave the pieces where they are.")
def merge(output: Path, keep: bool) -> None:
    """Join the pieces that `predict --shard i/n -o OUTPUT` wrote, if they are all there."""
    from dragoman import shards

    total, pieces = shards.merge(output)
    if not keep:
        shards.remove(output)
    click.echo(f"{output}: {total:,} inputs answered, in {pieces} pieces", err=True)


def _write_along(predictor: Any, task: Any) -> None:
    """Text while it is written: with its own line breaks, for people and not for line counts."""
    from dragoman.streaming import refuse

    if task.layout != "text":
        raise UserError(f"--stream writes text alone: leave --format {task.layout} out")
    refuse(predictor.team, task.options)  # before anybody has typed a prompt
    asked = task.read(predictor)
    for place, prompt in enumerate(asked):
        for piece in predictor.generate(prompt, task.options, place):
            click.echo(piece, nl=False)
        click.echo()
    asked.complain(partial(click.echo, err=True))


@click.command()
@MODEL
@click.argument("data", nargs=-1)
@click.option("--format", "layout", type=click.Choice(["text", "jsonl"]), default="text")
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option(
    "--columns",
    help="Columns to read, by number or name; else those of training (of stdin, the first).",
)
@bad_line_option
@click.option(
    "--rank",
    is_flag=True,
    help="A line is a source (if there is one) and candidates, between tabs: best first.",
)
def score(
    model: Path, data: tuple[str, ...], layout: str, batch_size: int, device: str, **rest: Any
) -> None:
    """Log-probability of each given target, given its source (if there is one)."""
    from itertools import islice

    from dragoman.inputs import scored_rows
    from dragoman.output import score_json, score_text, unanswered

    predictor = load(model, device)
    if rest["on_bad_line"] != "error":
        predictor.on_bad = unanswered
    if rest["rank"] and rest["columns"]:
        raise UserError("--rank reads whole lines, a source and candidates: leave --columns out")
    if rest["rank"]:
        _rank(predictor, list(data) or ["-"], layout)
        return
    problems: dict[str, int] = {}
    rows = scored_rows(
        predictor,
        list(data) or ["-"],
        rest["columns"],
        rest["on_bad_line"],
        problems,
        partial(click.echo, err=True),
    )
    write = score_text if layout == "text" else score_json
    while chunk := list(islice(rows, batch_size * 16)):
        for scored in predictor.score(chunk, batch_size):
            click.echo(write(scored))
    for problem, times in problems.items():
        click.echo(f"dragoman: {times} lines: {problem} (taken as empty)", err=True)


def _rank(predictor: Any, data: list[str], layout: str) -> None:
    """One line a line: its candidates, the likeliest first, each with its log-probability."""
    from dragoman.data.rows import iter_inputs
    from dragoman.output import RANKINGS

    count = len(predictor.fields.sources)
    for row in iter_inputs(data, format="lines"):
        texts = row.values[0].split("\t")
        source = (*texts[:count], *[""] * (count - len(texts)))
        candidates = [text for text in texts[count:] if text.strip()]
        click.echo(RANKINGS[layout](predictor.rank(candidates, source)))
