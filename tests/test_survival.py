"""Runs that are killed, interrupted, starved of disk or memory: nothing is lost. The numbers are
rows of the fault table.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.model import Model
from dragoman.snapshots import load_snapshot
from dragoman.stepping import Stepper
from dragoman.trainer import Trainer
from runs import ended, equal, fork, last, logged, needs_fork, step_of, until
from small import SPEEDY, TEXT_LM, over, reversals, words, write_pairs
from small import settings as options

PAIRS = reversals(40)
EVERY = {"evaluate_every": 5, "checkpoint_every": 1, "batch_size": 7, "patience": 1000}
RICH = over(  # everything at once that a run has to remember
    SPEEDY,
    model={
        "encoder": {"embedding": 4, "hidden": 4, "dropout": 0.3, "recurrent_dropout": 0.2},
        "decoder": {"hidden": 4, "readout_size": 4, "dropout": 0.3},
    },
    train={**EVERY, "accumulate": 4, "ema": 0.9, "sampling": 0.3, "schedule": "plateau"},
)


def whole(folder: Path) -> None:
    """The run folder can be resumed and, if it holds a model yet, used."""
    if step_of(folder) >= 0:
        assert load_snapshot(folder) is not None
    if (folder / "manifest.json").exists():
        assert isinstance(dragoman.load(folder)("abc").text, str)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that learns which rows every batch is made of."""
    path, batch = tmp_path / "rows.jsonl", Trainer._batch

    def noted(self: Trainer, position: int) -> Any:
        found = batch(self, position)
        with path.open("a") as file:
            file.write(json.dumps([self.progress.step, found.rows.tolist()]) + "\n")
        return found

    monkeypatch.setattr(Trainer, "_batch", noted)
    return path


# --- 1: killed at any moment


def killed_often(folder: Path, tree: dict[str, Any], kills: int, seed: int) -> None:
    """Start a run, kill it at a random moment, resume it, and so on; then let it end."""
    chance = random.Random(seed)
    for _ in range(kills):
        begun = step_of(folder)
        child = fork(lambda: dragoman.train(PAIRS, folder, config=tree, resume=True, quiet=True))
        if chance.random() < 0.8:  # most die while they train and save, some while they load
            until(lambda begun=begun: step_of(folder) > begun)  # type: ignore[misc]
        time.sleep(chance.random() * 0.06)
        os.kill(child, signal.SIGKILL)
        assert ended(child) == -signal.SIGKILL, "it was too quick: give it more steps"
        whole(folder)
    assert step_of(folder) < tree["train"]["max_steps"]
    dragoman.train(PAIRS, folder, config=tree, resume=True, quiet=True)


