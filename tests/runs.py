"""Runs in processes of their own, for tests that kill, interrupt or starve them."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
