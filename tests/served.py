"""A server in a thread of its own, for tests."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.serve.app import make_app
from dragoman.serve.counters import Counters
from dragoman.serve.models import Models, open_models
from dragoman.serve.run import listen, make_server
from dragoman.serve.settings import Settings


class Running:
    """A server: where it is, and what it serves."""

    def __init__(self, address: str, port: int, models: Models) -> None:
        self.address, self.port, self.models = address, port, models


@contextmanager
def serving(*folders: Path, watched: bool = False, **bounds: object) -> Iterator[Running]:
    """Serve model folders at some free port of this machine."""
    settings, counters = Settings(**bounds), Counters()  # type: ignore[arg-type]
    models = open_models(folders, settings, counters, watched=watched)
    server = make_server(make_app(models, settings, counters), settings)
    listening = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = listening.getsockname()[1]
    yield Running(f"http://127.0.0.1:{port}", port, models)
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()
