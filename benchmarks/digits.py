"""Data sets made of digits: spoken ones joined into strings, written ones that move.

    python benchmarks/digits.py strings ../shared/data/fsdd  build/strings   one to five, joined
    python benchmarks/digits.py moving  ../shared/data/mnist build/moving    clips, described

Each writes `train.tsv` and `test.tsv` beside a zip. Takes and handwriting of the test part are in
no training row.
"""

import argparse
import gzip
import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.demo.media import Pair, manifest, zipped_arrays, zipped_sounds

WORDS = "zero one two three four five six seven eight nine".split()  # noqa: SIM905
WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
RATE, SIDE, LENGTH, SPEED = 8000, 48, 12, 2.5

Samples = npt.NDArray[np.float32]
Images = npt.NDArray[np.uint8]


def listed(path: Path) -> list[Pair]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [(name, word) for name, word in (line.rstrip("\n").split("\t") for line in file)]


def _list(out: Path, part: str, names: list[str], said: list[str]) -> None:
    """Both parts have a zip with the same names in it: rows say which zip they mean."""
    rows = [(f"{part}/{name}", text) for name, text in zip(names, said, strict=True)]
    manifest(out / f"{part}.tsv", rows)


def strings(source: Path, out: Path, counts: dict[str, int]) -> None:
    """Takes of one speaker in a row, with short silences between them."""
    with zipfile.ZipFile(source / "audio.zip") as archive:
        for part, count in counts.items():
            takes = [(name, word) for name, word in listed(source / f"{part}.tsv.gz")]
            sounds = {name: _decoded(archive.read(name)) for name, _ in takes}
            lengths = (1, 1, 1, 2, 2, 3, 4, 5) if part == "train" else (1, 2, 3, 4, 5)
            chosen = list(_strings(takes, count, lengths, seed=len(part)))
            joined = (_joined([sounds[name] for name, _ in one], i) for i, one in enumerate(chosen))
            names = zipped_sounds(out / f"{part}.zip", joined, RATE)
            said = [" ".join(word for _, word in one) for one in chosen]
            _list(out, part, names, said)


def _decoded(content: bytes) -> Samples:
    import soundfile

    samples: Samples = soundfile.read(io.BytesIO(content), dtype="float32")[0]
    return samples


def _strings(
    takes: list[Pair], count: int, lengths: tuple[int, ...], seed: int
) -> Iterator[list[Pair]]:
    """Strings of such lengths; where short ones are common, attention is learnt sooner."""
    chance = random.Random(seed)
    speakers: dict[str, list[Pair]] = {}
    for take in takes:
        speakers.setdefault(take[0].split("_")[1], []).append(take)
    for _ in range(count):
        own = speakers[chance.choice(sorted(speakers))]
        yield chance.choices(own, k=chance.choice(lengths))


def _joined(parts: list[Samples], seed: int) -> Samples:
    chance = np.random.default_rng(seed)
    pieces: list[Samples] = []
    for part in parts:
        gap = chance.normal(0, 1e-3, int(RATE * chance.uniform(0, 0.15))).astype(np.float32)
        pieces += [part, gap]
    return np.concatenate(pieces)


def moving(source: Path, out: Path, counts: dict[str, int]) -> None:
    """A written digit that goes one way, or one way and then another."""
    images, labels = _mnist(source)
    border = len(images) * 8 // 10
    parts = {"train": range(border), "test": range(border, len(images))}
    for part, count in counts.items():
        chance = random.Random(len(part))
        rows = []
        for _ in range(count):
            first = chance.choice(list(WAYS))
            second = chance.choice([way for way in WAYS if way != first])
            rows.append((chance.choice(parts[part]), [first, second][: chance.randint(1, 2)]))
        clips = (_clip(images[digit], ways, seed) for seed, (digit, ways) in enumerate(rows))
        names = zipped_arrays(out / f"{part}.zip", clips)
        said = [f"{WORDS[labels[digit]]} moves {', then '.join(ways)}" for digit, ways in rows]
        _list(out, part, names, said)


def _mnist(source: Path) -> tuple[Images, Images]:
    with gzip.open(source / "t10k-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(source / "t10k-labels-idx1-ubyte.gz") as file:
        return images, np.frombuffer(file.read(), np.uint8, offset=8)


def _clip(digit: Images, ways: list[str], seed: int) -> Images:
    chance = np.random.default_rng(seed)
    path = np.cumsum(
        [np.array(WAYS[ways[t * len(ways) // LENGTH]]) * SPEED for t in range(LENGTH)], 0
    )
    room = SIDE - 28 - (path.max(0) - path.min(0))
    path = np.round(path - path.min(0) + chance.random(2) * np.maximum(room, 0)).astype(int)
    big = SIDE + 2 * SIDE  # a digit may go over the edge
    frames = np.zeros((LENGTH, big, big), np.uint8)
    for frame, (x, y) in zip(frames, path, strict=True):
        frame[SIDE + y : SIDE + y + 28, SIDE + x : SIDE + x + 28] = digit
    return frames[:, SIDE : 2 * SIDE, SIDE : 2 * SIDE]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("task", choices=["strings", "moving"])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--train", type=int, default=8000, help="how many training rows")
    parser.add_argument("--test", type=int, default=1000, help="how many test rows")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    make = strings if given.task == "strings" else moving
    make(given.source, given.out, {"train": given.train, "test": given.test})


if __name__ == "__main__":
    main()
