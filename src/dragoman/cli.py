"""The command line: verbs that read stdin and write stdout, one line in, one line out.

Rooms are imported inside the verbs: `dragoman --help` must not wait for torch.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

import click

from dragoman import __version__
from dragoman.errors import DragomanError, UserError

MODEL = click.argument("model", type=click.Path(path_type=Path))


class Verbs(click.Group):
    """All verbs, in the order in which people need them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="dragoman")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Give it pairs, get a model: recurrent encoder-decoders with attention.

    \b
    dragoman train pairs.tsv -o model/      learn from tab-separated pairs
    dragoman predict model/ < inputs.txt    one line in, one line out
    dragoman evaluate model/ test.tsv       how good is it?
    """


def _search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every verb that decodes."""
    for option in reversed(
        [
            click.option("--beam", type=int, help="Paths kept alive side by side; 1 is greedy."),
            click.option("--max-length", type=int, help="Longest answer, in tokens."),
            click.option("--min-length", type=int, help="Shortest answer, in tokens."),
            click.option(
                "--normalize", type=float, help="Paths compare by log p / length^NORMALIZE."
            ),
            click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True),
            click.option(
                "--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, auto."
            ),
        ]
    ):
        command = option(command)
    return command


def _load(model: Path, device: str = "cpu") -> Any:
    from dragoman.predict import load
    from dragoman.trainer import pick_device

    return load(model, str(pick_device(device)))


