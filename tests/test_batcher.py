"""The queue before a model: who is decoded together with whom, and what happens when something goes
wrong. Where time matters it is a number here, not the machine's: what it shows is the same however
busy the machine is.
"""

import heapq
import time
from collections.abc import Callable
from threading import Condition, Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from dragoman.config import SearchSpec
from dragoman.decode import Asked
from dragoman.search.stops import times
from dragoman.serve import batcher as module
from dragoman.serve.batcher import Batcher, Job, LateError
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


class Told:
    """What a client has heard, for a test to wait for."""

    def __init__(self) -> None:
        self.news, self.heard = list[Any](), Event()

    def __call__(self, news: Any) -> None:
        self.news.append(news)
        self.heard.set()


def job(*texts: str, seconds: float = 30, **options: Any) -> tuple[Job, Told]:
    told = Told()
    asked: list[Any] = [Asked((text,)) for text in texts]
    return Job(asked, SearchSpec(**options), time.monotonic() + seconds, told), told


class Model:
    """One that does what a test wants of it."""

    def __init__(self, answer: Callable[[list[Any]], None]) -> None:
        self.answer = answer

    def predict(self, asked: list[Any], *_: Any) -> list[Any]:
        self.answer(asked)
        return [SimpleNamespace(tokens=(), log_probs=()) for _ in asked]


def working(answer: Callable[[list[Any]], None], **bounds: Any) -> Batcher:
    return Batcher(Model(answer), Settings(**bounds), Counters(), "m")  # type: ignore[arg-type]


class Hasty(list[Job]):
    """Jobs of which one is taken away in the very moment in which it was seen."""

    meanwhile: Callable[[], None]

    def __contains__(self, one: object) -> bool:
        found = super().__contains__(one)
        if found:
            self.meanwhile()
        return found


@pytest.mark.fault(20)
def test_a_client_that_leaves_while_its_batch_fails_takes_nobody_along() -> None:
    """Another thread asks for the queue in the middle of a removal: it has to wait."""
    began, go_on = Event(), Event()

    def fail(asked: list[Any]) -> None:
        if asked[0].texts == ("bad",):
            began.set()
            assert go_on.wait(10)
            raise ValueError("some trouble of the model")

    batcher = working(fail, batch=1)
    (first, heard), (second, answered) = job("bad", "bad"), job("good", seed=2)
    batcher.submit(first)
    assert began.wait(10)
    hasty = Hasty(batcher.waiting)

    def leave() -> None:
        first.gone = True
        other = Thread(target=batcher.submit, args=(second,))
        other.start()
        other.join(0.3)

    hasty.meanwhile = leave
    batcher.waiting = hasty
    go_on.set()
    assert answered.heard.wait(10)
    assert (len(answered.news[0]), batcher.alive) == (1, True)
    assert not heard.news
    batcher.close()


@pytest.mark.fault(20)
def test_a_mistake_of_ours_costs_one_batch(caplog: pytest.LogCaptureFixture) -> None:
    batcher = working(lambda asked: None)
    real = batcher.counters.add

    def add(name: str, *more: Any, **labels: str) -> None:
        if name == "dragoman_batches_total":
            batcher.counters.add = real  # type: ignore[method-assign]
            raise KeyError("a mistake")
        real(name, *more, **labels)

    batcher.counters.add = add  # type: ignore[method-assign]
    (first, heard), (second, answered) = job("a"), job("b")
    batcher.submit(first)
    assert heard.heard.wait(10)
    assert isinstance(heard.news[0], KeyError)
    assert "KeyError: 'a mistake'" in caplog.text
    batcher.submit(second)
    assert answered.heard.wait(10)
    assert len(answered.news[0]) == 1
    batcher.close()


def test_a_mistake_before_there_is_a_batch_is_told_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    batcher = working(lambda asked: None)
    real = batcher._take

    def take() -> Any:
        monkeypatch.setattr(batcher, "_take", real)
        raise KeyError("a mistake")

    monkeypatch.setattr(batcher, "_take", take)
    for one, heard in (job("a"), job("b")):
        batcher.submit(one)
        assert heard.heard.wait(10)
    assert batcher.alive
    batcher.close()


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.fault(20)
def test_a_search_ends_when_nobody_waits_for_it(leaves: bool) -> None:
    """A client leaves, or its time is over; while somebody waits, all steps are taken."""
    taken = {"long": 0, "short": 0}

    def walk(asked: list[Any]) -> None:
        (text,) = asked[0].texts
        for step in times(10**9 if text == "long" else 5):
            taken[text] = step
            if text == "long" and step == 3:
                long.gone = leaves

    batcher = working(walk)
    (long, heard), (short, answered) = (
        job("long", seconds=30 if leaves else 0.3),
        job("short", seed=2),
    )
    batcher.submit(long)
    batcher.submit(short)
    assert answered.heard.wait(10)
    assert (len(answered.news[0]), taken["short"]) == (1, 4)
    assert taken["long"] == 3 if leaves else isinstance(heard.news[0], LateError)
    batcher.close()


def test_a_long_list_does_not_hold_up_those_with_other_wishes() -> None:
    order: list[str] = []
    began, go_on = Event(), Event()

    def note(asked: list[Any]) -> None:
        began.set()
        assert go_on.wait(10)
        order.append(asked[0].texts[0])

    batcher = working(note, batch=2)
    (long, done), (short, _) = job(*["long"] * 6), job("short", seed=2)
    batcher.submit(long)
    assert began.wait(10)
    batcher.submit(short)
    go_on.set()
    assert done.heard.wait(10)
    assert order == ["long", "long", "short", "long"]
    assert len(done.news[0]) == 6
    batcher.close()


@pytest.mark.parametrize(
    ("options", "together"),
    [
        ({}, 32),
        ({"beam": 16}, 32),
        ({"beam": 5, "require": ("hello", "big world")}, 32),
        ({"beam": 64, "max_length": 500}, 8),
        ({"beam": 16, "min_length": 2000}, 8),
        ({"beam": 1, "require": ("x" * 200, "y" * 200, "z" * 100)}, 2),
    ],
)
@pytest.mark.fault(20)
def test_what_costs_much_is_decoded_a_few_at_a_time(options: dict[str, Any], together: int) -> None:
    sizes: list[int] = []
    batcher = working(lambda asked: sizes.append(len(asked)))
    one, heard = job(*["x"] * 32, **options)
    batcher.submit(one)
    assert heard.heard.wait(10)
    assert max(sizes) == together
    assert len(heard.news[0]) == 32
    batcher.close()
