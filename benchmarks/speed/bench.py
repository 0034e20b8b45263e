"""Dragoman and its peers, the same work in one run.

    python benchmarks/speed/bench.py [--quick] [--peers FOLDER]

Every system is a process of its own, in its own environment, with one thread. Orders take turns
round by round, so that whatever else the machine does hits all alike; times are CPU time of the
process, and of several rounds the median counts. Results go to benchmarks/speed/results/cpu.json;
`page.py` writes them into docs/speed.md.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUNNERS = HERE / "runners"
OURS = {
    "dragoman": [],
    "dragoman bf16": ["bf16"],
    "dragoman int8": ["int8"],
    "dragoman luong": ["luong"],
    "dragoman recipe": ["recipe"],
    "dragoman recipe bf16": ["recipe", "bf16"],
    "dragoman recipe int8": ["recipe", "int8"],
    "dragoman plain steps": ["plain"],
}
PEERS = {"OpenNMT-py": "opennmt", "JoeyNMT": "joeynmt", "yoyodyne": "yoyodyne"}
STARTS = {
    "dragoman": ["-m", "dragoman", "--help"],
    "OpenNMT-py": ["-m", "onmt.bin.translate", "--help"],
    "JoeyNMT": ["-m", "joeynmt", "--help"],
    "yoyodyne": ["-m", "yoyodyne.cli.main", "--help"],
}
IMPORTS = {
    "dragoman": "dragoman",
    "OpenNMT-py": "onmt",
    "JoeyNMT": "joeynmt",
    "yoyodyne": "yoyodyne",
}

BASE = {"do": "decode", "model": "words", "batch": 16, "beam": 5, "steps": 15, "times": 1}
GROWTH = {  # how the cost of a search grows, from beam 5, batch 16, 15 symbols, 8,000 words
    "growth, base": {},
    **{f"growth, length {n}": {"length": n, "steps": n} for n in (30, 60)},
    **{f"growth, beam {n}": {"beam": n} for n in (1, 10, 20)},
    **{f"growth, vocabulary {n}": {"vocabulary": n} for n in (1000, 32_000)},
}
GROWING = ("dragoman", "dragoman int8", "OpenNMT-py")  # who is asked for it


LARGE = {  # with 32,000 words, embeddings of 640 and a decoder of 1024
    "training, WMT size": {"do": "train", "model": "large", "batch": 32, "count": 1},
    "beam 5, batch 16, WMT size": {**BASE, "model": "large"},
    "greedy, batch 16, WMT size": {**BASE, "model": "large", "beam": 1},
}


def orders(quick: bool) -> dict[str, dict[str, Any]]:
    """What is measured, by name."""
    made: dict[str, dict[str, Any]] = {}
    for model in ("words", "letters"):
        more = ", letters" if model == "letters" else ""
        made[f"training{more}"] = {"do": "train", "model": model, "batch": 80, "count": 3}
        for batch in (64, 1) if quick else (64, 1, 32, 256):
            for beam in (5, 1):
                kind = "greedy" if beam == 1 else "beam 5"
                made[f"{kind}, batch {batch}{more}"] = {
                    "do": "decode", "model": model, "batch": batch, "beam": beam, "steps": 15,
                    "times": max(1, 16 // batch)
                }  # fmt: skip
        if model == "words":
            made |= {name: {**BASE, **changes} for name, changes in GROWTH.items()}
    return made | LARGE


class System:
    """A process that works on orders."""

    def __init__(self, python: str, script: str, arguments: list[str], ours: bool) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        if ours:
            env["PYTHONPATH"] = str(HERE.parents[1] / "src")
        else:
            env.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [python, script, *arguments],
            cwd=RUNNERS,
            env=env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def work(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())
        except (OSError, ValueError):
            return {"error": "the process died"}


def systems(folder: Path, wanted: list[str]) -> dict[str, System]:
    """All that can be measured here, or those that are wanted."""
    found = {
        name: System(sys.executable, "dragoman_runner.py", flags, ours=True)
        for name, flags in OURS.items()
        if name in (wanted or OURS)
    }
    for name, place in PEERS.items():
        if name not in (wanted or PEERS):
            continue
        python = folder / place / "bin" / "python"
        if python.exists():
            found[name] = System(str(python), f"{place}_runner.py", [], ours=False)
        else:
            print(f"{name} is not in {folder}: run benchmarks/speed/peers.sh", file=sys.stderr)
    return found


def sensible(name: str, order: dict[str, Any]) -> bool:
    """Whether a system is asked to do this: some would take minutes for one round."""
    grows = order["do"] == "decode" and order["batch"] == BASE["batch"]
    if grows and order["model"] == "words" and name not in GROWING:
        return False
    if order["do"] == "train" and name.endswith(("int8", "plain steps")):
        return False
    slow = order["do"] == "decode" and order["beam"] > 1 and order["model"] != "letters"
    return not (name == "yoyodyne" and slow)


def measure(every: dict[str, System], order: dict[str, Any], rounds: int) -> dict[str, Any]:
    """One order, by all systems in turn, several times."""
    turns: dict[str, list[dict[str, Any]]] = {}
    for turn in range(rounds + 1):  # the first is for warming up
        for name, system in every.items():
            if not sensible(name, order) or any("error" in a for a in turns.get(name, [])):
                continue
            answer = system.work(order)
            if turn or "error" in answer:
                turns.setdefault(name, []).append(answer)
    result = {}
    for name, answers in turns.items():
        if "error" in answers[-1]:
            result[name] = {"error": answers[-1]["error"]}
            continue
        seconds = [a["seconds"] for a in answers]
        result[name] = {
            "per_second": answers[0]["amount"] / statistics.median(seconds),
            "seconds": seconds,
            "memory": max(a["memory"] for a in answers),
        }
    exact = [turns[n][0].get("found") for n in ("dragoman", "dragoman plain steps") if n in turns]
    if order["do"] == "decode" and len(exact) == 2:
        result["dragoman"]["as_plain"] = exact[0] == exact[1]
    return result


def start_up(folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds of CPU time until help is shown, and until the package is imported."""
    result: dict[str, Any] = {}
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parents[1] / "src")}
    for turn in range(rounds + 1):
        for name, help_ in STARTS.items():
            ours = name == "dragoman"
            python = sys.executable if ours else str(folder / PEERS[name] / "bin" / "python")
            if not Path(python).exists():
                continue
            for what, command in (("help", help_), ("import", ["-c", f"import {IMPORTS[name]}"])):
                before = os.times()
                done = subprocess.run(
                    [python, *command],
                    env=env if ours else {k: v for k, v in env.items() if k != "PYTHONPATH"},
                    capture_output=True,
                    check=False,
                )
                after = os.times()
                spent = after.children_user + after.children_system
                spent -= before.children_user + before.children_system
                if turn and done.returncode == 0:
                    result.setdefault(name, {}).setdefault(what, []).append(spent)
    return {
        name: {what: statistics.median(values) for what, values in both.items()}
        for name, both in result.items()
    }


