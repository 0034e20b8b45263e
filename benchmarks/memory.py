"""How much memory `predict` needs for an input of any length: resident memory along the way.

python benchmarks/memory.py                 a million lines, a small model trained on the spot
python benchmarks/memory.py --lines 20000   fewer
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

import dragoman

LETTERS = "abcdefghijklmnop"
MARKS = (0.01, 0.1, 0.25, 0.5, 0.75, 1.0)  # shares of the input at which memory is looked at
SMALL = {
    "data": {"dev_rows": 50},
    "model": {
        "encoder": {"embedding": 16, "hidden": 16},
        "attention": {"size": 16},
        "decoder": {"hidden": 16, "readout_size": 16},
        "head": {"embedding": 16},
    },
    "train": {"max_steps": 200, "batch_size": 64, "lr": 0.01, "metric": "loss"},
}


def word(chance: random.Random) -> str:
    return "".join(chance.choices(LETTERS, k=chance.randint(1, 6)))


def feed(stream: IO[bytes], lines: int) -> None:
    """Write the input while it is being answered: it is nowhere as a whole."""
    chance = random.Random(2)
    for _ in range(lines):
        stream.write(f"{word(chance)}\n".encode())
    stream.close()


def resident(pid: int) -> float:
    """Resident memory of a process, in MB."""
    told = Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1]
    return int(told.split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    lines: int = parser.parse_args().lines
    chance = random.Random(1)
    words = {word(chance) for _ in range(2000)}
    with tempfile.TemporaryDirectory() as place:
        pairs = [(text, text[::-1]) for text in sorted(words)]
        dragoman.train(pairs, f"{place}/model", config=SMALL, quiet=True)
        command = [sys.executable, "-m", "dragoman", "predict", f"{place}/model"]
        command += ["--beam", "1", "--batch-size", "256", "--max-length", "8"]
        run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert run.stdin is not None
        assert run.stdout is not None
        threading.Thread(target=feed, args=(run.stdin, lines), daemon=True).start()
        marks = {max(1, round(lines * share)): share for share in MARKS}
        count = 0
        for _ in run.stdout:
            count += 1
            if count in marks:
                print(
                    f"{marks[count]:4.0%}  {count:9,} lines  {resident(run.pid):7.1f} MB",
                    flush=True,
                )
        assert run.wait() == 0
        assert count == lines, (count, lines)


if __name__ == "__main__":
    main()
