"""Rows that share a picture: it is seen once in a batch, and no dev row knows it from training."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from dragoman.config import resolve
from dragoman.core import Padded
from dragoman.corpus import load_corpus, steps_of
from dragoman.data.batches import Budget, plan
from dragoman.encoders.image import Image, ImageSpec

QUESTIONS = 5


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


def asked(folder: Path, pictures: int) -> Path:
    """A table of several questions a picture, in no order."""
    rows = []
    for number in range(pictures):
        Pillow.new("RGB", (8, 8), (number, 0, 0)).save(folder / f"{number}.png")
        rows += [f"{number}.png\tquestion {i} ?\t{number % 2}\n" for i in range(QUESTIONS)]
    np.random.default_rng(1).shuffle(rows)
    table = folder / "questions.tsv"
    table.write_text("".join(rows))
    return table


def corpus(table: Path, dev: int = 20, **train: Any) -> Any:
    sides = {"height": 8, "width": 8}
    tree = {"data": {"train": [str(table)], "source": sides, "dev_rows": dev}, "train": train}
    return load_corpus(resolve("vqa", tree=tree), None, lambda _: None)


@pytest.mark.parametrize("pool", ["mean", "max", "both"])
def test_a_picture_is_seen_once_and_gives_every_row_the_same(
    pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    encoder = Image(ImageSpec(widths=(4, 8), pool=pool), 3).eval()
    pictures = torch.randn(3, 1, 3, 8, 8)[[0, 1, 0, 2, 1, 0]]
    mask = torch.ones(6, 1, dtype=torch.bool)
    seen: list[int] = []
    monkeypatch.setattr(encoder.net, "forward", _counting(encoder.net.forward, seen))
    together = encoder(Padded(pictures, mask))
    assert seen == [3]
    for row in range(6):
        alone = encoder(Padded(pictures[row : row + 1], mask[:1]))
        assert torch.allclose(together.memory[row], alone.memory[0], atol=1e-5)
        assert torch.allclose(together.summary[row], alone.summary[0], atol=1e-5)


def _counting(forward: Any, seen: list[int]) -> Any:
    def counted(pictures: torch.Tensor) -> Any:
        seen.append(len(pictures))
        return forward(pictures)

    return counted


def test_rows_of_a_picture_come_together_where_that_is_asked(tmp_path: Path) -> None:
    made = corpus(asked(tmp_path, 40), together=True, batch_size=10)
    batches = steps_of(made, epoch=0)
    assert sorted(row for batch in batches for row in batch) == list(range(len(made.train)))
    assert all(len(set(made.train.kin[batch])) == 2 for batch in batches)
    assert [b.tolist() for b in batches] != [b.tolist() for b in steps_of(made, epoch=1)]
    apart = steps_of(corpus(tmp_path / "questions.tsv", together=False, batch_size=10), epoch=0)
    assert sum(len(set(made.train.kin[batch])) for batch in apart) > 3 * len(apart)


def test_rows_drawn_more_than_once_stay_with_their_kin() -> None:
    kin = np.repeat(np.arange(4), 3)
    weights = np.full(12, 2.0)
    batches = plan(np.ones(12, np.int64), Budget(0, 6), 1, 0, weights, kin)
    assert [len(set(kin[batch])) for batch in batches] == [1] * 4
    assert sorted(row for batch in batches for row in batch) == sorted([*range(12)] * 2)


def test_no_picture_is_in_training_and_dev(tmp_path: Path) -> None:
    made = corpus(asked(tmp_path, 40), together=False)
    shown = {Path(name).name for name, _, _ in made.samples}
    assert len(made.samples) == 20
    assert len(shown) == 20 / QUESTIONS
    assert len(made.train) == 40 * QUESTIONS - 20


def test_one_picture_is_no_reason_to_hold_nothing_out(tmp_path: Path) -> None:
    made = corpus(asked(tmp_path, 1), dev=2)
    assert (len(made.train), len(made.samples)) == (QUESTIONS - 2, 2)
