"""What all tests share: one thread, a trained model, and two ways to run the command line."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import hypothesis
import pytest
import torch

import dragoman
from browser import browser, open_tab, tab  # noqa: F401 (fixtures)
from dragoman import memory
from dragoman.cli import main
from small import TEXT_LM, TREE, reversals, words

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared"

torch.set_num_threads(1)
hypothesis.settings.register_profile("patient", deadline=None)  # machines may be busy
hypothesis.settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on real data are skipped, visibly, where the data is not there. Those that take minutes
    come first: begun last, they would keep one of several processes busy alone.
    """
    items.sort(key=lambda item: item.path.name != "test_triton.py")
    if SHARED.is_dir():
        return
    for item in items:
        if "shared" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=f"{SHARED} is not there"))


@pytest.fixture(autouse=True, scope="session")
def _memory() -> Iterator[None]:
    """Commands that run in this process leave its memory as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "hold", lambda: False)
        yield


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.split("\n")[:-1]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that writes short words backwards, and mostly gets it right."""
    folder = tmp_path_factory.mktemp("tiny") / "model"
    dragoman.train(reversals(300), folder, config=TREE, quiet=True)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_model: Path) -> dragoman.Predictor:
    return dragoman.load(tiny_model)


@pytest.fixture(scope="session")
def tiny_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a language model of running text."""
    place = tmp_path_factory.mktemp("lm")
    text = place / "text.txt"
    text.write_text("\n".join(" ".join(words(6, seed)) for seed in range(40)) + "\n")
    dragoman.train(text, place / "model", recipe="lstm-lm", config=TEXT_LM, quiet=True)
    return place / "model"


@pytest.fixture
def cli() -> Callable[..., Ran]:
    """Run `python -m dragoman` as a process of its own, with exactly the given changes to the
    environment (None removes a variable).
    """

    def run(*args: object, stdin: bytes = b"", env: Mapping[str, str | None] | None = None) -> Ran:
        wanted: dict[str, str | None] = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", *map(str, args)],
            input=stdin,
            capture_output=True,
            env={key: value for key, value in wanted.items() if value is not None},
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run `dragoman.cli.main` in this process: the same, without waiting for torch."""

    def run(*args: object, stdin: bytes = b"") -> Ran:
        given = io.TextIOWrapper(io.BytesIO(stdin))
        out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["dragoman", *map(str, args)])
            patch.setattr(sys, "stdin", given)
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit) as ended:
                main()
        code = ended.value.code
        return Ran(code if isinstance(code, int) else 0, _written(out), _written(err))

    return run


def _written(stream: io.TextIOWrapper) -> str:
    content = stream.buffer
    assert isinstance(content, io.BytesIO)
    return content.getvalue().decode("utf-8")
