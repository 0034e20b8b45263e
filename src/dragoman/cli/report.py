"""The verb that writes one page about a model."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from dragoman.cli.options import MODEL, data_tree, load
from dragoman.errors import UserError


@click.command()
@MODEL
@click.argument("data", nargs=-1, required=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default="report.html", show_default=True
)
@click.option("--metric", "metrics", multiple=True, help="As of evaluate; the first is drawn.")
@click.option(
    "--sizes",
    metavar="SHARES",
    help="Also train on shares of the data, 0.25,0.5,1 say: would more data help?",
)
@click.option("--columns", help="Columns to read, by number or name.")
@click.option("--device", default="cpu", show_default=True)
def report(
    model: Path,
    data: tuple[str, ...],
    output: Path,
    metrics: tuple[str, ...],
    sizes: str | None,
    columns: str | None,
    device: str,
) -> None:
    """Write one HTML page on how MODEL does on DATA: figures, curves, what it gets wrong."""
    from dragoman.report import investigate, read_history
    from dragoman.report.page import page

    shares, predictor = _shares(sizes), load(model, device)
    if shares:
        _compare(model, predictor)
    rest = {"dev": (), "layout": None, "columns": columns, "on_bad_line": "error"}
    findings = investigate(
        predictor,
        model.resolve().name,
        data_tree(data, rest)["data"],
        history=read_history(model),
        metrics=metrics,
        sizes=shares,
        say=partial(click.echo, err=True),
    )
    output.write_text(page(findings), "utf-8")
    click.echo(f"written: {output}", err=True)


def _compare(model: Path, predictor: Any) -> None:
    """Shares are of what the model learned from: its files may be others by now."""
    from dragoman.corpus import load_corpus, mark
    from dragoman.snapshots import load_snapshot

    past = load_snapshot(model)
    known, config = past.progress.get("data") if past else None, predictor.config
    if known and not config.data.store:
        found = mark(load_corpus(config, predictor.fields, lambda line: None))
        if found != known:
            files = " and ".join([*config.data.train, *config.data.dev])
            raise UserError(
                f"--sizes: {files}: not the rows that {model} learned from; go where they are"
            )


def _shares(sizes: str | None) -> list[float]:
    try:
        return [float(part) for part in (sizes or "").split(",") if part.strip()]
    except ValueError:
        raise UserError(f"--sizes {sizes}: write shares as 0.25,0.5,1") from None
