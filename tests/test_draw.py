"""`dragoman plot`: every kind of picture from the command line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dragoman
from conftest import Ran
from dragoman.summaries import summaries
from small import SPEEDY, reversals, write_pairs

pytest.importorskip("matplotlib")
Verb = Callable[..., Ran]


def test_where_a_model_looked(tiny_model: Path, verb: Verb, tmp_path: Path) -> None:
    ran = verb("plot", tiny_model, "abc", "-o", tmp_path / "a.png", "--beam", 1)
    assert (ran.code, len(ran.lines)) == (0, 1), ran.err
    assert (tmp_path / "a.png").exists()
    texts = tmp_path / "texts.txt"
    texts.write_text("ab\n\ncd\n")
    ran = verb("plot", "attention", tiny_model, "abc", "--file", texts, "-o", tmp_path / "b.svg")
    assert (ran.code, len(ran.lines)) == (0, 3), ran.err
    assert sorted(p.name for p in tmp_path.glob("b-*")) == ["b-1.svg", "b-2.svg", "b-3.svg"]
    ran = verb("plot", tiny_model, " ", "-o", tmp_path / "c.png")
    assert (ran.code, "blank" in ran.err) == (2, True)
    ran = verb("plot", tiny_model)
    assert (ran.code, "name a text" in ran.err) == (2, True)


def test_a_language_model_looks_at_nothing(tiny_lm: Path, verb: Verb, tmp_path: Path) -> None:
    ran = verb("plot", tiny_lm, "abc", "-o", tmp_path / "a.png")
    assert (ran.code, "no attention; train one that has" in ran.err) == (2, True)
    ran = verb("plot", "map", tiny_lm, "abc", "b", "-o", tmp_path / "a.png")
    assert (ran.code, "reads no source" in ran.err) == (2, True)


def test_curves_of_runs(tiny_model: Path, tiny_lm: Path, verb: Verb, tmp_path: Path) -> None:
    ran = verb("plot", "curves", tiny_model, tiny_lm, "-o", tmp_path / "c.png")
    assert (ran.code, (tmp_path / "c.png").exists()) == (0, True), ran.err
    ran = verb("plot", "curves", tmp_path / "nowhere", "-o", tmp_path / "d.png")
    assert (ran.code, "no evaluation" in ran.err) == (2, True)


def test_quality_by_length(tiny_model: Path, verb: Verb, tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "test.tsv", reversals(60, seed=5))
    given = ("--data", data, "--metric", "exact", "--beam", 1)
    ran = verb("plot", "lengths", tiny_model, tiny_model, *given, "-o", tmp_path / "l.png")
    assert (ran.code, (tmp_path / "l.png").exists()) == (0, True), ran.err


def test_sentences_on_a_map(tiny_model: Path, verb: Verb, tmp_path: Path) -> None:
    texts = tmp_path / "texts.tsv"
    texts.write_text("abc\tshort\nabcdef\tlong\nfedcba\tlong\n")
    ran = verb("plot", "map", tiny_model, "--file", texts, "-o", tmp_path / "m.png")
    assert (ran.code, (tmp_path / "m.png").exists()) == (0, True), ran.err


def test_summaries_do_not_depend_on_their_neighbours(tiny: dragoman.Predictor) -> None:
    texts = ["abc", "f", "abcdefabc"]
    together = summaries(tiny, texts)
    alone = np.stack([summaries(tiny, [text])[0] for text in texts])
    assert np.allclose(together, alone, atol=1e-5)


def test_labels_taken_for_others(verb: Verb, tmp_path: Path) -> None:
    rows = [(word, "long" if len(word) > 3 else "short") for word, _ in reversals(60)]
    data = write_pairs(tmp_path / "data.tsv", rows)
    tree = {"train": SPEEDY["train"], "data": {"dev_rows": 8}}
    dragoman.train(data, tmp_path / "model", recipe="classify", config=tree, quiet=True)
    ran = verb("plot", "confusion", tmp_path / "model", data, "-o", tmp_path / "c.png")
    assert (ran.code, (tmp_path / "c.png").exists()) == (0, True), ran.err
