"""Signals that ask a run to end: once, it saves and leaves; twice, it leaves at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ASKED = (signal.SIGINT, signal.SIGTERM)


class Calls:
    """Who was called to end, and whether this can wait for a better moment.

    >>> calls = Calls()
    >>> with calls.waiting():
    ...     calls.heed(signal.SIGTERM, None)
    >>> calls.signum == signal.SIGTERM
    True
    >>> calls.leave()
    Traceback (most recent call last):
    SystemExit: 143
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._wait = False

    def heed(self, signum: int, frame: FrameType | None) -> None:
        """What happens at a signal. The second one waits for nothing: what is on the disk is whole
        at every moment.
        """
        if self.signum is not None:
            os._exit(128 + signum)
        self.signum = signum
        if not self._wait:
            self.leave()

    def leave(self) -> None:
        """End, as the signal that came would have it."""
        if self.signum == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + (self.signum or signal.SIGTERM))

    @contextmanager
    def waiting(self, wait: bool = True) -> Iterator[None]:
        """For a while, a signal is only noted (or, inside of that, heeded at once again)."""
        before, self._wait = self._wait, wait
        try:
            yield
        finally:
            self._wait = before


@contextmanager
def called() -> Iterator[Calls]:
    """Listen for signals while a run lasts; only a main thread can."""
    calls = Calls()
    if threading.current_thread() is not threading.main_thread():
        yield calls
        return
    before = {signum: signal.signal(signum, calls.heed) for signum in ASKED}
    try:
        yield calls
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
