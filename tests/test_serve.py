"""The server: the tokens a client would get alone, and nothing for those who mean harm."""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import Ran
from dragoman.predict import Predictor
from small import words

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from served import Running, serving  # noqa: E402


@pytest.fixture(scope="module")
def server(tiny_model: Path, tiny_lm: Path) -> Iterator[Running]:
    with serving(tiny_model, tiny_lm, patience=1.0, body=100_000) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[Any]:
    with httpx.Client(base_url=server.address, timeout=30) as client:
        yield client


def names(server: Running) -> list[str]:
    return list(server.models.served)


def test_a_text_is_answered(client: Any, tiny: Predictor) -> None:
    reply = client.post("/v1/predict", json={"inputs": "abc"})
    assert reply.status_code == 200, reply.text
    (found,) = reply.json()["predictions"]
    alone = tiny("abc")
    assert (found["text"], found["tokens"]) == (alone.text, list(alone.tokens))
    assert found["score"] == pytest.approx(alone.score, abs=1e-4)
    assert "attention" not in found


def test_many_inputs_with_all_wishes(client: Any, tiny: Predictor) -> None:
    asked = ["abc", {"texts": "fed", "prefix": ["a"]}, {"texts": ["ab"], "require": ["f"]}, " "]
    wanted = {"inputs": asked, "n_best": 3, "alignment": True, "choices": 4, "beam": 4}
    reply = client.post("/v1/predict", json=wanted)
    assert reply.status_code == 200, reply.text
    first, begun, required, blank = reply.json()["predictions"]
    assert len(first["alternatives"]) == 2
    assert first["attention"]["shape"] == [len(first["source"])]
    assert len(first["attention"]["weights"]) == len(first["tokens"])
    assert [len(place) for place in first["choices"]] == [4] * (len(first["tokens"]) + 1)
    assert begun["tokens"][0] == "a"
    assert "f" in required["text"]
    assert (blank["text"], blank["alternatives"]) == ("", [])


def test_the_second_model_is_asked_by_name(client: Any, server: Running) -> None:
    listed = client.get("/v1/models").json()["models"]
    assert [one["name"] for one in listed] == names(server)
    assert [len(one["columns"]) for one in listed] == [1, 0]
    wanted = {"model": names(server)[1], "inputs": "ab", "max_length": 4, "choices": 2}
    (found,) = client.post("/v1/predict", json=wanted).json()["predictions"]
    assert found["text"].startswith("ab")
    assert found["choices"]
    missing = client.post("/v1/predict", json={"model": "other", "inputs": "ab"})
    assert (missing.status_code, missing.json()["field"]) == (404, "model")


def events(reply: Any) -> list[tuple[str, Any]]:
    found = [block.split("\n") for block in reply.read().decode().split("\n\n") if block]
    return [(head.removeprefix("event: "), json.loads(data[6:])) for head, data in found]


@pytest.mark.parametrize("options", [{"beam": 1}, {"sample": True, "seed": 5}])
def test_tokens_are_streamed_as_they_are_written(
    client: Any, tiny: Predictor, options: dict[str, Any]
) -> None:
    body = {"inputs": "fedcb", "stream": True, "alignment": True, "choices": 2, **options}
    with client.stream("POST", "/v1/predict", json=body) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        *tokens, (last, whole) = events(reply)
    alone = tiny("fedcb", **options)
    assert [kind for kind, _ in tokens] == ["token"] * len(alone.tokens)
    assert [one["token"] for _, one in tokens] == list(alone.tokens)
    assert all(len(one["weights"]) == len(alone.source) for _, one in tokens)
    assert (last, whole["text"]) == ("done", alone.text)
    assert len(whole["choices"]) == len(alone.tokens) + 1


def test_what_cannot_be_streamed_is_told(client: Any) -> None:
    for wrong in ({"inputs": ["a", "b"], "beam": 1}, {"inputs": "a", "beam": 3}):
        assert client.post("/v1/predict", json={**wrong, "stream": True}).status_code == 422


@pytest.mark.parametrize(
    "options", [{"beam": 1}, {"beam": 4, "n_best": 2}, {"sample": True, "temperature": 2.0}]
)
@pytest.mark.fault(17)
def test_64_clients_get_what_each_would_get_alone(
    server: Running, tiny: Predictor, options: dict[str, Any]
) -> None:
    texts = words(64, seed=7, longest=9)
    settled = tiny.options(**options)
    alone = [tiny.predict([text], settled)[0] for text in texts]
    gate = threading.Barrier(64)

    def ask(text: str) -> Any:
        with httpx.Client(base_url=server.address, timeout=60, verify=False) as own:
            gate.wait()
            return own.post("/v1/predict", json={"inputs": text, **options}).json()

    before = counts(server)
    with ThreadPoolExecutor(64) as pool:
        replies = list(pool.map(ask, texts))
    for one, reply in zip(alone, replies, strict=True):
        (found,) = reply["predictions"]
        assert found["tokens"] == list(one.tokens)
        assert found["score"] == pytest.approx(one.score, abs=1e-4)
        others = [other["tokens"] for other in found["alternatives"]]
        assert others == [list(other.tokens) for other in one.alternatives]
    after = counts(server)
    batches = after["dragoman_batches_total"] - before.get("dragoman_batches_total", 0)
    assert batches < 64  # some were decoded together


