"""Options and arguments that several verbs share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

MODEL = click.argument("model", type=click.Path(path_type=Path))


def search_options(command: Callable[..., Any]) -> Callable[..., Any]:
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


def load(model: Path, device: str = "cpu") -> Any:
    from dragoman.predict import load
    from dragoman.trainer import pick_device

    return load(model, str(pick_device(device)))


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