@needs_fork
@pytest.mark.parametrize(
    "kills", [3, pytest.param(20, marks=pytest.mark.slow)], ids=lambda kills: f"{kills}-kills"
)
def test_1_a_killed_run_goes_on_as_if_nothing_had_been(
    tmp_path: Path, log: Path, kills: int
) -> None:
    tree = over(RICH, train={"max_steps": 12 * kills})
    dragoman.train(PAIRS, tmp_path / "whole", config=tree, quiet=True)
    wanted = logged(log)
    log.unlink()
    killed_often(tmp_path / "killed", tree, kills, seed=kills)
    assert equal(tmp_path / "whole", tmp_path / "killed")
    by_step: dict[int, list[list[int]]] = {}
    for step, rows in wanted:
        by_step.setdefault(step, []).append(rows)
    for step, rows in logged(log):
        assert rows in by_step[step]  # a step that is repeated is repeated with the same rows


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="files cannot be told by number")
def test_1_a_loss_of_power_costs_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not written through to the disk may be lost: who writes a checkpoint in this order
    has a whole one at every moment.
    """
    done: list[tuple[str, str]] = []
    fsync, replace, rmtree = os.fsync, os.replace, shutil.rmtree

    def synced(handle: int) -> None:
        done.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    def renamed(here: Any, there: Any) -> None:
        done.append(("name", str(there)))
        replace(here, there)

    def removed(path: Any, **rest: Any) -> None:
        done.append(("remove", str(path)))
        rmtree(path, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", synced)
        patch.setattr(os, "replace", renamed)
        patch.setattr(shutil, "rmtree", removed)
        tree = over(RICH, train={"max_steps": 2, "keep": 1, "evaluate_every": 9})
        dragoman.train(PAIRS, tmp_path / "deep" / "m", config=tree, quiet=True)
    place = f"{tmp_path}/deep/m/checkpoints"
    assert done[:2] == [("sync", str(tmp_path)), ("sync", f"{tmp_path}/deep")]
    above = done.index(("sync", f"{tmp_path}/deep/m"))  # it holds the name of the next
    assert above < done.index(("sync", place))
    begin, end = (done.index(("name", f"{place}/step-{n:09d}")) for n in (1, 2))
    fresh = f"{place}/.step-000000002.partial"
    files = sorted(path.name for path in Path(place, "step-000000002").iterdir())
    written = done[begin + 5 : end + 1]
    begun, named = written[2 : 2 + len(files)], written[3 + len(files) : -2]
    assert written[:2] == [("remove", fresh), ("sync", place)]  # what a dead run left; a new folder
    assert sorted(begun) == [("sync", f"{fresh}/.{name}.partial") for name in files]
    assert sorted(named) == [("name", f"{fresh}/{name}") for name in files]
    assert written[2 + len(files)] == written[-2] == ("sync", fresh)
    assert done[end : end + 6] == [
        ("name", f"{place}/step-000000002"),
        ("sync", place),
        ("sync", f"{place}/.last.partial"),
        ("name", f"{place}/last"),
        ("sync", place),
        ("remove", f"{place}/step-000000001"),
    ]


# --- 2: signals

SLOW = over(SPEEDY, train={"max_steps": 100_000, "batch_size": 7, "epochs": 1e5})


@needs_fork
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_2_a_signal_saves_and_ends(tmp_path: Path, signum: int, code: int) -> None:
    tree = over(SLOW, train={"evaluate_every": 90_000, "ema": 0.9})
    folder, steps = tmp_path / "m", tmp_path / "steps"

    def work() -> None:
        step = Trainer._step

        def counted(self: Trainer) -> Any:
            found = step(self)
            steps.write_text(str(self.progress.step))
            return found

        Trainer._step = counted  # type: ignore[method-assign]
        dragoman.train(PAIRS, folder, config=tree, quiet=True)

    child = fork(work)
    until(lambda: steps.exists() and steps.read_text() not in ("", "1", "2"))
    os.kill(child, signum)
    assert ended(child, within=10) == code
    assert step_of(folder) == int(steps.read_text())  # the step at work was its last, and is saved
    stop = {"train": {"max_steps": step_of(folder) + 3}}
    dragoman.train(PAIRS, folder, config=stop, resume=True, quiet=True)
    dragoman.train(PAIRS, tmp_path / "whole", config=over(tree, train=stop["train"]), quiet=True)
    assert equal(folder, tmp_path / "whole")


@needs_fork
def test_2_a_signal_does_not_wait_for_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = over(SPEEDY, train={"max_steps": 6, "evaluate_every": 3, "ema": 0.5, "batch_size": 7})
    dragoman.train(PAIRS, tmp_path / "whole", config=tree, quiet=True)
    mark, evaluate = tmp_path / "evaluating", dragoman.trainer.evaluate

    def long(*args: Any) -> Any:
        mark.touch()
        time.sleep(60)
        return evaluate(*args)

    with monkeypatch.context() as patch:
        patch.setattr(dragoman.trainer, "evaluate", long)
        child = fork(lambda: dragoman.train(PAIRS, tmp_path / "m", config=tree, quiet=True))
        until(mark.exists)
        os.kill(child, signal.SIGTERM)
        assert ended(child, within=10) == 143
    assert step_of(tmp_path / "m") == 3
    assert not load_snapshot(tmp_path / "m").progress["history"]
    dragoman.train(PAIRS, tmp_path / "m", resume=True, quiet=True)
    assert equal(tmp_path / "whole", tmp_path / "m")
    lines = (tmp_path / "m" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [3, 6]


@needs_fork
def test_2_a_second_signal_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, mark = Trainer._step, tmp_path / "stepping"

    def stuck(self: Trainer) -> Any:
        if self.progress.step < 2:
            return step(self)
        mark.touch()
        until(lambda: False, within=60)
        return None

    monkeypatch.setattr(Trainer, "_step", stuck)
    tree = over(SLOW, train={"checkpoint_every": 1})
    child = fork(lambda: dragoman.train(PAIRS, tmp_path / "m", config=tree, quiet=True))
    until(mark.exists)
    os.kill(child, signal.SIGTERM)
    time.sleep(0.1)
    assert os.waitpid(child, os.WNOHANG) == (0, 0)  # it waits for the end of its step
    os.kill(child, signal.SIGTERM)
    assert ended(child, within=2) == 143
    whole(tmp_path / "m")
    assert step_of(tmp_path / "m") == 2


@needs_fork
def test_2_a_signal_before_training_leaves_nothing(tmp_path: Path) -> None:
    pipe = tmp_path / "pairs.tsv"
    os.mkfifo(pipe)  # a file that never comes
    child = fork(lambda: dragoman.train(pipe, tmp_path / "m", config=SPEEDY, quiet=True))
    until((tmp_path / "m").exists)
    os.kill(child, signal.SIGTERM)
    assert ended(child, within=10) == 143
    assert not (tmp_path / "m").exists()


def test_2_ctrl_c_on_the_command_line(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "p.tsv", PAIRS)
    command = [sys.executable, "-m", "dragoman", "train", str(pairs), "-o", str(tmp_path / "m")]
    run = subprocess.Popen(command + options(SLOW), stderr=subprocess.PIPE, text=True)
    until(lambda: step_of(tmp_path / "m") >= 0)
    time.sleep(0.3)
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=20)
    assert run.returncode == 130
    assert f"--resume` goes on from step {step_of(tmp_path / 'm')}" in said
    assert "Traceback" not in said


# --- 3: epoch edges and accumulation groups


@pytest.mark.parametrize("stop", [1, 2, 3, 5, 6])
def test_3_no_example_is_skipped_or_repeated(tmp_path: Path, log: Path, stop: int) -> None:
    # 36 rows by 7 are 6 batches an epoch; groups of 4 are cut short at its edge: 2 steps an epoch
    tree = over(RICH, train={"max_steps": 6, "evaluate_every": 100, "checkpoint_every": 100})
    dragoman.train(PAIRS, tmp_path / "whole", config=tree, quiet=True)
    wanted = logged(log)
    log.unlink()
    dragoman.train(PAIRS, tmp_path / "m", config=over(tree, train={"max_steps": stop}), quiet=True)
    dragoman.train(PAIRS, tmp_path / "m", config=tree, resume=True, quiet=True)
    assert logged(log) == wanted
    rows = Counter(row for _, batch in wanted for row in batch)
    assert rows == dict.fromkeys(range(36), 3)
    assert equal(tmp_path / "whole", tmp_path / "m")


@needs_fork
@pytest.mark.parametrize("done", [1, 3])
def test_3_a_kill_inside_a_group_of_batches(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    tree = over(RICH, train={"max_steps": 4, "evaluate_every": 100, "checkpoint_every": 1})
    dragoman.train(PAIRS, tmp_path / "whole", config=tree, quiet=True)
    wanted = logged(log)
    log.unlink()
    backward, calls = Stepper._backward, [0]

    def dies(self: Stepper, *args: Any) -> Any:
        calls[0] += 1
        if calls[0] > 4 + 2 + done:  # the first epoch's two groups are 4 and 2 batches
            os.kill(os.getpid(), signal.SIGKILL)
        return backward(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "_backward", dies)
        child = fork(lambda: dragoman.train(PAIRS, tmp_path / "m", config=tree, quiet=True))
        assert ended(child) == -signal.SIGKILL
    dragoman.train(PAIRS, tmp_path / "m", resume=True, quiet=True)
    assert equal(tmp_path / "whole", tmp_path / "m")
    assert [entry for entry in logged(log) if entry in wanted] == logged(log)


@pytest.mark.parametrize("kind", ["store", "patience", "vectors"])
def test_3_other_things_that_a_run_remembers(tmp_path: Path, kind: str) -> None:
    path = write_pairs(tmp_path / "p.tsv", [(" ".join(a), b) for a, b in PAIRS])
    (tmp_path / "vectors.txt").write_text("a 1 2 3 4\nb 4 3 2 1\n")
    changes: dict[str, Any] = {
        "store": {"data": {"dev_rows": 4, "store": str(tmp_path / "store")}},
        "patience": {"train": {**EVERY, "patience": 3, "lr": 1e-12, "metric": "exact"}},
        "vectors": {
            "data": {"source": {"units": "word", "vectors": str(tmp_path / "vectors.txt")}}
        },
    }
    tree = over(RICH, **changes[kind])
    tree = over(tree, train={"max_steps": 30 if kind == "patience" else 7, "evaluate_every": 2})
    dragoman.train(path, tmp_path / "whole", config=tree, quiet=True)
    for stop in (1, 3, 4):
        shorter = over(tree, train={"max_steps": stop})
        dragoman.train(path, tmp_path / "m", config=shorter, resume=stop > 1, quiet=True)
    dragoman.train(path, tmp_path / "m", config=tree, resume=True, quiet=True)
    assert equal(tmp_path / "whole", tmp_path / "m")
    if kind == "patience":
        assert step_of(tmp_path / "m") == 8


# --- 4: a full disk


@contextlib.contextmanager
def disk(place: Path, size: str) -> Iterator[Path]:
    """A small disk of its own."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        pytest.skip("no mount here")
    if done.returncode:
        pytest.skip(f"no disk of {size} can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_4_a_full_disk_leaves_the_last_checkpoint_intact(verb: Callable, tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "p.tsv", PAIRS)
    tree = over(SPEEDY, train={"max_steps": 50, "evaluate_every": 3, "checkpoint_every": 1})
    tree = over(tree, data={"dev_rows": 4})
    with disk(tmp_path / "disk", "2m") as place:
        folder = place / "m"
        assert verb("train", pairs, "-o", folder, "-q", *options(tree), "-s", "train.max_steps=4")
        before = step_of(folder)
        (place / "filler").write_bytes(b"x" * (os.statvfs(place).f_bavail * 4096 - 8 * 4096))
        ran = verb("train", "-o", folder, "--resume", "-q", "-s", "train.max_steps=50")
        assert ran.code == 1
        assert "No space left on device" in ran.err
        assert f"step-{before:09d} is intact and still the last" in ran.err
        assert "Traceback" not in ran.err
        assert step_of(folder) == before
        assert not list(folder.rglob("*.partial"))
        whole(folder)
        (place / "filler").unlink()
        ran = verb("train", "-o", folder, "--resume", "-q", "-s", "train.max_steps=6")
        assert ran.code == 0
    assert not (tmp_path / "disk" / "m").exists()


@needs_fork
def test_4_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """`ulimit -f`: the system's second way to say that there is no room."""
    resource = pytest.importorskip("resource")
    tree = over(SPEEDY, train={"max_steps": 4, "checkpoint_every": 1})
    dragoman.train(PAIRS, tmp_path / "m", config=tree, quiet=True)
    errors = tmp_path / "errors"

    def starve() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (900, 900))
        try:
            dragoman.train(
                PAIRS, tmp_path / "m", config={"train": {"max_steps": 9}}, resume=True, quiet=True
            )
        except dragoman.DragomanError as error:
            errors.write_text(str(error))
            raise

    assert ended(fork(starve)) == 1
    assert "File too large; " in errors.read_text()
    assert step_of(tmp_path / "m") == 4
    assert not list((tmp_path / "m").rglob("*.partial"))
    whole(tmp_path / "m")


