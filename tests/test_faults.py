"""Faults and bad input, each really provoked. The numbers are rows of the fault table.

Common rule: exit code 2 for the user's mistake, 1 for a failure; one line that names what is wrong;
no traceback; nothing half written; nothing lost.
"""

import contextlib
import hashlib
import json
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dragoman
from dragoman import checkpoint
from dragoman.output import as_json, as_nbest, as_text
from dragoman.predict import Prediction
from dragoman.snapshots import load_snapshot
from dragoman.training import alone
from runs import ended, fork, needs_fork
from small import SPEEDY, over, reversals, words, write_pairs
from small import settings as options

PAIRS = reversals(40)
QUICK = options(SPEEDY)
NOBODY = 65534


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.tsv", PAIRS)


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of a model that may be spoiled."""
    return Path(shutil.copytree(tiny_model, tmp_path / "spoiled"))


def refused(ran: Any, *parts: object, code: int = 2) -> None:
    """One line on stderr, nothing on stdout, and the line says these things."""
    assert (ran.code, ran.out) == (code, ""), ran
    assert ran.err.splitlines()[-1].startswith("dragoman: ")
    assert "Traceback" not in ran.err
    for part in parts:
        assert str(part) in ran.err.splitlines()[-1]


def forge(folder: Path, name: str, content: bytes) -> None:
    """Replace a file and, as an attacker would, its checksum."""
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def newest(folder: Path) -> Path:
    return folder / "checkpoints" / (folder / "checkpoints" / "last").read_text()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- 5: damaged files


def flip(content: bytes) -> bytes:
    return content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[:-100],
    "empty": lambda content: b"",
    "flipped": flip,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["model.safetensors", "config.yaml", "source.vocabulary.json"])
def test_5_a_damaged_file_is_refused(verb: Callable, model: Path, name: str, damage: str) -> None:
    file = model / name
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    refused(verb("predict", model, stdin=b"abc\n"), file, "wrong checksum")
    refused(verb("check", model), file, "wrong checksum")


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"format": "x", "files": 3}'])
def test_5_a_damaged_manifest_is_refused(
    verb: Callable, model: Path, content: bytes | None
) -> None:
    file = model / "manifest.json"
    file.unlink() if content is None else file.write_bytes(content)
    refused(verb("predict", model, stdin=b"abc\n"), model)


@pytest.mark.parametrize("damage", ["truncated", "empty"])
def test_5_truncated_weights_with_a_right_checksum_are_refused(
    verb: Callable, model: Path, damage: str
) -> None:
    content = (model / "model.safetensors").read_bytes()
    forge(model, "model.safetensors", DAMAGES[damage](content))
    refused(verb("predict", model, stdin=b"abc\n"), "not a safetensors file")


def test_5_weights_of_another_model_are_refused(verb: Callable, model: Path, pairs: Path) -> None:
    other = model.parent / "other"
    assert verb("train", pairs, "-o", other, "-q", *QUICK).code == 0
    forge(model, "model.safetensors", (other / "model.safetensors").read_bytes())
    refused(verb("predict", model, stdin=b"abc\n"), "the config wants")


@pytest.mark.parametrize(
    ("scale", "code", "message"),
    [(float("nan"), 2, "not finite"), (1e38, 1, "no answer has a finite score")],
)
def test_5_weights_that_are_no_numbers_are_refused(
    verb: Callable, model: Path, scale: float, code: int, message: str
) -> None:
    place = model / "model.safetensors"
    weights = checkpoint.unpack(place.read_bytes(), place)
    forge(model, place.name, checkpoint.pack({name: w * scale for name, w in weights.items()}))
    ran = verb("predict", model, stdin=b"abc\n")
    assert ran.code == code, ran
    assert message in ran.err


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "progress.json"])
def test_5_a_damaged_checkpoint_is_refused(verb: Callable, model: Path, name: str) -> None:
    file = newest(model) / name
    file.write_bytes(flip(file.read_bytes()))
    before = contents(model)
    refused(verb("train", "-o", model, "--resume"), file, "wrong checksum")
    assert contents(model) == before


def change(name: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda progress: {**progress, name: value}


@pytest.mark.parametrize(
    "spoil",
    [
        change("parts", 0),
        change("position", -3),
        change("step", 1 << 70),
        change("best_step", 10**6),
        change("seconds", float("inf")),
        change("history", [{"dev_loss": 1.0}]),
        change("history", [{"step": float("nan")}]),
        lambda progress: [progress],
    ],
)
def test_5_progress_that_cannot_be_is_refused(
    verb: Callable, model: Path, pairs: Path, spoil: Callable
) -> None:
    folder = newest(model)
    progress = json.loads((folder / "progress.json").read_bytes())
    forge(folder, "progress.json", json.dumps(spoil(progress)).encode())
    refused(
        verb("train", pairs, "-o", model, "--resume"), "progress in the last checkpoint is damaged"
    )


def renamed(tensors: dict[str, Any]) -> dict[str, Any]:
    first, *rest = sorted(tensors)
    return {f"{first}x": tensors[first], **{name: tensors[name] for name in rest}}


def fewer(tensors: dict[str, Any]) -> dict[str, Any]:
    return {name: tensors[name] for name in sorted(tensors)[1:]}


def longer(tensors: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.cat([t.flatten(), torch.ones(1)]) for name, t in tensors.items()}


@pytest.mark.parametrize("spoil", [renamed, fewer, longer])
@pytest.mark.parametrize("name", ["model.safetensors", "best.safetensors", "optimizer.safetensors"])
def test_5_tensors_of_another_run_are_refused(
    verb: Callable, model: Path, pairs: Path, name: str, spoil: Callable
) -> None:
    folder = newest(model)
    tensors = checkpoint.unpack((folder / name).read_bytes(), folder)
    forge(folder, name, checkpoint.pack(spoil(tensors)))
    before = contents(model)
    refused(verb("train", pairs, "-o", model, "--resume", "-s", "train.max_steps=150"), model)
    assert contents(model) == before


# --- 6: pickles


class Trap:
    """Touches a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize(
    "name",
    ["model.safetensors", "source.vocabulary.json", "config.yaml"],
)
def test_6_a_pickle_is_never_executed(
    verb: Callable, model: Path, tmp_path: Path, name: str
) -> None:
    mark = tmp_path / "executed"
    trap = pickle.dumps(Trap(mark))
    forge(model, name, trap)
    (model / "model.pt").write_bytes(trap)
    refused(verb("predict", model, stdin=b"abc\n"))
    refused(verb("check", model))
    assert not mark.exists()
    pickle.loads(trap)
    assert mark.exists()  # the trap would have worked