def counts(server: Running) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in httpx.get(f"{server.address}/metrics").text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            plain = name.split("{")[0]
            found[plain] = found.get(plain, 0) + float(value)
    return found


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", None),
        (b"[" * 50_000, None),
        (b'{"inputs": 3}', "inputs"),
        (b'{"inputs": []}', "inputs"),
        (b'{"inputs": "a", "beam": 1000000000}', "beam"),
        (b'{"inputs": "a", "beam": "5"}', "beam"),
        (b'{"inputs": "a", "n_best": 1000000000}', "n_best"),
        (b'{"inputs": "a", "max_length": 1000000000}', "max_length"),
        (b'{"inputs": "a", "temperature": NaN}', "temperature"),
        (b'{"inputs": "a", "baem": 5}', "baem"),
        (b'{"inputs": [{"texts": "a", "prefx": "b"}]}', "inputs.0.prefx"),
        (b'{"inputs": [3]}', "inputs.0"),
        (b'{"inputs": "\\ud800"}', None),
        (json.dumps({"inputs": ["a"] * 300}).encode(), "inputs"),
        (json.dumps({"inputs": "a" * 30_000}).encode(), "inputs"),
        (b'{"inputs": [["a", "b"]]}', None),
        (b'{"inputs": "a", "require": ["\\u4e2d"]}', None),
        (b'{"inputs": "a", "min_length": 9, "max_length": 3}', None),
    ],
)
@pytest.mark.fault(19)
def test_a_wrong_request_is_told_what_is_wrong(client: Any, body: bytes, field: str | None) -> None:
    kind = {"content-type": "application/json"}
    reply = client.post("/v1/predict", content=body, headers=kind)
    assert reply.status_code == 422
    assert reply.json()["error"]
    assert field is None or reply.json()["field"].startswith(field)


def test_one_wish_that_cannot_be_granted_spoils_no_other(server: Running, tiny: Predictor) -> None:
    def ask(body: dict[str, Any]) -> Any:
        return httpx.post(f"{server.address}/v1/predict", json=body)

    bodies = [{"inputs": {"texts": "abc", "require": ["中"]}}, *[{"inputs": "abc"}] * 6]
    bodies = [{"inputs": [b["inputs"]]} for b in bodies]
    with ThreadPoolExecutor(7) as pool:
        refused, *others = pool.map(ask, bodies)
    assert refused.status_code == 422
    assert {one.json()["predictions"][0]["text"] for one in others} == {str(tiny("abc"))}