@needs_fork
def test_4_no_room_at_all_leaves_no_folder(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")

    def starve() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        dragoman.train(PAIRS, tmp_path / "m", config=SPEEDY, quiet=True)

    assert ended(fork(starve)) == 1
    assert not (tmp_path / "m").exists()


def test_the_newest_checkpoints_and_the_best_are_kept(tmp_path: Path) -> None:
    # each step is a leap in the dark: an early evaluation is the best
    tree = over(SPEEDY, train={"max_steps": 12, "evaluate_every": 1, "lr": 3.0, "metric": "loss"})
    dragoman.train(PAIRS, tmp_path, config=over(tree, train={"keep": 3}), quiet=True)
    progress = load_snapshot(tmp_path).progress
    assert progress["best_step"] < 10
    kept = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert kept == [f"step-{step:09d}" for step in (progress["best_step"], 10, 11, 12)]


@needs_fork
@pytest.mark.parametrize("done", [0, 1, 3, 5, 9])
def test_4_a_model_is_replaced_whole_or_not_at_all(tmp_path: Path, done: int) -> None:
    """Killed after any number of renames, the folder holds the old model or the new one."""
    tree = over(SPEEDY, train={"max_steps": 2, "evaluate_every": 2, "metric": "loss"})
    dragoman.train(PAIRS, tmp_path / "m", config=tree, quiet=True)
    old = dragoman.load(tmp_path / "m").model.state_dict()
    more = {"train": {"max_steps": 4, "lr": 0.05}}

    def dies() -> None:
        renames, replace = [0], Path.replace

        def counted(self: Path, target: Path) -> Path:
            if self.parent == tmp_path / "m":
                renames[0] += 1
                if renames[0] > done:
                    os.kill(os.getpid(), signal.SIGKILL)
            return replace(self, target)

        Path.replace = counted  # type: ignore[method-assign,assignment]
        dragoman.train(PAIRS, tmp_path / "m", config=more, resume=True, quiet=True)

    assert ended(fork(dies)) in (0, -signal.SIGKILL)
    new = dragoman.load(tmp_path / "m").model.state_dict()
    assert all(torch.equal(old[name], new[name]) for name in old) == (done == 0)
    dragoman.train(PAIRS, tmp_path / "m", config=more, resume=True, quiet=True)
    assert not list((tmp_path / "m").rglob("*.partial"))


# --- 9: out of memory

WIDE = over(SPEEDY, train={"max_steps": 3, "batch_size": 32, "checkpoint_every": 1})
WIDE["model"] = over(WIDE["model"], encoder={"dropout": 0.0}, decoder={"dropout": 0.0})


def scarce(rows: int, error: Exception) -> Callable[..., Any]:
    """A loss that has memory for so many rows."""
    loss = Model.loss

    def short(self: Model, source: Any, target: Any, *rest: Any, **named: Any) -> Any:
        if self.training and len(target.values) > rows:
            raise error
        return loss(self, source, target, *rest, **named)

    return short


SAID = {
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    "cpu": RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
}


@pytest.mark.parametrize("kind", SAID)
def test_9_out_of_memory_tells_how_large_the_batch_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(Model, "loss", scarce(20, SAID[kind]))
    with pytest.raises(dragoman.DragomanError, match="out of memory at step 1: a batch of 32 rows"):
        dragoman.train(PAIRS, tmp_path / "m", config=WIDE, quiet=True)
    assert step_of(tmp_path / "m") == 0
    whole(tmp_path / "m")


@pytest.mark.parametrize("rows", [20, 5, 1])
def test_9_smaller_parts_are_the_same_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: int
) -> None:
    dragoman.train(PAIRS, tmp_path / "one", config=WIDE, quiet=True)
    tree = over(WIDE, train={"auto_batch": True, "max_steps": 2})
    monkeypatch.setattr(Model, "loss", scarce(rows, SAID["cuda"]))
    dragoman.train(PAIRS, tmp_path / "two", config=tree)
    parts = {20: 2, 5: 8, 1: 32}[rows]
    assert f"batches in {parts} parts each" in capsys.readouterr().err
    more = {"train": {"max_steps": 3}}
    dragoman.train(PAIRS, tmp_path / "two", config=more, resume=True, quiet=True)
    one, two = (load_snapshot(tmp_path / name) for name in ("one", "two"))
    assert two.progress["parts"] == parts  # who resumes need not find out again
    for name, tensor in one.weights.items():
        assert torch.allclose(tensor, two.weights[name], atol=1e-5), name