@cli.command()
@click.argument("data", nargs=-1)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the model.")
@click.option(
    "--dev", multiple=True, help="Dev file (twice for parallel files); else rows are cut off."
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
@click.option("--format", "layout", help="auto, tsv, csv, jsonl, parallel, lines or running.")
@click.option("--columns", help="Columns to read, by number or name: 1,3 or word,sound.")
@click.option(
    "--on-bad-line", type=click.Choice(["error", "skip"]), help="What to do with a bad row."
)
@click.option("--resume", is_flag=True, help="Go on with the run in the output folder.")
@click.option("--overwrite", is_flag=True, help="Start anew in a folder that is not empty.")
@click.option("--print-config", is_flag=True, help="Show the resulting config and stop.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def train(
    data: tuple[str, ...], output: Path | None, recipe: str | None, config: Path | None, **rest: Any
) -> None:
    """Train a model on DATA: a file of pairs, or two parallel files; - is stdin."""
    from dragoman.config import dump, resolve
    from dragoman.progress import Reporter
    from dragoman.train import run

    settings = rest["settings"]
    resumed = rest["resume"] and not data
    settled = None if resumed else resolve(recipe, config, settings, _data_tree(data, rest))
    if rest["print_config"] and settled:
        click.echo(dump(settled), nl=False)
        return
    if output is None:
        raise UserError("name a folder for the model: -o model/")
    reporter = Reporter(rest["quiet"])
    run(
        settled,
        output,
        reporter,
        settings=settings,
        resume=rest["resume"],
        overwrite=rest["overwrite"],
    )
    reporter.say(f"done: {output}   try: dragoman predict {output}")


def _data_tree(data: tuple[str, ...], rest: dict[str, Any]) -> dict[str, Any]:
    """What the command line says of the data, as part of a config."""
    columns = rest["columns"]
    parts = (
        [int(part) if part.isdigit() else part for part in columns.split(",")] if columns else None
    )
    tree = {
        "train": list(data) or None,
        "dev": list(rest["dev"]) or None,
        "format": rest["layout"],
        "columns": parts,
        "on_bad_line": rest["on_bad_line"],
    }
    return {"data": {key: value for key, value in tree.items() if value is not None}}


@cli.command()
@MODEL
@click.argument("inputs", default="-")
@_search_options
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

    predictor = _load(model, device)
    options, write = predictor.options(**search), FORMATS[layout]
    lines = _lines(inputs, column)
    if inputs == "-" and sys.stdin.isatty():
        batch_size = 1
        answers: Iterator[Any] = (predictor.predict([line], options)[0] for line in lines)
    else:
        answers = predictor.stream(lines, options, batch_size)
    for place, prediction in enumerate(answers):
        click.echo(write(prediction, place))


def _lines(path: str, column: str | None) -> Iterator[str]:
    from dragoman.data.rows import iter_inputs

    columns = None if column is None else [int(column) if column.isdigit() else column]
    layout: Any = "lines" if column is None else "auto"
    return (row[0] for row in iter_inputs([path], format=layout, columns=columns, count=1))


@cli.command()
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

    predictor = _load(model, device)
    count = 2 if predictor.fields.source else 1
    rows = iter_inputs(list(data) or ["-"], format="auto" if count == 2 else "lines", count=count)
    write = score_text if layout == "text" else score_json
    while chunk := [(row[0], row[-1]) for row in islice(rows, batch_size * 16)]:
        for scored in predictor.score(chunk, batch_size):
            click.echo(write(scored))


@cli.command()
@MODEL
@click.argument("data", nargs=-1, required=True)
@_search_options
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

    predictor = _load(model, device)
    table = _data_tree(data, rest | {"dev": (), "layout": None})["data"]
    search = {key: rest[key] for key in ("beam", "max_length", "min_length", "normalize")}
    scores = evaluate_files(predictor, table, search, list(metrics), batch_size)
    if as_json:
        click.echo(json.dumps({score.name: round(score.value, 4) for score in scores}))
        return
    for score in scores:
        click.echo(
            f"{score.name:<12} {score.value:10.3f}"
            + (f"   {score.signature}" if score.signature else "")
        )


@cli.command()
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

    predictor = _load(model)
    (prediction,) = predictor.predict([text], predictor.options(beam=beam))
    if prediction.alignment is None:
        raise UserError(f"{model}: this model has no attention, there is nothing to draw")
    plots.alignment(prediction.alignment, prediction.source, prediction.tokens, output, style=style)  # type: ignore[arg-type]
    click.echo(f"{prediction.text}", err=False)
    click.echo(f"drawn: {output}", err=True)


@cli.command()
def recipes() -> None:
    """List the recipes: name, parameters, paper, and what they are."""
    import torch

    from dragoman.config import recipe, recipe_names, resolve
    from dragoman.model import build

    for name in recipe_names():
        known = recipe(name)
        with torch.device("meta"):
            model = build(resolve(name).model, known.source, known.target)
        millions = sum(p.numel() for p in model.parameters()) / 1e6
        click.echo(f"{name:<20} {millions:7.1f} M   {known.paper}: {known.line}")


@cli.command()
@click.argument("model", type=click.Path(path_type=Path), required=False)
def info(model: Path | None) -> None:
    """What a model folder holds; without one, what Dragoman runs on."""
    if model is not None:
        from dragoman.checkpoint import open_folder

        click.echo(open_folder(model)("README.md").decode("utf-8", "replace"), nl=False)
        return
    import platform

    import torch

    click.echo(
        f"dragoman {__version__}, Python {platform.python_version()}, torch {torch.__version__}"
    )
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    click.echo(
        f"devices: cpu ({torch.get_num_threads()} threads)"
        + "".join(f", {name}" for name in devices)
    )


@cli.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--columns", help="Columns to read, by number or name.")
@click.option("--format", "layout", help="auto, tsv, csv, jsonl, parallel, lines or running.")
def check(paths: tuple[str, ...], columns: str | None, layout: str | None) -> None:
    """Look a model folder or a data file over before trusting or training on it."""
    from dragoman.check import check_data, check_model

    if len(paths) == 1 and Path(paths[0]).is_dir():
        lines, sound = check_model(Path(paths[0]))
    else:
        rest = {"dev": (), "layout": layout, "columns": columns, "on_bad_line": "skip"}
        lines, sound = check_data(_data_tree(paths, rest)["data"])
    for line in lines:
        click.echo(line)
    if not sound:
        raise SystemExit(2)


@cli.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), default="demo", show_default=True)
@click.option(
    "--pairs", type=click.IntRange(100), default=None, help="How many dates to learn from."
)
def demo(output: Path, pairs: int | None) -> None:
    """Learn to read dates in many languages, in about two minutes, and try it."""
    from dragoman.demo.show import show

    show(output, pairs)


def main() -> NoReturn:
    """Run a verb. The user's mistake is one line and exit code 2; a failure is one line and exit
    code 1.
    """
    for stream in (sys.stdout, sys.stderr):
        _utf8(stream)
    debug = "--debug" in sys.argv
    try:
        code = cli.main(prog_name="dragoman", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except click.exceptions.Abort:
        code = 130
    except KeyboardInterrupt:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except Exception as error:
        if debug:
            raise
        code = _complain(error)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(error: Exception) -> int:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, DragomanError):
        click.echo(f"dragoman: {text}", err=True)
        return error.exit_code
    kind = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
    click.echo(f"dragoman: failed: {kind}{text} (dragoman --debug ... shows where)", err=True)
    return 1


def _utf8(stream: TextIO) -> None:
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", errors="replace")


if __name__ == "__main__":
    main()
