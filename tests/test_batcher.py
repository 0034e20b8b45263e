"""The queue before a model: who is decoded together with whom. Time is a number here, not the
machine's: what it shows is the same however busy the machine is.
"""

import heapq
from collections.abc import Callable
from threading import Condition, Event
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from dragoman.config import SearchSpec
from dragoman.decode import Asked
from dragoman.serve import batcher as module
from dragoman.serve.batcher import Batcher, Job
from dragoman.serve.counters import Counters
from dragoman.serve.settings import Settings

CLIENTS, ROUNDS, BUSY = 8, 6, 0.15  # seconds of a batch
THINKS, APART = 0.002, 0.001  # seconds from an answer to the next question; between two clients


class World:
    """Its seconds pass only when somebody waits, and what was planned happens on the way."""

    def __init__(self) -> None:
        self.now, self.begun, self.over = 0.0, Event(), Event()
        self._plans: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def monotonic(self) -> float:
        return self.now

    def plan(self, seconds: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._plans, (self.now + seconds, self._count, what))

    def happen(self) -> bool:
        """On to what is planned next, if anything is."""
        if self._plans:
            self.now, _, what = heapq.heappop(self._plans)
            what()
            return True
        return False

    def due(self, end: float) -> bool:
        return bool(self._plans) and self._plans[0][0] <= end

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while self.due(end):
            self.happen()
        self.now = end


class News(Condition):
    """A condition in a world: who waits on it wakes with the next thing that happens there."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def wait(self, timeout: float | None = None) -> bool:
        world = self.world
        world.begun.wait()
        if timeout is not None and not world.due(world.now + timeout):
            world.now += timeout
            return False
        if not world.happen():  # everybody has had all answers
            world.over.set()
            return super().wait()
        return True


class Slow:
    """A model that takes its time, and remembers how many it answered at once."""

    def __init__(self, world: World) -> None:
        self.world, self.sizes = world, list[int]()

    def predict(self, asked: list[Any], *_: Any) -> list[Any]:
        self.sizes.append(len(asked))
        self.world.sleep(BUSY)
        return [SimpleNamespace(tokens=(), log_probs=()) for _ in asked]


def client(world: World, batcher: Batcher, begins: float) -> None:
    """Somebody who asks again as soon as there is an answer."""
    answers = 0

    def ask() -> None:
        batcher.submit(Job([Asked(("x",))], SearchSpec(), world.now + 30, told))

    def told(answer: Any) -> None:
        nonlocal answers
        assert len(answer) == 1
        answers += 1
        if answers < ROUNDS:
            world.plan(THINKS, ask)

    world.plan(begins, ask)


def served(monkeypatch: pytest.MonkeyPatch, clients: int) -> tuple[World, list[int]]:
    """The world after all clients have had their answers, and the sizes of the batches."""
    world = World()
    monkeypatch.setattr(module, "time", world)
    monkeypatch.setattr(module, "Condition", lambda: News(world))
    model = Slow(world)
    batcher = Batcher(model, Settings(), Counters())  # type: ignore[arg-type]
    for number in range(clients):
        client(world, batcher, number * APART)
    world.begun.set()
    assert world.over.wait(60)
    batcher.close()
    return world, model.sizes


def test_clients_who_were_answered_together_are_so_again(monkeypatch: pytest.MonkeyPatch) -> None:
    _, sizes = served(monkeypatch, CLIENTS)
    assert sum(sizes) == CLIENTS * ROUNDS
    assert sum(sizes) / len(sizes) > 0.6 * CLIENTS  # by halves: a first one, the others


def test_a_client_alone_does_not_wait_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world, sizes = served(monkeypatch, 1)
    assert sizes == [1] * ROUNDS
    assert world.now == pytest.approx(ROUNDS * BUSY + (ROUNDS - 1) * THINKS)
