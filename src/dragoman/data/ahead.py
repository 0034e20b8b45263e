"""Batches made ahead of their time, by a thread of their own."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Ahead(Generic[Item]):
    """Items by number, each a pure function of it; while one is used, the next ones are made.

    >>> ahead = Ahead(lambda n: n * n, total=4)
    >>> [ahead.get(n) for n in (0, 1, 3)]
    [0, 1, 9]
    """

    def __init__(self, make: Callable[[int], Item], total: int, depth: int = 4) -> None:
        self.make, self.total, self.depth = make, total, depth
        self.pool = ThreadPoolExecutor(1, "batches")
        self.under_way: dict[int, Future[Item]] = {}

    def get(self, number: int) -> Item:
        for place in range(number, min(number + 1 + self.depth, self.total)):
            if place not in self.under_way:
                self.under_way[place] = self.pool.submit(self.make, place)
        item = self.under_way.pop(number).result()
        for stale in [place for place in self.under_way if place < number]:
            self.under_way.pop(stale).cancel()
        return item

    def close(self) -> None:
        self.pool.shutdown(wait=False, cancel_futures=True)