def test_9_a_row_that_does_not_fit_is_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Model, "loss", scarce(0, SAID["cuda"]))
    tree = over(WIDE, train={"auto_batch": True})
    with pytest.raises(dragoman.DragomanError, match="a batch of 32 rows, read in 32 parts"):
        dragoman.train(PAIRS, tmp_path / "m", config=tree, quiet=True)


def test_9_streams_of_text_in_parts_carry_their_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(words(6, seed)) for seed in range(20)) + "\n")
    tree = over(TEXT_LM, train={"max_steps": 5, "batch_size": 5, "auto_batch": True})
    tree["model"] = over(tree["model"], decoder={"hidden": 8, "layers": 2, "dropout": 0.0})
    for name, rows in (("one", 5), ("two", 2)):
        with monkeypatch.context() as patch:
            patch.setattr(Model, "loss", scarce(rows, SAID["cpu"]))
            dragoman.train(text, tmp_path / name, recipe="lstm-lm", config=tree, quiet=True)
    one, two = last(tmp_path / "one"), last(tmp_path / "two")
    assert "carried.000" in one
    assert all(torch.allclose(one[name], two[name], atol=1e-5) for name in one)


@needs_fork
@pytest.mark.parametrize("auto", [False, True])
def test_9_memory_that_really_ends(
    tmp_path: Path, auto: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """`ulimit -v`: the allocator is refused what it asks for."""
    resource = pytest.importorskip("resource")
    rows = [("ab" * 60, "ba" * 60)] * 1025
    tree = over(SPEEDY, train={"max_steps": 1, "batch_size": 1024, "auto_batch": auto})
    units = {"units": "char"}
    tree = over(tree, data={"source": units, "target": units, "dev_rows": 1})
    tree["model"] = over(tree["model"], attention={"size": 64})

    def starve() -> None:
        dragoman.train(PAIRS, tmp_path / "warm", config=SPEEDY, quiet=True)  # with all threads
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (250 << 20),) * 2)
        dragoman.train(rows, tmp_path / "m", config=tree)

    code, said = ended(fork(starve), within=100), capfd.readouterr().err
    if auto:
        assert code == 0, said
        assert "out of memory: from now on, batches in" in said
    else:
        assert code == 1
        assert "out of memory at step 1: a batch of 1024 rows, sources of up to 121" in said
    whole(tmp_path / "m")


