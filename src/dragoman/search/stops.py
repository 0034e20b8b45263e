"""Searches that somebody may give up: they look between two steps whether they are still wanted.

Who waits for an answer is no matter of a search, so it is not handed through everything in between:
whoever may give up says so around the call, for their own thread alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_given_up: ContextVar[Callable[[], bool] | None] = ContextVar("given_up", default=None)


class StoppedError(Exception):
    """A search was given up before it found anything."""


@contextmanager
def until(given_up: Callable[[], bool]) -> Iterator[None]:
    """Searches inside end with a `StoppedError` at the first step before which this is true.

    >>> with until(lambda: True):
    ...     list(times(3))
    Traceback (most recent call last):
    dragoman.search.stops.StoppedError
    """
    before = _given_up.set(given_up)
    try:
        yield
    finally:
        _given_up.reset(before)


def bounded() -> bool:
    """Whether somebody may give up."""
    return _given_up.get() is not None


def times(count: int, by: int = 1) -> Iterator[int]:
    """The steps of a search, as `range` has them, while the search is wanted.

    >>> list(times(5, 2))
    [0, 2, 4]
    """
    given_up = _given_up.get()
    for time in range(0, count, by):
        if given_up is not None and given_up():
            raise StoppedError
        yield time
