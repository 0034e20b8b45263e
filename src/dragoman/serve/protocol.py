"""HTTP/1.1 with a clock: a client that does not finish its request's head is let go."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

GONE = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b'content-length: 55\r\n\r\n{"error": "the head of the request took too long to come"}'
)
GONE = GONE.replace(b"55", str(len(GONE.split(b"\r\n\r\n")[1])).encode())


def impatient(patience: float) -> type[H11Protocol]:
    """A protocol that waits `patience` seconds for the head of a request, however it trickles."""

    class Impatient(H11Protocol):
        clock: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._wind()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._stop()
            elif self.clock is None:
                self._wind()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _wind(self) -> None:
            self.clock = self.loop.call_later(patience, self._let_go)

        def _stop(self) -> None:
            if self.clock is not None:
                self.clock.cancel()
                self.clock = None

        def _let_go(self) -> None:
            self.clock = None
            if not self.transport.is_closing():
                self.transport.write(GONE)
                self.transport.close()

    return Impatient
