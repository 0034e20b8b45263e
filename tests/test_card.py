"""The card: what a person who finds a model folder needs to know."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import dragoman
from conftest import Ran
from small import SPEEDY, reversals, write_pairs


def test_info_tells_what_a_folder_holds(
    verb: Callable[..., Ran], tiny_model: Path, tiny: dragoman.Predictor
) -> None:
    told = verb("info", tiny_model).out
    assert f"dragoman predict {tiny_model}/ <" in told  # the folder's own name
    size = sum(p.numel() for p in tiny.model.parameters())
    assert f"{size:,} parameters" in told
    row = next(line for line in told.splitlines() if line.startswith("| cer |"))
    value, bounds = (cell.strip() for cell in row.split("|")[2:4])
    low, high = map(float, bounds.strip("[]").split(", "))
    assert low <= float(value) <= high
    assert "| input | answer | reference |" in told
    assert "read up to 500 symbols" in told


def test_the_card_names_the_data_by_its_checksum(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", reversals(20))
    dev = write_pairs(tmp_path / "dev.tsv", reversals(5))
    config = SPEEDY | {"data": {"dev": [str(dev)]}}
    dragoman.train(pairs, tmp_path / "model", config=config, quiet=True)
    card = (tmp_path / "model" / "README.md").read_text("utf-8")
    for path in (pairs, dev):
        assert f"{path}: sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}" in card
    assert f"dragoman {dragoman.__version__}, torch" in card
