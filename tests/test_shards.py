"""Decoding in pieces, in bounded memory, on a cluster. The numbers are rows of the fault table."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import dragoman
from dragoman import shards
from dragoman.inputs import Inputs
from dragoman.shards import Shard
from runs import ended, fork, needs_fork, until
from small import words

LINES = [*words(50), "", "  ", "zzz", *words(7, 3)]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{line}\n" for line in LINES))
    return path


@pytest.mark.parametrize(("layout", "of"), [("text", 1), ("text", 3), ("nbest", 3), ("text", 70)])
def test_26_pieces_are_the_whole(
    verb: Callable, tiny_model: Path, inputs: Path, tmp_path: Path, layout: str, of: int
) -> None:
    common = ("predict", tiny_model, inputs, "--format", layout, "--beam", "2", "--n-best", "2")
    common += ("--sample", "--seed", "3") if layout == "text" else ()
    out = tmp_path / "out.txt"
    for number in range(1, of + 1):
        assert verb(*common, "-o", out, "--shard", f"{number}/{of}").code == 0
    ran = verb("merge", out)
    assert (ran.code, ran.out) == (0, "")
    assert f"{len(LINES)} inputs answered, in {of} pieces" in ran.err
    both = [text.splitlines() for text in (out.read_text(), verb(*common).out)]
    found, wanted = ([line.split(" ||| ")[:2] for line in lines] for lines in both)
    assert found == wanted
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == ["out.txt"]


def test_pieces_complain_of_their_own_lines(
    verb: Callable, two_columns: Path, tmp_path: Path
) -> None:
    table, out = tmp_path / "in.tsv", tmp_path / "out.txt"
    table.write_text("ab\tcd\nab\nx\ty\nx\ny\n")
    for number, lines in ((1, 1), (2, 2)):
        ran = verb("predict", two_columns, table, "-o", out, "--shard", f"{number}/2")
        assert (ran.code, f"{lines} lines: too few columns" in ran.err) == (0, True), ran.err
    ran = verb("predict", two_columns, table, "--stream", "--beam", "1")
    assert (ran.code, len(ran.lines), "3 lines: too few columns" in ran.err) == (0, 5, True)


@pytest.fixture
def two_columns(tmp_path: Path) -> Path:
    """The folder of a model that reads two columns."""
    rows = [(word, word, word[::-1]) for word in words(30)]
    steps = {"train": {"max_steps": 1}}
    dragoman.train(rows, tmp_path / "two", recipe="inflect", config=steps, quiet=True)
    return tmp_path / "two"


@needs_fork
def test_26_a_job_killed_half_way_redoes_only_what_is_unfinished(
    verb: Callable,
    tiny_model: Path,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, slow = tmp_path / "out.txt", shards.write_lines

    def slower(path: Path, lines: object) -> object:
        time.sleep(0.3)
        return slow(path, lines)  # type: ignore[arg-type]

    def job() -> None:
        monkeypatch.setattr(shards, "write_lines", slower)
        for number in range(1, 5):
            assert (
                verb("predict", tiny_model, inputs, "-o", out, "--shard", f"{number}/4").code == 0
            )

    child = fork(job)
    until(lambda: Shard(2, 4).path(out).exists())
    os.kill(child, signal.SIGKILL)
    ended(child)
    done = list(tmp_path.glob("out.txt.*.json"))
    assert 1 <= len(done) < 4
    refused = verb("merge", out)
    assert refused.code == 2
    before = {path: path.stat().st_mtime_ns for path in done}
    for number in range(1, 5):
        ran = verb("predict", tiny_model, inputs, "-o", out, "--shard", f"{number}/4")
        assert ("there already, skipped" in ran.err) == (number <= len(done))
    assert {path: path.stat().st_mtime_ns for path in done} == before
    assert verb("merge", out, "--keep").code == 0
    assert out.read_text() == verb("predict", tiny_model, inputs).out
    assert Shard(1, 4).path(out).exists()


def test_26_a_damaged_or_foreign_piece_is_noticed(
    verb: Callable, tiny_model: Path, inputs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.txt"
    command = ("predict", tiny_model, inputs, "-o", out)
    assert verb("merge", out).code == 2
    for number in (1, 2):
        assert verb(*command, "--shard", f"{number}/2").code == 0
    piece = Shard(2, 2).path(out)
    good = piece.read_bytes()
    piece.write_bytes(good[:-9])
    ran = verb("merge", out)
    assert ran.code == 2
    assert f"{piece}: not finished, or damaged" in ran.err
    assert "skipped" not in verb(*command, "--shard", "2/2").err  # it is done again
    assert piece.read_bytes() == good
    assert "skipped" not in verb(*command, "--beam", "1", "--shard", "2/2").err  # another task
    assert "different tasks" in verb("merge", out).err
    assert verb(*command, "--shard", "2/2").code == 0
    assert verb(*command, "--shard", "1/3").code == 0
    assert "different --shard" in verb("merge", out).err
    Shard(1, 3).path(out).unlink()
    Shard(1, 2).path(out).unlink()
    assert "--shard 1/2 is missing" in verb("merge", out).err
    assert not out.exists()


@pytest.mark.parametrize("kind", ["inputs", "helper"])
def test_26_what_has_changed_is_answered_anew(
    verb: Callable, tiny_model: Path, inputs: Path, tmp_path: Path, kind: str
) -> None:
    """Files of the same name and size, with something else in them."""
    out, glossary = tmp_path / "out.txt", tmp_path / "glossary.tsv"
    glossary.write_text("a\tb\n")
    command = ("predict", tiny_model, inputs, "-o", out, "--dictionary", glossary)
    command += ("--shard", "1/1")
    assert "skipped" not in verb(*command).err
    assert "skipped" in verb(*command).err
    if kind == "inputs":
        inputs.write_text(inputs.read_text().replace("a", "b"))
    else:
        glossary.write_text("a\tc\n")
    assert "skipped" not in verb(*command).err
    assert verb("merge", out).code == 0
    assert out.read_text() == verb("predict", tiny_model, inputs).out


@pytest.mark.parametrize(
    "change",
    [
        {"answers": 3},
        {"answers": 3, "inputs": 3},
        {"inputs": None},
        {"first": "0"},
        {"first": 1},
        {"total": 7},
        {"task": 5},
        {"sha256": "0" * 64},
    ],
    ids=str,
)
def test_26_a_record_that_does_not_add_up_is_refused(
    verb: Callable, tiny_model: Path, inputs: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    out = tmp_path / "out.txt"
    for number in (1, 2):
        assert verb("predict", tiny_model, inputs, "-o", out, "--shard", f"{number}/2").code == 0
    path = Shard(1, 2).path(out)
    record = path.with_name(f"{path.name}.json")
    told = json.loads(record.read_text()) | change
    record.write_text(json.dumps({key: value for key, value in told.items() if value is not None}))
    ran = verb("merge", out)
    assert ran.code == 2
    assert "run" in ran.err or "different tasks" in ran.err
    assert not out.exists()


def test_26_pieces_in_each_others_place_are_refused(
    verb: Callable, tiny_model: Path, inputs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.txt"
    for number in (1, 2):
        assert verb("predict", tiny_model, inputs, "-o", out, "--shard", f"{number}/2").code == 0
    one, two = (Shard(number, 2).path(out) for number in (1, 2))
    for tail in ("", ".json"):
        first, second, third = (path.with_name(path.name + tail) for path in (one, two, out))
        first.rename(third)
        second.rename(first)
        third.rename(second)
    ran = verb("merge", out)
    assert ran.code == 2
    assert "do not cover the inputs" in ran.err


def test_26_inputs_that_change_meanwhile(
    verb: Callable, tiny_model: Path, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, total = tmp_path / "out.txt", Inputs.total

    def later(self: Inputs) -> int:
        return total(self) + 1

    monkeypatch.setattr(Inputs, "total", later)
    ran = verb("predict", tiny_model, inputs, "-o", out, "--shard", "1/1")
    assert ran.code == 1
    assert "it was changed" in ran.err
    assert not list(tmp_path.glob("*out.txt*"))


@pytest.mark.parametrize("shard", ["0/3", "4/3", "x", "1/0", "-1/3", "1/3/4"])
def test_26_pieces_that_cannot_be(
    verb: Callable, tiny_model: Path, inputs: Path, tmp_path: Path, shard: str
) -> None:
    ran = verb("predict", tiny_model, inputs, "-o", tmp_path / "out", "--shard", shard)
    assert ran.code == 2
    assert "from 1/n to n/n" in ran.err
    assert verb("predict", tiny_model, "-", "--shard", "1/2", stdin=b"a\n").code == 2


def test_an_output_is_written_whole_or_not_at_all(
    verb: Callable, tiny_model: Path, inputs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "out.txt"
    assert verb("predict", tiny_model, inputs, "-o", out).out == ""
    assert out.read_text() == verb("predict", tiny_model, inputs).out
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"source": "abc"}\n{"sourc": "abc"}\n')
    ran = verb("predict", tiny_model, bad, "--column", "source", "--on-bad-line", "error",
               "-o", tmp_path / "no.txt")  # fmt: skip
    assert ran.code == 2
    assert f"{bad}:2: missing key 'source' (did you mean 'sourc'?)" in ran.err
    assert not list(tmp_path.glob("*no.txt*"))


@pytest.mark.slow
def test_26_ray_with_a_worker_that_is_killed(
    verb: Callable, tiny_model: Path, tmp_path: Path
) -> None:
    ray = pytest.importorskip("ray")
    inputs, out = tmp_path / "in.txt", tmp_path / "out.txt"
    inputs.write_text("".join(f"{word}\n" for word in words(1500, longest=7)))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    env["RAY_worker_niceness"] = "0"  # else they wait for whatever runs beside this test
    command = [sys.executable, "-m", "dragoman", "predict", tiny_model, inputs, "-o", out]
    run = subprocess.Popen(
        [*map(str, command), "--on", "ray", "--jobs", "2", "--beam", "12"],
        env=env, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until(lambda: list(tmp_path.glob("out.txt.*.json")) or run.poll() is not None, within=240)
        victims = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and at_work(int(pid))]
        assert victims, run.communicate()
        os.kill(victims[0], signal.SIGKILL)
        _, said = run.communicate(timeout=300)
    finally:
        run.terminate()
    assert run.returncode == 0, said
    assert "1,500 inputs answered" in said
    assert out.read_text() == verb("predict", tiny_model, inputs, "--beam", "12").out
    assert ray is not None


def at_work(pid: int) -> bool:
    """Whether a process is a worker of Ray's that answers with our model."""
    try:
        return "MapWorker" in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False


def test_memory_does_not_grow_with_the_input(tiny: dragoman.Predictor) -> None:
    """Inputs are asked for as answers are taken, never more than a window ahead."""
    taken = []

    def endless() -> object:
        while True:
            taken.append(1)
            yield "abc"

    stream = tiny.stream(endless(), batch_size=4)  # type: ignore[arg-type]
    for _ in range(200):
        next(stream)
    assert len(taken) <= 200 + 4 * 16