def test_6_a_pickle_in_a_checkpoint_is_never_executed(
    verb: Callable, model: Path, tmp_path: Path
) -> None:
    folder = newest(model)
    for name in ("model.safetensors", "optimizer.safetensors", "progress.json", "config.yaml"):
        spoiled = tmp_path / name
        shutil.copytree(model, spoiled)
        forge(spoiled / "checkpoints" / folder.name, name, pickle.dumps(Trap(tmp_path / "mark")))
        refused(verb("train", "-o", spoiled, "--resume"), folder.name)
    assert not (tmp_path / "mark").exists()


def test_6_yaml_that_names_python_objects_is_refused(
    verb: Callable, model: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "executed"
    forge(model, "config.yaml", f"a: !!python/object/apply:os.mkdir ['{mark}']\n".encode())
    refused(verb("predict", model, stdin=b"abc\n"), "not valid YAML")
    assert not mark.exists()


def test_6_a_manifest_that_points_outside_is_refused(verb: Callable, model: Path) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["files"]["../secret"] = "0" * 64
    (model / "manifest.json").write_text(json.dumps(manifest))
    refused(verb("check", model), "not a manifest")


def test_6_no_pickle_is_read_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("pickle was used")

    with monkeypatch.context() as patch:
        for module, names in ((pickle, "load loads dump dumps"), (torch, "load save")):
            for name in names.split():
                patch.setattr(module, name, forbidden)
        dragoman.train(PAIRS, tmp_path, config=SPEEDY, quiet=True)
        more = {"train": {"max_steps": 4}}
        dragoman.train(PAIRS, tmp_path, config=more, resume=True, quiet=True)
        assert dragoman.load(tmp_path)("abc") is not None
    for name, content in contents(tmp_path).items():
        assert not content.startswith((b"\x80", b"PK")), name


# --- 7: configs


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.encoder.hiden=3", "unknown key 'hiden' in model.encoder (did you mean 'hidden'?)"),
        ("modle.encoder.hidden=3", "did you mean 'model'"),
        ("train.learning_rate=3", "'learning_rate' in train (did you mean 'train.lr'?)"),
        ("train.batch=3", "did you mean 'train.batch_size' or 'train.batch_tokens'?"),
        ("model.decoder.num_layers=3", "did you mean 'model.decoder.layers'?"),
        ("train.dropout=0.3", "did you mean 'model.encoder.dropout' or 'model.decoder.dropout' or"),
        ("model.decoder.layer=2", "did you mean 'layers'"),
        ("search.beem=2", "did you mean 'beam'"),
        (
            "model.encoder.layers=1000000000",
            "model.encoder.layers: must be at most 64 (got 1000000000)",
        ),
        ("model.decoder.hidden=1000000000", "model.decoder.hidden"),
        ("model.head.embedding=99999999999999999999999", "model.head.embedding"),
        ("train.seed=99999999999999999999999", "train.seed"),
        ("model.encoder.layers=0", "model.encoder.layers"),
        ("model.encoder.layers=-1", "model.encoder.layers"),
        ("model.encoder.hidden=many", "model.encoder.hidden: must be a whole number (got 'many')"),
        ("model.encoder.hidden=[1,2]", "model.encoder.hidden"),
        ("model.encoder.kind=os.system", "'text', 'nothing'"),
        ("model.encoder=torch.nn.LSTM", "model.encoder"),
        ("train.optimizer=torch.optim.SGD", "train.optimizer: must be 'sgd'"),
        ("train.optimizer=!!python/name:os.system", "not valid YAML"),
        ("train.lr=nan", "train.lr: must be a finite number"),
        ("train.lr=.inf", "train.lr: must be a finite number"),
        ("model.encoder.dropout=nan", "model.encoder.dropout"),
        ("model.encoder.dropout=1.5", "model.encoder.dropout"),
        ("train.lr=0", "train.lr"),
        ("model.init=1e308", "model.init: must be at most 1000"),
        ("train=null", "train: must be a mapping of names to values"),
        ("max_steps=3", "unknown key 'max_steps' in the config (did you mean 'train.max_steps'?)"),
        ("train.lr", "path.to.key=value"),
        (".lr=1", "path.to.key=value"),
        ("train.metric=blue", "did you mean 'bleu'"),
        ("a=" + "[" * 10_000, "not valid YAML"),
    ],
)
def test_7_a_wrong_setting_is_refused(
    verb: Callable, pairs: Path, tmp_path: Path, setting: str, said: str
) -> None:
    ran = verb("train", pairs, "-o", tmp_path / "m", "--set", setting)
    refused(ran, said)
    assert not list(tmp_path.glob("m/*"))


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"train: {lrr: 1}\n", "did you mean 'lr'"),
        (b"- a\n- b\n", "a config is a mapping"),
        (b"", "a config is a mapping"),
        (b"a: [", "cannot be read as YAML"),
        (b"a: \xff\xfe", "cannot be read as YAML"),
        (b"a: !!python/object/apply:os.system [ls]\n", "cannot be read as YAML"),
        (b"1: 2\n", "keys should be strings"),
        (b"train: {1: 2}\n", "train"),
        (b"recipe: [1, 2]\n", "recipe"),
        (LAUGHS.encode() + b"train: {lr: *a11}\n", "a"),
        (b"[" * 20_000, "cannot be read as YAML"),
    ],
)
def test_7_a_wrong_config_file_is_refused(
    verb: Callable, pairs: Path, tmp_path: Path, content: bytes, said: str
) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    refused(verb("train", pairs, "-o", tmp_path / "m", "-c", path), said)
    assert not (tmp_path / "m").exists()


