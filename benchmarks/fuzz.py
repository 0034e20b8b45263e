"""Mutated model folders, checkpoints and configs: each is refused with one clean line, or used, to
answer a line or to train another step; nothing is executed, nothing crashes or hangs.

python benchmarks/fuzz.py                   10 000 of them
python benchmarks/fuzz.py --count 500 --seed 7
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import yaml

import dragoman
from dragoman.config import resolve

FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class")
LIMIT, AT_MOST = 20, 600  # seconds for one folder: of work, and by the clock
HANDFUL = 100  # tried in one process, so that a crash costs little
VALUES: list[Any] = [None, -1, 0, 1e308, float("nan"), "", "x" * 9999, [], {}, True, 10**30]
ROWS = [(word, word[::-1]) for word in (f"{n} word{'s' * (n % 5)}" for n in range(60))]
SMALL: dict[str, Any] = {
    "data": {"dev_rows": 4},
    "model": {
        "encoder": {"embedding": 4, "hidden": 4},
        "attention": {"size": 4},
        "decoder": {"hidden": 4, "readout_size": 4},
        "head": {"embedding": 4},
    },
    "train": {"max_steps": 2, "batch_size": 8},
}


def bytes_of(chance: random.Random, content: bytes) -> bytes:
    """A few bytes changed, cut out, put in or doubled."""
    found = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found) + 1)
        kind = chance.randrange(5)
        if kind == 0 and found:
            found[at % len(found)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del found[at : at + chance.randint(1, 50)]
        elif kind == 2:
            found[at:at] = chance.randbytes(chance.randint(1, 20))
        elif kind == 3:
            found[at:at] = found[at : at + 100]
        else:
            found = found[:at]
    return bytes(found)


def tree_of(chance: random.Random, tree: Any) -> Any:
    """A config, or other data, with one value or name changed somewhere."""
    if isinstance(tree, list) and tree and chance.random() < 0.85:
        place = chance.randrange(len(tree))
        return [tree_of(chance, one) if n == place else one for n, one in enumerate(tree)]
    if isinstance(tree, dict) and tree and chance.random() < 0.85:
        key = chance.choice(sorted(tree))
        if chance.random() < 0.15:
            return {(f"{k}{chance.choice('sx_')}" if k == key else k): v for k, v in tree.items()}
        return tree | {key: tree_of(chance, tree[key])}
    if isinstance(tree, int) and chance.random() < 0.5:
        return tree + chance.choice([-1, 1, 7, 60_000, 10**9])
    return chance.choice(VALUES)


def sense_of(chance: random.Random, name: str, content: bytes) -> bytes:
    """A file that can still be read as what it is, and says something else."""
    if name.endswith(".yaml"):
        return yaml.safe_dump(tree_of(chance, yaml.safe_load(content))).encode()
    if name.endswith(".json"):
        return json.dumps(tree_of(chance, json.loads(content))).encode()
    if name.endswith(".safetensors"):
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.dumps(tree_of(chance, json.loads(content[8:end]))).encode()
        return len(header).to_bytes(8, "little") + header + content[end:]
    return bytes_of(chance, content)


def spoil(chance: random.Random, folder: Path) -> None:
    """One file of a folder mutated; mostly with the right checksum, as an attacker would."""
    name = chance.choice(sorted(path.name for path in folder.iterdir() if path.is_file()))
    file = folder / name
    content = file.read_bytes()
    if chance.random() < 0.5:
        file.write_bytes(sense_of(chance, name, content))
    else:
        file.write_bytes(bytes_of(chance, content))
    if name != "manifest.json" and chance.random() < 0.8:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        manifest["files"][name] = hashlib.sha256(file.read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))


def one(chance: random.Random, model: Path, place: Path) -> str:
    """Try a mutated folder, checkpoint or config file: what came of it."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(model, place)
    kind = chance.choice(["model", "model", "checkpoint", "config"])
    try:
        if kind == "model":
            spoil(chance, place)
            dragoman.load(place)("7 words", beam=2, max_length=8)
        elif kind == "checkpoint":
            spoil(chance, place / "checkpoints" / (place / "checkpoints" / "last").read_text())
            more = {"train": {"max_steps": SMALL["train"]["max_steps"] + 1}}
            dragoman.train(ROWS, place, config=more, resume=True, quiet=True)
        else:
            tree = tree_of(chance, yaml.safe_load((place / "config.yaml").read_bytes()))
            content = yaml.safe_dump(tree).encode()
            mutated = bytes_of(chance, content) if chance.random() < 0.3 else content
            (place / "config.yaml").write_bytes(mutated)
            resolve(file=place / "config.yaml")
    except dragoman.DragomanError:
        return f"{kind}: refused"
    return f"{kind}: {'taken' if kind == 'config' else 'used'}"


def handful(seed: int, model: Path, place: Path, told: Path) -> None:
    """In a process of its own: what comes of some mutations, one after the other."""
    sys.addaudithook(lambda event, _: os._exit(77) if event in FORBIDDEN else None)
    for number in range(seed, seed + HANDFUL):
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        signal.alarm(AT_MOST)
        with told.open("a") as file:
            file.write(f"{number} " + one(random.Random(number), model, place) + "\n")


def forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(70)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as here:
        place = Path(here)
        dragoman.train(ROWS, place / "model", config=SMALL, quiet=True)
        found: Counter[str] = Counter()
        for seed in range(given.seed, given.seed + given.count, HANDFUL):
            told = place / "told"
            told.write_text("")
            code = forked(lambda: handful(seed, place / "model", place / "m", told))  # noqa: B023
            lines = told.read_text().splitlines()
            found.update(line.split(" ", 1)[1] for line in lines)
            if code:
                what = {77: "EXECUTED", -signal.SIGALRM: "HUNG", -signal.SIGPROF: "HUNG"}.get(
                    code, f"CRASHED ({code})"
                )
                found[what] += 1
                print(f"{what} at {seed + len(lines)}", flush=True)
        for what, times in sorted(found.items()):
            print(f"{times:7,} {what}")
        print(f"{sum(found.values()):7,} in all")
        bad = sum(times for what, times in found.items() if what[0].isupper())
        sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
