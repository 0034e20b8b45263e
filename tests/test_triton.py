"""The Triton kernels equal the plain code, on any machine: Triton's interpreter runs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


PROGRAMS = ["interpreted.py", "interpreted_optimizers.py", "interpreted_search.py"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_kernels_equal_the_plain_code(program: str) -> None:
    pytest.importorskip("triton")
    paths = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
    env = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(HERE / program)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
