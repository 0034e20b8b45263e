"""Pictures: any tokens and any sizes draw without a warning, and nothing in a token is obeyed."""

import logging
import struct
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dragoman import plots
from dragoman.errors import UserError
from dragoman.plots import STYLES, alignment

pytest.importorskip("matplotlib")
ODD = [
    "$x$",
    "$",
    "\\frac{",
    "a_b^{2}",
    " ",
    "\n",
    "\x07",
    "",
    "\u200b",
    "\u200d",
    "\ud800",
    "\u0301",
]
SCRIPTS = [
    "中国",
    "日",
    "한국",
    "नमस्ते",
    "ि",
    "مرحبا",
    "سه\u200cشنبه",
    "שלום",
    "ไทย",
    "😀",
    "\U0010ffff",
]


@pytest.fixture(autouse=True)
def _no_noise(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
    assert not [
        record for record in caplog.get_records("call") if record.levelno >= logging.WARNING
    ]


def pixels(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", head[16:])
    return width, height


def soft(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(0).dirichlet(np.ones(columns), rows)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (60, 60), (3, 500)])
def test_every_size_gives_a_picture_of_sane_size(tmp_path: Path, style: str, shape: tuple) -> None:
    rows, columns = shape
    source, target = [f"in{i}" for i in range(columns)], [f"out{i}" for i in range(rows)]
    alignment(soft(rows, columns), source, target, tmp_path / "a.png", style=style)
    width, height = pixels(tmp_path / "a.png")
    assert 40 < width < 3000
    assert 40 < height < 3000


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("tokens", [ODD, SCRIPTS])
def test_every_token_can_be_drawn(tmp_path: Path, style: str, tokens: list[str]) -> None:
    file = tmp_path / "a.png"
    alignment(np.eye(len(tokens)), tokens, tokens, file, title=" ".join(tokens), style=style)
    assert min(pixels(file)) > 100


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("value", [0.0, 1e-9, 1.0])
def test_flat_weights_draw(tmp_path: Path, style: str, value: float) -> None:
    alignment(np.full((2, 3), value), list("abc"), list("xy"), tmp_path / "a.png", style=style)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_suffix_is_the_format(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"a.{suffix}"
    alignment(np.eye(1), ["$a$"], ["b"], str(file))
    assert file.read_bytes()[:5] in {b"\x89PNG\r", b"<?xml", b"%PDF-"}


def test_pyplot_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    alignment(np.eye(1), ["a"], ["b"], tmp_path / "a.png")


def test_labels_show_what_cannot_be_seen() -> None:
    labels = plots._labels([" ", "\n", "\t", "\x07", "", "\u200b"], ["\u0301", "a b"], "a  title")
    assert labels.source == ["␣", "↵", "⇥", "U+0007", "∅", "U+200B"]
    assert labels.target == ["◌\u0301", "a␣b"]
    assert labels.title == "a title"
    assert labels.fonts == [plots.BASE_FONT]


def test_long_tokens_are_cut() -> None:
    (label,) = plots._labels(["x" * 100], ["y"], "").source
    assert len(label) == plots.LONGEST
    assert label.endswith("…")


def test_a_glyph_no_font_has_becomes_its_code_point() -> None:
    nowhere = "\u1bc0"  # Batak, in no font that comes with matplotlib
    if not plots._fonts({nowhere})[1]:
        pytest.skip("this machine has a font for it")
    labels = plots._labels([nowhere, f"a{nowhere}b", nowhere * 5], ["x"], "")
    assert labels.source == ["U+1BC0", "a U+1BC0 b", "U+1BC0 U+1BC0 U+1BC0 …"]


def test_another_font_is_found_for_what_the_first_one_lacks() -> None:
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    base, other = (
        set(FT2Font(findfont(name)).get_charmap()) for name in ("DejaVu Sans", "STIXGeneral")
    )
    rare = chr(min(other - base))
    fonts, missing = plots._fonts({"a", rare})
    assert fonts[0] == "DejaVu Sans"
    assert len(fonts) == 2
    assert not missing


def test_errors_name_the_mistake(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    with pytest.raises(
        UserError, match="the weights are 2 x 3, but there are 3 output and 2 input"
    ):
        alignment(np.ones((2, 3)), list("ab"), list("xyz"), file)
    with pytest.raises(UserError, match="nothing to draw"):
        alignment(np.ones((0, 2)), list("ab"), [], file)
    with pytest.raises(UserError, match="not finite"):
        alignment(np.array([[np.nan]]), ["a"], ["b"], file)
    with pytest.raises(UserError, match=r"unknown style 'heta' \(did you mean 'heat'\?\)"):
        alignment(np.eye(1), ["a"], ["b"], file, style="heta")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"must end in \.png"):
        alignment(np.eye(1), ["a"], ["b"], tmp_path / "a.txt")
    with pytest.raises(UserError, match=r"cannot write .*: No such file or directory"):
        alignment(np.eye(1), ["a"], ["b"], tmp_path / "no" / "a.png")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"plots need matplotlib: pip install 'dragoman\[plot\]'"):
        alignment(np.eye(1), ["a"], ["b"], "a.png")
