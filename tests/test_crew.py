"""One run in many processes. The numbers are rows of the fault table."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.crew import Crew, places
from dragoman.snapshots import load_snapshot
from dragoman.stepping import Stepper
from dragoman.trainer import Trainer
from runs import (
    close,
    ended,
    fork,
    free_port,
    logged,
    needs_fork,
    step_of,
    until,
    weights,
    workers,
)
from small import STEADY, TEXT_LM, over, reversals, words, write_pairs
from small import settings as options

PAIRS = reversals(40)


@pytest.fixture
def port() -> int:
    return free_port()


def ranks(work: Callable[[], Any], size: int, port: int) -> list[int]:
    """Some work in so many processes that torchrun might have started."""

    def one(rank: int) -> None:
        os.environ |= {"RANK": f"{rank}", "WORLD_SIZE": f"{size}", "LOCAL_RANK": f"{rank}"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
        work()

    return [fork(lambda rank=rank: one(rank)) for rank in range(size)]  # type: ignore[misc]


def train(folder: Path, tree: dict[str, Any], **more: Any) -> None:
    dragoman.train(PAIRS, folder, config=tree, quiet=True, **more)


# --- 25: many are as one


KINDS = {
    "plain": STEADY,
    "accumulate": over(STEADY, train={"accumulate": 4, "ema": 0.9, "label_smoothing": 0.1}),
    "one row a batch": over(STEADY, train={"batch_size": 1, "max_steps": 20}),
}


@needs_fork
@pytest.mark.parametrize("kind", KINDS)
def test_25_two_processes_are_as_one(
    tmp_path: Path, port: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, step = KINDS[kind], Trainer._step
    train(tmp_path / "one", tree)

    def noted(self: Trainer) -> Any:
        found = step(self)
        if self.progress.step == 20:
            mine = {name: p.detach().clone() for name, p in self.model.named_parameters()}
            content = dragoman.checkpoint.pack(mine)
            (tmp_path / f"rank{self.crew.rank}").write_bytes(content)
        return found

    monkeypatch.setattr(Trainer, "_step", noted)
    for child in ranks(lambda: train(tmp_path / "two", tree), 2, port):
        assert ended(child) == 0
    close(weights(tmp_path / "one"), weights(tmp_path / "two"))
    assert (tmp_path / "rank0").read_bytes() == (tmp_path / "rank1").read_bytes()
    one, two = (
        [json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
        for run in ("one", "two")
    )
    assert [m["train_loss"] for m in one] == pytest.approx([m["train_loss"] for m in two], rel=1e-4)


@needs_fork
def test_25_processes_that_srun_starts(tmp_path: Path, port: int) -> None:
    """Two tasks of a step on this machine, told of each other by SLURM's variables alone; requeued,
    they go on by themselves.
    """
    short = over(STEADY, train={"max_steps": 12})

    def task(rank: int, tree: dict[str, Any], more: dict[str, str]) -> None:
        os.environ |= {"SLURM_PROCID": f"{rank}", "SLURM_LOCALID": f"{rank}", **more}
        os.environ |= {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NODELIST": "localhost,n[4-7]"}
        os.environ |= {"SLURM_JOB_ID": f"{3 * 20_000 + port - 20_000}"}
        train(tmp_path / "two", tree)

    for tree, more in ((short, {}), (STEADY, {"SLURM_RESTART_COUNT": "1"})):
        tasks = [fork(lambda n=n: task(n, tree, more)) for n in range(2)]  # type: ignore[misc]  # noqa: B023
        assert [ended(one) for one in tasks] == [0, 0]
    train(tmp_path / "one", STEADY)
    assert step_of(tmp_path / "two") == 20
    close(weights(tmp_path / "one"), weights(tmp_path / "two"))


@needs_fork
def test_25_running_text_goes_on_in_another_number_of_processes(tmp_path: Path, port: int) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(words(6, seed)) for seed in range(20)) + "\n")
    tree = over(TEXT_LM, train={"max_steps": 6, "batch_size": 5, "evaluate_every": 4})
    tree["model"] = over(tree["model"], decoder={"hidden": 8, "layers": 2, "dropout": 0.0})

    def some(steps: int, name: str) -> None:
        config = over(tree, train={"max_steps": steps})
        dragoman.train(
            text, tmp_path / name, recipe="lstm-lm", config=config, resume=steps > 3, quiet=True
        )

    some(3, "one")
    some(6, "one")
    for child in ranks(lambda: some(3, "two"), 2, port):
        assert ended(child) == 0
    some(6, "two")  # two processes first, then one
    some(3, "other")
    for child in ranks(lambda: some(6, "other"), 2, port):  # and the other way round
        assert ended(child) == 0
    assert "carried.000" in weights(tmp_path / "one")
    close(weights(tmp_path / "one"), weights(tmp_path / "two"))
    close(weights(tmp_path / "one"), weights(tmp_path / "other"))


@needs_fork
def test_3_two_processes_that_stop_go_on_bit_for_bit(tmp_path: Path, port: int) -> None:
    noisy = over(STEADY, train={"max_steps": 9, "sampling": 0.3, "evaluate_every": 4})
    noisy["model"] = over(noisy["model"], encoder={"dropout": 0.3}, decoder={"dropout": 0.3})

    def stopped() -> None:
        train(tmp_path / "parts", over(noisy, train={"max_steps": 5}))

    for work in (
        lambda: train(tmp_path / "whole", noisy),
        stopped,
        lambda: train(tmp_path / "parts", noisy, resume=True),
    ):
        for child in ranks(work, 2, port):
            assert ended(child) == 0
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(one[name], other[name]) for name in one)


# --- 24: processes that die, and too many of them


@needs_fork
def test_24_every_row_is_read_once_by_somebody(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    backward = Stepper._backward

    def noted(self: Stepper, batch: Any, tokens: int) -> Any:
        rows = batch.rows.tolist() if batch.target.mask.any() else []
        with (tmp_path / f"rows{self.crew.rank}").open("a") as file:
            file.write(json.dumps([0, rows]) + "\n")
        return backward(self, batch, tokens)

    monkeypatch.setattr(Stepper, "_backward", noted)
    tree = over(STEADY, train={"max_steps": 6, "batch_size": 7})  # 36 rows: the last batch is of 1
    for child in ranks(lambda: train(tmp_path / "m", tree), 3, port):
        assert ended(child) == 0
    shares = [logged(tmp_path / f"rows{rank}") for rank in range(3)]
    assert {len(share) for share in shares} == {6}  # all walk in step, with nothing to read or not
    assert sorted(row for share in shares for _, rows in share for row in rows) == [*range(36)]


@needs_fork
@pytest.mark.parametrize("victim", [0, 1])
def test_24_when_one_process_dies_all_end(tmp_path: Path, port: int, victim: int) -> None:
    tree = over(STEADY, train={"max_steps": 100_000, "epochs": 1e5, "checkpoint_every": 1})
    children = ranks(lambda: train(tmp_path / "m", tree), 2, port)
    until(lambda: step_of(tmp_path / "m") > 2)
    begun = time.monotonic()
    os.kill(children[victim], signal.SIGKILL)
    assert ended(children[1 - victim], within=30) == 1
    assert time.monotonic() - begun < 30
    assert ended(children[victim]) == -signal.SIGKILL
    stop = {"train": {"max_steps": step_of(tmp_path / "m") + 2}}
    train(tmp_path / "m", stop, resume=True)  # what they left can be gone on from, by one


@needs_fork
def test_24_a_signal_to_one_stops_all(tmp_path: Path, port: int) -> None:
    tree = over(STEADY, train={"max_steps": 100_000, "epochs": 1e5, "evaluate_every": 50_000})
    children = ranks(lambda: train(tmp_path / "m", tree), 2, port)
    until(lambda: step_of(tmp_path / "m") >= 0)
    time.sleep(0.5)
    os.kill(children[1], signal.SIGTERM)
    assert [ended(child, within=20) for child in children] == [143, 143]
    assert load_snapshot(tmp_path / "m") is not None


@needs_fork
def test_24_nobody_leaves_before_the_checkpoint_is_written(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchrun and srun end all processes, the one that writes as well, once one of them has left;
    and a checkpoint may take longer than a process is given that hears nothing.
    """
    save = dragoman.trainer.save_snapshot

    def slow(folder: Path, snapshot: Any) -> None:
        if snapshot.progress["step"]:
            time.sleep(2)
        save(folder, snapshot)

    monkeypatch.setattr(dragoman.trainer, "save_snapshot", slow)
    monkeypatch.setattr(dragoman.crew, "GRACE", 0.5)
    tree = over(STEADY, train={"max_steps": 100_000, "epochs": 1e5, "evaluate_every": 50_000})
    children = ranks(lambda: train(tmp_path / "m", tree), 2, port)
    until(lambda: step_of(tmp_path / "m") >= 0)
    time.sleep(0.5)
    for child in children:
        os.kill(child, signal.SIGTERM)
    assert ended(children[1], within=20) == 143
    assert step_of(tmp_path / "m") > 0
    assert ended(children[0], within=20) == 143


