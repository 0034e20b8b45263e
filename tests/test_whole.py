"""A tag for each word and a label for the whole, from the table to the answer."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.check import check_data
from dragoman.config import resolve
from dragoman.corpus import load_corpus
from dragoman.data.rows import chosen, table_of
from dragoman.decode import Asked
from dragoman.errors import UserError
from dragoman.metrics import compute
from dragoman.stored import stored_corpus

TINY = ["--set", "train.max_steps=2", "--set", "model.encoder.hidden=16"]
COLUMNS = {"columns": [1, "2+3"]}
THINGS = {"jazz": "B-genre", "rock": "B-genre", "rome": "B-place", "oslo": "B-place"}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Sentences with their tags, and what is asked for: the first word and the last tell."""
    draw, path = random.Random(1), tmp_path / "frames.tsv"
    lines = []
    for _ in range(300):
        verb, thing = draw.choice(["find", "drop"]), draw.choice(list(THINGS))
        words = [verb, *draw.choices(["the", "some", "my"], k=draw.randint(0, 3)), thing]
        tags = [THINGS.get(word, "O") for word in words]
        lines.append(f"{' '.join(words)}\t{' '.join(tags)}\t{verb}-{tags[-1][2:]}\n")
    path.write_text("".join(lines))
    return path


def test_tags_and_label_are_learnt_at_once(verb: Callable, table: Path, tmp_path: Path) -> None:
    settings = ["train.max_steps=150", "train.lr=0.01", "model.encoder.hidden=16"]
    options = [part for setting in settings for part in ("--set", setting)]
    model = tmp_path / "model"
    args = ["-r", "tag-and-label", "--columns", "1,2+3", "-o", model, *options]
    assert verb("train", table, *args).code == 0
    said = verb("predict", model, stdin=b"drop my my my my rock\n\nfind oslo\n")
    assert said.out.splitlines()[::2] == ["O O O O O B-genre drop-genre", "O B-place find-place"]
    judged = verb("evaluate", model, table, "--metric", "accuracy-last", "--metric", "f1-entity")
    assert judged.code == 0
    assert [line.split()[1] for line in judged.out.splitlines()[:2]] == ["100.000", "100.000"]
    parts = verb("evaluate", model, table, "--by", "label", "--metric", "accuracy-last").out
    assert {
        line.split()[0] for line in parts.splitlines() if "-place" in line or "-genre" in line
    } == {f"{verb}-{kind}" for verb in ("find", "drop") for kind in ("place", "genre")}
    drawn = verb("plot", "confusion", model, table, "-o", tmp_path / "confusion.svg")
    assert drawn.code == 0, drawn.err
    assert "drop-genre" in (tmp_path / "confusion.svg").read_text()
    many = dragoman.load(model)(["find jazz", "drop the the the rome"], beam=3, n_best=2)
    found = [len(best.text.split()) for answer in many for best in (answer, *answer.alternatives)]
    assert found == [3, 3, 6, 6]
    asked = verb("predict", model, "--require", "O O", "--require", "B-place", stdin=b"find jazz\n")
    assert asked.code == 0
    assert asked.out == "O O B-place\n"
    asked = verb("predict", model, "--require", "O O O O", stdin=b"find jazz\n")
    assert asked.code == 2
    assert "'find jazz': what is required takes 4 symbols; the answer has only 3" in asked.err


@pytest.fixture
def untaught(table: Path, tmp_path: Path) -> dragoman.Predictor:
    """A model that knows the tags and labels, and little else."""
    rows = [tuple(line.split("\t")) for line in table.read_text().splitlines()]
    config = {"data": COLUMNS, "train": {"max_steps": 2}}
    folder = tmp_path / "untaught"
    return dragoman.train(rows, folder, recipe="tag-and-label", config=config, quiet=True)


