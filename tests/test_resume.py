"""A resumed run is the run that never stopped, bit for bit: each thing that it has to remember, by
itself. The numbers are rows of the fault table.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.kernels import native
from dragoman.snapshots import load_snapshot, save_snapshot
from dragoman.stepping import Stepper
from dragoman.trainer import Trainer
from runs import ended, equal, fork, needs_fork, step_of
from small import SPEEDY, TEXT_LM, over, reversals, words, write_pairs

pytestmark = needs_fork
PAIRS = reversals(40)  # 36 to train on: by 7, an epoch is 6 batches
PLAIN = over(SPEEDY, train={"max_steps": 15, "evaluate_every": 4, "batch_size": 7, "lr": 0.01})
PLAIN["model"] = over(PLAIN["model"], encoder={"dropout": 0.0}, decoder={"dropout": 0.0})
DROPOUT = over(PLAIN["model"], encoder={"dropout": 0.3, "recurrent_dropout": 0.2})
TIRED = {"patience": 3, "lr": 1e-12, "metric": "exact", "evaluate_every": 2}
KINDS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "ema": {"train": {"ema": 0.9}},
    "scheduled sampling": {"train": {"sampling": 0.5}},
    "dropout": {"model": over(DROPOUT, decoder={"dropout": 0.3})},
    "accumulation": {"train": {"accumulate": 4}},
    "patience": {"train": TIRED},
    "plateau": {"train": {**TIRED, "patience": 1000, "schedule": "plateau", "plateau": 1}},
    "cosine": {"train": {"schedule": "cosine", "warmup": 3}},
    "momentum": {"train": {"optimizer": "sgd", "momentum": 0.9}},
    "adadelta": {"train": {"optimizer": "adadelta"}},
    "adagrad": {"train": {"optimizer": "adagrad"}},
    "adamw": {"train": {"optimizer": "adamw", "weight_decay": 0.1}},
    "bfloat16": {"train": {"precision": "bf16"}},
    "plain code": {"train": {"kernel": "reference"}},
}


def killed(work: Callable[[], Any], method: str, of: type, calls: int) -> None:
    """Some work in a process that dies by its own hand when a method is called once too often."""

    def dies() -> None:
        done, before = [0], getattr(of, method)

        def counted(self: Any, *args: Any) -> Any:
            done[0] += 1
            if done[0] > calls:
                os.kill(os.getpid(), signal.SIGKILL)
            return before(self, *args)

        setattr(of, method, counted)
        work()

    assert ended(fork(dies)) == -signal.SIGKILL


def told(folder: Path) -> list[dict[str, float]]:
    """What the evaluations of a run found."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def same(one: Path, other: Path) -> None:
    """Two runs have ended at the same place, after the same evaluations, with the same model."""
    assert equal(one, other)
    assert told(one) == told(other)
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    progress = [load_snapshot(folder).progress for folder in (one, other)]
    for found in progress:
        found.pop("seconds")
    assert progress[0] == progress[1]


@pytest.mark.parametrize("kind", KINDS)
def test_3_each_thing_that_a_run_remembers(tmp_path: Path, kind: str) -> None:
    """Killed in the middle of epochs, between two checkpoints; killed again; resumed."""
    tree = over(over(PLAIN, **KINDS[kind]), train={"checkpoint_every": 3})
    dragoman.train(PAIRS, tmp_path / "whole", config=tree, quiet=True)

    def run() -> None:
        dragoman.train(PAIRS, tmp_path / "m", config=tree, resume=True, quiet=True)

    killed(run, "_step", Trainer, 4)
    assert step_of(tmp_path / "m") == 3
    killed(run, "_step", Trainer, 4)
    assert step_of(tmp_path / "m") == 6
    run()
    same(tmp_path / "whole", tmp_path / "m")
    if kind == "patience":
        assert step_of(tmp_path / "m") == 8  # the best at 2, and three that were no better


@pytest.mark.parametrize("batches", [5, 6, 7, 8, 9, 10])
def test_3_a_kill_anywhere_in_a_group_of_batches(tmp_path: Path, batches: int) -> None:
    """Groups of 4 in epochs of 6 batches: 4 and 2, 4 and 2."""
    tree = over(PLAIN, train={"accumulate": 4, "max_steps": 5, "checkpoint_every": 1})
    tree = over(tree, train={"ema": 0.9, "sampling": 0.3})
    dragoman.train(PAIRS, tmp_path / "whole", config=tree, quiet=True)

    def run() -> None:
        dragoman.train(PAIRS, tmp_path / "m", config=tree, resume=True, quiet=True)

    killed(run, "_backward", Stepper, batches)
    assert step_of(tmp_path / "m") == (1 if batches < 6 else 2 if batches < 10 else 3)
    run()
    same(tmp_path / "whole", tmp_path / "m")


def test_3_a_run_that_has_ended_can_be_made_longer(tmp_path: Path) -> None:
    """Its last step is saved, though no checkpoint was due; nothing is done twice."""
    tree = over(PLAIN, train={"checkpoint_every": 1000, "max_steps": 8})
    dragoman.train(PAIRS, tmp_path / "m", config=tree, quiet=True)
    assert step_of(tmp_path / "m") == 8
    longer = over(PLAIN, train={"max_steps": 13})
    dragoman.train(PAIRS, tmp_path / "m", config=longer, resume=True, quiet=True)
    dragoman.train(PAIRS, tmp_path / "whole", config=longer, quiet=True)
    same(tmp_path / "whole", tmp_path / "m")


