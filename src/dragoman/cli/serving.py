"""The verbs that open a page: models over HTTP, and a run while it trains."""

import os
import sys
import time
from pathlib import Path

import click

from dragoman.errors import UserError

FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("models", nargs=-1, required=True, type=FOLDER)
@click.option("--host", default="127.0.0.1", show_default=True, help="Another one needs a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option(
    "--token", envvar="DRAGOMAN_TOKEN", help="Clients must send it; or set DRAGOMAN_TOKEN."
)
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="A further name of this server; repeatable."
)
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, auto.")
@click.option("--batch", type=click.IntRange(1, 1024), default=32, show_default=True)
@click.option(
    "--queue", type=click.IntRange(1), default=512, show_default=True, help="Inputs that may wait."
)
@click.option(
    "--timeout", type=click.FloatRange(0.1), default=30.0, show_default=True, help="Seconds."
)
@click.option(
    "--max-body", type=click.IntRange(1024), default=1 << 20, show_default=True, help="Bytes."
)
def serve(
    models: tuple[Path, ...],
    host: str,
    port: int,
    token: str | None,
    allow_host: tuple[str, ...],
    device: str,
    **bounds: int,
) -> None:
    """Serve MODELS over HTTP, with a page to try them."""
    _needed()
    from dragoman.device import pick_device
    from dragoman.serve.run import serve as run
    from dragoman.serve.settings import Settings

    if token is not None and len(token) < 8:
        raise UserError("a token of fewer than 8 characters can be guessed: choose a longer one")
    settings = Settings(
        token=token,
        hosts=tuple(name.lower() for name in allow_host),
        body=bounds["max_body"],
        queue=bounds["queue"],
        batch=bounds["batch"],
        timeout=bounds["timeout"],
    )
    run(models, host, port, settings, device=str(pick_device(device)), ready=_ready)


@click.command()
@click.argument("models", nargs=-1, required=True, type=FOLDER)
@click.option("--port", type=click.IntRange(0, 65535), default=8001, show_default=True)
@click.option("--open/--no-open", "opened", default=None, help="Open a browser.")
def watch(models: tuple[Path, ...], port: int, opened: bool | None) -> None:
    """Watch MODELS while they train: curves, samples and attention as they change."""
    _needed()
    from dragoman.serve.run import serve as run
    from dragoman.serve.settings import Settings

    def ready(address: str) -> None:
        _ready(address)
        if opened or (opened is None and sys.stdout.isatty() and os.environ.get("DISPLAY")):
            click.launch(address)

    for model in models:
        _await(model)
    run(models, "127.0.0.1", port, Settings(), watched=True, ready=ready)


def _await(model: Path) -> None:
    """A run that was only just started has nothing to show yet."""
    from dragoman.serve.runs import unborn

    if unborn(model):
        click.echo(f"waiting for the first checkpoint of {model} ...  (Ctrl-C ends)", err=True)
    while unborn(model):
        time.sleep(0.5)


def _ready(address: str) -> None:
    click.echo(f"{address}  (Ctrl-C ends)", err=True)


def _needed() -> None:
    from importlib.util import find_spec

    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise UserError("a server needs fastapi and uvicorn: pip install 'dragoman[serve]'")
