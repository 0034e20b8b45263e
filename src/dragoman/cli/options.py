"""Options and arguments that several verbs share."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

MODEL = click.argument("model", type=click.Path(path_type=Path))


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of every verb that decodes."""
    return _all(
        command,
        click.option("--beam", type=int, help="Paths kept alive side by side; 1 is greedy."),
        click.option("--max-length", type=int, help="Longest answer, in tokens."),
        click.option("--min-length", type=int, help="Shortest answer, in tokens."),
        click.option("--normalize", type=float, help="Paths compare by log p / length^NORMALIZE."),
        click.option("--batch-size", type=click.IntRange(1), default=32, show_default=True),
        click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, auto."),
    )


def rule_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What answers must be like; each is an option of `search` in the config, too."""
    phrase: Any = partial(click.option, multiple=True, metavar="PHRASE")
    flag: Any = partial(click.option, is_flag=True, default=None)
    return _all(
        command,
        phrase("--ban", help="No answer contains this; may be repeated."),
        phrase("--require", help="Every answer contains this; may be repeated."),
        click.option("--no-repeat-ngram", type=int, help="No N tokens in a row twice."),
        click.option("--repetition-penalty", type=float, help="p^X for tokens already written."),
        click.option(
            "--length-penalty",
            type=click.Choice(["power", "gnmt"]),
            help="What NORMALIZE is the exponent of: length, or (5 + length) / 6.",
        ),
        click.option(
            "--coverage-penalty", type=float, help="Price of source tokens that were not looked at."
        ),
        click.option(
            "--diverse", "groups", type=int, help="So many beams that avoid each other's tokens ..."
        ),
        click.option("--diversity", type=float, help="... at this price each."),
        click.option("--lm-weight", type=float, help="How much the model of --lm counts."),
        flag("--log-linear", help="An ensemble averages log-probabilities."),
        click.option(
            "--mbr",
            type=click.Choice(["chrf", "bleu", "edit"]),
            help="Give the answer that is most like the others found (minimum Bayes risk).",
        ),
        click.option("--samples", type=int, help="Draw so many answers for --mbr to choose from."),
        flag("--replace-unknown", help="For an <unk>, the source token that was looked at."),
    )


def speed_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What answers cost."""
    return _all(
        command,
        click.option(
            "--precision",
            type=click.Choice(["fp32", "bf16", "int8"]),
            default="fp32",
            show_default=True,
            help="Less is faster on a CPU, and not quite the same.",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1, 1024),
            default=1,
            show_default=True,
            help="Processes that share the work, one thread each.",
        ),
    )


def helper_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What a model may be helped by."""
    folder = click.Path(path_type=Path)
    return _all(
        command,
        click.option(
            "--ensemble",
            "others",
            multiple=True,
            type=folder,
            metavar="FOLDER",
            help="A further model of the same target alphabet, for an ensemble; may be repeated.",
        ),
        click.option(
            "--lm", type=folder, metavar="FOLDER", help="A language model of the same alphabet."
        ),
        click.option(
            "--dictionary",
            type=folder,
            metavar="FILE",
            help="Words and their translations (tsv) for --replace-unknown.",
        ),
    )


bad_line_option = click.option(
    "--on-bad-line",
    type=click.Choice(["skip", "error"]),
    default="skip",
    show_default=True,
    help="What to do with a line that lacks columns or cannot be read: take it as empty, or stop.",
)


def delivery_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where answers go, and who works on them."""
    return _all(
        command,
        bad_line_option,
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path),
            help="File for the answers, written whole or not at all; default: stdout.",
        ),
        click.option(
            "--shard",
            metavar="I/N",
            help="Answer the I-th of N pieces; `dragoman merge` joins them. Done ones are skipped.",
        ),
        click.option(
            "--on",
            "engine",
            type=click.Choice(["here", "ray"]),
            default="here",
            show_default=True,
            help="ray: a Ray cluster, with --jobs workers.",
        ),
    )


def _all(command: Callable[..., Any], *options: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


def load(model: Path, device: str = "cpu", **helpers: Any) -> Any:
    from dragoman.device import pick_device
    from dragoman.predict import load

    return load(model, str(pick_device(device)), **helpers)


def data_tree(data: tuple[str, ...], rest: dict[str, Any]) -> dict[str, Any]:
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