def versions(folder: Path) -> dict[str, str]:
    """Of what was measured."""
    found = {}
    for name, place in PEERS.items():
        python, package = folder / place / "bin" / "python", name.lower()
        code = f"from importlib.metadata import version as v; print(v('{package}'), v('torch'))"
        if python.exists():
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
            found[name] = " with torch ".join(done.stdout.split())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="orders whose names contain this")
    parser.add_argument("--systems", default="", help="these alone, with commas between them")
    usual = os.environ.get("DRAGOMAN_PEERS", str(Path.home() / ".cache/dragoman/peers"))
    parser.add_argument("--peers", type=Path, default=Path(usual))
    parser.add_argument("--out", type=Path, default=HERE / "results" / "cpu.json")
    given = parser.parse_args()
    every = systems(given.peers, [name for name in given.systems.split(",") if name])
    report: dict[str, Any] = {
        "when": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": _processor(),
        "python": platform.python_version(),
        "peers": versions(given.peers),
        "orders": {},
        "dates": {},
    }
    every_order = orders(given.quick)
    for name, order in every_order.items():
        if given.only == name or (given.only not in every_order and given.only in name):
            found = report["orders"][name] = measure(every, order, given.rounds)
            report["dates"][name] = report["when"]
            write(report, given.out)
            told = (f"{n} {r['per_second']:.1f}" for n, r in found.items() if "per_second" in r)
            print(f"{name}: {', '.join(told)}", flush=True)
    if given.only in "start-up":
        report["start"] = start_up(given.peers, given.rounds)
        write(report, given.out)
    for system in every.values():
        system.process.kill()


def write(report: dict[str, Any], path: Path) -> None:
    """Results so far, over those of earlier runs: an order that was measured anew replaces the old
    one.
    """
    path.parent.mkdir(exist_ok=True)
    known = json.loads(path.read_text("utf-8")) if path.exists() else {"orders": {}}
    both = {key: {**known.get(key, {}), **report[key]} for key in ("orders", "dates")}
    merged = {**known, **report, **both}
    path.write_text(json.dumps(merged, indent=1) + "\n", "utf-8")


def _processor() -> str:
    """By its name, and by its family, which tells AMD's apart: 25 is Zen 3 and 4, 26 is Zen 5."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        found = dict(map(str.strip, line.split(":", 1)) for line in lines if ":" in line)
        return f"{found['model name']}, family {found['cpu family']}"
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
