"""Train and judge one row of rows.yaml: python benchmarks/quality/run.py ROW --data DATA.

Everything goes through the command line that people use. Leaves results/ROW.json, of which page.py
makes docs/results.md. A row that was begun goes on: models that are there are not trained again.
"""

import argparse
import json
import os
import platform
import shlex
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).parent
DRAGOMAN = [sys.executable, "-m", "dragoman"]
STOPPED = 143  # what a training ends with that was asked to stop


class Task(NamedTuple):
    """One model: a row, one of its languages (if it has several), a seed."""

    row: dict[str, Any]
    item: str
    seed: int

    def files(self, names: list[str], data: Path, work: Path) -> list[str]:
        """Files of the data sets, or of what was made for the row."""
        places = [work if name.startswith("made/") else data for name in names]
        told = [name.replace("{}", self.item) for name in names]
        return [str(place / name) for place, name in zip(places, told, strict=True)]

    def folder(self, work: Path) -> Path:
        return work / self.row["name"] / (self.item or "all") / str(self.seed)


def load_rows() -> dict[str, dict[str, Any]]:
    """The rows by name; names with a dot are what others are built on."""
    tree = yaml.safe_load((HERE / "rows.yaml").read_text("utf-8"))
    return {
        name: row | {"name": name, "set": list(settings(row.get("set", [])))}
        for name, row in tree.items()
        if not name.startswith(".")
    }


def settings(listed: list[Any]) -> Iterator[str]:
    """A row's settings, those of lists that it shares with others among them."""
    for one in listed:
        yield from settings(one) if isinstance(one, list) else [one]


def tasks(row: dict[str, Any], seeds: list[int] | None) -> list[Task]:
    return [
        Task(row, item, seed)
        for item in row.get("each", [""])
        for seed in seeds or row.get("seeds", [1])
    ]


def train_command(task: Task, data: Path, work: Path) -> list[str]:
    """What a person would type."""
    row = task.row
    command = ["train", *task.files(row["train"], data, work)]
    for name in task.files(row.get("dev", []), data, work):
        command += ["--dev", name]
    command += ["--recipe", row["recipe"]] if "recipe" in row else []
    command += ["--columns", row["columns"]] if "columns" in row else []
    for setting in (*row.get("set", []), f"train.seed={task.seed}"):
        command += ["--set", setting]
    return [*command, "-o", str(task.folder(work))]


def train_commands(task: Task, data: Path, work: Path) -> list[list[str]]:
    """One command, or two where the row's run is first a shorter one that is then lengthened."""
    command = train_command(task, data, work)
    if "first_steps" not in task.row:
        return [command]
    return [
        [*command, "--set", f"train.max_steps={task.row['first_steps']}"],
        [*command, "--resume"],
    ]


def started(row: dict[str, Any]) -> list[str]:
    """`dragoman`, or several processes of it that train one model."""
    if "processes" not in row:
        return DRAGOMAN
    several = ["-m", "torch.distributed.run", "--nproc-per-node", str(row["processes"])]
    return [sys.executable, *several, "-m", "dragoman"]


def told(row: dict[str, Any]) -> list[str]:
    """The same as people type it."""
    if "processes" not in row:
        return ["dragoman"]
    return ["torchrun", "--nproc-per-node", str(row["processes"]), "-m", "dragoman"]


def make(row: dict[str, Any], args: Any) -> None:
    """Data that no file holds: commands that write it, by the file that each leaves."""
    for name, command in row.get("make", {}).items():
        if not (args.work / name).exists():
            (args.work / name).parent.mkdir(parents=True, exist_ok=True)
            filled = command.replace("BENCHMARKS", str(HERE.parent))
            filled = filled.replace("DATA", str(args.data)).replace("WORK", str(args.work))
            subprocess.run([sys.executable, *shlex.split(filled)], check=True)


class Cost(NamedTuple):
    """What a training took, in minutes."""

    wall: float
    cpu: float  # of all threads; on a machine shared with others it tells more than the clock


def train(task: Task, args: Any) -> Cost:
    """What it took to train; what an earlier call did is not done again."""
    told = task.folder(args.work) / "minutes.json"
    if told.exists():
        return Cost(*json.loads(told.read_text()))
    begun = time.monotonic()
    every = train_commands(task, args.data, args.work)
    busy = sum(run(task, [*started(task.row), *command], args) for command in every)
    cost = Cost((time.monotonic() - begun) / 60, busy / 60)
    told.write_text(json.dumps(cost))
    return cost


