"""Metrics of captions against the numbers of the COCO caption evaluation."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dragoman.metrics import METRICS, slowly

GIVEN = [
    "A man rides a brown horse on the beach.",
    "two dogs run",
    "a plane plane plane in the sky",
    "many green trees near a river, and some houses",
    "a",
]
WANTED = [
    [
        "a man is riding a horse on a beach",
        "a person rides a brown horse near the sea",
        "man on horse",
    ],
    ["two dogs are running in the grass", "two brown dogs run across a field"],
    [
        "a white plane flies in the blue sky",
        "an airplane in the sky",
        "there is a plane in the sky",
    ],
    ["many green trees are near a river", "a river with houses and trees"],
    ["a red car is parked", "the car stands in the street"],
]
# by pycocoevalcap 1.2 on the same words, times a hundred
KNOWN = {
    "cider": 183.01905003410604,
    "bleu1": 72.89895777185174,
    "bleu2": 60.865844612695255,
    "bleu3": 44.875039439163054,
    "bleu4": 30.957624488749364,
    "rouge-captions": 60.10883963138698,
}


@pytest.mark.parametrize(("name", "value"), KNOWN.items())
def test_metrics_are_those_of_the_caption_evaluation(name: str, value: float) -> None:
    assert METRICS[name](GIVEN, WANTED).value == pytest.approx(value, abs=1e-9)


def test_each_caption_has_its_own_share_of_cider() -> None:
    each = [230.606357, 190.190842, 208.066728, 286.231322, 0.0]
    tally = METRICS["cider"].tally(GIVEN, WANTED)
    assert tally.values(np.eye(5)).tolist() == pytest.approx(each, abs=1e-5)


@pytest.mark.parametrize("name", ["bleu1", "bleu4", "rouge-captions"])
def test_parts_of_a_corpus_are_corpora(name: str) -> None:
    weights = np.array([[1.0, 0, 1, 1, 0], [2, 1, 0, 0, 1]])
    quick, slow = METRICS[name].tally(GIVEN, WANTED), slowly(METRICS[name], GIVEN, WANTED)
    assert quick.values(weights).tolist() == pytest.approx(slow.values(weights).tolist())


def test_a_perfect_caption_and_an_empty_one() -> None:
    for name in ("bleu4", "rouge-captions"):
        assert METRICS[name]([WANTED[0][0]], [WANTED[0]]).value == pytest.approx(100)
    for name in KNOWN:
        assert METRICS[name](["", ""], [["a b"], ["c d"]]).value == pytest.approx(0, abs=1e-6)


def test_questions_are_judged_by_their_type(tmp_path: Path, verb: Callable) -> None:
    rows = []
    for number in range(40):
        colour = ["red", "blue"][number % 2]
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{number}.png")
        asked = ["what colour is it ?", "is it red ?"][number // 2 % 2]
        answer = colour if asked[0] == "w" else ("yes" if colour == "red" else "no")
        rows.append(f"{number}.png\t{asked}\t{answer}\n")
    table = tmp_path / "rows.tsv"
    table.write_text("".join(rows))
    image = {"kind": "image", "widths": [8], "dense": 8}
    tree = {
        "data": {"source": {"height": 8, "width": 8}, "dev_rows": 8},
        "model": {
            "encoder": {"size": 16, "parts": [image, {"embedding": 8, "hidden": 8}]},
            "attention": {"size": 8},
            "decoder": {"hidden": 16, "dropout": 0.0},
        },
        "train": {"max_steps": 80, "batch_size": 8, "lr": 0.02, "evaluate_every": 40},
    }
    (tmp_path / "tree.yaml").write_text(json.dumps({"recipe": "vqa-attend"} | tree))
    ran = verb("train", table, "-c", tmp_path / "tree.yaml", "-o", tmp_path / "model")
    assert ran.code == 0, ran.err
    ran = verb("evaluate", tmp_path / "model", table, "--by", "question", "--json")
    found = json.loads(ran.out)["accuracy"]
    assert {part["part"]: part["inputs"] for part in found["breakdown"]} == {
        "what colour": 20,
        "is it": 20,
    }
    assert found["value"] > 90
    answer = json.loads(verb("predict", tmp_path / "model", table, "--format", "jsonl").lines[0])
    parts = answer["attention"]["parts"]
    assert [(part["over"], part["shape"]) for part in parts] == [("grid", [4, 4]), ("tokens", [6])]
