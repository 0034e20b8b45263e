"""What captions are worth that need no model: one sentence for all pictures, and the sentence of
the picture whose pixels are nearest.

    python benchmarks/captions.py ../shared/data/rsicd
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from dragoman.data.pictures import ImageField, ImageSpec
from dragoman.data.rows import read_table
from dragoman.metrics import compute

NAMES = ["bleu1", "bleu2", "bleu3", "bleu4", "rouge-captions", "cider"]
LIKELY = 40  # as many of the commonest captions are tried as the one for all


def captions(path: Path) -> dict[str, list[str]]:
    """All captions of each picture."""
    found: dict[str, list[str]] = {}
    for name, text in read_table(path, files=[0]):
        found.setdefault(name, []).append(text.lower())
    return found


def constant(train: dict[str, list[str]], dev: dict[str, list[str]]) -> str:
    """Of the commonest captions of training, the one that suits the dev pictures best."""
    counts = Counter(text for several in train.values() for text in several)
    wanted = list(dev.values())

    def worth(text: str) -> float:
        return compute(["cider"], [text] * len(wanted), wanted)[0].value

    return max((text for text, _ in counts.most_common(LIKELY)), key=worth)


def pixels(names: list[str]) -> np.ndarray:
    """Pictures as rows of numbers (N, C·H·W)."""
    field = ImageField(ImageSpec(height=32, width=32))
    rows, bad = field.read(names)
    assert not bad, bad
    return np.stack([rows[i].reshape(-1) for i in range(len(rows))]).astype(np.float32)


def nearest(train: list[str], test: list[str]) -> list[str]:
    """For each test picture, the training picture at the least distance."""
    known, asked = pixels(train), pixels(test)
    distances = (known**2).sum(1) - 2 * asked @ known.T
    return [train[i] for i in distances.argmin(1)]


def central(several: list[str]) -> str:
    """Of a picture's captions, the one most like the others."""
    scores = [
        compute(["rouge-captions"], [one], [several[:i] + several[i + 1 :] or [one]])[0].value
        for i, one in enumerate(several)
    ]
    return several[int(np.argmax(scores))]


def main(folder: Path) -> None:
    """Print a line for each way."""
    train, dev, test = (captions(folder / f"{part}.tsv.gz") for part in ("train", "dev", "test"))
    wanted = list(test.values())
    same = constant(train, dev)
    near = [central(train[name]) for name in nearest(list(train), list(test))]
    ways = {f"constant ({same})": [same] * len(wanted), "nearest by pixels": near}
    for way, written in ways.items():
        figures = zip(NAMES, compute(NAMES, written, wanted), strict=True)
        print(way, *(f"{name} {score.value:.2f}" for name, score in figures), sep="\t")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
