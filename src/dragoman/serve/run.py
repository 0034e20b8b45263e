"""A server process: where it listens, and how it ends."""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import uvicorn

from dragoman.errors import UserError
from dragoman.serve.app import make_app
from dragoman.serve.counters import Counters
from dragoman.serve.models import open_models
from dragoman.serve.protocol import impatient
from dragoman.serve.settings import Settings

GRACE = 10  # seconds in which requests are finished after the server was told to stop


def serve(
    folders: Sequence[Path],
    host: str,
    port: int,
    settings: Settings,
    *,
    device: str = "cpu",
    watched: bool = False,
    ready: Callable[[str], None] = print,
) -> None:
    """Serve until told to stop; `ready` gets the address once clients can come."""
    if not loopback(host) and not settings.token:
        raise UserError(f"{host} can be reached by others: give a --token, or stay at 127.0.0.1")
    counters = Counters()
    own = (host.lower(), socket.gethostname().lower())
    settings = replace(settings, hosts=(*settings.hosts, *own))
    models = open_models(folders, settings, counters, device, watched)
    server = make_server(make_app(models, settings, counters), settings)
    listening = listen(host, port)
    name = f"[{host}]" if ":" in host else host
    ready(f"http://{name}:{listening.getsockname()[1]}/")
    try:
        server.run([listening])
    finally:
        models.close()


def make_server(app: object, settings: Settings) -> uvicorn.Server:
    """Uvicorn, with a clock on the heads of requests."""
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=impatient(settings.patience),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=GRACE,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound before anything is promised. It says that it is TCP: asyncio sends
    small pieces at once only where it knows, and answers would wait for the client's receipt.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        raise UserError(f"cannot listen at {host}:{port}: {error}") from None
    return listening


def loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> loopback("localhost"), loopback("127.0.0.1"), loopback("::1"), loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