def run(task: Task, command: list[str], args: Any) -> float:
    """One training, its output in a file beside its folder; the CPU seconds that it took."""
    command += [] if "--resume" in command else ["--overwrite"]
    command += ["--set", f"train.device={args.device}"]
    command += ["--set", f"train.max_steps={args.steps}"] if args.steps else []
    log = args.work / f"{task.row['name']}-{task.item}-{task.seed}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    limit, begun = min(cap(task.row, args) * 60, threading.TIMEOUT_MAX), time.monotonic()
    with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as running:
        late = threading.Timer(limit, os.kill, (running.pid, signal.SIGTERM))
        late.daemon = True
        late.start()
        _, status, used = os.wait4(running.pid, 0)  # of this one, whatever runs beside it
        late.cancel()
        running.returncode = code = os.waitstatus_to_exitcode(status)
    stopped = code == STOPPED and time.monotonic() - begun >= limit
    if code and not stopped:  # one that was stopped has left its best model so far
        raise SystemExit(f"{shlex.join(command)}\n{log.read_text()[-2000:]}")
    return float(used.ru_utime + used.ru_stime)


def cap(row: dict[str, Any], args: Any) -> float:
    """Minutes that a model may take: what was asked for, or what the row is about."""
    return float(args.minutes or row.get("minutes") or "inf")


def judge(models: list[Path], files: list[str], options: list[str], device: str) -> dict[str, Any]:
    """All metrics of a model, or of several together, on a test."""
    together = [part for model in models[1:] for part in ("--ensemble", str(model))]
    command = [*DRAGOMAN, "evaluate", str(models[0]), *files, *options, *together]
    command += ["--json", "--device", device, "--batch-size", "64"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def value_of(found: dict[str, Any], metric: str) -> float:
    """A metric by the name it is asked for; in results it may be spelled as people write it."""
    wanted = metric.lower().replace("-", "")
    named = [name for name in found if name.lower().replace("-", "").startswith(wanted)]
    return float(found[named[0]]["value"])


def figures(row: dict[str, Any], group: list[Task], args: Any) -> Iterator[dict[str, Any]]:
    """One record per test: the metric of each seed, and of all together where the row asks."""
    models = [task.folder(args.work) for task in group]
    if "tests" not in row:  # a language model is judged on its held-out text
        ends = [(model / "metrics.jsonl").read_text().splitlines() for model in models]
        best = [min(json.loads(line)[row["metric"]] for line in lines) for lines in ends]
        yield {"item": group[0].item, "test": "held-out end", "values": best}
        return
    for name, test in row["tests"].items():
        files = group[0].files(test["files"], args.data, args.work)
        options = test.get("options", [])
        found = [judge([model], files, options, args.device) for model in models]
        record = {"item": group[0].item, "test": name, "scores": found[0]}
        record["values"] = [value_of(one, row["metric"]) for one in found]
        if row.get("ensemble") and len(models) > 1:
            together = judge(models, files, options, args.device)
            record["ensemble"] = value_of(together, row["metric"])
        yield record


def hardware(device: str) -> str:
    """What the row was run on."""
    import torch

    cpu = f"{os.cpu_count()} CPU cores"
    return f"{torch.cuda.get_device_name(0)}, {cpu}" if device != "cpu" else cpu


def measure(row: dict[str, Any], args: Any) -> dict[str, Any]:
    import torch

    every = tasks(row, args.seeds)
    make(row, args)
    with ThreadPoolExecutor(args.jobs) as pool:
        costs = list(pool.map(lambda task: train(task, args), every))
        groups = [[t for t in every if t.item == item] for item in row.get("each", [""])]
        found = list(pool.map(lambda group: list(figures(row, group, args)), groups))
    return {
        "row": row["name"],
        "command": " && ".join(
            shlex.join([*told(row), *command])
            for command in train_commands(every[0], Path("DATA"), Path("runs"))
        ),
        "seeds": sorted({task.seed for task in every}),
        "minutes": round(statistics.mean(cost.wall for cost in costs), 2),
        "cpu_minutes": round(statistics.mean(cost.cpu for cost in costs), 2),
        "threads": torch.get_num_threads(),
        "jobs": args.jobs,
        "steps": args.steps,
        "stopped": sum(cost.wall >= cap(row, args) for cost in costs),
        "hardware": hardware(args.device),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "figures": [record for group in found for record in group],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="of rows.yaml; all when none is named")
    parser.add_argument("--data", type=Path, default=HERE / "../../../shared/data")
    parser.add_argument("--work", type=Path, default=Path("runs/quality"))
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1, help="models trained side by side")
    parser.add_argument("--steps", type=int, help="at most so many, for a try")
    parser.add_argument("--minutes", type=float, help="at most so long a model; it is told")
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")])
    args = parser.parse_args()
    rows = load_rows()
    if unknown := set(args.rows) - set(rows):
        raise SystemExit(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(rows)}")
    args.results.mkdir(parents=True, exist_ok=True)
    for name in args.rows or rows:
        found = measure(rows[name], args)
        (args.results / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        for record in found["figures"]:
            print(name, record["item"], record["test"], record["values"], record.get("ensemble"))


if __name__ == "__main__":
    main()
