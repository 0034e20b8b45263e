"""The verb that makes models."""

import os
from pathlib import Path
from typing import Any

import click

from dragoman.cli.options import data_tree
from dragoman.errors import UserError


@click.command()
@click.argument("data", nargs=-1)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the model.")
@click.option(
    "--dev", multiple=True, help="Dev file (twice for parallel files); else rows are cut off."
)
@click.option(
    "--also",
    multiple=True,
    metavar="FILES[=WEIGHT]",
    help="Mix further files in (a.de,a.en: parallel), WEIGHT times an epoch; may be repeated.",
)
@click.option("-r", "--recipe", help="Name of a recipe; see `dragoman recipes`.")
@click.option("-c", "--config", type=click.Path(path_type=Path), help="YAML file with settings.")
@click.option(
    "-s",
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="e.g. model.attention.score=dot",
)
@click.option(
    "--format", "layout", help="auto, tsv, csv, jsonl, parquet, parallel, lines or running."
)
@click.option("--columns", help="Columns to read, by number or name: 1,3 or word,sound.")
@click.option(
    "--on-bad-line", type=click.Choice(["error", "skip"]), help="What to do with a bad row."
)
@click.option(
    "--kernel",
    type=click.Choice(["auto", "reference", "torch", "native", "triton"]),
    help="Who computes the recurrence; auto is the fastest that can.",
)
@click.option(
    "--auto-batch", is_flag=True, help="Where memory runs out, read batches in smaller parts."
)
@click.option("--resume", is_flag=True, help="Go on with the run in the output folder.")
@click.option("--overwrite", is_flag=True, help="Start anew in a folder that is not empty.")
@click.option("--print-config", is_flag=True, help="Show the resulting config and stop.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def train(
    data: tuple[str, ...], output: Path | None, recipe: str | None, config: Path | None, **rest: Any
) -> None:
    """Train a model on DATA: a file of pairs, or two parallel files; - is stdin."""
    from functools import reduce

    from dragoman.config import assign, dump, resolve
    from dragoman.guess import guess
    from dragoman.memory import hold
    from dragoman.progress import Reporter
    from dragoman.training import begun, run

    settings, tree = rest["settings"], data_tree(data, rest)
    if rest["also"]:
        tree["data"]["also"] = [_corpus(told) for told in rest["also"]]
    settings += (f"train.kernel={rest['kernel']}",) if rest["kernel"] else ()
    settings += ("train.auto_batch=true",) if rest["auto_batch"] else ()
    changes = reduce(assign, settings, tree)
    resumed = rest["resume"] and not data
    reporter, found = Reporter(rest["quiet"] or _follows()), None
    if not (recipe or config or resumed):  # `--resume` begins where nothing has begun
        found = guess(changes)
        recipe, tree = found.recipe, _with_columns(tree, found.columns)
    settled = None if resumed else resolve(recipe, config, settings, tree)
    if rest["print_config"] and settled:
        click.echo(dump(settled), nl=False)
        return
    if output is None:
        raise UserError("name a folder for the model: -o model/")
    if settled and found:
        _refuse_prose(data, settled)
        if found.why and not rest["resume"]:
            reporter.say(found.told())
    if rest["print_config"] and (past := begun(output, changes)):
        click.echo(dump(past.config), nl=False)
        return
    hold()
    how = {name: rest[name] for name in ("resume", "overwrite")}
    run(settled, output, reporter, changes=changes, **how)
    reporter.say(f"done: {output}   try: dragoman predict {output}")


def _with_columns(tree: dict[str, Any], columns: tuple[int | str, ...] | None) -> dict[str, Any]:
    """A new tree, for `changes` must not have them: a run that is resumed has its own."""
    return tree | {"data": tree["data"] | {"columns": list(columns)}} if columns else tree


def _follows() -> bool:
    """Whether this is one of several processes, of which the first tells enough."""
    from dragoman.crew import places

    return places(os.environ).get("RANK", "0") != "0"


def _corpus(told: str) -> dict[str, Any]:
    """A further corpus: its files and, behind the last `=`, its weight.

    >>> _corpus("more.tsv=0.5"), _corpus("a.de,a.en")
    ({'files': ['more.tsv'], 'weight': 0.5}, {'files': ['a.de', 'a.en']})
    """
    files, _, weight = told.rpartition("=")
    try:
        return {"files": files.split(","), "weight": float(weight)} if files else _plain(told)
    except ValueError:
        return _plain(told)


def _plain(told: str) -> dict[str, Any]:
    return {"files": told.split(",")}


def _refuse_prose(data: tuple[str, ...], config: Any) -> None:
    """Whoever gives a plain text where pairs are wanted means a language model."""
    from dragoman.data.rows import iter_inputs

    plain = config.data.format == "auto" and config.data.columns is None and config.reads_source
    if not plain or len(data) != 1 or not data[0].lower().removesuffix(".gz").endswith(".txt"):
        return
    first = next(iter_inputs([data[0]], format="lines"), None)
    if first is not None and "\t" not in first.values[0]:
        raise UserError(
            f"{data[0]}:1: no tab: pairs are a source, a tab and a target; "
            "for a language model of running text add -r lstm-lm"
        )
