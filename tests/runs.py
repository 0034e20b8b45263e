"""Runs in processes of their own, for tests that kill, interrupt or starve them."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.snapshots import load_snapshot

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def fork(work: Callable[[], Any]) -> int:
    """Do some work in a child that has all modules loaded already; its process id. It exits as the
    command line would: 0, an error's code, 130 after Ctrl-C.
    """
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        work()
        code = 0
    except KeyboardInterrupt:
        code = 130
    except SystemExit as left:
        code = int(left.code or 0)
    except BaseException as error:
        code = getattr(error, "exit_code", 70)
        print(type(error).__name__, error, file=sys.stderr)
    finally:
        os._exit(code)


def ended(child: int, within: float = 60) -> int:
    """The exit code of a child (minus the signal that ended it)."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"still running after {within} s")


def until(true: Callable[[], Any], within: float = 60) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + within
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def step_of(folder: Path) -> int:
    """The step of the last checkpoint; -1 where there is none."""
    try:
        return int((folder / "checkpoints" / "last").read_text().removeprefix("step-"))
    except (OSError, ValueError):
        return -1


def logged(path: Path) -> list[tuple[int, list[int]]]:
    """Which rows each batch was made of, in order: (step, rows)."""
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


def last(folder: Path) -> dict[str, Tensor]:
    """All tensors of a run's last checkpoint."""
    snapshot = load_snapshot(folder)
    assert snapshot is not None
    optimizer = {f"optimizer.{name}": t for name, t in snapshot.optimizer.items()}
    best = {f"best.{name}": t for name, t in snapshot.best.items()}
    return snapshot.weights | optimizer | best


def equal(one: Path, other: Path) -> bool:
    """Whether two runs stand at the same place, bit for bit."""
    a, b = last(one), last(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def weights(folder: Path) -> dict[str, Tensor]:
    """What the model of a run's last checkpoint is made of."""
    snapshot = load_snapshot(folder)
    assert snapshot is not None
    return snapshot.weights


def close(one: dict[str, Tensor], other: dict[str, Tensor], by: float = 1e-5) -> None:
    """Two models are the same but for rounding."""
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.allclose(tensor, other[name], rtol=0, atol=by), name


def workers(parent: int) -> list[int]:
    """The processes that torchrun has started and that train."""
    found = subprocess.run(
        ["pgrep", "-P", str(parent)], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in found.stdout.split()]


def free_port() -> int:
    """One of those at which jobs of SLURM meet."""
    chance = random.Random()  # tests run side by side
    for port in (chance.randrange(20_000, 40_000) for _ in range(1000)):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("", port))
            return port
    raise AssertionError("no port is free")
