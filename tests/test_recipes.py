"""Every recipe is a model that learns: it memorises 20 pairs."""

import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

import made
from dragoman.config import Config, dump, resolve, validate
from dragoman.geometry import write_points
from dragoman.metrics import exact
from dragoman.model import sketch
from dragoman.progress import Reporter
from dragoman.recipes import recipe, recipe_names
from dragoman.training import run

STEADY: dict[str, Any] = {"dropout": 0.0, "masking": None, "augment": {}}
SYLLABLES = ["ba", "ko", "ti", "lu", "me", "sha", "dro", "pi"]
TRAIN = {
    "batch_size": 20,
    "optimizer": "adam",
    "eps": None,
    "clip": 1.0,
    "schedule": "constant",
    "label_smoothing": 0.0,
    "epochs": None,
    "patience": None,
    "sampling": 0.0,
}


def picture(folder: Path, number: int) -> str:
    """The name of a file with a picture like no other."""
    pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(folder / f"{number}.png")
    return f"{number}.png"


MEDIA: dict[str, Callable[[Path, int], str]] = {  # a file for each kind of column
    "image": picture,
    "sound": made.write_sound,
    "video": made.write_clip,
}
SMALL: dict[str, dict[str, Any]] = {  # what makes columns small and their words known
    "text": {"min_count": 1},
    "image": {"height": 8, "width": 8},
    "sound": {"hop": 0.02},
    "video": {"height": 12, "width": 12},
}


def rows_for(name: str, folder: Path) -> list[tuple[str, ...]]:
    """Twenty names, each followed by syllables, with unrelated answers of unequal length: as many
    columns as the recipe reads, and an answer of the kind it writes.
    """
    chance = np.random.default_rng(3)
    known = resolve(name)
    kind = known.model.decoder.kind
    if known.model.head.kind == "pointer":
        return pointed(chance)

    once = known.search.no_repeat_ngram == 1  # labels: none of them twice

    def words(count: int) -> str:
        return " ".join(chance.choice(SYLLABLES, count, replace=not once))

    rows = []
    for i in range(20):
        count = int(chance.integers(1, 6))
        sources = [
            MEDIA[spec.kind](folder, i)
            if spec.kind in MEDIA
            else f"{string.ascii_lowercase[i]} {words(count)}"
            for spec in known.source_specs.values()
        ]
        answers = {"aligned": words(count + 1 + known.beyond), "still": words(1)}
        rows.append((*sources, answers.get(kind, f"{i} {words(int(chance.integers(1, 6)))}")))
    return rows


def pointed(chance: np.random.Generator) -> list[tuple[str, ...]]:
    """Twenty lists of points, each with some of their positions."""
    rows = []
    for _ in range(20):
        count = int(chance.integers(2, 7))
        order = chance.integers(1, count + 1, int(chance.integers(1, 6)))
        rows.append((write_points(chance.random((count, 2))), " ".join(map(str, order))))
    return rows


def written(tmp_path: Path, rows: list[tuple[str, ...]]) -> str:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return str(path)


def tree(name: str, path: str, steps: int) -> dict[str, Any]:
    """The recipe without dropout, trained by rows on a file that is also its dev file."""
    known = resolve(name)
    single = known.model.encoder.kind in ("text", "match", "image", "sound", "video")
    parts = ["encoder", "decoder"] if single else ["decoder"]
    return {
        "data": {
            "train": [path],
            "dev": [path],
            "format": "tsv" if known.reads_source else "lines",
            "source": SMALL.get(known.data.source.kind, {}),
            "target": {"min_count": 1},
        },
        "model": {part: {"dropout": 0.0} for part in parts},
        "train": TRAIN
        | {
            "warmup": min(known.train.warmup, 20),
            "max_steps": steps,
            "evaluate_every": steps,
            "coverage": 0.0,
        },
    }


def calm(config: Config, size: int | None) -> Config:
    """The same parts with nothing left to chance; all of one small size, if any is given."""
    result = config.model_dump(mode="json")
    model = result["model"]
    parts = [model["encoder"], model["decoder"], model["head"], model["attention"] or {}]
    inside = [*model["encoder"].get("parts", []), model["encoder"].get("frame", {})]
    for part in [*parts, *inside]:
        part |= {key: value for key, value in STEADY.items() if key in part}
        for key in ("embedding", "hidden", "size", "readout_size", "dense"):
            if size and part.get(key):
                part[key] = size
        if size and "widths" in part:
            part |= {"widths": [size // 2], "blocks": 1}
    if size:
        model["init"] = None
    return validate(result)


def memorises(name: str, tmp_path: Path, size: int | None, steps: int, lr: float) -> None:
    rows = rows_for(name, tmp_path)
    reads = len(rows[0]) > 1
    path = written(tmp_path, rows)
    config = resolve(name, settings=[f"train.lr={lr}"], tree=tree(name, path, steps))
    config = calm(config, size)
    model = run(config, tmp_path / "model", Reporter(quiet=True))
    wanted = [row[-1] for row in rows]
    kinds = [spec.kind for spec in config.source_specs.values()]
    asked = [
        tuple(str(tmp_path / v) if k in MEDIA else v for k, v in zip(kinds, row, strict=False))
        for row in rows
    ]
    if reads:
        answers = model.predict(asked)
    else:  # a language model goes on from the first word
        prompts = [target.split()[0] + " " for target in wanted]
        answers = model.predict(prompts, model.options(sample=False, beam=1))
    assert exact([a.text for a in answers], wanted).value == 100
    if reads:
        scored = model.score([(*ask, row[-1]) for ask, row in zip(asked, rows, strict=True)])
        assert sum(s.score for s in scored) / sum(len(s.log_probs) for s in scored) > -0.05


SIBLINGS = [name for name in recipe_names() if f"{name}-small" in recipe_names()]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SIBLINGS else ())
        for name in recipe_names()
    ],
)
def test_it_memorises_twenty_pairs(name: str, tmp_path: Path) -> None:
    fast = 0.004 if resolve(name).data.source.kind == "video" else 0.008
    memorises(name, tmp_path, size=48, steps=320, lr=fast)


@pytest.mark.slow
@pytest.mark.parametrize("name", recipe_names())
def test_it_memorises_at_its_own_size(name: str, tmp_path: Path) -> None:
    steps, lr = (800, 0.0003) if name == "show-and-tell" else (200, 0.001)  # noise in one vector
    memorises(name, tmp_path, size=None, steps=steps, lr=lr)


@pytest.mark.parametrize("name", recipe_names())
def test_its_config_reads_back_as_itself(name: str) -> None:
    config = resolve(name)
    assert config.recipe == name
    assert validate(yaml.safe_load(dump(config))) == config


@pytest.mark.parametrize(
    ("name", "millions"),
    [("sutskever2014", 384), ("bahdanau2015", 80), ("cho2014", 23), ("luong2015", 221)],
)
def test_the_papers_sizes(name: str, millions: int) -> None:
    """Sutskever et al. report 384 M parameters; the others follow from their papers' sizes."""
    known = recipe(name)
    model = sketch(resolve(name).model, known.sources, known.target)
    assert sum(p.numel() for p in model.parameters()) // 1_000_000 == millions
