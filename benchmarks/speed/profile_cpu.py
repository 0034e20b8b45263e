"""Where the time of a search and of a training step on a CPU goes: one thread, by routine.

    python benchmarks/speed/profile_cpu.py

Sizes are those of bench.py: 8,000 words, embedding 256, hidden 512; beam 5 over 64 sentences of 15
words, and a step of 80 pairs with Multi30k's lengths.
"""

import cProfile
import pstats
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from train_step import M30K, Side, examples, text_model

from dragoman import search
from dragoman.core import EOS, Padded
from dragoman.kernels import native
from dragoman.kernels.calls import Calls
from dragoman.kernels.lanes import still
from dragoman.model import ModelSpec, build

WORDS, LENGTH, ROUNDS = 8000, 15, 3
PRODUCTS = ("_linear_pointwise", "outer", "torch.mm", "torch.addmm", "torch.bmm")  # in training
NATIVE = {
    "turn": "output layer, log Σ exp, best symbols and paths",
    "multiply": "other products",
    "walk": "the encoder's recurrence, its products included",
    "gather": "rows of tables and of states",
    "trace": "paths followed back",
    "look": "attention",
    "look_back": "attention, backward",
    "gru": "cells",
    "gru_back": "cells, backward",
    "tanh_sum": "readout",
    "slopes": "loss",
    "slopes_low": "loss",
}


def spent(work: Callable[[], Any]) -> Counter[str]:
    """Milliseconds of one round, by what they went into."""
    found: Counter[str] = Counter()
    invoke = native._invoke

    def timed(library: Any, name: str, *given: Any) -> int:
        begun = time.process_time()
        threads = invoke(library, name, *given)
        found[NATIVE.get(name, name)] += 1000 * (time.process_time() - begun) / ROUNDS
        return threads

    def one_by_one(calls: Calls) -> None:
        for made in calls.made:
            native.call(made.name, *made.given)

    work()
    again, native._invoke, Calls.again = Calls.again, timed, one_by_one  # type: ignore[method-assign]
    profile, begun = cProfile.Profile(time.process_time), time.process_time()
    for _ in range(ROUNDS):
        work()
    found["all"] = 1000 * (time.process_time() - begun) / ROUNDS
    native._invoke, Calls.again = invoke, again  # type: ignore[method-assign]
    profile.enable()
    work()
    profile.disable()
    for (_, _, name), (_, _, own, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if any(part in name for part in PRODUCTS):
            found["products by oneDNN and MKL"] += 1000 * own
        elif "_fused_adam_" in name:
            found["Adam"] += 1000 * own
    found["everything else"] = 2 * found["all"] - found.total()
    return found


def searching(precision: Any) -> Counter[str]:
    torch.manual_seed(0)
    tree = {
        "encoder": {"embedding": 256, "hidden": 256},
        "attention": {"size": 512},
        "decoder": {"hidden": 512, "readout_size": 512},
        "head": {"embedding": 256},
    }
    model = build(ModelSpec.model_validate(tree), (WORDS,), WORDS).eval()
    model.search_in(precision)
    ids = torch.randint(4, WORDS, (64, LENGTH), generator=torch.Generator().manual_seed(1))
    ids[:, -1] = EOS
    limits = search.Limits(*[torch.full((64,), LENGTH - 1)] * 2)

    @torch.inference_mode()
    def work() -> None:
        way = model.course(Padded(ids, ids > 0))
        assert way is not None
        search.direct_beam(*way, limits, width=5, rank=search.Rank(1.0))

    for _ in range(10):  # until words are looked up in a table
        work()
    return spent(work)


def training(precision: str) -> Counter[str]:
    size = M30K._replace(vocabulary=WORDS, rows=80)
    corpus, rows = examples(size, 1)
    side, batch = Side(text_model(size), "cpu", precision, plain=False), corpus.batch(rows[0])
    return spent(lambda: side.run([batch]))


def rates(rows: int) -> dict[str, float]:
    """10^9 operations a second of the output layer's product, the best of several tries."""
    weight, bias, x = torch.randn(WORDS, 512), torch.randn(WORDS), torch.randn(rows, 512)
    ways = {f"searches, {p}": still(weight, bias, p) for p in ("fp32", "bf16", "int8")}
    ways["torch's linear, fp32"] = lambda x: torch.nn.functional.linear(x, weight, bias)
    found = {}
    with torch.inference_mode():
        for name, way in ways.items():
            times = []
            for _ in range(10):
                begun = time.process_time()
                way(x)
                times.append(time.process_time() - begun)
            found[name] = 2e-9 * rows * weight.numel() / min(times)
    return found


def show(title: str, found: dict[str, Counter[str]]) -> None:
    names = list(dict.fromkeys(n for one in found.values() for n, _ in one.most_common()))
    names = [n for n in names if n not in ("all", "everything else")]
    print(f"| {title} | " + " | ".join(found) + " |\n" + "|---" * (len(found) + 1) + "|")
    names = [name for name in names if any(one[name] >= 0.5 for one in found.values())]
    for name in [*names, "everything else", "all"]:
        print(f"| {name} | " + " | ".join(f"{one[name]:.0f}" for one in found.values()) + " |")
    print(flush=True)


def main() -> None:
    torch.set_num_threads(1)
    every = {rows: rates(rows) for rows in (5, 64, 320)}
    print("| 10^9 operations/s of one product | " + " | ".join(every[5]) + " |")
    print("|---" * (1 + len(every[5])) + "|")
    for rows, found in every.items():
        print(f"| {rows} rows | " + " | ".join(f"{rate:.0f}" for rate in found.values()) + " |")
    print()
    show("ms for 64 sentences", {p: searching(p) for p in ("fp32", "bf16", "int8")})
    show("ms for a training step", {p: training(p) for p in ("fp32", "bf16")})


if __name__ == "__main__":
    main()
