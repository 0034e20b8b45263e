"""The queue before a model: who is decoded together with whom."""

import queue
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from dragoman.config import SearchSpec
from dragoman.decode import Asked
from dragoman.serve.batcher import Batcher, Job
from dragoman.serve.counters import Counters
from dragoman.serve.settings import Settings

CLIENTS, ROUNDS, BUSY = 8, 6, 0.15  # seconds of a batch


class Slow:
    """A model that takes its time, and remembers how many it answered at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def predict(self, asked: list[Any], *_: Any) -> list[Any]:
        self.sizes.append(len(asked))
        time.sleep(BUSY)
        return [SimpleNamespace(tokens=(), log_probs=()) for _ in asked]


def ask(batcher: Batcher) -> None:
    """A client that asks again as soon as it has an answer."""
    told: queue.Queue[Any] = queue.Queue()
    for _ in range(ROUNDS):
        deadline = time.monotonic() + 30
        batcher.submit(Job([Asked(("x",))], SearchSpec(), deadline, told.put))
        assert len(told.get(timeout=30)) == 1
        time.sleep(0.002)


def test_clients_who_were_answered_together_are_so_again() -> None:
    model = Slow()
    batcher = Batcher(model, Settings(), Counters())  # type: ignore[arg-type]
    clients = [threading.Thread(target=ask, args=(batcher,)) for _ in range(CLIENTS)]
    for one in clients:
        one.start()
        time.sleep(0.001)
    for one in clients:
        one.join()
    batcher.close()
    assert sum(model.sizes) == CLIENTS * ROUNDS
    assert sum(model.sizes) / len(model.sizes) > 0.6 * CLIENTS  # by halves: a first one, the others


def test_a_client_alone_does_not_wait_for_others() -> None:
    model = Slow()
    batcher = Batcher(model, Settings(), Counters())  # type: ignore[arg-type]
    begun = time.monotonic()
    ask(batcher)
    assert time.monotonic() - begun < ROUNDS * (BUSY + 0.1)
    assert model.sizes == [1] * ROUNDS
    batcher.close()
