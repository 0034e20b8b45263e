"""Several processes that answer one stream of inputs: the same answers, in the same order."""

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.config import SearchSpec
from dragoman.decode import Asked
from dragoman.errors import DragomanError
from dragoman.memory import hold
from dragoman.predict import CHUNK, Input, Prediction, Predictor, load

AHEAD = 2  # windows of inputs in hand for each process


class Order(NamedTuple):
    """What each process is to do."""

    folder: Path
    device: str
    helpers: Mapping[str, Any]  # further arguments of `load`
    options: SearchSpec
    batch_size: int = 32
    on_bad: Callable[[str], None] | None = None  # told of files that cannot be read


def answered(order: Order, inputs: Iterable[Input | Asked], jobs: int) -> Iterator[Prediction]:
    """The predictions of `Predictor.stream`, from processes of one thread each, in bounded memory:
    windows of inputs are dealt out, and come back in order.
    """
    rest, first, size = iter(inputs), 0, order.batch_size * CHUNK
    waiting: deque[Future[list[Prediction]]] = deque()
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        jobs, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(order,)
    )
    try:
        while (window := list(islice(rest, size))) or waiting:
            if window:
                waiting.append(pool.submit(_answer, window, first))
                first += len(window)
            if len(waiting) >= jobs * AHEAD or not window:
                yield from waiting.popleft().result()
        pool.shutdown()
    except BrokenProcessPool:
        raise DragomanError("a process that --jobs started has died (out of memory?)") from None
    finally:  # whoever asked is gone, or something failed: nobody needs the rest
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()


_at_work: list[tuple[Predictor, Order]] = []  # what this process answers with


def _begin(order: Order) -> None:
    """Once in each process. An interruption is the parent's business."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    hold()
    predictor = load(order.folder, order.device, **order.helpers)
    predictor.on_bad = order.on_bad
    _at_work[:] = [(predictor, order)]


def _answer(window: list[Input | Asked], first: int) -> list[Prediction]:
    predictor, order = _at_work[0]
    return predictor.predict(window, order.options, order.batch_size, first)