@pytest.mark.fault(21)
def test_foreign_requests_are_refused(client: Any, server: Running) -> None:
    def post(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        status: int = client.post("/v1/predict", json={"inputs": "a"}, headers=named).status_code
        return status

    assert post(host="evil.example") == 400
    assert post(host="localhost:1") == 200
    assert post(origin="https://evil.example") == 403
    assert post(origin="null") == 403
    assert post(sec_fetch_site="cross-site") == 403
    assert post(origin=server.address) == 200
    assert post(content_type="text/plain") == 415
    assert post(content_encoding="gzip") == 415
    for path in ("/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/../etc/passwd"):
        assert client.get(path).status_code == 404
    reply = client.get("/", headers={"origin": server.address})
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.fault(21)
def test_a_token_is_asked_for(tiny_model: Path) -> None:
    with serving(tiny_model, token="secret-word") as server:
        for path in ("/v1/models", "/metrics", "/openapi.json"):
            assert httpx.get(server.address + path).status_code == 401
            for wrong in ("Bearer", "Bearer secret", "Basic secret-word", "Bearer sécret"):
                headers = {"authorization": wrong.encode()}
                assert httpx.get(server.address + path, headers=headers).status_code == 401
            headers = {"authorization": b"Bearer secret-word"}
            assert httpx.get(server.address + path, headers=headers).status_code == 200
        assert httpx.get(server.address + "/healthz").status_code == 200
        assert httpx.get(server.address + "/").status_code == 200


def rss() -> int:
    """Bytes of memory that this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.fault(18)
def test_bodies_without_end_do_not_fill_the_memory(server: Running, client: Any) -> None:
    client.post("/v1/predict", json={"inputs": "abc"})
    before, most = rss(), 0
    piece = b"x" * (1 << 20)

    def endless() -> Iterator[bytes]:
        nonlocal most
        for _ in range(200):
            most = max(most, rss())
            yield piece

    kind = {"content-type": "application/json"}
    for headers in (kind, {**kind, "content-length": str(200 << 20)}):
        reply = httpx.post(
            f"{server.address}/v1/predict", content=endless(), headers=headers, timeout=30
        )
        assert reply.status_code == 413
        assert most - before < 60 << 20
    bomb = gzip.compress(b"0" * (50 << 20))
    headers = {**kind, "content-encoding": "gzip"}
    assert client.post("/v1/predict", content=bomb, headers=headers).status_code == 415
    assert client.post("/v1/predict", json={"inputs": "abc"}).status_code == 200


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/predict HT",
        b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\nx-a: b\r\n",
        b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 90\r\n\r\n{",
    ],
)
@pytest.mark.fault(18)
def test_a_client_that_trickles_is_let_go(server: Running, client: Any, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as slow:
        slow.sendall(sent)
        assert client.post("/v1/predict", json={"inputs": "abc"}).status_code == 200
        begun = time.monotonic()
        assert slow.recv(100).startswith(b"HTTP/1.1 408")
        assert time.monotonic() - begun < 5


@pytest.mark.fault(20)
def test_who_comes_too_late_or_does_not_wait(tiny_model: Path) -> None:
    """The queue has a bound, waiting has one, and what nobody waits for is not done."""
    with serving(tiny_model, queue=4, timeout=0.6) as server:
        (served,) = server.models.served.values()
        real = served.predictor.predict
        slow = threading.Event()

        def predict(*args: Any, **more: Any) -> Any:
            slow.wait(5)
            return real(*args, **more)

        served.predictor.predict = predict  # type: ignore[method-assign]
        url = f"{server.address}/v1/predict"
        with ThreadPoolExecutor(8) as pool:
            first = pool.submit(httpx.post, url, json={"inputs": "a"})
            time.sleep(0.2)
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(url, json={"inputs": ["b"] * 4}, timeout=0.1)
            time.sleep(0.1)
            waits = pool.submit(httpx.post, url, json={"inputs": ["c"] * 4})
            time.sleep(0.1)
            full = httpx.post(url, json={"inputs": "d"})
            assert (full.status_code, full.headers["retry-after"]) == (429, "1")
            assert [one.result().status_code for one in (first, waits)] == [504, 504]
            slow.set()
            assert httpx.post(url, json={"inputs": "abc"}, timeout=5).status_code == 200
        assert counts(server)["dragoman_batched_inputs_total"] == 2


@pytest.mark.fault(20)
def test_too_many_at_a_time_are_sent_away(tiny_model: Path) -> None:
    with serving(tiny_model, clients=1, patience=1.0) as server:
        head = b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port)) as busy:
            busy.sendall(head)
            time.sleep(0.2)
            reply = httpx.get(f"{server.address}/v1/models")
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
            assert httpx.get(f"{server.address}/healthz").status_code == 200


def test_curves_and_samples_of_a_model(client: Any, server: Running) -> None:
    run = client.get(f"/v1/models/{names(server)[0]}/run").json()
    assert [row["step"] for row in run["curves"]] == [70, 140]
    assert {"source", "written", "wanted"} == set(run["samples"][0])
    assert client.get("/v1/models/none/run").status_code == 404


@pytest.mark.fault(21)
def test_another_address_needs_a_token(tiny_model: Path, verb: Callable[..., Ran]) -> None:
    ran = verb("serve", tiny_model, "--host", "0.0.0.0", "--port", 0)
    assert (ran.code, "--token" in ran.err) == (2, True)
    ran = verb("serve", tiny_model, "--token", "abc", "--port", 0)
    assert (ran.code, "guessed" in ran.err) == (2, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = verb("serve", tiny_model, "--port", taken.getsockname()[1])
        assert (ran.code, "cannot listen" in ran.err) == (2, True)
    ran = verb("serve", tiny_model / "nowhere", "--port", 0)
    assert (ran.code, "nowhere: no such folder" in ran.err) == (2, True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
@pytest.mark.fault(19)
def test_no_request_makes_the_server_fail(server: Running, mode: str) -> None:
    """What the OpenAPI document allows, and what it forbids: there is always an answer."""
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings

    schema = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
    few = settings(
        max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    seen = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        ways = schemathesis.GenerationMode[mode]

        @few
        @given(case=operation.as_strategy(generation_mode=ways))
        def probe(case: Any) -> None:
            nonlocal seen
            seen += 1
            reply = case.call(base_url=server.address)
            assert reply.status_code < 500, (case.body, reply.text)

        try:
            probe()
        except Exception as error:
            if "Unsatisfiable" not in repr(type(error)) and "Impossible" not in str(error):
                raise
    assert seen >= 20


def test_the_server_finishes_what_it_began_and_leaves(tiny_model: Path, tmp_path: Path) -> None:
    """SIGTERM: requests on their way are answered, then the process ends."""
    command = [sys.executable, "-m", "dragoman", "serve", str(tiny_model), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[0]
        assert httpx.get(address + "healthz", timeout=30).status_code == 200
        with ThreadPoolExecutor(2) as pool:
            body = {"inputs": ["abcdef"] * 200, "beam": 8}
            busy = pool.submit(httpx.post, address + "v1/predict", json=body, timeout=30)
            time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            assert len(busy.result().json()["predictions"]) == 200
        assert process.wait(20) in (0, 143, -signal.SIGTERM)
        assert "Traceback" not in process.stderr.read()
    with pytest.raises(httpx.ConnectError):
        httpx.get(address + "healthz")