def test_7_a_bomb_of_aliases_does_not_explode(verb: Callable, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    lines = ["  - &a0 [x, x]"]
    lines += [f"  - &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path.write_text("train:\n  lr:\n" + "\n".join(lines) + "\n")
    refused(verb("train", "x.tsv", "-o", tmp_path / "m", "-c", path), "train.lr")


def test_7_recipes_and_files_that_do_not_exist(verb: Callable, pairs: Path, tmp_path: Path) -> None:
    ran = verb("train", pairs, "-o", tmp_path / "m", "-r", "badanau2015")
    refused(ran, "did you mean 'bahdanau2015'")
    ran = verb("train", pairs, "-o", tmp_path / "m", "-c", tmp_path / "no.yaml")
    refused(ran, "no.yaml: no such file or directory; check the path")
    refused(verb("train", tmp_path / "no.tsv", "-o", tmp_path / "m"), "no.tsv: no such file")


def test_7_parts_that_do_not_fit_name_the_setting(
    verb: Callable, pairs: Path, tmp_path: Path
) -> None:
    ran = verb("train", pairs, "-o", tmp_path / "m", "-s", "model.decoder.readout_size=64")
    refused(ran, "model.decoder.readout_size=128")
    ran = verb("train", pairs, "-o", tmp_path / "m", "-s", "train.device=cuda:77")
    refused(ran, "device cuda:77")


# --- 8: numbers that are no numbers


def all_finite(folder: Path) -> bool:
    snapshot = load_snapshot(folder)
    assert snapshot is not None
    tensors = [*snapshot.weights.values(), *snapshot.best.values(), *snapshot.optimizer.values()]
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


@pytest.mark.parametrize("lr", ["1e6", "1e20", "1e38"])
@pytest.mark.parametrize("every", ["1", "1000"])
def test_8_a_loss_that_explodes_ends_the_run_before_harm_is_done(
    verb: Callable, pairs: Path, tmp_path: Path, lr: str, every: str
) -> None:
    folder = tmp_path / "m"
    tree = over(SPEEDY, train={"max_steps": 300, "optimizer": "sgd", "lr": lr, "clip": "null"})
    tree["train"] |= {"evaluate_every": every, "patience": "null"}
    ran = verb("train", pairs, "-o", folder, *options(tree))
    refused(ran, "the ", "lower train.lr", code=1)
    assert all_finite(folder)
    if (folder / "manifest.json").exists():
        assert verb("check", folder).code == 0
        assert len(verb("predict", folder, stdin=b"abc\nde\n").lines) == 2


def test_8_step_and_lines_are_named(verb: Callable, tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text("\n\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS))  # rows begin at line 3
    tree = over(SPEEDY, train={"max_steps": 9, "optimizer": "sgd", "lr": 1e38, "clip": "null"})
    ran = verb("train", path, "-o", tmp_path / "m", "--on-bad-line", "skip", *options(tree))
    refused(ran, "at step 2 ", "lines [", code=1)
    named = json.loads(ran.err.split("lines ")[-1].split("]")[0] + "]")
    assert len(named) == 8
    assert all(3 <= line <= 42 for line in named)


def test_8_a_gradient_that_explodes_under_a_finite_loss(
    pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.model import Model

    calls, loss = [], Model.loss

    def poisoned(self: Any, *args: Any, **kwargs: Any) -> Any:
        found, carried = loss(self, *args, **kwargs)
        calls.append(found)
        if self.training and len(calls) == 3:
            found.total.register_hook(lambda grad: grad * float("inf"))
        return found, carried

    monkeypatch.setattr(Model, "loss", poisoned)
    config = over(SPEEDY, train={"max_steps": 9, "checkpoint_every": 1})
    with pytest.raises(dragoman.DragomanError, match="the gradient is not finite at step 3"):
        dragoman.train(pairs, tmp_path / "m", config=config, quiet=True)
    assert load_snapshot(tmp_path / "m").progress["step"] == 2
    assert all_finite(tmp_path / "m")


# --- 10: too little


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.tsv", ""), ("a.csv", ""), ("a.csv", "source,target\n"), ("a.jsonl", "")],
)
def test_10_a_file_without_rows_is_refused(
    verb: Callable, tiny_model: Path, tmp_path: Path, name: str, content: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    refused(verb("train", path, "-o", tmp_path / "m", *QUICK), path, "no rows to train on")
    refused(verb("evaluate", tiny_model, path), "nothing to measure")
    ran = verb("check", path)
    assert ran.code == 2
    assert "0 good rows" in ran.out
    assert verb("predict", tiny_model, path).code == 0


def test_10_an_empty_dev_file_is_refused(verb: Callable, pairs: Path, tmp_path: Path) -> None:
    dev = tmp_path / "dev.tsv"
    dev.write_text("")
    ran = verb("train", pairs, "--dev", dev, "-o", tmp_path / "m", *QUICK)
    refused(ran, dev, "no rows to evaluate on")


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_10_a_handful_of_examples_trains(verb: Callable, tmp_path: Path, rows: int) -> None:
    path = write_pairs(tmp_path / "few.tsv", PAIRS[:rows])
    few = options(over(SPEEDY, data={"dev_rows": "null"}))
    ran = verb("train", path, "-o", tmp_path / "m", *few)
    assert ran.code == 0
    assert ("warning: too few rows" in ran.err) == (rows == 1)
    assert len(verb("predict", tmp_path / "m", stdin=b"abc\n").lines) == 1


def test_10_a_dev_set_that_leaves_nothing_is_refused(
    verb: Callable, pairs: Path, tmp_path: Path
) -> None:
    ran = verb("train", pairs, "-o", tmp_path / "m", "-s", "data.dev_rows=40")
    refused(ran, "leaves nothing of 40 rows")


@pytest.mark.parametrize("text", ["\n", "a", "\n\n\n", "ab\n"])
def test_10_hardly_any_running_text_trains(verb: Callable, tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(text)
    small = ("-s", "model.decoder.hidden=4", "-s", "train.max_steps=2")
    ran = verb("train", path, "-r", "gru-lm", "-o", tmp_path / "m", *small)
    assert ran.code == 0, ran.err
    assert len(verb("predict", tmp_path / "m", "--max-length", "5", stdin=b"a\n\n").lines) == 2


# --- 11: bad lines

BAD = {
    "too few columns": b"lonely",
    "NUL byte": b"a\0b\tc",
    "bad UTF-8": b"caf\xe9\tcafe",
    "empty target": b"abc\t",
    "empty source": b"\tabc",
    "empty line": b"",
}
GOOD = "".join(f"{a}\t{b}\n" for a, b in PAIRS).encode()


@pytest.mark.parametrize("problem", BAD)
def test_11_a_bad_line_is_named_or_skipped_and_counted(
    verb: Callable, tmp_path: Path, problem: str
) -> None:
    path = tmp_path / "bad.tsv"
    path.write_bytes(b"abc\tcba\n" + BAD[problem] + b"\n" + GOOD + BAD[problem] + b"\n")
    train = ("train", path, "-o", tmp_path / "m", *QUICK)
    refused(verb(*train), f"{path}:2: {problem}", "--on-bad-line skip")
    refused(verb(*train, "--on-bad-line", "error"), f"{path}:2: {problem}")
    ran = verb(*train, "--on-bad-line", "skip")
    assert ran.code == 0
    assert f"{path}: 2 rows skipped ({problem})" in ran.err
    assert "37 rows to train on, 4 dev rows" in ran.err


def test_11_all_reasons_are_counted(verb: Callable, tmp_path: Path) -> None:
    path = tmp_path / "bad.tsv"
    path.write_bytes(GOOD + b"\n".join(BAD.values()) + b"\n")
    ran = verb("train", path, "-o", tmp_path / "m", "--on-bad-line", "skip", *QUICK)
    assert ran.code == 0
    for problem in BAD:
        assert f"1 row skipped ({problem})" in ran.err


def test_11_nothing_but_bad_lines_is_refused(verb: Callable, tmp_path: Path) -> None:
    path = tmp_path / "bad.tsv"
    path.write_bytes(b"\n".join(BAD.values()) + b"\n")
    ran = verb("train", path, "-o", tmp_path / "m", "--on-bad-line", "skip")
    refused(ran, "no rows to train on")


def test_11_bom_and_crlf_are_no_part_of_the_text(verb: Callable, tmp_path: Path) -> None:
    path = tmp_path / "windows.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n"))
    assert verb("train", path, "-o", tmp_path / "m", "-q", *QUICK).code == 0
    symbols = json.loads((tmp_path / "m" / "source.vocabulary.json").read_text())
    symbols += json.loads((tmp_path / "m" / "target.vocabulary.json").read_text())
    assert set(symbols) == set("abcdef")


def test_11_predict_answers_bad_lines_too(verb: Callable, tiny_model: Path) -> None:
    inputs = b"\xef\xbb\xbfabc\r\n\xff\xfe\n\0\nfed\r\n"
    ran = verb("predict", tiny_model, stdin=inputs)
    assert ran.code == 0
    assert len(ran.lines) == 4
    assert (ran.lines[0], ran.lines[3]) == ("cba", "def")


# --- 12: parallel files


@pytest.mark.parametrize("policy", ["error", "skip"])
def test_12_parallel_files_of_unequal_length_are_refused_with_both_counts(
    verb: Callable, tmp_path: Path, policy: str
) -> None:
    (tmp_path / "a.src").write_text("a\n" * 7)
    (tmp_path / "a.trg").write_text("a\n" * 5)
    ran = verb(
        *("train", tmp_path / "a.src", tmp_path / "a.trg", "-o", tmp_path / "m"),
        *("--on-bad-line", policy),
    )
    refused(ran, "a.src has 7", "a.trg has 5")


# --- 13: strange text

STRANGE = [
    "x" * 1_000_000,
    "word " * 50_000,
    "   \u3000 ",
    "ქართული",
    "👍🏽🙂",
    "👩‍👩‍👧‍👦",
    "שלום עולם \u202eabc\u202c",
    "a\u0301\u0301\u0301",
    "line\u2028separator \x0b\x0c\x1c\x85",
    "<unk> </s> <s>",
    "\u2581 \u2582",
    "'\"\\{}$`",
]


@pytest.mark.parametrize("units", ["char", "word", "subword", "bytes"])
def test_13_strange_text_trains_and_decodes(verb: Callable, tmp_path: Path, units: str) -> None:
    rows = [(text, text) for text in STRANGE if text.strip()] * 2 + PAIRS
    path = write_pairs(tmp_path / "strange.tsv", rows)
    tree = over(SPEEDY, data={"source": {"units": units}, "target": {"units": units}})
    ran = verb("train", path, "-o", tmp_path / "m", *options(tree))
    assert ran.code == 0, ran.err
    assert "training rows left out (longer than max_length)" in ran.err
    stdin = "".join(f"{text}\n" for text in STRANGE).encode()
    ran = verb("predict", tmp_path / "m", "--beam", "2", stdin=stdin)
    assert ran.code == 0, ran.err
    assert len(ran.lines) == len(STRANGE)
    answers = verb("predict", tmp_path / "m", "--format", "jsonl", stdin=stdin).lines
    assert len(answers) == len(STRANGE)
    assert all(len(json.loads(line)["tokens"]) <= 500 for line in answers)
    assert json.loads(answers[2])["text"] == ""


def test_13_an_unknown_script_is_answered(verb: Callable, tiny_model: Path) -> None:
    stdin = "".join(f"{text}\n" for text in STRANGE).encode()
    for layout in ("text", "jsonl", "nbest", "pharaoh"):
        ran = verb("predict", tiny_model, "--format", layout, stdin=stdin)
        assert ran.code == 0
        assert len(ran.lines) == len(STRANGE)
    assert ran.lines[2] == ""


def test_13_newlines_in_an_answer_are_escaped(verb: Callable, tmp_path: Path) -> None:
    odd = Prediction("a\nb\r\nc", ("a",), -1.0, (-1.0,))
    for write in (as_text, as_json, as_nbest):
        assert "\n" not in write(odd, 0)
        assert "\r" not in write(odd, 0)
    rows = [{"source": word, "target": "\n\r"} for word in words(30)]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(row | {"target": "\nx\r"}) + "\n" for row in rows))
    tree = over(SPEEDY, train={"max_steps": 20, "lr": 0.1})
    assert verb("train", path, "-o", tmp_path / "m", "-q", *options(tree)).code == 0
    ran = verb("predict", tmp_path / "m", stdin=b"abc\ndef\n")
    assert len(ran.lines) == 2
    assert "\\n" in ran.lines[0]
    assert "\r" not in ran.out


# --- 17: company does not matter

texts = st.lists(
    st.text("abcdef", max_size=7) | st.text(max_size=9) | st.sampled_from(["", " ", "a" * 40]),
    max_size=12,
)


@settings(
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(inputs=texts, batch=st.integers(1, 8), beam=st.integers(1, 6), data=st.data())
def test_17_an_answer_depends_on_its_input_alone(
    tiny: dragoman.Predictor, inputs: list[str], batch: int, beam: int, data: st.DataObject
) -> None:
    search = tiny.options(beam=beam)
    order = data.draw(st.permutations(range(len(inputs))))
    alone_ = [tiny.predict([text], search)[0] for text in inputs]
    together = tiny.predict([inputs[i] for i in order], search, batch_size=batch)
    streamed = list(tiny.stream(iter(inputs), search, batch_size=batch))
    assert len(together) == len(streamed) == len(inputs)
    for place, other in zip(order, together, strict=True):
        same(alone_[place], other)
    for one, other in zip(alone_, streamed, strict=True):
        same(one, other)


def same(one: Prediction, other: Prediction) -> None:
    assert one.text == other.text
    assert one.tokens == other.tokens
    assert one.score == pytest.approx(other.score, abs=1e-4)
    assert one.source == other.source
    if one.alignment is not None and other.alignment is not None:
        assert np.allclose(one.alignment, other.alignment, atol=1e-4)


# --- 23: folders


def test_23_a_folder_that_is_not_empty_is_refused(
    verb: Callable, pairs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "mine.txt").write_text("precious")
    refused(verb("train", pairs, "-o", folder, *QUICK), folder, "--resume", "--overwrite")
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    assert verb("train", pairs, "-o", folder, "--overwrite", *QUICK).code == 0
    assert (folder / "mine.txt").read_text() == "precious"


def test_23_overwrite_starts_anew_and_resume_goes_on(
    verb: Callable, pairs: Path, tmp_path: Path
) -> None:
    train = ("train", pairs, "-o", tmp_path / "m", *QUICK)
    assert verb(*train).code == 0
    refused(verb(*train), "not empty")
    refused(verb(*train, "--resume", "--overwrite"), "contradict")
    ran = verb(*train, "--resume", "-s", "train.max_steps=3")
    assert "resumed at step 2" in ran.err
    ran = verb(*train, "--overwrite")
    assert ran.code == 0
    assert "resumed" not in ran.err
    assert load_snapshot(tmp_path / "m").progress["step"] == 2


def test_23_overwrite_loses_nothing_to_a_run_that_cannot_begin(
    verb: Callable, model: Path, pairs: Path, tmp_path: Path
) -> None:
    before = contents(model)
    (tmp_path / "empty.tsv").write_text("")
    for args in (
        [tmp_path / "typo.tsv"],
        [tmp_path / "empty.tsv"],
        [pairs, "-s", "train.device=cuda:77"],
        [pairs, "-s", "model.decoder.readout_size=64"],
        [pairs, "-s", "train.metric=blue"],
    ):
        assert verb("train", *args, "-o", model, "--overwrite").code == 2
        assert contents(model) == before


def test_23_resume_without_a_checkpoint_does_not_start_anew_by_stealth(
    verb: Callable, model: Path, pairs: Path
) -> None:
    shutil.rmtree(model / "checkpoints")
    before = contents(model)
    refused(verb("train", pairs, "-o", model, "--resume"), "no checkpoint")
    assert contents(model) == before


def test_23_resume_of_nothing_starts_where_there_is_data(
    verb: Callable, pairs: Path, tmp_path: Path
) -> None:
    refused(verb("train", "-o", tmp_path / "m", "--resume"), "nothing to resume")
    assert not (tmp_path / "m").exists()
    assert verb("train", pairs, "-o", tmp_path / "m", "--resume", *QUICK).code == 0


def test_23_two_runs_in_one_folder_are_one_too_many(
    verb: Callable, model: Path, pairs: Path
) -> None:
    before = contents(model)
    with alone(model):
        for how in ("--resume", "--overwrite"):
            refused(verb("train", pairs, "-o", model, how), model, "another training")
        assert contents(model) == before
        assert verb("predict", model, stdin=b"abc\n").out == "cba\n"  # reading is free
    assert verb("train", pairs, "-o", model, "--resume", "-q").code == 0


@pytest.mark.parametrize("place", ["file", "file/model", "file/deep/model"])
def test_23_a_folder_that_cannot_be_is_refused_before_any_work(
    verb: Callable, tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("a file")
    ran = verb("train", tmp_path / "missing.tsv", "-o", tmp_path / place)
    refused(ran, tmp_path / place, "cannot be written")
    assert (tmp_path / "file").read_text() == "a file"


@needs_fork
def test_23_a_read_only_folder_is_refused(
    verb: Callable, pairs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "locked"
        folder.mkdir()
        table = Path(shutil.copy(pairs, place))
        Path(place).chmod(0o755)
        table.chmod(0o644)
        folder.chmod(0o555)

        def humbly() -> None:
            if os.geteuid() == 0:  # nothing is read-only for root
                os.setgroups([])
                os.setuid(NOBODY)
            dragoman.train(table, folder, config=SPEEDY, quiet=True)

        assert ended(fork(humbly)) == 2
        assert f"{folder}: cannot be written: Permission denied" in capfd.readouterr().err
        assert list(folder.iterdir()) == []


# --- 28: bare machines

NO_NETWORK = """
import pathlib, socket
pathlib.Path({mark!r}).touch()
def refuse(*args, **kwargs):
    raise OSError("the network was used")
socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = refuse
socket.getaddrinfo = socket.create_connection = refuse
"""
BARE: dict[str, dict[str, str | None]] = {
    "C locale, no HOME": {"LANG": "C", "LC_ALL": "C", "HOME": None, "TERM": None, "PATH": None},
    "POSIX, ASCII, unwritable HOME": {
        "LC_ALL": "POSIX",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "HOME": "/dev/null/home",
        "XDG_CACHE_HOME": "/dev/null/cache",
        "NO_COLOR": "1",
    },
}


@pytest.mark.parametrize("kind", BARE)
def test_28_a_bare_machine_is_enough(cli: Callable, tmp_path: Path, kind: str) -> None:
    mark = tmp_path / "blocked"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(NO_NETWORK.format(mark=str(mark)))
    env = {**BARE[kind], "PYTHONPATH": str(tmp_path / "site")}
    path = write_pairs(tmp_path / "pairs.tsv", [(f"ß{a}", f"é{b}") for a, b in PAIRS])
    ran = cli("train", path, "-o", tmp_path / "m", *QUICK, env=env)
    assert ran.code == 0, ran.err
    assert mark.exists()
    assert "ß" in ran.err  # a sample of the dev rows
    assert not set("\r\x1b") & set(ran.err)  # no bar, no colours
    ran = cli("predict", tmp_path / "m", stdin="ßabc\n\nßf\n".encode(), env=env)
    assert (ran.code, ran.err, len(ran.lines)) == (0, "", 3)


def test_28_a_file_name_need_not_be_text(verb: Callable, tmp_path: Path) -> None:
    name = tmp_path / os.fsdecode(b"caf\xe9-\xc3\xa9.tsv")
    try:
        write_pairs(name, PAIRS)
    except OSError:
        pytest.skip("this file system takes only names in UTF-8")
    assert verb("train", name, "-o", tmp_path / "m", *QUICK).code == 0
    assert verb("check", tmp_path / "m").code == 0
    assert verb("info", tmp_path / "m").code == 0
    assert verb("train", "-o", tmp_path / "m", "--resume", "-s", "train.max_steps=3").code == 0


# --- 29: other formats


def test_29_a_future_format_is_refused_with_the_version_needed(verb: Callable, model: Path) -> None:
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["format"] = checkpoint.FORMAT + 1
    (model / "manifest.json").write_text(json.dumps(manifest))
    said = (f"format {checkpoint.FORMAT + 1}", f"up to {checkpoint.FORMAT}", "upgrade")
    refused(verb("predict", model, stdin=b"abc\n"), *said)
    refused(verb("check", model), *said)


def test_29_an_older_format_loads(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "FORMAT", checkpoint.FORMAT + 1)
    assert dragoman.load(tiny_model)("abc").text == "cba"


def test_a_failure_is_one_line_and_exit_code_1(
    verb: Callable, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ran = verb("train", pairs, "-o", tmp_path / "m", *QUICK)
    refused(ran, "No space left on device", code=1)
    with contextlib.suppress(FileNotFoundError):
        assert not list((tmp_path / "m").rglob("*.partial"))
