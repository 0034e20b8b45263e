"""Every recipe leaves: what the runner writes without torch is what torch writes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from conftest import Ran
from dragoman.checkpoint import Loaded
from dragoman.config import resolve
from dragoman.corpus import load_corpus
from dragoman.model import build
from dragoman.predict import Predictor
from dragoman.recipes import recipe_names
from test_pictures import TREE, scenes
from test_recipes import MEDIA, rows_for, shrunk, tree, written

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from dragoman.ship.folder import export_onnx, write_files
from dragoman.ship.runner import Runner

FAST = ("vqa", "las-small", "ptr-net-set", "classify-many")  # between them: senses, search, heads


def untrained(name: str, folder: Path) -> tuple[Loaded, list[tuple[str, ...]]]:
    """A small model of a recipe whose choices differ from row to row, and inputs for it."""
    rows = rows_for(name, folder)
    config = shrunk(resolve(name, tree=tree(name, written(folder, rows), 1)), 16)
    corpus = load_corpus(config, None, lambda line: None)
    torch.manual_seed(1)
    sizes = corpus.fields.source_sizes
    model = build(corpus.config.model, sizes, corpus.fields.target.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    kinds = [spec.kind for spec in config.source_specs.values()]
    inputs = [
        tuple(str(folder / v) if k in MEDIA else v for k, v in zip(kinds, row, strict=False))
        for row in rows
    ]
    return Loaded(corpus.config, corpus.fields, model), inputs if kinds else [("b",), ("",)]


def leaves(name: str, folder: Path) -> None:
    loaded, inputs = untrained(name, folder)
    write_files(folder / "out", export_onnx(loaded))
    runner, predictor = Runner(folder / "out"), Predictor(*loaded)
    cases: list[dict[str, Any]] = [
        {"beam": 1, "sample": False},
        {"beam": 5, "n_best": 2, "sample": False},
        {"sample": True, "seed": 5, "top_p": 0.9},
    ]
    if loaded.model.head.points:
        cases += [{"beam": 3, "valid": valid} for valid in ("each-once", "tour", "hull")]
    for options in cases:
        ours = predictor.predict(inputs, predictor.options(**options, max_length=12))
        theirs = runner(inputs, **options, max_length=12)
        for mine, found in zip(ours, theirs, strict=True):
            texts = [mine.text, *(one.text for one in mine.alternatives)]
            assert [one.text for one in found] == texts, options
            assert tuple(found[0].tokens) == mine.tokens
            assert found[0].score == pytest.approx(mine.score, abs=1e-3)


@pytest.mark.fault(27)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in recipe_names()],
)
def test_it_leaves_as_it_is(name: str, tmp_path: Path) -> None:
    """Greedily, with a beam, by chance and, where it points, under each rule of what is valid."""
    leaves(name, tmp_path)


def test_pictures_in_a_zip_are_measured_too(verb: Callable[..., Ran], tmp_path: Path) -> None:
    """A runner opens files alone; what leaving costs is told all the same."""
    table = scenes(tmp_path, 12, zipped=True)
    few = TREE | {"train": {"max_steps": 2, "batch_size": 6}}
    dragoman.train(table, tmp_path / "model", config=few, quiet=True)
    command = ("export", tmp_path / "model", "--to", "onnx", "-o", tmp_path / "out")
    ran = verb(*command, "--test", table)
    assert ran.code == 0, ran.err
    assert "the same answer to 100.00 % of 12 inputs" in ran.out
    assert "## As exported" in (tmp_path / "out" / "README.md").read_text("utf-8")
