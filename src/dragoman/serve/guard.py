"""What stands before the door: who may call, how large a request may be, how long it may take.

Everything is decided before a request is understood. A body is read whole, up to its limit and
against the clock, before anybody else sees a byte of it: memory stays flat whatever is sent.
"""

import asyncio
import hmac
import ipaddress
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from dragoman.serve.counters import Counters
from dragoman.serve.requests import is_file
from dragoman.serve.settings import Settings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
ROUTES = frozenset(("/v1/predict", "/v1/models", "/healthz", "/metrics"))  # counted by name
LINGER = 5.0  # seconds in which a refused body is still read, so that the client hears why


class RefusedError(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
        self.status, self.why, self.headers = status, why, list(headers)


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: App, settings: Settings, counters: Counters) -> None:
        self.app, self.settings, self.counters = app, settings, counters
        self.inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        begun, status = time.monotonic(), [500]

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        self.inside += 1
        try:
            await self._pass(scope, receive, tell)
        except RefusedError as refused:
            await _refuse(refused, tell)
        finally:
            self.inside -= 1
            path = scope["path"] if scope["path"] in ROUTES else "other"  # names are kept for good
            self.counters.add("dragoman_requests_total", path=path, status=str(status[0]))
            self.counters.took(time.monotonic() - begun, path=path)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}
        self._who(scope, headers)
        if self.inside > self.settings.clients and scope["path"] != "/healthz":
            raise RefusedError(503, "too many requests at a time", (b"retry-after", b"1"))
        try:
            limit = self._allowed(headers)
            body = await self._read(receive, limit, headers)
        except RefusedError as refused:
            if refused.status in (413, 415):
                await _discard(receive)
            raise
        await self.app(scope, _replay(body, receive), send)

    def _who(self, scope: Scope, headers: dict[str, str]) -> None:
        """Called by a name of ours, from a page of ours if from a page, with our token."""
        host = headers.get("host", "")
        if not self._ours(host):
            raise RefusedError(400, "this server does not go by that name (--allow-host adds one)")
        origin = headers.get("origin")
        foreign = origin is not None and urlsplit(origin).netloc != host
        asks = scope["method"] in ("GET", "HEAD")  # a link to the page may stand anywhere
        if foreign or (headers.get("sec-fetch-site") == "cross-site" and not asks):
            raise RefusedError(403, "requests from other sites are refused")
        token = self.settings.token
        if token is None or not scope["path"].startswith(("/v1/", "/metrics", "/openapi")):
            return
        given = headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise RefusedError(401, "a token is needed", (b"www-authenticate", b"Bearer"))

    def _ours(self, host: str) -> bool:
        """Numbers are safe: a foreign site can bend names to our address, but not numbers."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        if name == "localhost" or name in self.settings.hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _allowed(self, headers: dict[str, str]) -> int:
        """How large the body may be; what we would have to unpack is refused."""
        if headers.get("content-encoding", "identity") != "identity":
            raise RefusedError(415, "compressed requests are not taken: send them as they are")
        file = is_file(headers.get("content-type", ""))
        limit = self.settings.media if file else self.settings.body
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > limit:
            raise RefusedError(413, f"a body of this kind may have {limit} bytes, not {length}")
        return limit

    async def _read(self, receive: Receive, limit: int, headers: dict[str, str]) -> bytes:
        try:
            async with asyncio.timeout(self.settings.patience):
                return await _whole(receive, limit)
        except TimeoutError:
            raise RefusedError(408, "the request took too long to arrive") from None


async def _whole(receive: Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusedError(400, "the request ended before its body")
        body += message.get("body", b"")
        if len(body) > limit:
            raise RefusedError(413, f"a body of this kind may have {limit} bytes")
        if not message.get("more_body"):
            return bytes(body)


async def _discard(receive: Receive) -> None:
    """Read on for a moment and forget it: a client that is cut off while it sends does not hear
    the answer.
    """
    try:
        async with asyncio.timeout(LINGER):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
    except TimeoutError:
        return


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once more, then whatever else comes: that the client is gone."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return rest.pop() if rest else await receive()

    return again


async def _refuse(refused: RefusedError, send: Send) -> None:
    body = json.dumps({"error": refused.why}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *refused.headers,
    ]
    start = {"type": "http.response.start", "status": refused.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
