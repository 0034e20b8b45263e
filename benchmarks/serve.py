"""Many clients against one by one: requests a second and how long they take, and memory over time.

    python benchmarks/serve.py model/ inputs.txt --clients 32 --seconds 20
    python benchmarks/serve.py model/ inputs.txt --clients 32 --seconds 600 --memory

Both ways run on the same machine, one after the other, with the same options. The clients share the
machine with the server: on few cores they take their part of it.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import numpy as np


def main() -> None:
    given = _options()
    texts = [line for line in Path(given.inputs).read_text("utf-8").splitlines() if line.strip()]
    print(f"{given.model}: {len(texts)} different inputs, beam {given.beam}")
    alone = one_by_one(given.model, texts, given.beam, min(given.seconds, 20.0))
    _tell("one by one, in Python", alone)
    process, port = start(given.model)
    try:
        asyncio.run(load(port, texts, given.beam, 1, min(given.seconds, 5.0)))  # warm
        for clients in sorted({1, given.clients}):
            last, before = clients == given.clients, batched(port)
            watched = process.pid if given.memory and last else None
            seconds = given.seconds if last else min(given.seconds, 20.0)
            spans = asyncio.run(load(port, texts, given.beam, clients, seconds, watched))
            batches, inputs = (a - b for a, b in zip(batched(port), before, strict=True))
            name = f"server, {clients} client{'s' * (clients > 1)}"
            _tell(name, spans, f"  {inputs / batches:.1f} a batch")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def one_by_one(model: str, texts: list[str], beam: int, seconds: float) -> list[float]:
    """How long each prediction takes by itself."""
    import torch

    import dragoman

    torch.set_num_threads(1)
    predictor = dragoman.load(model)
    options = predictor.options(beam=beam)
    predictor.predict(texts[:2], options)
    spans, begun, place = [], time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        since = time.perf_counter()
        predictor.predict([texts[place % len(texts)]], options)
        spans.append(time.perf_counter() - since)
        place += 1
    return spans


def start(model: str) -> tuple[subprocess.Popen[str], int]:
    """A server process at a free port."""
    command = [sys.executable, "-m", "dragoman", "serve", model, "--port", "0"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert process.stderr is not None
    line = process.stderr.readline()
    if "http://" not in line:
        raise SystemExit(f"the server did not start: {line}")
    return process, int(line.split("/")[2].rsplit(":", 1)[1])


def batched(port: int) -> tuple[float, float]:
    """Batches that the server has decoded so far, and inputs in them."""
    with urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        lines = dict(line.rsplit(" ", 1) for line in reply.read().decode().splitlines())
    names = ("dragoman_batches_total", "dragoman_batched_inputs_total")
    first, second = (
        sum(float(value) for line, value in lines.items() if line.startswith(f"{name}{{"))
        for name in names
    )
    return first, second


async def load(
    port: int, texts: list[str], beam: int, clients: int, seconds: float, pid: int | None = None
) -> list[float]:
    """Clients that ask again as soon as they have an answer."""
    spans: list[float] = []
    end = time.perf_counter() + seconds
    asked = [
        json.dumps({"inputs": text, "beam": beam}, ensure_ascii=False).encode() for text in texts
    ]
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            group.create_task(_client(port, asked[number::clients] or asked, end, spans))
        if pid is not None:
            group.create_task(_watch(pid, end))
    return spans


async def _client(port: int, asked: list[bytes], end: float, spans: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    place = 0
    while time.perf_counter() < end:
        body = asked[place % len(asked)]
        place += 1
        since = time.perf_counter()
        writer.write(
            b"POST /v1/predict HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        answer = await reader.readexactly(length)
        assert b" 200 " in head[:20], (head, answer)
        spans.append(time.perf_counter() - since)
    writer.close()


async def _watch(pid: int, end: float) -> None:
    """The server's memory, twelve times."""
    pause = max(0.5, (end - time.perf_counter()) / 12)
    begun = time.perf_counter()
    while time.perf_counter() < end:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        passed = time.perf_counter() - begun
        print(f"    {passed:6.0f} s  {pages * os.sysconf('SC_PAGE_SIZE') / 2**20:7.1f} MiB")
        await asyncio.sleep(pause)


def _tell(name: str, spans: list[float], more: str = "") -> None:
    busy = np.array(spans) * 1000
    p50, p95, p99 = np.percentile(busy, [50, 95, 99])
    clients = int(name.split(",")[1].split(maxsplit=1)[0]) if "client" in name else 1
    rate = clients * len(busy) / busy.sum() * 1000
    print(
        f"{name:<24} {len(busy):6} requests  {rate:8.1f} a second  "
        f"p50 {p50:7.1f} ms  p95 {p95:7.1f} ms  p99 {p99:7.1f} ms{more}"
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("inputs", help="a text file, one input a line")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="of load; the ways beside it take 20 at most"
    )
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--memory", action="store_true", help="tell how much the server holds")
    return parser.parse_args()


if __name__ == "__main__":
    main()
