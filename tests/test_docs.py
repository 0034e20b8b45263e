"""The page on Python is run: each block as it stands, one after the other, in an empty folder."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

PAGE = Path(__file__).parent.parent / "docs/howto/python.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)


def test_the_page_on_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    known: dict[str, object] = {}
    for number, block in enumerate(BLOCKS, 1):
        exec(compile(block, f"{PAGE.name}, block {number}", "exec"), known)
    assert {"alignment.png", "curves.svg", "report.html", "model.html", "shipped"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_every_call_that_the_page_names_is_there() -> None:
    for extra in ("matplotlib", "fastapi", "uvicorn"):
        pytest.importorskip(extra)
    names = re.findall(r"`(dragoman(?:\.\w+)+)`", PAGE.read_text("utf-8"))
    assert len(names) > 15
    for name in names:
        assert resolve_name(name) is not None, name


def test_every_verb_is_on_the_page() -> None:
    from dragoman.cli import cli

    table = PAGE.read_text("utf-8").split("| on the command line")[1].split("\n\n")[0]
    told = set(re.findall(r"`([a-z]+)[^`]*`", table))
    assert set(cli.list_commands(None)) <= told  # type: ignore[arg-type]