def test_23_a_read_only_disk_is_refused_before_any_work(verb: Callable, tmp_path: Path) -> None:
    with disk(tmp_path / "disk", "1m,ro") as place:
        ran = verb("train", tmp_path / "missing.tsv", "-o", place / "m")
        assert ran.code == 2
        assert f"{place / 'm'}: cannot be written: Read-only file system" in ran.err


def test_23_a_run_that_cannot_begin_leaves_no_folder(verb: Callable, tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("")
    pairs = write_pairs(tmp_path / "p.tsv", PAIRS)
    for args in (
        [tmp_path / "missing.tsv"],
        [tmp_path / "empty.tsv"],
        [pairs, "-s", "train.device=cuda:77"],
        [pairs, "-s", "train.metric=blue"],
    ):
        assert verb("train", *args, "-o", tmp_path / "m").code == 2
        assert not (tmp_path / "m").exists()


def test_running_text_without_a_recipe_points_to_one(verb: Callable, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("To be, or not to be\nthat is the question\n")
    ran = verb("train", tmp_path / "x.txt", "-o", tmp_path / "m")
    assert ran.code == 2
    assert "-r lstm-lm" in ran.err
    assert not (tmp_path / "m").exists()


def test_check_looks_with_the_eyes_of_a_recipe(verb: Callable, tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("a dog\tDET NOUN\tx\nthe cat sat\tDET NOUN\ty\n")
    ran = verb("check", path)
    assert (ran.code, ran.out.count("column")) == (0, 3)
    ran = verb("check", path, "-r", "tag")
    assert ran.code == 2
    assert ran.out.count("column") == 2
    assert "1 row without one tag for each symbol" in ran.out


def test_check_misses_files(verb: Callable, tmp_path: Path) -> None:
    table = tmp_path / "captions.tsv"
    table.write_text("a.png\ta cat sits\nb.png\ta dog runs\n", "utf-8")
    (tmp_path / "a.png").write_bytes(b"")  # whether it is a picture, reading it tells
    ran = verb("check", table)
    assert ran.code == 2
    assert "column 1: names of files (2 × .png)" in ran.out
    assert "line 2: " in ran.out
    assert "1 file cannot be found" in ran.out
    (tmp_path / "b.png").write_bytes(b"")
    assert verb("check", table).code == 0
    rows = "".join(f"c{i % 2}.png\tcat {i} sits\n" for i in range(30))
    table.write_text(f"source\ttarget\n{rows}", "utf-8")
    ran = verb("check", table)
    assert ran.code == 2
    assert "2 files cannot be found" in ran.out
