"""What the data look like chooses a recipe, where nobody names one."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dragoman
from dragoman.check import check_data
from dragoman.cli import cli
from dragoman.guess import LOOK, guess, of_rows

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


def alike(draw: random.Random) -> tuple[str, ...]:
    """Tags whose lines are as few as labels."""
    words = sentence(draw)
    return words, " ".join(["O"] * (len(words.split()) - 1) + ["B-what"])


def unparted(draw: random.Random) -> str:
    """A sentence of a language that writes no blanks between words."""
    return "".join(
        draw.choices("的一是不了人我在有他这中大来上个国到说们あいうえお", k=draw.randint(6, 15))
    )


def parted(draw: random.Random) -> tuple[str, ...]:
    """The same, cut into words, each with its tag."""
    words = [unparted(draw)[:2] for _ in range(draw.randint(4, 9))]
    return " ".join(words), " ".join(draw.choice(TAGS) for _ in words)


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


def turned(draw: random.Random) -> tuple[str, ...]:
    word = draw.choice(WORDS) + draw.choice(WORDS)
    return word, word[::-1].upper()


def counted(draw: random.Random) -> tuple[str, ...]:
    return (*spelled(draw), str(draw.randint(1, 9)))


def topics(draw: random.Random) -> list[str]:
    return sorted(draw.sample(["art", "law", "news", "sport"], draw.randint(1, 2)))


def numbered(draw: random.Random) -> tuple[str, ...]:
    return f"id-{draw.getrandbits(60)}", *labels(draw)


CASES = [
    (labels, "classify"),
    (tags, "tag"),
    (alike, "tag"),
    (lambda draw: (alike(draw)[0], f"{alike(draw)[1]} news"), "classify"),  # of other lengths
    (lambda draw: (unparted(draw), draw.choice(["正面", "负面", "中性"])), "classify"),
    (lambda draw: (unparted(draw), draw.choice(["pos x", "neg x"])), "classify"),
    (lambda draw: (unparted(draw), draw.choice(["pos x", "neg x"]), "新"), "classify"),
    (parted, "tag"),
    (lambda draw: (*tags(draw), "news"), "tag"),  # the third column is beside the point
    (entailed, "entail"),
    (asked, "answer"),
    (inflected, "inflect"),
    (translated, "bahdanau2015-small"),
    (replied, "dialog"),
    (rewritten, "bahdanau2015-small"),
    (summed_up, "summarize"),
    (spelled, "monotone"),
    (counted, "monotone"),
    (turned, "transduce"),
    (lambda draw: (*entailed(draw)[:2], str(draw.randint(0, 2))), "entail"),
    (lambda draw: (*replied(draw), str(draw.randint(1, 900))), "dialog"),  # counts
    (lambda draw: (*translated(draw), draw.choice(["law", "news"])), "bahdanau2015-small"),
    (lambda draw: (sentence(draw), " ".join(topics(draw))), "classify-many"),
    (lambda draw: (sentence(draw), ";".join(topics(draw))), "classify"),
    (lambda draw: (sentence(draw), "|".join(topics(draw))), "classify"),
    (lambda draw: (sentence(draw), f"intent_{draw.randint(1, 40)}"), "classify"),
    (lambda draw: (f"{draw.getrandbits(40)}.jpg", sentence(draw)), "show-attend-tell"),
    (lambda draw: (f"{draw.getrandbits(40)}.png", draw.choice(TAGS)), "image-classify"),
    (lambda draw: (f"{draw.getrandbits(9)}.JPG", sentence(draw) + " ?", "yes"), "vqa"),
    (lambda draw: (f"takes/{draw.getrandbits(40)}.flac", sentence(draw)), "las-small"),
    (lambda draw: (f"{draw.getrandbits(40)}.mp4", sentence(draw)), "video-attend"),
    (lambda draw: (f"{draw.getrandbits(40)}.mp4", draw.choice(TAGS)), "video-classify"),
    (lambda draw: (" ".join(f"{draw.random():.3f}" for _ in range(6)), "3 1 2"), "ptr-net-set"),
]


@pytest.mark.parametrize(("made", "recipe"), CASES)
def test_a_table_gets_the_recipe_that_suits_it(made: Any, recipe: str) -> None:
    draw = random.Random(1)
    rows = [made(draw) for _ in range(600)]
    assert of_rows(rows).recipe == recipe
    assert of_rows([*rows[:9], ("",), *rows[9:]]).recipe == recipe  # a blank line


PLACES = [
    (lambda draw: tuple(inflected(draw)[at] for at in (0, 2, 1)), "inflect", (1, 3, 2)),
    (lambda draw: tuple(asked(draw)[at] for at in (1, 0, 2)), "answer", (2, 1, 3)),
    (numbered, "classify", (2, 3)),
    (lambda draw: (*labels(draw), "1"), "classify", None),
]


@pytest.mark.parametrize(("made", "recipe", "columns"), PLACES)
def test_columns_are_found_wherever_they_stand(made: Any, recipe: str, columns: Any) -> None:
    draw = random.Random(1)
    found = of_rows([made(draw) for _ in range(600)])
    assert (found.recipe, found.columns) == (recipe, columns)
    assert (f"on columns {','.join(map(str, columns or ()))}," in found.told()) == bool(columns)


def test_few_rows_of_fewer_labels_are_labels() -> None:
    draw = random.Random(1)
    assert of_rows([labels(draw) for _ in range(30)]).recipe == "classify"
    some = [(sentence(draw), f"intent_{at % 20}") for at in range(300)]
    assert of_rows(some).recipe == "classify"


def test_a_label_behind_the_tags_is_seen() -> None:
    draw = random.Random(1)
    rows = [(*tags(draw), draw.choice(["Play", "Rate"])) for _ in range(600)]
    found = of_rows(rows)
    assert found.recipe == "tag"
    assert "-r tag-and-label --columns 1,2+3" in found.hint
    assert (
        of_rows([(words, f"{tag} {label}") for words, tag, label in rows]).recipe == "tag-and-label"
    )


def test_one_row_amiss_leaves_tags_tags() -> None:
    draw = random.Random(1)
    rows = [tags(draw) for _ in range(2000)]
    rows[1000] = (rows[1000][0], rows[1000][1] + " N")
    assert of_rows(rows).recipe == "tag"


def test_what_else_could_be_meant_is_told() -> None:
    draw = random.Random(1)
    listed = of_rows([(sentence(draw), ";".join(topics(draw))) for _ in range(600)])
    assert "classify-many" in listed.told()
    of_domains = of_rows([(*translated(draw), draw.choice(["a", "b"])) for _ in range(600)])
    assert "-r entail" in of_domains.told()
    assert of_rows([spelled(draw) for _ in range(99)]).why


def test_sorted_tables_are_looked_at_from_end_to_end(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [(sentence(draw), label) for label in ("bad", "good") for _ in range(LOOK + 1)]
    path = written(tmp_path / "sorted.tsv", rows)
    assert guess({"data": {"train": [path]}}).recipe == "classify"
    assert guess({}, rows).recipe == "classify"


def written(path: Path, rows: list[tuple[str, ...]], mark: str = "\t") -> str:
    path.write_text("".join(mark.join(row) + "\n" for row in rows))
    return str(path)


def test_every_kind_of_table_gets_the_same_guess(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [labels(draw) for _ in range(300)]
    headed = [("text", "label"), *rows]
    lines = [json.dumps({"id": "7", "source": a, "target": b}) for a, b in rows]
    (tmp_path / "a.json").write_text("\n".join(lines))
    tsv = written(tmp_path / "a.tsv", rows)
    told: list[dict[str, Any]] = [
        {"train": [written(tmp_path / "a.csv", headed, ",")]},
        {"train": [written(tmp_path / "a.txt", rows)], "format": "tsv"},
        {"train": [written(tmp_path / "b.txt", rows)]},
        {"train": [written(tmp_path / "a.TSV", rows)]},
        {"train": [written(tmp_path / "h.tsv", headed)], "columns": ["text", "label"]},
        {"train": [str(tmp_path / "a.json")]},
        {"train": [tsv, tsv]},
    ]
    for data in told:
        found = guess({"data": data})
        assert found[:3] == ("classify", "answers are 2 labels", None), data


def test_a_header_is_no_label(verb: Any, tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [labels(draw) for _ in range(100)]
    plain = written(tmp_path / "plain.tsv", rows)
    headed = written(tmp_path / "headed.tsv", [("text", "label"), *rows])
    found = guess({"data": {"train": [headed]}})
    assert found[:3] == ("classify", "answers are 2 labels", ("text", "label"))
    assert guess({"data": {"train": [headed], "dev": [plain]}})[:3] == (*found[:2], None)
    folder = tmp_path / "model"
    ran = verb("train", headed, "-o", folder, "-s", "train.max_steps=1")
    assert "recipe: classify on columns text,label, since answers are 2 labels" in ran.err
    assert sorted(dragoman.load(folder).fields.target.units.symbols) == ["bad news", "good news"]
    ran = verb("train", headed, "-r", "classify", "-o", tmp_path / "m", "-s", "train.max_steps=1")
    assert "--columns text,label" in ran.err


def test_ids_are_left_out_whatever_the_format(verb: Any, tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [(str(at), *labels(draw)) for at in range(100)]
    table = written(tmp_path / "t.csv", [("id", "text", "label"), *rows], ",")
    ran = verb("train", table, "-o", tmp_path / "model", "-s", "train.max_steps=1")
    assert "recipe: classify on columns text,label" in ran.err
    model = dragoman.load(tmp_path / "model")
    assert model.config.data.columns == ("text", "label")
    steps = {"train": {"max_steps": 1}}
    model = dragoman.train(rows, tmp_path / "memory", config=steps, quiet=True)
    assert (model.config.recipe, len(model.fields.target.units.symbols)) == ("classify", 2)
    model = dragoman.train(table, tmp_path / "file", config=steps, quiet=True)
    assert model.config.data.columns == ("text", "label")


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
    assert guess({"data": {"train": [str(tmp_path / "none.tsv")]}}).why == ""
    assert guess({"data": data, "model": {}}).why  # said, since settings alone choose no recipe
    assert guess({"data": data, "recipe": "tag"}).why == ""


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
    few = rows[:8]
    assert (
        dragoman.train(few, tmp_path / "b", config=steps, quiet=True).config.recipe == "transduce"
    )


def test_rows_in_memory_are_resumed_by_the_columns_that_were_found(tmp_path: Path) -> None:
    draw = random.Random(1)
    rows = [(str(at), *labels(draw)) for at in range(100)]
    for steps in (1, 2):
        config = {"train": {"max_steps": steps}}
        model = dragoman.train(rows, tmp_path / "m", config=config, resume=steps > 1, quiet=True)
        assert model.config.data.columns == (2, 3)
    swapped = [tuple(asked(draw)[at] for at in (1, 0, 2)) for _ in range(300)]
    for columns in (None, [1, 2, 3], ["question", "text", "answer"]):
        assert guess({"data": {"columns": columns}}, swapped)[::2] == ("answer", (2, 1, 3))


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
    "g2p-2021/low/ady_train.tsv.gz": "monotone",
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
