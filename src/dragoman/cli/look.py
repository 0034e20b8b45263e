"""The verbs that tell: recipes, models, data, and the demo."""

from pathlib import Path

import click

from dragoman import __version__
from dragoman.cli.options import data_tree
from dragoman.errors import UserError


@click.command()
def recipes() -> None:
    """List the recipes: name, parameters, paper, and what they are."""
    from dragoman.config import resolve
    from dragoman.model import sketch
    from dragoman.recipes import recipe, recipe_names

    width = max(map(len, recipe_names()))
    for name in recipe_names():
        known = recipe(name)
        model = sketch(resolve(name).model, known.sources, known.target)
        millions = sum(p.numel() for p in model.parameters()) / 1e6
        click.echo(f"{name:<{width}} {millions:7.1f} M   {known.paper}: {known.line}")


@click.command()
@click.argument("model", type=click.Path(path_type=Path), required=False)
def info(model: Path | None) -> None:
    """What a model folder holds; without one, what Dragoman runs on."""
    if model is not None:
        from dragoman.card import MODEL as CARD_NAME
        from dragoman.checkpoint import open_folder

        about = open_folder(model)("README.md").decode("utf-8", "replace")
        click.echo(about.replace(CARD_NAME, f"{model}/"), nl=False)
        _tell_kernel(model)
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


def _tell_kernel(folder: Path) -> None:
    """Which kernel runs the model here, and why."""
    import torch

    from dragoman.decoders import chosen
    from dragoman.device import pick_device
    from dragoman.kernels.choice import using
    from dragoman.predict import load

    predictor, device = load(folder), pick_device("auto")
    with using(predictor.config.train.kernel):
        choice = chosen(predictor.model.decoder, torch.device(device))
    click.echo(f"\nkernel on {device}: {choice.name} ({choice.reason})")


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--columns", help="Columns to read, by number or name.")
@click.option("--format", "layout", help="auto, tsv, csv, jsonl, parallel, lines or running.")
@click.option("-r", "--recipe", help="Look with the eyes of a recipe: its columns, its tags.")
def check(
    paths: tuple[str, ...], columns: str | None, layout: str | None, recipe: str | None
) -> None:
    """Look a model folder or a data file over before trusting or training on it."""
    from dragoman.check import check_data, check_model

    if len(paths) == 1 and Path(paths[0]).is_dir():
        lines, sound = check_model(Path(paths[0]))
    else:
        rest = {"dev": (), "layout": layout, "columns": columns, "on_bad_line": "skip"}
        lines, sound = check_data(data_tree(paths, rest)["data"], recipe)
    for line in lines:
        click.echo(line)
    if not sound:
        raise SystemExit(2)


DEMOS = ("dates", "speech", "clips", "scenes", "vqa", "sort", "hull", "tsp")


@click.command()
@click.argument("what", type=click.Choice(DEMOS), default="dates")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The model's folder.  [default: demo for dates, demo-speech for speech, ...]",
)
@click.option(
    "--pairs", type=click.IntRange(100), default=None, help="How many examples to learn from."
)
@click.option(
    "--write",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="sort, hull, tsp: only write that many examples, with their answers (tsv).",
)
@click.option("--size", metavar="N", help="With --write: points of an example, 10 or 5-10.")
@click.option("--seed", type=click.IntRange(0), default=1, help="With --write: other examples.")
def demo(
    what: str,
    output: Path | None,
    pairs: int | None,
    write: Path | None,
    size: str | None,
    seed: int,
) -> None:
    """Learn something in about two minutes, from data made on the spot, and try it.

    \b
    dates   read dates in many languages
    speech  write down spoken numbers (melodies, where espeak-ng is not installed)
    clips   say how shapes move
    sort    put ten numbers in order
    hull    find the corners of sets of points
    tsp     plan short tours of five cities
    scenes  describe drawn scenes
    vqa     answer questions about drawn scenes
    """
    from dragoman.demo import ordering
    from dragoman.demo.table import SHOWS

    if write is None and size is None:
        usual = Path("demo" if what == "dates" else f"demo-{what}")
        SHOWS[what](output or usual, pairs)
        return
    if what not in ordering.TASKS or write is None:
        raise UserError("--write FILE and --size are for sort, hull and tsp")
    ordering.write(what, write, pairs, size, seed)
