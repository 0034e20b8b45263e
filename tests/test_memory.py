"""Memory that a step frees is there for the next one."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("resource")
STEPS = """
import resource, torch
from dragoman.memory import hold

def step():
    return sum(float(torch.ones(2**22)[0]) for _ in range(3))  # 16 MB each

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

held = hold()
step()
before = faults()
for _ in range(5):
    step()
print(held, faults() - before)
"""


def steps(**more: str) -> tuple[bool, int]:
    """Whether memory is held, and how many pages the system had to clear in some steps."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", STEPS], env=env | more, capture_output=True, text=True, check=True
    )
    held, faults = done.stdout.split()
    return held == "True", int(faults)


def test_pages_are_cleared_once() -> None:
    held, faults = steps()
    if not held:
        pytest.skip("an allocator that cannot be told")
    assert faults < 9000  # of 61,440 in all blocks


def test_an_allocator_that_was_set_up_stays_as_it_is() -> None:
    held, faults = steps(MALLOC_MMAP_THRESHOLD_="1000000")
    assert not held
    if sys.platform == "linux":
        assert faults > 20_000
