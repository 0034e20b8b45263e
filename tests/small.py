"""A small task and small models for it, for tests that train."""

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TREE: dict[str, Any] = {
    "data": {"dev_rows": 20},
    "model": {
        "encoder": {"cell": "gru", "embedding": 24, "hidden": 32, "dropout": 0.0},
        "attention": {"size": 32},
        "decoder": {"cell": "gru", "hidden": 48, "dropout": 0.0, "readout_size": 24},
        "head": {"embedding": 24},
    },
    "train": {"max_steps": 140, "batch_size": 32, "lr": 0.01, "evaluate_every": 70},
}
SPEEDY: dict[str, Any] = {  # nothing is learned, everything is exercised
    "data": {"dev_rows": 4},
    "model": {
        "encoder": {"embedding": 4, "hidden": 4},
        "attention": {"size": 4},
        "decoder": {"hidden": 4, "readout_size": 4},
        "head": {"embedding": 4},
    },
    "train": {"max_steps": 2, "batch_size": 8},
}
TEXT_LM: dict[str, Any] = {
    "data": {"dev_rows": 4, "target": {"units": "char"}},
    "model": {"decoder": {"hidden": 8, "layers": 2}, "head": {"embedding": 6}},
    "train": {"max_steps": 3, "batch_size": 4, "bptt": 7},
}


def words(count: int, seed: int = 1, letters: str = "abcdef", longest: int = 5) -> list[str]:
    """Different short words."""
    chance, found = random.Random(seed), dict[str, None]()
    while len(found) < count:
        found["".join(chance.choices(letters, k=chance.randint(1, longest)))] = None
    return list(found)


def reversals(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """The task: write a word backwards."""
    return [(word, word[::-1]) for word in words(count, seed)]


def write_pairs(path: Path, pairs: Iterable[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    return path


def settings(tree: Mapping[str, Any], path: str = "") -> list[str]:
    """A tree as options of the command line.

    >>> settings({"train": {"lr": 0.1}})
    ['--set', 'train.lr=0.1']
    """
    options: list[str] = []
    for key, value in tree.items():
        where = f"{path}{key}"
        if isinstance(value, Mapping):
            options += settings(value, f"{where}.")
        else:
            options += ["--set", f"{where}={value}"]
    return options


def over(tree: Mapping[str, Any], **parts: Mapping[str, Any]) -> dict[str, Any]:
    """The tree with some parts changed."""
    return {**tree, **{part: {**tree.get(part, {}), **changes} for part, changes in parts.items()}}


# a run in which nothing is left to chance
STEADY = over(SPEEDY, train={"max_steps": 20, "batch_size": 7, "lr": 0.01, "clip": 0.5})
STEADY["model"] = over(STEADY["model"], encoder={"dropout": 0.0}, decoder={"dropout": 0.0})