def test_3_running_text_goes_on_where_it_stopped(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(" ".join(words(6, seed)) for seed in range(20)) + "\n")
    tree = over(TEXT_LM, train={"max_steps": 40, "batch_size": 5, "evaluate_every": 8})
    tree = over(tree, model={"decoder": {"hidden": 8, "layers": 2, "dropout": 0.3}})

    def run(name: str) -> None:
        dragoman.train(
            text, tmp_path / name, recipe="lstm-lm", config=tree, resume=name == "m", quiet=True
        )

    run("whole")
    killed(lambda: run("m"), "_step", Trainer, 11)
    killed(lambda: run("m"), "_step", Trainer, 11)
    assert step_of(tmp_path / "m") == 16
    run("m")
    same(tmp_path / "whole", tmp_path / "m")
    tree = over(tree, train={"max_steps": 44, "batch_size": 3})  # other streams: they begin anew
    run("m")
    assert step_of(tmp_path / "m") == 44


def test_an_average_that_is_wanted_late_begins_with_the_weights(tmp_path: Path) -> None:
    dragoman.train(PAIRS, tmp_path, config=over(PLAIN, train={"max_steps": 8}), quiet=True)
    before = load_snapshot(tmp_path).weights
    more = over(PLAIN, train={"max_steps": 9, "ema": 0.999, "lr": 1e-12})
    dragoman.train(PAIRS, tmp_path, config=more, resume=True, quiet=True)
    after = load_snapshot(tmp_path).weights
    for name, tensor in before.items():
        assert torch.allclose(after[f"average.{name}"], tensor, atol=1e-6)


def test_an_average_of_something_else_is_refused(tmp_path: Path) -> None:
    tree = over(PLAIN, train={"max_steps": 2, "ema": 0.9})
    dragoman.train(PAIRS, tmp_path, config=tree, quiet=True)
    snapshot = load_snapshot(tmp_path)
    odd = {n: t[:1] if n.startswith("average.") else t for n, t in snapshot.weights.items()}
    save_snapshot(
        tmp_path, snapshot._replace(weights=odd, progress=snapshot.progress | {"step": 3})
    )
    with pytest.raises(dragoman.UserError, match="moving average is not of this model"):
        dragoman.train(PAIRS, tmp_path, config=tree, resume=True, quiet=True)


@pytest.mark.parametrize(("first", "then"), [("adam", "adagrad"), ("adam", "sgd")])
def test_the_optimizer_of_a_run_cannot_change(tmp_path: Path, first: str, then: str) -> None:
    tree = over(PLAIN, train={"max_steps": 2, "optimizer": first})
    dragoman.train(PAIRS, tmp_path, config=tree, quiet=True)
    more = over(PLAIN, train={"max_steps": 3, "optimizer": then})
    with pytest.raises(dragoman.UserError, match=f"not the state of train.optimizer={then}"):
        dragoman.train(PAIRS, tmp_path, config=more, resume=True, quiet=True)


def test_3_rows_drawn_from_several_files(tmp_path: Path) -> None:
    own = write_pairs(tmp_path / "own.tsv", PAIRS)
    more = write_pairs(tmp_path / "more.tsv", reversals(30, seed=2))
    tree = over(PLAIN, data={"dev_rows": 4, "also": [{"files": [str(more)], "weight": 0.4}]})

    def run(name: str) -> None:
        dragoman.train(own, tmp_path / name, config=tree, resume=name == "m", quiet=True)

    run("whole")
    killed(lambda: run("m"), "_step", Trainer, 10)
    run("m")
    same(tmp_path / "whole", tmp_path / "m")


@pytest.mark.skipif(native.routines() is None, reason="there is no C compiler")
@pytest.mark.parametrize("cell", ["gru", pytest.param("lstm", marks=pytest.mark.slow)])
def test_3_routines_in_c(tmp_path: Path, cell: str) -> None:
    """With one thread: a forked process lacks those of its parent."""
    rows = [(" ".join(words(8, seed)), words(1, seed + 1)[0]) for seed in range(36)]
    units = {"units": "char"}
    tree = over(SPEEDY, data={"dev_rows": 4, "source": units, "target": units})
    tree["model"] = {
        "encoder": {"cell": cell, "embedding": 24, "hidden": 40, "dropout": 0.2},
        "attention": {"size": 40},
        "decoder": {"cell": cell, "hidden": 64, "readout_size": 24, "dropout": 0.2},
        "head": {"embedding": 24},
    }
    tree = over(tree, train={"max_steps": 4, "evaluate_every": 3, "checkpoint_every": 2})
    tree = over(tree, train={"batch_size": 32, "kernel": "native", "metric": "loss"})

    def run(name: str) -> None:
        torch.set_num_threads(1)
        dragoman.train(rows, tmp_path / name, config=tree, resume=True, quiet=True)

    assert ended(fork(lambda: run("whole")), within=120) == 0
    killed(lambda: run("m"), "_step", Trainer, 3)
    assert step_of(tmp_path / "m") == 2
    assert ended(fork(lambda: run("m")), within=120) == 0
    same(tmp_path / "whole", tmp_path / "m")
