"""Evaluation: several right answers, intervals, parts, rivals, runs, outputs of other systems."""

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import dragoman
from dragoman.cli import judge
from dragoman.errors import UserError
from dragoman.evaluate import evaluate, evaluate_files
from dragoman.evaluate.cases import gather
from dragoman.evaluate.exam import Exam
from dragoman.evaluate.parts import BREAKDOWNS, by_label, by_length
from dragoman.metrics import compute, exact
from small import SPEEDY, over, reversals, write_pairs

ROWS = reversals(300)[:60]


@pytest.fixture
def test_file(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "test.tsv", ROWS)


@pytest.fixture(scope="module")
def poor_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned nothing."""
    folder = tmp_path_factory.mktemp("poor") / "model"
    dragoman.train(reversals(300), folder, config=over(SPEEDY), quiet=True)
    return folder


# --- grouping


def test_rows_of_one_source_are_one_case() -> None:
    cases = gather(["a", "b", "a", "a"], ["x", "y", "z", "x"], group=True)
    assert cases.references == [["x", "z"], ["y"]]
    assert cases.examples == [("a", "x"), ("a", "z"), ("b", "y")]
    assert (cases.rows, cases.total) == ([0, 1], 4)
    assert gather([("a", "b")], ["x"]).examples == [("a", "b", "x")]
    assert gather(["a", "a"], ["x", "z"]).references == [["x"], ["z"]]


def test_any_listed_answer_is_right(tiny: dragoman.Predictor, tmp_path: Path) -> None:
    answers = [(source, tiny(source).text) for source, _ in ROWS]
    wrong = [(source, "zzz") for source, _ in ROWS]
    path = write_pairs(tmp_path / "t.tsv", [*wrong, *answers])
    told: list[str] = []
    data = {"train": [str(path)]}
    scores = evaluate_files(tiny, data, {}, ["exact", "cer"], say=told.append)
    assert [score.value for score in scores[:2]] == [100, 0]
    assert told == ["data: 120 rows are 60 inputs with 120 references"]
    apart = evaluate_files(tiny, data, {}, ["exact"], say=told.append, group=False)
    assert apart[0].value == 50
    assert apart[-1].value == pytest.approx(scores[-1].value)  # perplexity is over all rows
    assert len(told) == 1


def test_a_file_without_repetition_is_measured_row_by_row(
    tiny: dragoman.Predictor, test_file: Path
) -> None:
    scores = evaluate_files(tiny, {"train": [str(test_file)]}, {"beam": 1}, [])
    written = [p.text for p in tiny.predict([row[0] for row in ROWS], tiny.options(beam=1))]
    plain = compute(["exact", "cer"], written, [row[1] for row in ROWS])
    assert [score.value for score in scores[:2]] == [score.value for score in plain]
    scored = tiny.score(ROWS)
    mean = -sum(s.score for s in scored) / sum(len(s.log_probs) for s in scored)
    assert scores[2].value == pytest.approx(2.718281828459045**mean)
    for score in scores:
        assert score.interval is not None
        assert score.interval.low <= score.value <= score.interval.high


def test_several_references_from_python(tiny: dragoman.Predictor) -> None:
    sources = [row[0] for row in ROWS[:4]]
    references = [["zzz", tiny(source).text] for source in sources]
    assert evaluate(tiny, sources, references)[0].value == 100
    with pytest.raises(UserError, match="4 predictions but 3 references"):
        evaluate(tiny, sources, references[:3])


def test_a_typo_costs_no_decoding(tiny: dragoman.Predictor) -> None:
    with pytest.raises(UserError, match="did you mean 'bleu'"):
        Exam.of(tiny, ["a"], ["a"], ["blue"])


# --- parts


def test_parts_by_length_hold_all_inputs_once() -> None:
    lengths = [3, 1, 1, 1, 1, 2, 9, 40, 1]
    parts = by_length(lengths)
    assert sorted(item for part in parts for item in part.items) == list(range(9))
    assert [part.name for part in parts] == ["1", "2", "3-9", "40"]
    assert [part.name for part in by_length([4, 4])] == ["4"]


def test_rare_labels_are_put_together() -> None:
    parts = by_label(["x"] * 3 + ["y"] * 2 + list("abc"), most=2)
    assert [(part.name, len(part.items)) for part in parts] == [("x", 3), ("y", 2), ("(others)", 3)]


def test_the_command_line_knows_all_breakdowns() -> None:
    (by,) = (option for option in judge.evaluate.params if option.name == "by")
    assert isinstance(by.type, click.Choice)
    assert list(by.type.choices) == list(BREAKDOWNS)


def test_by_length_in_the_table_and_in_json(
    verb: Callable, tiny_model: Path, test_file: Path
) -> None:
    ran = verb("evaluate", tiny_model, test_file, "--by", "length", "--json")
    tree = json.loads(ran.out)
    parts = tree["exact"]["breakdown"]
    assert sum(part["inputs"] for part in parts) == len(ROWS)
    mean = sum(part["inputs"] * part["value"] for part in parts) / len(ROWS)
    assert mean == pytest.approx(tree["exact"]["value"], abs=1e-3)
    assert {"part", "inputs", "value", "interval", "better", "signature"} == set(parts[0])
    table = verb("evaluate", tiny_model, test_file, "--by", "length").out
    assert all(f"\n{part['part']} " in table for part in parts)


def test_by_tag_looks_at_the_source(verb: Callable, tiny_model: Path, tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "t.tsv", [("ab c", "c ba"), ("ab d", "d ba"), ("e f", "f e")])
    tree = json.loads(verb("evaluate", tiny_model, path, "--by", "tag", "--json").out)
    found = [(part["part"], part["inputs"]) for part in tree["CER"]["breakdown"]]
    assert found == [("ab", 2), ("e", 1)]


# --- rivals and runs


def test_a_model_against_itself_and_a_worse_one(
    verb: Callable, tiny_model: Path, poor_model: Path, test_file: Path
) -> None:
    rivals = ("--against", tiny_model, "--against", poor_model)
    ran = verb("evaluate", tiny_model, test_file, *rivals, "--json")
    itself, worse = json.loads(ran.out)["exact"]["against"]
    assert itself["difference"] == 0
    assert itself["p_bootstrap"] == itself["p_randomisation"] == 1
    assert worse["difference"] < -50
    assert worse["difference_interval"][1] < 0
    assert worse["p_bootstrap"] < 0.01
    assert worse["p_randomisation"] < 0.01
    assert "difference" not in json.loads(ran.out)["perplexity"]["against"][1]
    table = verb("evaluate", tiny_model, test_file, *rivals).out
    assert f"\nagainst {poor_model}\nexact" in table
    assert "(randomisation)" in table


def test_a_model_against_the_outputs_of_another_system(
    verb: Callable, tiny_model: Path, test_file: Path, tmp_path: Path
) -> None:
    outputs = tmp_path / "out.txt"
    outputs.write_text("".join(f"{target}\n" for _, target in ROWS))
    ran = verb("evaluate", tiny_model, test_file, "--against", outputs, "--json")
    tree = json.loads(ran.out)
    assert tree["exact"]["against"][0]["value"] == 100
    assert tree["perplexity"]["against"] == []
    outputs.write_text("one\n")
    ran = verb("evaluate", tiny_model, test_file, "--against", outputs)
    assert ran.code == 2
    assert "1 lines of output for 60 rows" in ran.err


def test_runs_have_a_mean_and_a_deviation(
    verb: Callable, tiny_model: Path, poor_model: Path, test_file: Path
) -> None:
    ran = verb("evaluate", tiny_model, test_file, "--with", poor_model, "--json")
    found = json.loads(ran.out)["exact"]
    one, other = (run["value"] for run in found["runs"])
    assert found["mean"] == pytest.approx((one + other) / 2, abs=1e-3)
    assert found["deviation"] == pytest.approx(abs(one - other) / 2**0.5, abs=1e-3)
    table = verb("evaluate", tiny_model, test_file, "--with", poor_model).out
    assert table.startswith("mean ± standard deviation of 2: ")
    assert " ± " in table.split("\n")[1]


def test_an_ensemble_is_judged_together(
    verb: Callable, tiny_model: Path, poor_model: Path, test_file: Path
) -> None:
    def exact(model: Path, *options: object) -> float:
        tree = json.loads(verb("evaluate", model, test_file, "--json", *options).out)
        return tree["exact"]["value"]

    assert exact(poor_model, "--ensemble", poor_model) == exact(poor_model)
    assert exact(poor_model, "--ensemble", tiny_model) > exact(poor_model)


def test_language_models_stand_side_by_side(verb: Callable, tiny_lm: Path, tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text("ab cd\n\nfe\n")
    tree = json.loads(verb("evaluate", tiny_lm, text, "--against", tiny_lm, "--json").out)
    assert tree["perplexity"]["against"][0]["value"] == tree["perplexity"]["value"]
    assert tree["perplexity"]["interval"] is None  # a running text is one item
    ran = verb("evaluate", tiny_lm, text, "--by", "length")
    assert (ran.code, ran.out) == (2, "")
    ran = verb("evaluate", tiny_lm, text, "--against", text)
    assert ran.code == 2


# --- files without a model


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def test_outputs_are_measured_without_a_model(verb: Callable, tmp_path: Path) -> None:
    out = write(tmp_path / "out.txt", "the cat sat", "a dog", "")
    ref = write(tmp_path / "ref.txt", "the cat sat", "the dog", "nothing")
    tree = json.loads(verb("evaluate", "--hyp", out, "--ref", ref, "--json").out)
    assert list(tree) == ["exact", "CER", "WER", "chrF", "BLEU"]
    assert tree["exact"]["value"] == pytest.approx(33.3333)
    assert tree["WER"] == {
        "value": pytest.approx(33.3333),
        "interval": [0, 100],
        "better": "lower",
        "signature": None,
    }
    assert tree["BLEU"]["signature"].startswith("nrefs:1|")
    more = write(tmp_path / "more.txt", "", "a dog", "")
    both = verb("evaluate", "--hyp", out, "--ref", ref, "--ref", more, "--metric", "exact").out
    assert both.split() == ["exact", "66.667", "[0.000,", "100.000]"]
    best = verb("evaluate", "--hyp", out, "--ref", ref, "--against", ref, "--json").out
    assert json.loads(best)["exact"]["against"][0]["difference"] == pytest.approx(66.6667)


def test_labels_by_label(verb: Callable, tmp_path: Path) -> None:
    out, ref = write(tmp_path / "out", *"aab"), write(tmp_path / "ref", *"abb")
    asked = ("--metric", "accuracy", "--metric", "f1-macro", "--by", "label")
    tree = json.loads(verb("evaluate", "--hyp", out, "--ref", ref, *asked, "--json").out)
    assert [(part["part"], part["value"]) for part in tree["accuracy"]["breakdown"]] == [
        ("b", 50),
        ("a", 100),
    ]
    assert tree["F1-macro"]["breakdown"] == []  # a mean over labels says nothing of one
    assert [(found["label"], found["recall"]) for found in tree["labels"]] == [
        ("a", 100),
        ("b", 50),
    ]
    table = verb("evaluate", "--hyp", out, "--ref", ref, *asked).out
    assert "precision" in table


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--hyp", "OUT"], "go together"),
        (["--ref", "OUT"], "go together"),
        (["model", "OUT", "--hyp", "OUT", "--ref", "OUT"], "instead of MODEL"),
        (["--hyp", "OUT", "--ref", "LONG"], "1 lines of output for 2 rows"),
        (["--hyp", "OUT", "--ref", "OUT", "--ref", "LONG"], "2 lines, but 1"),
        (["--hyp", "OUT", "--ref", "OUT", "--by", "tag"], "no source"),
        (["--hyp", "OUT", "--ref", "OUT", "--metric", "blue"], "did you mean 'bleu'"),
        (["--hyp", "OUT", "--ref", "OUT", "--with", "OUT", "--against", "OUT"], "take one"),
        (["model", "OUT", "--against", "nowhere"], "nowhere: there is no such model"),
        ([], "Missing argument 'MODEL'"),
        (["model"], "Missing argument 'DATA...'"),
    ],
)
def test_mistakes_are_named(verb: Callable, tmp_path: Path, args: list[str], message: str) -> None:
    names = {
        "OUT": write(tmp_path / "out.txt", "a"),
        "LONG": write(tmp_path / "long.txt", "a", "b"),
    }
    ran = verb("evaluate", *(names.get(arg, arg) for arg in args))
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


def test_the_rooms_agree_with_plain_metrics(tiny: dragoman.Predictor) -> None:
    sources, references = map(list, zip(*ROWS[:10], strict=True))
    (score, _) = evaluate(tiny, sources, references, names=["exact"])
    written = [p.text for p in tiny.predict(sources)]
    assert score.value == exact(written, references).value
