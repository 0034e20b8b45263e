"""What a single client can cost a server: time, memory, a thread."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from dragoman.serve.counters import Counters  # noqa: E402
from dragoman.serve.guard import Guard  # noqa: E402
from dragoman.serve.mistakes import mistake  # noqa: E402
from dragoman.serve.schema import PredictRequest  # noqa: E402
from dragoman.serve.settings import Settings  # noqa: E402
from served import serving  # noqa: E402


@pytest.mark.parametrize("token", [None, "a-long-secret-word"])
@pytest.mark.fault(18)
def test_counts_do_not_grow_with_the_addresses_that_are_asked_for(token: str | None) -> None:
    counters = Counters()

    async def gone(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 404, "headers": []})

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        return

    async def ask(path: str) -> None:
        scope = {"type": "http", "path": path, "method": "GET", "headers": [(b"host", b"[::1]")]}
        await guard(scope, receive, send)

    async def ask_all() -> None:
        for number in range(200):
            for path in ("/v1/predict", "/v1/predict/", "/v1/models/", "/metrics", "/"):
                await ask(f"{path}{number}{'x' * 1000}")
        await ask("/v1/predict")

    guard = Guard(gone, Settings(token=token), counters)
    asyncio.run(ask_all())
    told = counters.text()
    assert len(told) < 5000
    assert 'path="/v1/predict",status=' in told
    assert sum(line.startswith("dragoman_requests_total") for line in told.splitlines()) <= 3


LONG = ["a" * 200, "b" * 200, "c" * 101]


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        ({"require": ["a" * 201]}, "require.0", "200"),
        ({"ban": ["a", "a" * 201]}, "ban.1", "200"),
        ({"require": LONG}, "require", "500 characters in all, not 501"),
        ({"ban": LONG}, "ban", "500 characters in all, not 501"),
        ({"ban": ["a"] * 33}, "ban", "32"),
        ({"prefix": "a" * 2001}, "prefix", "2000"),
        ({"prefix": ["a", "a" * 201]}, "prefix.1", "200"),
        ({"inputs": [{"texts": "a", "require": ["a" * 201]}]}, "inputs.0.require.0", "200"),
        ({"inputs": [{"texts": "a", "require": LONG}]}, "inputs.0.require", "500 characters"),
        ({"inputs": [{"texts": "a", "prefix": "a" * 2001}]}, "inputs.0.prefix", "2000"),
        ({"beam": 64, "max_length": 501}, "max_length", "at most 500 with 64 paths"),
        ({"n_best": 17, "min_length": 2000}, "min_length", "at most 1882 with 17 paths"),
    ],
)
@pytest.mark.fault(19)
def test_what_makes_a_search_long_has_a_bound(body: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(ValueError, match="validation error") as error:
        PredictRequest.model_validate_json(json.dumps({"inputs": "a", **body}))
    told, where = mistake(error.value)  # type: ignore[arg-type]
    assert where == field
    assert said in told


@pytest.mark.parametrize(
    "body",
    [
        {"require": LONG[:2], "ban": LONG[:2]},
        {"beam": 16, "max_length": 2000},
        {"beam": 64, "min_length": 500},
        {"prefix": ["word"] * 2000},
    ],
)
def test_what_may_be_asked_for(body: dict[str, Any]) -> None:
    assert PredictRequest.model_validate_json(json.dumps({"inputs": "a", **body}))


@pytest.mark.parametrize("more", [{}, {"repetition_penalty": 1.1}])  # another way through search
@pytest.mark.parametrize("options", [{"beam": 16}, {"sample": True, "n_best": 16}])
@pytest.mark.fault(20)
def test_a_long_search_holds_up_nobody_after_its_time(
    tiny_model: Path, options: dict[str, Any], more: dict[str, Any]
) -> None:
    """A request that takes much longer than an answer may: the next client is answered at once."""
    with serving(tiny_model, timeout=2.0) as server:
        url = f"{server.address}/v1/predict"
        slow = {"inputs": ["abcdef" * 80] * 32, "min_length": 2000, **options, **more}
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(httpx.post, url, json=slow, timeout=60)
            time.sleep(0.5)
            begun = time.monotonic()
            reply = httpx.post(url, json={"inputs": "abc"}, timeout=60)
            while reply.status_code == 504 and time.monotonic() - begun < 8:
                reply = httpx.post(url, json={"inputs": "abc"}, timeout=60)
            assert reply.status_code == 200, reply.text
            assert late.result().status_code == 504
        (served,) = server.models.served.values()
        assert served.batcher.depth == 0


def test_health_tells_when_a_model_has_no_thread(tiny_model: Path) -> None:
    with serving(tiny_model) as server:
        url = f"{server.address}/healthz"
        assert httpx.get(url).json() == {"status": "ok"}
        (served,) = server.models.served.values()
        ended = threading.Thread(target=int)
        ended.start()
        ended.join()
        served.batcher._thread, kept = ended, served.batcher._thread
        reply = httpx.get(url)
        served.batcher._thread = kept
        assert reply.status_code == 503
        assert "restart" in reply.json()["error"]
