"""Training: what a run leaves behind, and that stopping and going on changes nothing."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

import dragoman
from dragoman.config import TrainSpec, resolve
from dragoman.corpus import load_corpus
from dragoman.data.rows import table_of
from dragoman.optimizers import rate
from dragoman.progress import Reporter
from dragoman.snapshots import load_snapshot
from dragoman.trainer import Trainer
from small import SPEEDY, TEXT_LM, over, reversals, settings, words, write_pairs

OPTIMIZERS = ["sgd", "adam", "adamw", "adadelta", "adagrad"]
SCHEDULES = ["constant", "halve", "plateau", "inverse-sqrt", "cosine"]
PAIRS = reversals(40)


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def last(folder: Path) -> dict[str, Tensor]:
    """The weights of the last step, which are not always the best."""
    snapshot = load_snapshot(folder)
    assert snapshot is not None
    return snapshot.weights


def equal(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def metrics(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def trainer(tree: dict[str, Any], folder: Path) -> Trainer:
    corpus = load_corpus(resolve(tree=tree), None, lambda line: None, table_of(PAIRS))
    return Trainer(corpus, folder, Reporter(quiet=True))


# --- optimizers and schedules


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_optimizer_and_schedule_trains(optimizer: str, schedule: str, tmp_path: Path) -> None:
    tree = over(SPEEDY, train={"optimizer": optimizer, "schedule": schedule, "evaluate_every": 1})
    run = trainer(tree, tmp_path)
    before = {name: p.detach().clone() for name, p in run.model.named_parameters()}
    run.run()
    after = weights(tmp_path)
    assert run.progress.step == 2
    assert all(tensor.isfinite().all() for tensor in after.values())
    changed = [name for name, p in run.model.named_parameters() if not torch.equal(p, before[name])]
    assert len(changed) > len(before) / 2
    assert all(figures["lr"] >= 0 for figures in metrics(tmp_path))


def test_sgd_has_momentum(tmp_path: Path) -> None:
    run = trainer(over(SPEEDY, train={"optimizer": "sgd", "momentum": 0.9}), tmp_path)
    run.run()
    snapshot = load_snapshot(tmp_path)
    assert snapshot is not None
    assert any("momentum_buffer" in name for name in snapshot.optimizer)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_rates_grow_in_warmup_and_never_exceed_lr(schedule: Any) -> None:
    spec = TrainSpec(lr=0.5, schedule=schedule, warmup=10, halve_after=0.5)
    rates = [rate(spec, step, step / 50, 100, 0) for step in range(1, 101)]
    assert rates[:9] == sorted(rates[:9])
    assert rates[0] == pytest.approx(0.05, rel=0.01)
    assert max(rates) <= 0.5
    if schedule not in ("constant", "plateau"):
        assert rates[-1] < 0.5 * max(rates)


# --- stopping and going on

ROUGH = over(SPEEDY, train={"evaluate_every": 4, "batch_size": 7})
DROPOUT = {
    "encoder": {"embedding": 4, "hidden": 4, "dropout": 0.3, "recurrent_dropout": 0.2},
    "decoder": {"hidden": 4, "readout_size": 4, "dropout": 0.3, "recurrent_dropout": 0.2},
}
RUNS: dict[str, dict[str, Any]] = {
    "plain": ROUGH,  # 36 rows by 7: an epoch is 6 steps, the stops are inside one
    "accumulate": over(ROUGH, train={"accumulate": 4}),  # 6 batches by 4: the last group is short
    "dropout": over(ROUGH, model=DROPOUT),
    "plateau": over(
        ROUGH, train={"schedule": "plateau", "plateau": 1, "evaluate_every": 3, "lr": 1e-7}
    ),
    "halve": over(ROUGH, train={"schedule": "halve", "halve_after": 1, "halve_every": 0.5}),
    "adadelta": over(ROUGH, train={"optimizer": "adadelta"}),
    "momentum": over(ROUGH, train={"optimizer": "sgd", "momentum": 0.9}),
    "adagrad": over(ROUGH, train={"optimizer": "adagrad"}),
}
STOPS = [1, 5, 6, 8, 11]  # the first, inside an epoch, its edge, an evaluation, none


@pytest.mark.parametrize("name", RUNS)
def test_stopping_and_going_on_equals_never_having_stopped(name: str, tmp_path: Path) -> None:
    tree, whole, parts = RUNS[name], tmp_path / "whole", tmp_path / "parts"
    dragoman.train(PAIRS, whole, config=over(tree, train={"max_steps": 14}), quiet=True)
    for stop in [*STOPS, 14]:
        steps = {"train": {"max_steps": stop}}
        config = over(tree, train=steps["train"]) if stop == 1 else steps
        dragoman.train(PAIRS, parts, config=config, resume=stop > 1, quiet=True)
        assert load_snapshot(parts).progress["step"] == stop
    assert equal(last(whole), last(parts))
    assert equal(weights(whole), weights(parts))
    for one, other in zip(metrics(whole), metrics(parts), strict=True):
        assert one == pytest.approx(other, rel=1e-9)
    a, b = load_snapshot(whole), load_snapshot(parts)
    assert equal(a.optimizer, b.optimizer)
    assert a.progress["halvings"] == b.progress["halvings"]
    if name == "plateau":
        assert a.progress["halvings"] >= 1


def test_running_text_goes_on_with_its_state(verb: Callable, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(words(6, seed)) for seed in range(20)) + "\n")
    recurrent = {"decoder": {"hidden": 8, "layers": 2, "recurrent_dropout": 0.2}}
    tree = over(TEXT_LM, model=recurrent, train={"evaluate_every": 5})
    command = ("train", text, "-r", "lstm-lm", "-q", *settings(tree))
    steps = ("--set", "train.max_steps=13")
    assert verb(*command, "-o", tmp_path / "whole", *steps).code == 0
    assert verb(*command, "-o", tmp_path / "parts").code == 0
    assert "carried.000" in last(tmp_path / "parts")
    assert any(t.any() for k, t in last(tmp_path / "parts").items() if k.startswith("carried"))
    assert verb("train", "-o", tmp_path / "parts", "--resume", "-q", *steps).code == 0
    assert equal(last(tmp_path / "whole"), last(tmp_path / "parts"))
    assert equal(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


def test_resume_on_the_command_line(verb: Callable, tmp_path: Path) -> None:
    data, folder = write_pairs(tmp_path / "p.tsv", PAIRS), tmp_path / "m"
    assert verb("train", data, "-o", folder, *settings(SPEEDY)).code == 0
    ran = verb("train", "-o", folder, "--resume", "--set", "train.max_steps=5")
    assert ran.code == 0
    assert "resumed at step 2" in ran.err
    assert yaml.safe_load((folder / "config.yaml").read_text())["train"]["max_steps"] == 5
    again = verb("train", "-o", folder, "--resume")  # a finished run has nothing left to do
    assert again.code == 0
    assert metrics(folder)[-1]["step"] == 5
    card = (folder / "README.md").read_text("utf-8")  # whoever finds it can make it again
    assert f"- `dragoman train {data} -o {folder} --set" in card
    assert f"- `dragoman train -o {folder} --resume --set train.max_steps=5`" in card


def test_the_data_of_a_resumed_run_may_have_moved(verb: Callable, tmp_path: Path) -> None:
    data, folder = write_pairs(tmp_path / "p.tsv", PAIRS), tmp_path / "m"
    assert verb("train", data, "-o", folder, "-q", *settings(SPEEDY)).code == 0
    moved = data.rename(tmp_path / "q.tsv")
    ran = verb("train", "-o", folder, "--resume", "-s", "train.max_steps=4")
    assert ran.code == 2
    assert "p.tsv: no such file" in ran.err
    assert verb("train", moved, "-o", folder, "--resume", "-s", "train.max_steps=4").code == 0
    assert metrics(folder)[-1]["step"] == 4


def test_a_run_goes_on_with_other_rows_only_where_they_are_named(
    verb: Callable, tmp_path: Path
) -> None:
    data, folder = write_pairs(tmp_path / "p.tsv", PAIRS), tmp_path / "m"
    assert verb("train", data, "-o", folder, "-q", *settings(SPEEDY)).code == 0
    before = (folder / "manifest.json").read_bytes()
    write_pairs(data, [(target, source) for source, target in PAIRS])
    ran = verb("train", "-o", folder, "--resume", "-s", "train.max_steps=4")
    assert ran.code == 2
    assert "p.tsv: not the rows that this run has learned from" in ran.err
    assert (folder / "manifest.json").read_bytes() == before
    ran = verb("train", data, "-o", folder, "--resume", "-s", "train.max_steps=4")
    assert ran.code == 0
    assert "its best is sought anew" in ran.err
    assert metrics(folder)[-1]["step"] == 4


def test_the_model_of_a_resumed_run_cannot_change(verb: Callable, tmp_path: Path) -> None:
    data, folder = write_pairs(tmp_path / "p.tsv", PAIRS), tmp_path / "m"
    assert verb("train", data, "-o", folder, "-q", *settings(SPEEDY)).code == 0
    before = (folder / "manifest.json").read_bytes()
    for setting in ("model.encoder.hidden=8", "data.source.units=bytes", "data.shared=true"):
        ran = verb("train", "-o", folder, "--resume", "--set", setting)
        assert ran.code == 2
        assert "cannot change" in ran.err
    assert (folder / "manifest.json").read_bytes() == before


def test_a_run_that_dies_before_its_first_evaluation_can_be_resumed(tmp_path: Path) -> None:
    tree = over(SPEEDY, train={"max_steps": 6, "evaluate_every": 5, "checkpoint_every": 2})
    dragoman.train(PAIRS, tmp_path / "whole", config=tree, quiet=True)
    run = trainer(tree, tmp_path / "parts")
    step, run._step = run._step, lambda: step() if run.progress.step < 3 else 1 / 0  # type: ignore
    with pytest.raises(ZeroDivisionError):
        run.run()
    assert not (tmp_path / "parts" / "manifest.json").exists()
    assert load_snapshot(tmp_path / "parts").progress["step"] == 2
    dragoman.train(PAIRS, tmp_path / "parts", resume=True, quiet=True)
    assert equal(weights(tmp_path / "whole"), weights(tmp_path / "parts"))


# --- one step


def test_two_half_batches_are_one_batch(tmp_path: Path) -> None:
    grads = []
    for accumulate, size in ((1, 36), (2, 18)):
        tree = over(SPEEDY, train={"batch_size": size, "accumulate": accumulate, "clip": None})
        tree["model"] = over(tree["model"], encoder={"dropout": 0.0}, decoder={"dropout": 0.0})
        run = trainer(tree, tmp_path / str(size))
        step, kept = run.stepper.optimizer.step, {}

        def look(run: Trainer = run, kept: dict = kept, step: Callable = step) -> None:
            kept.update({n: p.grad.clone() for n, p in run.model.named_parameters()})
            step()

        run.stepper.optimizer.step = look  # type: ignore[method-assign,assignment]
        outcome = run._step()
        grads.append((kept, float(outcome.nll), outcome.tokens))
    (one, nll, tokens), (two, nll2, tokens2) = grads
    assert tokens == tokens2
    assert nll == pytest.approx(nll2, abs=1e-6)
    assert one.keys() == two.keys()
    for name in one:
        assert torch.allclose(one[name], two[name], atol=1e-6), name


# --- what a run leaves behind


def test_the_folder_holds_data_with_checksums(tmp_path: Path) -> None:
    dragoman.train(PAIRS, tmp_path, config=SPEEDY, quiet=True)
    files = {path.name for path in tmp_path.iterdir()} - {"checkpoints"}
    vocabularies = {"source.vocabulary.json", "target.vocabulary.json"}
    listed = {"config.yaml", "model.safetensors", "metrics.jsonl", "README.md", "samples.json"}
    listed |= vocabularies
    assert files == listed | {"manifest.json"}
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert manifest["files"] == {
        name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in listed
    }
    card = (tmp_path / "README.md").read_text()
    assert "36 pairs" in card
    assert "seed 1" in card
    assert "dragoman predict" in card


def test_subwords_travel_in_the_folder(tmp_path: Path) -> None:
    pairs = [(" ".join(words(12, seed)), " ".join(words(12, seed + 100))) for seed in range(30)]
    model = dragoman.train(pairs, tmp_path, config=SPEEDY, quiet=True)
    assert model.config.data.source.units == "subword"
    assert (tmp_path / "source.subword.model").exists()
    assert (tmp_path / "target.subword.model").exists()
    loaded = dragoman.load(tmp_path)
    odd = ["naïve 👩‍👩‍👧 \u2581x", "\ud800 half a pair", pairs[0][0]]
    assert [p.text for p in loaded(odd)] == [p.text for p in model(odd)]


def test_metrics_are_a_line_per_evaluation(tmp_path: Path) -> None:
    tree = over(SPEEDY, train={"max_steps": 7, "evaluate_every": 3, "lr": 0.01})
    dragoman.train(PAIRS, tmp_path, config=tree, quiet=True)
    found = metrics(tmp_path)
    assert [figures["step"] for figures in found] == [3, 6, 7]
    assert [figures["epoch"] for figures in found] == [0.6, 1.2, 1.4]
    assert all(figures["lr"] == 0.01 for figures in found)
    for figures in found:
        assert set(figures) >= {"train_loss", "dev_loss", "dev_perplexity", "dev_cer", "dev_exact"}
    assert found[-1]["train_loss"] < found[0]["train_loss"]


def test_the_folder_holds_the_best_weights_not_the_last(tmp_path: Path) -> None:
    # each step is a leap in the dark: some evaluation after the first is worse
    tree = over(SPEEDY, train={"max_steps": 12, "evaluate_every": 1, "lr": 3.0, "metric": "loss"})
    run = trainer(tree, tmp_path)
    seen: dict[int, dict[str, Tensor]] = {}
    evaluate = run._evaluate

    def look() -> None:
        seen[run.progress.step] = {n: p.detach().clone() for n, p in run.model.named_parameters()}
        evaluate()

    run._evaluate = look  # type: ignore[method-assign]
    run.run()
    losses = {int(figures["step"]): figures["dev_loss"] for figures in metrics(tmp_path)}
    best = min(losses, key=lambda step: losses[step])
    assert best < 12
    assert run.progress.best_step == best
    assert equal(weights(tmp_path), seen[best])
    assert f"step {best}," in (tmp_path / "README.md").read_text()


def test_patience_ends_a_run(tmp_path: Path) -> None:
    tree = over(
        SPEEDY,
        train={"max_steps": 50, "evaluate_every": 1, "patience": 2, "lr": 1e-12, "metric": "exact"},
    )
    dragoman.train(PAIRS, tmp_path, config=tree, quiet=True)
    assert [figures["step"] for figures in metrics(tmp_path)] == [1, 2, 3]


def test_dev_rows_are_no_training_rows_and_always_the_same() -> None:
    def split(seed: int) -> tuple[set[str], set[str]]:
        tree = over(SPEEDY, data={"dev_rows": 8}, train={"seed": seed})
        corpus = load_corpus(resolve(tree=tree), None, lambda line: None, table_of(PAIRS))
        source = corpus.fields.source
        train = {source.decode(corpus.train.sources[0][row]) for row in range(len(corpus.train))}
        return train, {row[0] for row in corpus.samples}

    train, dev = split(1)
    assert len(dev) == 8
    assert not train & dev
    assert train | dev == {source for source, _ in PAIRS}
    assert split(1) == (train, dev)
    assert split(2) == (train, dev)  # seeds of one run share alphabets: they can decode together


def test_training_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    tree = over(SPEEDY, model=DROPOUT, train={"max_steps": 5, "evaluate_every": 2})
    for name in ("a", "b"):
        dragoman.train(PAIRS, tmp_path / name, config=tree, quiet=True)
    listed = json.loads((tmp_path / "a" / "manifest.json").read_text())["files"]
    for name in [*listed, "manifest.json"]:
        one, other = (tmp_path / run / name for run in ("a", "b"))
        assert one.read_bytes() == other.read_bytes(), name
    other = over(tree, train={"seed": 2})
    dragoman.train(PAIRS, tmp_path / "c", config=other, quiet=True)
    assert not equal(weights(tmp_path / "a"), weights(tmp_path / "c"))


def test_pairs_in_memory_train_as_a_file_does(tmp_path: Path) -> None:
    file = write_pairs(tmp_path / "p.tsv", PAIRS)
    dragoman.train(PAIRS, tmp_path / "memory", config=SPEEDY, quiet=True)
    dragoman.train(file, tmp_path / "file", config=SPEEDY, quiet=True)
    dragoman.train([str(file)], tmp_path / "list", config=SPEEDY, quiet=True)
    assert equal(weights(tmp_path / "memory"), weights(tmp_path / "file"))
    assert equal(weights(tmp_path / "memory"), weights(tmp_path / "list"))


def test_a_language_model_learns_lines_from_memory(tmp_path: Path) -> None:
    lines = [(word,) for word in words(30)]
    tree = over(TEXT_LM, data={"format": "lines"})
    model = dragoman.train(lines, tmp_path, recipe="gru-lm", config=tree, quiet=True)
    assert model("ab", max_length=4).text.startswith("ab")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("a", "b"), ("c",)], "row 2 is not like the first"),
        ([("a", "b"), ("c", " ")], "row 2: empty text"),
        ([("a", "b"), ("c", 3)], "row 2"),
        ([("a",), ("b",)], "rows of 1 texts, this model takes 2"),
        ([("a", "b"), ("c", "\ud800")], "row 2: not valid Unicode"),
        ([], "no training data"),
    ],
)
def test_bad_rows_in_memory_are_refused(tmp_path: Path, rows: Any, said: str) -> None:
    with pytest.raises(dragoman.UserError, match=said):
        dragoman.train(rows, tmp_path / "m", config=SPEEDY, quiet=True)


def test_a_shared_alphabet_is_one(tmp_path: Path) -> None:
    tree = over(SPEEDY, data={"shared": True, "dev_rows": 4})
    pairs = [(word, word.upper()) for word in words(30)]
    model = dragoman.train(pairs, tmp_path, config=tree, quiet=True)
    assert list(model.fields.source.units.symbols) == list(model.fields.target.units.symbols)
    names = ("source.vocabulary.json", "target.vocabulary.json")
    one, other = ((tmp_path / name).read_bytes() for name in names)
    assert one == other


def test_tensorboard_gets_the_metrics(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    tree = over(SPEEDY, train={"tensorboard": True, "evaluate_every": 1})
    dragoman.train(PAIRS, tmp_path, config=tree, quiet=True)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    points = {event.step: event.value for event in events.Scalars("dev_loss")}
    assert points == pytest.approx({int(m["step"]): m["dev_loss"] for m in metrics(tmp_path)})


def test_train_can_be_called_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):  # importing its module must not hide the function
        assert dragoman.train(PAIRS, tmp_path / name, config=SPEEDY, quiet=True)("abc")
    assert callable(dragoman.train)
