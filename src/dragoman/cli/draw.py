"""The verb that draws: one kind of picture each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dragoman.cli.options import MODEL, data_tree, load
from dragoman.errors import UserError

FOLDERS = click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))


def output(name: str) -> Callable[..., Any]:
    """Where a picture goes; its suffix (.png, .svg, .pdf) is its format."""
    kind = click.Path(path_type=Path)
    return click.option("-o", "--output", type=kind, default=name, show_default=True)


class Pictures(click.Group):
    """Kinds of pictures; without one, where a model looked: `dragoman plot model/ TEXT`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["attention", *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=Pictures)
def plot() -> None:
    """Draw what models do, for papers and talks: PNG, SVG or PDF.

    \b
    dragoman plot model/ "ein Haus"              where the model looked
    dragoman plot captions/ photo.jpg            the same over a picture, a sound, a clip
    dragoman plot tours/ "0.1 0.9 0.4 0.2 ..."   the way through points
    dragoman plot curves run1/ run2/             how they learned
    dragoman plot lengths a/ b/ --data test.tsv  quality against source length
    """


@plot.command()
@MODEL
@click.argument("texts", nargs=-1)
@click.option("--file", "path", help="Inputs from a file, one a line.")
@output("alignment.png")
@click.option("--style", type=click.Choice(["heat", "edges"]), default="heat", show_default=True)
@click.option("--beam", type=int)
def attention(
    model: Path,
    texts: tuple[str, ...],
    path: str | None,
    output: Path,
    style: str,
    beam: int | None,
) -> None:
    """Draw where MODEL looked while it wrote its answers to TEXTS; several get numbered files.

    A TEXT is whatever the model reads: a sentence, the name of a picture, a sound or a clip, or the
    coordinates of points. Of several columns, put tabs between them.
    """
    from dragoman.plots.looks import look

    predictor = load(model)
    inputs = [*texts, *(_lines(path) if path else [])]
    if not inputs:
        raise UserError("nothing to draw: name a text, or a --file of texts")
    columns = [tuple(text.split("\t")) for text in inputs]
    found = predictor.predict(columns, predictor.options(beam=beam))
    for number, (asked, one) in enumerate(zip(columns, found, strict=True), 1):
        place = output if len(found) == 1 else output.with_stem(f"{output.stem}-{number}")
        look(predictor, asked, one, place, style)
        click.echo(one.text)
        click.echo(f"drawn: {place}", err=True)


@plot.command()
@FOLDERS
@output("curves.png")
@click.option("--metric", help="Drawn beside the loss: bleu, cer, exact ...")
def curves(models: tuple[Path, ...], output: Path, metric: str | None) -> None:
    """Draw the learning curves of MODELS, trained or in training."""
    from dragoman.plots import learning
    from dragoman.serve.runs import curves as history

    learning({_name(model, models): history(model) for model in models}, output, metric)
    click.echo(f"drawn: {output}", err=True)


@plot.command()
@FOLDERS
@click.option("--data", multiple=True, required=True, help="A test file; or parallel files.")
@output("lengths.png")
@click.option("--metric", default=None, help="bleu, chrf, exact, cer ...")
@click.option("--columns", help="Columns to read, by number or name.")
@click.option("--beam", type=int)
@click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True)
def lengths(models: tuple[Path, ...], data: tuple[str, ...], output: Path, **given: Any) -> None:
    """Draw how good MODELS are on sources of different length."""
    from dragoman.evaluate import read_exam, split
    from dragoman.plots.curves import TITLES
    from dragoman.plots.lengths import Bucket, by_length

    first = load(models[0])
    names = [given["metric"]] if given["metric"] else []
    exam = read_exam(first, _data(data, given["columns"]), names)
    parts, systems, shown = split("length", exam, first), {}, ""
    for model in models:
        search = {"beam": given["beam"]}
        judged = exam.of_model(str(model), load(model), search, given["batch_size"])
        row = []
        for part in parts:
            score = judged.scores(part.items)[len(exam.names) - 1]
            low, high = score.interval or (score.value, score.value)
            row.append(Bucket(part.name, len(part.items), score.value, low, high))
            shown = TITLES.get(exam.names[-1], score.name)
        systems[_name(model, models)] = row
    reader = first.fields.source
    unit = getattr(reader.spec, "units", "symbol") if reader else "symbol"
    by_length(systems, shown, output, f"{unit}s".replace("chars", "characters"))
    click.echo(f"drawn: {output}", err=True)


@plot.command("map")
@MODEL
@click.argument("texts", nargs=-1)
@click.option("--file", "path", help="Sentences from a file, one a line; a second column groups.")
@output("map.png")
def map_(model: Path, texts: tuple[str, ...], path: str | None, output: Path) -> None:
    """Draw TEXTS as points: what MODEL's encoder makes of each, in two dimensions (PCA)."""
    from dragoman.plots import sentence_map
    from dragoman.summaries import summaries

    predictor = load(model)
    count = max(len(predictor.fields.sources), 1)
    rows = [line.split("\t") for line in [*texts, *(_lines(path) if path else [])]]
    groups = [row[count] for row in rows] if all(len(row) > count for row in rows) else None
    inputs = [tuple(row[:count]) for row in rows]
    names = [" | ".join(row) for row in inputs]
    title = f"Sentence summaries of {model.resolve().name}"
    sentence_map(summaries(predictor, inputs), names, output, groups, title)
    click.echo(f"drawn: {output}", err=True)


@plot.command()
@MODEL
@click.argument("data", nargs=-1, required=True)
@output("confusion.png")
@click.option("--columns", help="Columns to read, by number or name.")
def confusion(model: Path, data: tuple[str, ...], output: Path, columns: str | None) -> None:
    """Draw which labels MODEL takes for which, on DATA."""
    from dragoman import metrics, plots
    from dragoman.evaluate import read_exam

    predictor = load(model)
    exam = read_exam(predictor, _data(data, columns), ["accuracy"], group=False)
    judged = exam.of_model(str(model), predictor, {})
    wanted = [exam.labels(several) for several in exam.wanted]
    found = metrics.confusion(exam.labels(judged.written), wanted)
    title = f"What {model.resolve().name} takes for what"
    plots.confusion(found.counts, [str(label) for label in found.labels], output, title)
    click.echo(f"drawn: {output}", err=True)


def _data(paths: tuple[str, ...], columns: str | None) -> dict[str, Any]:
    rest = {"dev": (), "layout": None, "columns": columns, "on_bad_line": None}
    tree: dict[str, Any] = data_tree(paths, rest)["data"]
    return tree


def _name(model: Path, models: tuple[Path, ...]) -> str:
    """A model's folder; where two have the same name, its path."""
    same = sum(other.resolve().name == model.resolve().name for other in models)
    return model.resolve().name if same == 1 else str(model)


def _lines(path: str) -> list[str]:
    try:
        return [line for line in Path(path).read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
