"""The work that every system does, and how it is timed. Runs inside each system's own environment:
it needs torch and nothing else.

A runner is a class with `train(sources, targets)` and `decode(sources, beam, steps)`; `serve`
answers one order a line on stdin with one line on stdout, so that orders to several systems can
take turns.
"""

import json
import os
import resource
import sys
import time
from typing import Any, NamedTuple

import torch

PAD, BOS, EOS, UNK = range(4)


class Sizes(NamedTuple):
    """Of a model: both alphabets, embeddings, decoder (the encoder has half of it each way)."""

    vocabulary: int
    embedding: int
    hidden: int


SIZES = {
    "words": Sizes(8000, 256, 512),
    "letters": Sizes(60, 128, 256),
    "large": Sizes(32_000, 640, 1024),  # as for WMT
}


def sources(size: Sizes, batch: int, length: int = 15) -> torch.Tensor:
    """Random symbols, no padding; EOS at the end."""
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(UNK + 1, size.vocabulary, (batch, length), generator=draw)
    ids[:, -1] = EOS
    return ids


def training_batches(
    size: Sizes, batch: int, count: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of padded batches with lengths as in Multi30k, sentences of like length together."""
    draw = torch.Generator().manual_seed(2)
    lengths = (
        (torch.randn(batch * 40, generator=draw) * 4 + 14).round().clamp(4, 40).long().sort().values
    )
    places = torch.linspace(0, 39, count).long()
    made = []
    for place in places.tolist():
        part = lengths[place * batch : (place + 1) * batch]
        pair = []
        for shift in (0, 1):
            rows = torch.randint(
                UNK + 1, size.vocabulary, (batch, int(part.max()) + shift), generator=draw
            )
            rows[torch.arange(rows.size(1)) >= part[:, None] + shift] = PAD
            rows[torch.arange(batch), part - 1 + shift] = EOS
            pair.append(rows)
        made.append((pair[0], pair[1]))
    return made


def serve(make: Any) -> None:
    """Answer orders: {"do": "decode", "model": "words", "batch": 1, "beam": 5, "steps": 15}."""
    answers = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr  # some systems chat
    torch.set_num_threads(1)
    runners: dict[str, Any] = {}
    for line in sys.stdin:
        order = json.loads(line)
        size = SIZES[order["model"]]
        if "vocabulary" in order:
            size = size._replace(vocabulary=order["vocabulary"])
        place = f"{size} to {order['do']}"  # what is decoded with was never trained
        if place not in runners:
            torch.manual_seed(0)
            runners[place] = make(size)
        runner = runners[place]
        answer: dict[str, Any] = {}
        try:
            if order["do"] == "train":
                work = training_batches(size, order["batch"], order["count"])
                begin = time.process_time()
                for given, target in work:
                    runner.train(given, target)
                answer["amount"] = sum(int((target != PAD).sum()) for _, target in work)
            else:
                given = sources(size, order["batch"], order.get("length", 15))
                begin = time.process_time()
                for _ in range(order["times"]):
                    answer["found"] = runner.decode(given, order["beam"], order["steps"])
                answer["amount"] = order["batch"] * order["times"]
            answer["seconds"] = time.process_time() - begin
            answer["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        except Exception as error:  # a peer that cannot do it is told, not hidden
            answer["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), file=answers, flush=True)