@needs_fork
def test_24_more_processes_than_rows_are_refused(
    tmp_path: Path, port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    few = over(STEADY, data={"dev_rows": 1})

    def work() -> None:
        dragoman.train(PAIRS[:3], tmp_path / "m", config=few, quiet=True)

    codes = [ended(child, within=30) for child in ranks(work, 3, port)]
    assert codes[0] == 2
    assert 0 not in codes
    assert "3 processes for 2 training rows: start fewer" in capfd.readouterr().err
    assert not (tmp_path / "m").exists()


def torchrun(*args: object) -> subprocess.Popen[str]:
    """The real thing, as people start it."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*command, *map(str, args)], env=env, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_24_torchrun_restarts_from_the_last_checkpoint(tmp_path: Path, port: int) -> None:
    pairs, folder = write_pairs(tmp_path / "p.tsv", PAIRS), tmp_path / "m"
    tree = over(STEADY, train={"max_steps": 200, "checkpoint_every": 1, "evaluate_every": 100})
    train_ = ("-m", "dragoman", "train", pairs, "-o", folder, *options(tree))
    run = torchrun("--nproc-per-node", 2, "--max-restarts", 2, *train_)
    until(lambda: step_of(folder) > 5, within=120)
    os.kill(workers(run.pid)[-1], signal.SIGKILL)
    _, said = run.communicate(timeout=240)
    assert run.returncode == 0, said
    assert "resumed at step" in said
    assert step_of(folder) == 200
    for child in ranks(lambda: dragoman.train(pairs, tmp_path / "n", config=tree), 2, port):
        assert ended(child, within=240) == 0
    one, other = weights(folder), weights(tmp_path / "n")
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_24_torchrun_ends_when_one_process_dies(tmp_path: Path) -> None:
    pairs, folder = write_pairs(tmp_path / "p.tsv", PAIRS), tmp_path / "m"
    tree = over(STEADY, train={"max_steps": 100_000, "epochs": 1e5, "checkpoint_every": 1})
    run = torchrun(
        "--nproc-per-node", 2, "-m", "dragoman", "train", pairs, "-o", folder, *options(tree)
    )
    until(lambda: step_of(folder) > 5, within=120)
    begun = time.monotonic()
    os.kill(workers(run.pid)[-1], signal.SIGKILL)
    run.communicate(timeout=40)
    assert run.returncode != 0
    assert time.monotonic() - begun < 30


def test_places_of_slurm() -> None:
    env = {"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8", "SLURM_STEP_NODELIST": "n[3,5-6]"}
    assert places(env)["MASTER_ADDR"] == "n3"
    assert places({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}) == {}  # sbatch without srun: one
    assert Crew(2, 3).share([*range(7)]) == [2, 5]