WAYS = [{"beam": 1}, {"beam": 4, "n_best": 2}, {"beam": 1, "sample": True, "temperature": 3.0}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_phrases_may_share_the_room_of_an_answer(
    untaught: dragoman.Predictor, way: dict[str, Any]
) -> None:
    def written(text: str, *phrases: str, begun: str = "") -> list[str]:
        (best,) = untaught.predict([Asked((text,), phrases, begun)], untaught.options(**way))
        return [one.text for one in (best, *best.alternatives)]

    assert written("jazz", "B-genre", "B-genre find-genre") == ["B-genre find-genre"]
    both = "O O B-genre", "O B-genre find-genre"
    assert written("find my jazz", *both) == ["O O B-genre find-genre"]
    assert written("find my jazz", *both, begun="O O") == ["O O B-genre find-genre"]
    assert written("find my jazz", "O O", begun="O O B-genre")[0].startswith("O O B-genre ")
    for text in written("find the my jazz", *both[::-1]):
        assert all(phrase in text for phrase in both)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_no_answer_comes_without_what_is_required(
    untaught: dragoman.Predictor, way: dict[str, Any]
) -> None:
    def refused(asked: Asked, why: str, **more: Any) -> None:
        with pytest.raises(UserError, match=why):
            untaught.predict([Asked(("find oslo",)), asked], untaught.options(**way, **more))

    more = "'find jazz': what is required takes 2 symbols more; the answer has only 1 more"
    refused(Asked(("find jazz",), ("B-genre B-genre",), "O O"), more)
    refused(Asked(("find jazz",), (), "O O O O"), "has 3 symbols, and should begin with 4")
    refused(Asked(("jazz",), ("O O", "B-genre")), "takes 3 symbols; the answer has only 2")
    barred = {"ban": ["O B-genre", "B-genre O"]}
    why = "'jazz': no answer was found that contains '(O|B-genre)'"
    refused(Asked(("jazz",), ("O", "B-genre")), why, **barred)
    if "n_best" not in way:
        with pytest.raises(UserError, match=why):
            list(
                untaught.generate(
                    Asked(("jazz",), ("O", "B-genre")), untaught.options(**way, **barred)
                )
            )


def test_a_label_that_is_given_is_no_other(tmp_path: Path) -> None:
    rows = [("good movie", "good"), ("bad movie", "bad")] * 20
    steps = {"train": {"max_steps": 2}}
    model = dragoman.train(rows, tmp_path / "m", recipe="classify", config=steps, quiet=True)
    with pytest.raises(UserError, match="takes 1 symbol more; the answer has only 0 more"):
        model.predict([Asked(("good movie",), ("bad",), "good")])
    (same,) = model.predict([Asked(("good movie",), ("bad",), "bad")])
    assert same.text == "bad"


def test_rows_whose_phrases_do_not_fit_are_named(
    verb: Callable, untaught: dragoman.Predictor, tmp_path: Path
) -> None:
    asked, model = tmp_path / "asked.tsv", tmp_path / "untaught"
    asked.write_text("find jazz\tO O\njazz\tO O ||| O B-genre\nfind oslo\tB-who\nrome\t\n")
    args = ["predict", model, asked, "--require-column", "2"]
    ran = verb(*args)
    assert ran.code == 0, ran.err
    assert [len(line.split()) for line in ran.lines] == [3, 0, 0, 2]
    assert f"no answer to {asked}:2: 'jazz': what is required takes 3 symbols" in ran.err
    assert f"no answer to {asked}:3: 'find oslo': 'B-who' cannot be required" in ran.err
    assert verb(*args, "--jobs", "2").out == ran.out
    ran = verb(*args, "--on-bad-line", "error")
    assert ran.code == 2
    assert f"{asked}:2: 'jazz': what is required takes 3 symbols" in ran.err


def test_unknown_labels_are_no_answer(table: Path, tmp_path: Path) -> None:
    rows = [tuple(line.split("\t")) for line in table.read_text().splitlines()]
    config = {"data": COLUMNS | {"target": {"size": 5}}, "train": {"max_steps": 60, "lr": 0.01}}
    model = dragoman.train(rows, tmp_path / "m", recipe="tag-and-label", config=config, quiet=True)
    assert model.fields.target.size == 5
    for answer in model(["find oslo", "drop my jazz"], n_best=2, beam=2):
        assert "<unk>" not in answer.tokens


def test_rows_with_too_few_tags_are_named(table: Path, tmp_path: Path) -> None:
    with table.open("a") as file:
        file.write("find some rome\tO O\tfind-place\n")
    lines, good = check_data({"train": [str(table)], **COLUMNS}, "tag-and-label")
    assert not good
    assert any("1 row without one tag for each symbol" in line for line in lines)
    wanted = r"frames.tsv:301: 3 symbols but 2 tags before the label of the whole"
    with pytest.raises(UserError, match=wanted):
        dragoman.train(table, tmp_path / "m", recipe="tag-and-label", config={"data": COLUMNS})
    store = COLUMNS | {"train": [str(table)], "store": str(tmp_path / "store"), "dev_rows": 8}
    with pytest.raises(UserError, match=wanted):
        stored_corpus(resolve("tag-and-label", tree={"data": store}), None, lambda line: None)
    config = resolve("tag-and-label", tree={"data": store | {"on_bad_line": "skip"}})
    assert len(stored_corpus(config, None, lambda line: None).train) == 292


def test_uneven_rows_are_named_wherever_they_are_read(
    verb: Callable, table: Path, tmp_path: Path
) -> None:
    model, bad = tmp_path / "model", tmp_path / "bad.tsv"
    bad.write_text("find oslo\tO B-place\tfind-place\nfind my rome\tO O\tfind-place\n")
    args = ["-r", "tag-and-label", "--columns", "1,2+3", "-o", model, *TINY]
    why = f"{bad}:2: 3 symbols but 2 tags before the label of the whole"
    refused = verb("train", table, "--dev", bad, *args)
    assert (refused.code, why in refused.err) == (2, True), refused.err
    skipped = verb("train", table, "--dev", bad, "--on-bad-line", "skip", *args)
    assert (skipped.code, why in skipped.err) == (0, True), skipped.err
    assert "1 row skipped (cannot be used)" in skipped.err
    judged = verb("evaluate", model, bad, "--on-bad-line", "error")
    assert (judged.code, why in judged.err) == (2, True), judged.err
    told = verb("score", model, stdin=table.read_bytes())
    assert "columns 1,2 are read, not 1,2+3 as in training" in told.err


def test_rows_that_are_too_long_are_not_miscounted(table: Path) -> None:
    with table.open("a") as file:
        for words in (500, 600):
            row = " ".join(["my"] * words), " ".join(["O"] * words), "find-place"
            file.write("\t".join(row) + "\n")
    said: list[str] = []
    tree = {"data": COLUMNS | {"train": [str(table)], "dev": [str(table)]}}
    corpus = load_corpus(resolve("tag-and-label", tree=tree), None, said.append)
    assert len(corpus.train) == 301
    assert corpus.train.target.lengths.max() == 502  # tags, label and end
    assert "data: 1 training row left out (longer than max_length)" in said


def test_labels_that_look_like_tags_are_no_entities(verb: Callable, tmp_path: Path) -> None:
    """Metrics of a whole judge its label by itself, and entities in the tags alone."""
    hyp, ref = tmp_path / "hyp.txt", tmp_path / "ref.txt"
    hyp.write_text("O B-who E-mail\nO O E-mail\nB-who O S-rate\n")
    ref.write_text("O B-who S-rate\nO O E-mail\nB-who O S-rate\n")
    args = ["--hyp", hyp, "--ref", ref, "--metric", "accuracy-last", "--by", "label"]
    told = verb("evaluate", *args, "--metric", "f1-entity").out
    figures = dict(line.split()[:2] for line in told.splitlines() if len(line.split()) > 1)
    assert (figures["accuracy-last"], figures["F1-entity"]) == ("66.667", "100.000"), told
    assert {"E-mail", "S-rate"} <= set(figures)
    assert not {"O", "B-who"} & set(figures)
    lines = hyp.read_text().splitlines(), ref.read_text().splitlines()
    macro, accuracy = compute(["f1-macro", "accuracy"], *lines, whole=True)
    assert (macro.value, accuracy.value) == (pytest.approx(200 / 3), pytest.approx(200 / 3))


def test_rows_in_memory_can_join_columns(table: Path, tmp_path: Path) -> None:
    rows = [tuple(line.split("\t")) for line in table.read_text().splitlines()]
    config = {"data": COLUMNS, "train": {"max_steps": 2}}
    model = dragoman.train(rows, tmp_path / "m", recipe="tag-and-label", config=config, quiet=True)
    assert len(model("find oslo").text.split()) == 3
    config = {"data": {"columns": [1, "2+4"]}}
    with pytest.raises(UserError, match="rows have no column '4'"):
        dragoman.train(rows, tmp_path / "n", recipe="tag-and-label", config=config, quiet=True)
    with pytest.raises(UserError, match="rows have no column 'label'"):
        chosen(table_of(rows), [1, "label"])
    for more in ({}, {"data": COLUMNS}):  # the columns are those of the folder
        steps = {"train": {"max_steps": 4 + len(more)}}
        model = dragoman.train(rows, tmp_path / "m", config=steps | more, resume=True, quiet=True)
        assert model.config.data.columns == (1, "2+3")
        assert len(model("find oslo").text.split()) == 3


def test_names_of_joined_columns_are_seen(verb: Callable, table: Path, tmp_path: Path) -> None:
    table.write_text("text\ttags\tlabel\n" + table.read_text())
    args = ["-r", "tag-and-label", "--on-bad-line", "skip", *TINY]
    told = verb("train", table, "--columns", "1,2+3", "-o", tmp_path / "a", *args)
    assert told.code == 0, told.err
    assert "looks like names of columns; --columns text,tags+label takes it so" in told.err
    told = verb("train", table, "--columns", "text,tags+label", "-o", tmp_path / "b", *args)
    assert told.code == 0, told.err
    assert "looks like names" not in told.err


def test_columns_of_rows_in_memory_are_read_as_a_config_is(table: Path, tmp_path: Path) -> None:
    rows = [tuple(line.split("\t")) for line in table.read_text().splitlines()]

    def trained(rows: list[tuple[str, ...]], data: Any, recipe: str = "tag") -> int:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        config = {"data": data, "train": {"max_steps": 1}}
        model = dragoman.train(rows, folder, recipe=recipe, config=config, quiet=True)
        return len(model("find oslo").text.split())

    pairs = [row[:2] for row in rows]
    assert trained(pairs, {"columns": ["source", "target"]}) == 2
    assert trained(rows, {"columns": ["1", "2+3"]}, "tag-and-label") == 3
    assert trained([(*pair, "") for pair in pairs], {"columns": [1, 2]}) == 2
    for data, why in (
        ({"columns": "1,2+3"}, "data.columns: must be a list"),
        ({"columns": 2}, "data.columns: must be a list"),
        ({"columns": [1, 4]}, "rows have no column '4'; they are numbered from 1 to 3"),
        (None, "data: must be a mapping"),
    ):
        with pytest.raises(UserError, match=why):
            trained(rows, data)
    with pytest.raises(UserError, match=r"row 2: a part of column '2\+3' is empty"):
        trained([rows[0], (*pairs[1], " ")], {"columns": [1, "2+3"]}, "tag-and-label")
    with pytest.raises(UserError, match="row 2: empty text"):
        trained([rows[0], (" ", *rows[1][1:])], {"columns": [1, 2]})


@pytest.mark.parametrize("setting", ["data.source.signs=none", "data.source.signs=both"])
def test_a_whole_is_read_at_the_end_sign(setting: str) -> None:
    with pytest.raises(UserError, match=r"it needs data.source.signs=end"):
        resolve("tag-and-label", settings=[setting])
