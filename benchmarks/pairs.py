"""How much memory it takes to train on very many pairs: a store built once and read by memory map.

python benchmarks/pairs.py                    ten million pairs of twenty words each way
python benchmarks/pairs.py --pairs 1000000    fewer
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = 30_000
LENGTH = 20
SETTINGS = "train.max_steps=20 train.evaluate_every=20 data.dev_rows=100 train.metric=loss"


def write(path: Path, pairs: int) -> None:
    """Pairs of random words, the common ones common as in a language."""
    chance = random.Random(1)
    syllables = [a + b + c for a in "bdfgklmnprstvz" for b in "aeiou" for c in ("", "n", "r", "s")]
    words = ["".join(chance.choices(syllables, k=chance.randint(1, 4))) for _ in range(WORDS)]
    weights = [1 / (rank + 10) for rank in range(WORDS)]
    drawn = chance.choices(words, weights, k=2_000_000)
    with path.open("w") as file:
        for _ in range(pairs):
            at = [chance.randrange(len(drawn) - LENGTH) for _ in range(2)]
            source, target = (" ".join(drawn[start : start + LENGTH]) for start in at)
            file.write(f"{source}\t{target}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--recipe", default="bahdanau2015-small")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        rows, store = Path(place, "pairs.tsv"), Path(place, "store")
        write(rows, given.pairs)
        print(f"{given.pairs:,} pairs, {rows.stat().st_size / 1e9:.2f} GB of text", flush=True)
        command = [sys.executable, "-m", "dragoman", "train", str(rows), "-r", given.recipe]
        command += ["-o", f"{place}/model", "--set", f"data.store={store}"]
        command += [part for one in SETTINGS.split() for part in ("--set", one)]
        started = time.monotonic()
        subprocess.run(command, check=True)
        minutes = (time.monotonic() - started) / 60
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        kept = sum(file.stat().st_size for file in store.rglob("*") if file.is_file()) / 1e9
        print(f"store {kept:.2f} GB; built and trained 20 steps in {minutes:.1f} min")
        print(f"peak resident memory {peak:,.0f} MB")


if __name__ == "__main__":
    main()
