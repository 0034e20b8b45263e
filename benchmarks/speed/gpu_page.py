"""What a GPU did, as tables for docs/speed.md: from results/*_cuda.json and gpu_decode.json."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
TRAINED = {
    ("Multi30k size", "bf16"): "GRU, attention before the cell, bf16",
    ("Multi30k size", "fp32"): "the same in fp32 (true fp32 products)",
    ("Multi30k size, lstm, before", "bf16"): "LSTM, bf16",
    ("Multi30k size, gru, fed", "bf16"): "GRU, Luong's attention, fed, bf16",
    ("Multi30k size, lstm, fed", "bf16"): "LSTM, fed, bf16",
    ("characters", "bf16"): "characters: 60 symbols, hidden 256, bf16",
    ("WMT size", "bf16"): "WMT size: 32,000 symbols, hidden 1024, 256 rows, twice as long, bf16",
}


def training() -> list[str]:
    """Steps of both sides, how they grow, and the share of the input."""
    found = json.loads((RESULTS / "train_cuda.json").read_text("utf-8"))
    known = {(one["name"], one.get("precision")): one for one in found}
    lines = ["| | plain, ms | ours, ms | ratio | target symbols/s |", "|---|---|---|---|---|"]
    lines += [_step(told, known[key]) for key, told in TRAINED.items() if key in known]
    if (senses := RESULTS / "senses_cuda.json").exists():
        lines += [_sense(one) for one in json.loads(senses.read_text("utf-8"))]
    growing = [one for one in found if one["name"].startswith(("length", "batch", "vocabulary"))]
    lines += [
        "",
        "How cost grows (GRU, bf16; rows all of one length, then batches, then alphabets):",
    ]
    lines += ["", "| | plain, ms | ours, ms | ratio | target symbols/s |", "|---|---|---|---|---|"]
    lines += [_step(one["name"], one) for one in growing]
    if share := known.get(("pipeline", None)):
        making, whole, alone = (share[f"{k}_ms"] for k in ("making", "with_pipeline", "step"))
        told = (
            f"**The input** takes {making:.2f} ms a batch to make, in its thread; a step with it "
        )
        told += f"takes {whole:.2f} ms against {alone:.2f} ms with batches at hand: "
        lines += ["", told + f"{100 * share['share']:.1f} % of a step."]
    return lines


def _step(told: str, one: dict[str, Any]) -> str:
    speed, ratio = f"{one['tokens_per_s']:,.0f}", f"{one['ratio']:.1f}"
    return f"| {told} | {one['plain_ms']:.1f} | {one['ours_ms']:.2f} | {ratio} | {speed} |"


def _sense(one: dict[str, Any]) -> str:
    told = f"{one['name']}, {one['items']} items, {one['precision']}"
    return f"| {told} | {one['plain_ms']:.1f} | {one['ours_ms']:.2f} | {one['ratio']:.1f} | – |"


def decoding() -> list[str]:
    """Sentences a second, of all sides that were measured in the same run."""
    found = json.loads((RESULTS / "gpu_decode.json").read_text("utf-8"))
    sides = ("peer fp32", "peer bf16", "plain fp32", "plain bf16", "fp32", "bf16")
    heads = ["peer-like, fp32", "bf16", "plain, fp32", "bf16", "ours, fp32", "bf16"]
    ratios = [f"bf16 / {side}" for side in sides[:4]]
    lines = [f"{found['device']}, torch {found['torch']}; sentences/s.", ""]
    lines += ["| beam 5 | " + " | ".join([*heads, *(f"ours {one}" for one in ratios)]) + " |"]
    lines += ["|---" * (1 + len(sides) + len(ratios)) + "|"]
    for name, one in found.items():
        if isinstance(one, dict):
            cells = [f"{one[side]:,.0f}" if side in one else "–" for side in sides]
            cells += [f"{one[ratio]:.1f}" if ratio in one else "–" for ratio in ratios]
            mark = " †" if name in found.get("older", ()) else ""
            lines.append(f"| {name}{mark} | " + " | ".join(cells) + " |")
    if found.get("older"):
        lines += ["", "† of an earlier run, and what it says of Dragoman is older."]
    every = [one for one in found.values() if isinstance(one, dict)]
    exact = sum(one["fp32 same"] == 1 for one in every)
    low = [one["bf16 same"] for one in every if one["batch"] > 1]
    told = (
        f"In {exact} of {len(every)} cases ours in fp32 gave the plain search's tokens; in bf16, "
    )
    told += "single sentences apart, "
    told += f"{100 * min(low):.0f} to {100 * max(low):.0f} % of them: an untrained model has many "
    return [*lines, "", told + "near-ties, and less precision decides them otherwise."]
