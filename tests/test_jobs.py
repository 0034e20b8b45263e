"""Several processes, and less precision."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import dragoman
from dragoman import quick
from dragoman.cli import cli
from dragoman.errors import UserError
from dragoman.jobs import Order, answered
from models import ALL, make
from small import words

INPUTS = ["", *words(150, seed=3, longest=6), " "]


def test_processes_answer_as_one_does(tiny: dragoman.Predictor, tiny_model: Path) -> None:
    options = tiny.options(beam=2, n_best=2)
    order = Order(tiny_model, "cpu", {}, options, batch_size=4)
    found = list(answered(order, INPUTS, 2))
    assert [p.text for p in found] == [p.text for p in tiny.stream(INPUTS, options, 4)]


@pytest.mark.slow
def test_processes_draw_as_one_does(tiny: dragoman.Predictor, tiny_model: Path) -> None:
    options = tiny.options(sample=True, temperature=2.0)
    found = answered(Order(tiny_model, "cpu", {}, options, batch_size=4), INPUTS, 3)
    assert [p.text for p in found] == [p.text for p in tiny.stream(INPUTS, options, 4)]


@pytest.mark.slow
def test_what_fails_in_a_process_is_told(tiny: dragoman.Predictor, tiny_model: Path) -> None:
    order = Order(tiny_model, "cpu", {}, tiny.options(require=["xyz"]), batch_size=2)
    with pytest.raises(UserError, match="no symbols to write"):
        list(answered(order, INPUTS, 2))


def heed() -> None:
    """Whoever runs in the background of a shell has been told to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interruption_ends_all_processes(tiny_model: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "predict", str(tiny_model), "--jobs", "2"]
    with subprocess.Popen(
        [*command, "--batch-size", "2"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=heed,  # noqa: PLW1509 (no threads yet)
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"abc\n" * 5 * 32)
        process.stdin.flush()
        assert process.stdout.readline() == b"cba\n"  # at work, and waiting for more
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    for _ in range(100):
        if not alive(process.pid):
            return
        time.sleep(0.1)
    pytest.fail("processes were left behind")


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_less_precision_is_nearly_the_same(
    tiny: dragoman.Predictor, tiny_model: Path, precision: quick.Precision
) -> None:
    rough = dragoman.load(tiny_model, precision=precision)
    fine, found = tiny(INPUTS), rough(INPUTS)
    agree = sum(a.text == b.text for a, b in zip(fine, found, strict=True))
    assert agree > 0.8 * len(INPUTS)
    moved = any(a.score != b.score for a, b in zip(fine, found, strict=True))
    assert moved is (rough.model.precision != "fp32")  # a processor without bf16 is exact
    ruled = rough(INPUTS, ban=["never written"])
    assert [p.text for p in ruled] == [p.text for p in found]


def test_precision_on_the_command_line(tiny_model: Path) -> None:
    result = CliRunner().invoke(cli, ["predict", str(tiny_model), "--precision", "int8"], "abc\n")
    assert result.output == "cba\n"


def test_precision_is_refused_where_it_would_do_nothing() -> None:
    with pytest.raises(UserError, match="leave it at fp32"):
        make(ALL["coverage"]).search_in("int8")
