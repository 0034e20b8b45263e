"""The command line: every verb, every format, one line in and one line out."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import dragoman
from dragoman.cli import VERBS
from dragoman.config import recipe_names, validate
from small import SPEEDY, over, reversals, settings, write_pairs

INPUTS = ["abc", "fed", "", "a", "  ", "bcdef", "ab"]
STDIN = "\n".join(INPUTS).encode() + b"\n"


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.tsv", reversals(40, seed=2))


def python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, check=False
    )


# --- starting up


@pytest.mark.parametrize("args", [["--help"], ["train", "--help"], ["predict", "-h"]])
def test_help_does_not_wait_for_torch(args: list[str]) -> None:
    code = (
        "import sys; from dragoman.cli import cli; "
        f"cli.main({args}, prog_name='dragoman', standalone_mode=False); "
        "print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = python(code)
    assert "Usage: dragoman" in done.stdout
    assert done.stdout.splitlines()[-1] == "False False"


def test_help_is_fast(cli: Callable) -> None:
    seconds, bare = [], []
    for _ in range(3):
        begun = time.perf_counter()
        assert cli("--help").code == 0
        seconds.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import click"], check=True)
        bare.append(time.perf_counter() - begun)
    assert min(seconds) < max(0.5, 3 * min(bare))  # a busy machine starts nothing in time


def test_importing_dragoman_does_not_import_torch() -> None:
    done = python("import sys, dragoman; print('torch' in sys.modules, dragoman.__version__)")
    assert done.stdout.split() == ["False", dragoman.__version__]


def test_help_names_every_verb(verb: Callable) -> None:
    shown = verb("--help").out
    names = ["train", "predict", "score", "evaluate", "plot", "recipes", "info", "check", "demo"]
    for name in names:
        assert f"\n  {name} " in shown


def test_what_verbs_do_is_told_in_a_line_each(
    verb: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = verb("--help").out.split("Commands:\n")[1].splitlines()
    assert len(told) == len(VERBS)
    assert not [line for line in told if "..." in line or len(line) > 80]


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("--epochs", "train.epochs"),
        ("--lr", "train.lr"),
        ("--batch-size", "train.batch_size"),
        ("--seed", "train.seed"),
        ("--dropout", "model.encoder.dropout"),
    ],
)
def test_settings_as_options_are_told_how_to_be_given(
    verb: Callable, option: str, key: str
) -> None:
    ran = verb("train", "pairs.tsv", option, "3")
    assert (ran.code, f"settings are given as --set {key}=VALUE" in ran.err) == (2, True)
    assert "--set" not in verb("predict", "model", "--epochs", "3").err


def test_a_wrong_option_is_named_with_exit_code_2(verb: Callable, tiny_model: Path) -> None:
    for args in (["predict", tiny_model, "--beem", "3"], ["fly"], ["predict"]):
        ran = verb(*args)
        assert (ran.code, ran.out) == (2, "")
        assert "Traceback" not in ran.err


def test_debug_shows_where(cli: Callable, verb: Callable) -> None:
    assert verb("predict", "/nowhere").err.count("\n") == 1
    debug = cli("--debug", "predict", "/nowhere")
    assert debug.code == 1
    assert "Traceback" in debug.err


# --- train


def test_train_says_what_it_did_on_stderr_alone(
    verb: Callable, pairs: Path, tmp_path: Path
) -> None:
    ran = verb("train", pairs, "-o", tmp_path / "m", *settings(SPEEDY))
    assert (ran.code, ran.out) == (0, "")
    for part in ("36 rows to train on, 4 dev rows", "char units", "parameters", "step", "done: "):
        assert part in ran.err
    assert verb("check", tmp_path / "m").code == 0


def test_quiet_is_quiet(verb: Callable, pairs: Path, tmp_path: Path) -> None:
    ran = verb("train", pairs, "-o", tmp_path / "m", "-q", *settings(SPEEDY))
    assert ran == (0, "", "")


def test_train_reads_stdin(verb: Callable, tmp_path: Path) -> None:
    rows = "".join(f"{a}\t{b}\n" for a, b in reversals(30)).encode()
    ran = verb("train", "-", "-o", tmp_path / "m", *settings(SPEEDY), stdin=rows)
    assert ran.code == 0
    assert "26 rows to train on" in ran.err


def test_train_reads_columns_by_name_and_a_dev_file(verb: Callable, tmp_path: Path) -> None:
    table, dev = tmp_path / "t.csv", tmp_path / "d.csv"
    table.write_text("id,back,word\n" + "".join(f"1,{b},{a}\n" for a, b in reversals(20)))
    dev.write_text("id,back,word\n" + "".join(f"1,{b},{a}\n" for a, b in reversals(5, seed=9)))
    ran = verb(
        *("train", table, "--dev", dev, "--columns", "word,back", "-o", tmp_path / "m"),
        *settings(SPEEDY),
    )
    assert ran.code == 0
    assert "20 rows to train on, 5 dev rows" in ran.err


def test_train_reads_parallel_files(verb: Callable, tmp_path: Path) -> None:
    for name, column in (("a.src", 0), ("a.trg", 1)):
        (tmp_path / name).write_text("".join(f"{row[column]}\n" for row in reversals(20)))
    ran = verb(
        *("train", tmp_path / "a.src", tmp_path / "a.trg", "-o", tmp_path / "m"), *settings(SPEEDY)
    )
    assert ran.code == 0
    assert "16 rows to train on" in ran.err


def test_print_config_shows_what_set_and_recipe_make(verb: Callable) -> None:
    ran = verb("train", "x.tsv", "-r", "bahdanau2015", "-s", "train.lr=1e-3", "--print-config")
    config = validate(yaml.safe_load(ran.out))
    assert (config.recipe, config.train.lr, config.data.train) == (
        "bahdanau2015",
        0.001,
        ("x.tsv",),
    )
    assert config.train.optimizer == "adadelta"


def test_a_config_file_lies_between_recipe_and_set(verb: Callable, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("recipe: luong2015\ntrain: {lr: 0.5, clip: 2.0}\n")
    ran = verb("train", "-c", path, "-s", "train.lr=0.25", "--print-config")
    config = validate(yaml.safe_load(ran.out))
    assert (config.recipe, config.train.lr, config.train.clip) == ("luong2015", 0.25, 2.0)
    path.write_text(ran.out)
    assert verb("train", "-c", path, "--print-config").out == ran.out  # it reads back as itself


def test_train_without_a_folder_or_data_is_refused(verb: Callable, pairs: Path) -> None:
    assert "-o model/" in verb("train", pairs).err
    ran = verb("train", "-o", "/nowhere/m", "--resume")
    assert ran.code == 2
    assert "nothing to resume" in ran.err
    assert not Path("/nowhere").exists()


# --- predict


def test_predict_answers_each_line_in_order(verb: Callable, tiny_model: Path) -> None:
    ran = verb("predict", tiny_model, stdin=STDIN)
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [text.strip()[::-1] for text in INPUTS]


def test_predict_reads_files_columns_and_no_last_newline(
    verb: Callable, tiny_model: Path, tmp_path: Path
) -> None:
    lines, table = tmp_path / "in.txt", tmp_path / "in.tsv"
    lines.write_bytes(b"abc\nfed")
    table.write_text("x\tabc\ny\tfed\n")
    assert verb("predict", tiny_model, lines).lines == ["cba", "def"]
    assert verb("predict", tiny_model, table, "--column", "2").lines == ["cba", "def"]
    assert verb("predict", tiny_model, stdin=b"").out == ""


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.JSONL"])
def test_predict_reads_the_keys_that_training_reads(
    verb: Callable, tmp_path: Path, name: str
) -> None:
    rows = [{"id": f"x{at}", "source": a, "target": b} for at, (a, b) in enumerate(reversals(20))]
    table = tmp_path / name
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert verb("train", table, "-o", tmp_path / "m", "-q", *settings(SPEEDY)).code == 0
    ran = verb("predict", tmp_path / "m", table, "--format", "jsonl")
    found = ["".join(json.loads(line)["source"][:-1]) for line in ran.lines]
    assert found == [row["source"] for row in rows]


def test_tables_are_known_by_their_names_in_any_case(
    verb: Callable, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "IN.TSV").write_text("abc\tx\nfed\ty\n")
    assert verb("predict", tiny_model, tmp_path / "IN.TSV").lines == ["cba", "def"]


def test_score_reads_the_columns_of_training(verb: Callable, tmp_path: Path) -> None:
    table, model = tmp_path / "t.tsv", tmp_path / "m"
    rows = reversals(20)
    table.write_text("".join(f"{at}\t{b}\t{a}\n" for at, (a, b) in enumerate(rows)))
    assert verb("train", table, "--columns", "3,2", "-o", model, "-q", *settings(SPEEDY)).code == 0
    wanted = [one.score for one in dragoman.load(model).score(rows)]
    scored = [float(line.split("\t")[0]) for line in verb("score", model, table).lines]
    assert scored == pytest.approx(wanted, abs=1e-3)
    other = write_pairs(tmp_path / "pairs.tsv", rows)
    again = [float(x.split("\t")[0]) for x in verb("score", model, other, "--columns", "1,2").lines]
    assert again == pytest.approx(wanted, abs=1e-3)
    typed = verb("score", model, stdin=other.read_bytes()).lines
    assert [float(line.split("\t")[0]) for line in typed] == pytest.approx(wanted, abs=1e-3)
    assert verb("score", model, other, "--rank", "--columns", "1,2").code == 2
    ran = verb("score", model, other, "--columns", "1")
    assert (ran.code, "names 1 columns, this model takes 2" in ran.err) == (2, True)
    for name, side in (("a.src", 0), ("a.trg", 1)):
        (tmp_path / name).write_text("".join(f"{row[side]}\n" for row in rows))
    beside = verb("score", model, tmp_path / "a.src", tmp_path / "a.trg").lines
    assert [float(line.split("\t")[0]) for line in beside] == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("name", ["t.tsv", "t.TSV", "t.csv", "t.jsonl", "t.txt"])
def test_columns_that_are_not_read_are_told(verb: Callable, tmp_path: Path, name: str) -> None:
    rows = [(a, b, "x y z") for a, b in reversals(20)]
    if name.endswith("jsonl"):
        lines = [json.dumps(dict(zip("abc", row, strict=True))) for row in rows]
    else:
        mark = "," if name.endswith("csv") else "\t"
        lines = [mark.join(row) for row in rows]
    header = ["a,b,c"] if name.endswith("csv") else []
    (tmp_path / name).write_text("\n".join([*header, *lines, ""]))
    ran = verb("train", tmp_path / name, "-o", tmp_path / "m", *settings(SPEEDY))
    assert (ran.code, "3 columns, of which the first 2 are read" in ran.err) == (0, True), ran.err
    assert ("(a, b)" in ran.err) == name.endswith(("csv", "jsonl"))


def test_jsonl_tells_all(verb: Callable, tiny_model: Path) -> None:
    ran = verb("predict", tiny_model, "--format", "jsonl", "--n-best", "2", stdin=STDIN)
    records = [json.loads(line) for line in ran.lines]
    assert [r["text"] for r in records] == [text.strip()[::-1] for text in INPUTS]
    full = records[0]
    assert full["tokens"] == ["c", "b", "a"]
    assert full["source"] == ["a", "b", "c", "</s>"]
    assert sum(full["log_probs"]) == pytest.approx(full["score"], abs=1e-4)
    assert len(full["log_probs"]) == 4  # the end is written too
    assert [len(row) for row in full["attention"]["weights"]] == [4, 4, 4]
    assert len(full["alternatives"]) == 1
    assert records[2]["text"] == ""


def test_nbest_is_numbered_distinct_and_best_first(verb: Callable, tiny_model: Path) -> None:
    ran = verb("predict", tiny_model, "--format", "nbest", "--n-best", "5", stdin=STDIN)
    found: dict[int, list[tuple[str, float, float]]] = {}
    for line in ran.lines:
        place, text, mean, score = line.split(" ||| ")
        found.setdefault(int(place), []).append((text, float(mean), float(score)))
    assert list(found) == list(range(len(INPUTS)))
    assert len(found[0]) == 5
    assert len(found[2]) == 1  # a blank line has one answer, the empty one
    for answers in found.values():
        texts, means = [a[0] for a in answers], [a[1] for a in answers]
        assert len(set(texts)) == len(texts)
        assert means == sorted(means, reverse=True)


def test_more_answers_than_beams_widens_the_beam(verb: Callable, tiny_model: Path) -> None:
    ran = verb("predict", tiny_model, "--beam", "1", "--n-best", "4", stdin=b"abc\n")
    assert len(set(ran.lines[0].split("\t"))) == 4


def test_pharaoh_links_each_token_to_its_source(verb: Callable, tiny_model: Path) -> None:
    lines = verb("predict", tiny_model, "--format", "pharaoh", stdin=STDIN).lines
    assert len(lines) == len(INPUTS)
    assert lines[2] == ""
    links = [tuple(map(int, link.split("-"))) for link in lines[0].split()]
    assert [target for _, target in links] == [0, 1, 2]
    assert all(0 <= source < 3 for source, _ in links)


def test_lengths_are_honoured(verb: Callable, tiny_model: Path) -> None:
    for beam in ("1", "4"):
        short = verb("predict", tiny_model, "--max-length", "2", "--beam", beam, stdin=b"abcde\n")
        assert len(short.lines[0]) == 2
        long = verb("predict", tiny_model, "--min-length", "40", "--beam", beam, stdin=b"ab\n")
        assert len(long.lines[0]) >= 40
    ran = verb("predict", tiny_model, "--min-length", "5", "--max-length", "3", stdin=b"ab\n")
    assert ran.code == 2
    assert "min_length" in ran.err


def test_sampling_depends_on_the_seed_and_nothing_else(verb: Callable, tiny_model: Path) -> None:
    inputs = "".join(f"{a}\n" for a, _ in reversals(24, seed=5)).encode()
    sample = ("predict", tiny_model, "--sample", "--temperature", "2", "--seed")
    first = verb(*sample, "7", stdin=inputs)
    assert first.code == 0
    assert verb(*sample, "7", stdin=inputs).out == first.out
    assert verb(*sample, "7", "--batch-size", "1", stdin=inputs).out == first.out
    assert verb(*sample, "7", "--batch-size", "5", stdin=inputs).out == first.out
    assert verb(*sample, "8", stdin=inputs).out != first.out


def test_sampling_can_be_narrowed_to_the_likeliest(verb: Callable, tiny_model: Path) -> None:
    greedy = verb("predict", tiny_model, "--beam", "1", stdin=STDIN).out
    for options in (["--top-k", "1"], ["--top-p", "1e-6"], ["--temperature", "0"]):
        assert verb("predict", tiny_model, "--sample", *options, stdin=STDIN).out == greedy
    several = verb("predict", tiny_model, "--sample", "--n-best", "3", stdin=b"abc\n")
    assert len(several.lines[0].split("\t")) == 3


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--beam", "0"], "search.beam"),
        (["--beam", "1000000000"], "search.beam"),
        (["--n-best", "-1"], "search.n_best"),
        (["--max-length", "1000000000"], "search.max_length"),
        (["--min-length", "1000000000"], "search.min_length"),
        (["--temperature", "nan"], "search.temperature"),
        (["--top-p", "0"], "search.top_p"),
        (["--device", "cuda:99"], "cuda:99"),
        (["--device", "toaster"], "toaster"),
    ],
)
def test_absurd_options_are_refused(
    verb: Callable, tiny_model: Path, options: list[str], named: str
) -> None:
    ran = verb("predict", tiny_model, *options, stdin=b"abc\n")
    assert (ran.code, ran.out) == (2, "")
    assert named in ran.err
    assert ran.err.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error(tiny_model: Path, tmp_path: Path) -> None:
    inputs = tmp_path / "many.txt"
    inputs.write_text("abcde\n" * 3000)
    command = [sys.executable, "-m", "dragoman", "predict", str(tiny_model), str(inputs)]
    with subprocess.Popen(
        [*command, "--format", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert json.loads(running.stdout.readline())["text"] == "edcba"
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


# --- score, evaluate, plot


def test_score_agrees_with_predict(verb: Callable, tiny_model: Path) -> None:
    answer = json.loads(verb("predict", tiny_model, "--format", "jsonl", stdin=b"abc\n").out)
    rows = b"abc\tcba\nabc\tfff\n\n"
    scores = [float(line) for line in verb("score", tiny_model, stdin=rows).lines]
    assert scores[0] == pytest.approx(answer["score"], abs=1e-4)
    assert scores[1] < scores[0] <= 0
    assert len(scores) == 3  # a blank line is scored too
    detailed = verb("score", tiny_model, "--format", "jsonl", "--batch-size", "1", stdin=rows)
    first = json.loads(detailed.lines[0])
    assert first["tokens"] == ["c", "b", "a", "</s>"]
    assert first["score"] == pytest.approx(scores[0], abs=1e-4)
    assert first["perplexity"] >= 1


def test_evaluate_measures(verb: Callable, tiny_model: Path, pairs: Path) -> None:
    figures = json.loads(verb("evaluate", tiny_model, pairs, "--json").out)
    assert figures["exact"]["value"] > 80
    assert figures["CER"]["value"] < 10
    assert figures["perplexity"]["value"] >= 1
    table = verb("evaluate", tiny_model, pairs, "--metric", "bleu", "--beam", "1").out
    assert table.startswith("BLEU")
    assert "version:" in table  # sacrebleu's signature
    ran = verb("evaluate", tiny_model, pairs, "--metric", "blue")
    assert ran.code == 2
    assert "did you mean 'bleu'" in ran.err


def test_evaluate_counts_what_it_skips(verb: Callable, tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("abc\tcba\nfed\nde\ted\n")
    ran = verb("evaluate", tiny_model, path)
    assert ran.code == 2
    assert f"{path}:2: too few columns" in ran.err
    ran = verb("evaluate", tiny_model, path, "--on-bad-line", "skip")
    assert ran.code == 0
    assert "1 row skipped (too few columns)" in ran.err


def test_a_language_model_speaks_scores_and_is_evaluated(
    verb: Callable, tiny_lm: Path, tmp_path: Path
) -> None:
    ran = verb("predict", tiny_lm, "--max-length", "12", stdin=b"ab\n\nfe\n")
    assert len(ran.lines) == 3
    assert [line[:2] for line in ran.lines[::2]] == ["ab", "fe"]
    nine = ("--min-length", "9", "--max-length", "9", "--format", "jsonl")
    long = json.loads(verb("predict", tiny_lm, *nine, stdin=b"abc\n").out)
    assert len(long["tokens"]) == 12  # the prompt comes on top
    assert len(verb("score", tiny_lm, stdin=b"ab cd\nzz\n").lines) == 2
    text = tmp_path / "t.txt"
    text.write_text("ab cd\n\nfe\n")
    figures = json.loads(verb("evaluate", tiny_lm, text, "--json").out)
    assert set(figures) == {"perplexity", "bits per character"}
    ran = verb("plot", tiny_lm, "ab")
    assert ran.code == 2
    assert "no attention" in ran.err


@pytest.mark.parametrize("style", ["heat", "edges"])
def test_plot_draws(verb: Callable, tiny_model: Path, tmp_path: Path, style: str) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "p.svg"
    ran = verb("plot", tiny_model, "abc", "-o", picture, "--style", style)
    assert (ran.code, ran.out) == (0, "cba\n")
    assert "<svg" in picture.read_text()


def test_plot_of_nothing_is_refused(verb: Callable, tiny_model: Path, tmp_path: Path) -> None:
    ran = verb("plot", tiny_model, "  ", "-o", tmp_path / "p.png")
    assert ran.code == 2
    assert "blank" in ran.err


# --- recipes, info, check


def test_recipes_are_listed_with_their_sizes(verb: Callable) -> None:
    lines = verb("recipes").lines
    assert [line.split()[0] for line in lines] == recipe_names()
    assert all(float(line.split()[1]) > 0 for line in lines)
    assert len({line.index(" M ") for line in lines}) == 1


def test_a_demo_leaves_the_others_alone(verb: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.demo.table import SHOWS

    places: list[Path] = []
    for name in ("dates", "tsp"):
        monkeypatch.setitem(SHOWS, name, lambda folder, _: places.append(folder))
        assert verb("demo", name).code == 0
    assert verb("demo", "tsp", "-o", "here").code == 0
    assert places == [Path("demo"), Path("demo-tsp"), Path("here")]


def test_info_of_a_model_and_of_the_machine(verb: Callable, tiny_model: Path) -> None:
    told = verb("info", tiny_model).out
    assert "# transduce" in told
    assert "kernel on " in told
    assert "torch" in verb("info").out
    ran = verb("info", tiny_model.parent)
    assert ran.code == 2
    assert "not a model folder" in ran.err


def test_a_run_that_was_stopped_at_once_is_no_model_yet(verb: Callable, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last").write_text("step-000000005")
    ran = verb("info", tmp_path)
    assert (ran.code, f"dragoman train -o {tmp_path} --resume" in ran.err) == (2, True)


def test_check_looks_at_models_and_data(verb: Callable, tiny_model: Path, tmp_path: Path) -> None:
    assert "sound" in verb("check", tiny_model).out
    path = tmp_path / "t.tsv"
    path.write_text("abc\tcba\nabc\tcba\nfed\n\tx\n")
    ran = verb("check", path)
    assert ran.code == 2
    for part in (
        "2 good rows, 2 bad",
        "1 × too few columns",
        "1 × empty source",
        "1 repeated row",
        "auto would read it by char",
    ):
        assert part in ran.out
    path.write_text("abc\tcba\n")
    assert verb("check", path).code == 0


def test_a_changed_search_is_kept_in_the_model(verb: Callable, pairs: Path, tmp_path: Path) -> None:
    tree = over(SPEEDY, search={"beam": 2, "n_best": 2})
    assert verb("train", pairs, "-o", tmp_path / "m", "-q", *settings(tree)).code == 0
    assert "\t" in verb("predict", tmp_path / "m", stdin=b"abc\n").out


def test_no_compiler_is_imported_to_read_a_model(tmp_path: Path) -> None:
    """torch's takes longer to import than all else together."""
    config = {"train": {"max_steps": 1}, "data": {"dev_rows": 1}}
    dragoman.train([("ab", "ba"), ("cd", "dc")] * 4, tmp_path / "m", config=config, quiet=True)
    code = f"import sys, dragoman; dragoman.load({str(tmp_path / 'm')!r})('ab')\n"
    code += "from dragoman.cli import cli; cli.main(['recipes'], standalone_mode=False)\n"
    code += "sys.exit('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
