"""Memory that a step frees is there for the next one."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("resource")
STEPS = """
import resource, sys, torch
from dragoman.memory import hold

def step():
    return float(torch.ones(12 * 2**20)[0])  # 48 MB: glibc gives back what is larger than 32

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

held = hold() if sys.argv[1] == "held" else None
for _ in range(5):
    step()
before = faults()
for _ in range(20):
    step()
print(held, faults() - before)
"""


def steps(how: str, **more: str) -> tuple[str, int]:
    """Whether memory is held, and how many pages the system had to clear in twenty steps."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", STEPS, how],
        env=env | more,
        capture_output=True,
        text=True,
        check=True,
    )
    held, faults = done.stdout.split()
    return held, int(faults)


def test_pages_are_cleared_once() -> None:
    held, faults = steps("held")
    if held == "False":
        pytest.skip("an allocator that cannot be told")
    _, usual = steps("as usual")
    assert usual > 200_000  # 12,288 in each block
    assert faults < usual / 3


@pytest.mark.parametrize(
    "variable",
    [
        {"MALLOC_MMAP_THRESHOLD_": "1000000"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1000000"},
    ],
    ids=str,
)
def test_an_allocator_that_was_set_up_stays_as_it_is(variable: dict[str, str]) -> None:
    assert steps("held", **variable)[0] == "False"
