"""What the data look like chooses a recipe, where nobody names one."""

import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dragoman
from dragoman.check import check_data
from dragoman.cli import cli
from dragoman.guess import guess, of_rows

WORDS = [f"{a}{b}{c}{d}" for a in "bdfgk" for b in "aeiou" for c in "lmnrs" for d in "aeiou"]
TAGS = ["N", "V", "D"]
DATA = Path(__file__).parents[2] / "shared" / "data"


def sentence(draw: random.Random, least: int = 4, most: int = 9) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(least, most)))


def labels(draw: random.Random) -> tuple[str, ...]:
    return sentence(draw), draw.choice(["good news", "bad news"])


def tags(draw: random.Random) -> tuple[str, ...]:
    words = sentence(draw)
    return words, " ".join(draw.choice(TAGS) for _ in words.split())


def entailed(draw: random.Random) -> tuple[str, ...]:
    return sentence(draw), sentence(draw), draw.choice(["yes", "no", "maybe"])


def asked(draw: random.Random) -> tuple[str, ...]:
    return sentence(draw, 20, 40), sentence(draw) + " ?", draw.choice(WORDS[:9])


def inflected(draw: random.Random) -> tuple[str, ...]:
    return draw.choice(WORDS), f"V;{draw.choice(['PST', 'PRS'])};SG", draw.choice(WORDS) + "te"


def translated(draw: random.Random) -> tuple[str, ...]:
    return sentence(draw, 9, 15), " ".join(f"{w}st" for w in sentence(draw, 9, 15).split())


def replied(draw: random.Random) -> tuple[str, ...]:
    return sentence(draw, 9, 15).replace("a", "A"), sentence(draw, 9, 15)


def rewritten(draw: random.Random) -> tuple[str, ...]:
    words = sentence(draw, 9, 15)
    return words, words.replace("ba", "pa")


def summed_up(draw: random.Random) -> tuple[str, ...]:
    return sentence(draw, 90, 120), sentence(draw, 10, 14)


def spelled(draw: random.Random) -> tuple[str, ...]:
    word = draw.choice(WORDS) + draw.choice(WORDS)
    return word, word.upper()


def counted(draw: random.Random) -> tuple[str, ...]:
    return (*spelled(draw), str(draw.randint(1, 9)))


CASES = [
    (labels, "classify"),
    (tags, "tag"),
    (lambda draw: (*tags(draw), "news"), "tag"),  # the third column is beside the point
    (entailed, "entail"),
    (asked, "answer"),
    (inflected, "inflect"),
    (translated, "bahdanau2015-small"),
    (replied, "dialog"),
    (rewritten, "bahdanau2015-small"),
    (summed_up, "summarize"),
    (spelled, "transduce"),
    (counted, "transduce"),
]


@pytest.mark.parametrize(("made", "recipe"), CASES)
def test_a_table_gets_the_recipe_that_suits_it(made: Any, recipe: str) -> None:
    draw = random.Random(1)
    rows = [made(draw) for _ in range(600)]
    assert of_rows(rows).recipe == recipe
    assert of_rows([*rows[:9], ("",), *rows[9:]]).recipe == recipe  # a blank line


def test_whoever_says_something_is_not_second_guessed(tmp_path: Path) -> None:
    table = tmp_path / "rows.tsv"
    draw = random.Random(1)
    table.write_text("".join("\t".join(labels(draw)) + "\n" for _ in range(600)))
    data = {"train": [str(table)]}
    assert guess({"data": data}).recipe == "classify"
    assert guess({"data": data | {"columns": [1, 2]}}).recipe == "classify"
    assert guess({"data": data | {"columns": [1, 3]}}).recipe == "transduce"  # there is no third
    for changes in ({"model": {}}, {"data": data | {"target": {"units": "char"}}}):
        assert guess({"data": data} | changes).recipe == "transduce"
    assert guess({"data": {"train": ["-"]}}).recipe == "transduce"
    assert guess({"data": {"train": [str(tmp_path / "none.tsv")]}}).recipe == "transduce"
    assert guess({"data": {"train": [str(table), str(table)]}}).recipe != "classify"


def test_check_tells_what_would_be_chosen(tmp_path: Path) -> None:
    table = tmp_path / "rows.tsv"
    draw = random.Random(1)
    table.write_text("".join("\t".join(tags(draw)) + "\n" for _ in range(600)))
    lines, sound = check_data({"train": [str(table)]})
    assert sound
    assert any("tag: each word has its tag" in line for line in lines)


def test_pairs_in_memory_are_looked_at_too(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [labels(draw) for _ in range(100)]
    steps = {"train": {"max_steps": 1}}
    assert (
        dragoman.train(rows, tmp_path / "a", config=steps, quiet=True).config.recipe == "classify"
    )
    few = rows[:20]
    assert (
        dragoman.train(few, tmp_path / "b", config=steps, quiet=True).config.recipe == "transduce"
    )


def test_a_run_that_resume_begins_is_the_same(tmp_path: Path) -> None:
    table = tmp_path / "rows.tsv"
    draw = random.Random(1)
    table.write_text("".join("\t".join(labels(draw)) + "\n" for _ in range(100)))
    told = ["train", str(table), "-o", str(tmp_path / "model"), "--resume"]
    for steps in ("1", "2"):  # begun, and gone on with
        done = CliRunner().invoke(cli, [*told, "--set", f"train.max_steps={steps}"])
        assert done.exit_code == 0, done.output
        assert dragoman.load(tmp_path / "model").config.recipe == "classify"


REAL = {
    "g2p-2021/low/ady_train.tsv.gz": "transduce",
    "cmudict/train.tsv.gz": "transduce",
    "dakshina-hi/train.tsv.gz": "transduce",
    "inflection-2023/fin_train.tsv.gz": "inflect",
    "sick/train.tsv.gz": "entail",
    "snips/train.tsv.gz": "tag",
    "babi/train.tsv.gz": "answer",
    "camrest676/train.tsv.gz": "dialog",
    "scitldr/train.tsv.gz": "summarize",
    "multi30k/train.de.gz multi30k/train.en.gz": "bahdanau2015-small",
}


@pytest.mark.parametrize(("names", "recipe"), REAL.items())
def test_real_tables_get_the_recipe_of_their_results(names: str, recipe: str) -> None:
    files = [DATA / name for name in names.split()]
    if not files[0].exists():
        pytest.skip("needs the shared data sets")
    assert guess({"data": {"train": [str(file) for file in files]}}).recipe == recipe
