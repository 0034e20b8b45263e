"""Pictures: any tokens and any sizes draw without a warning, and nothing in a token is obeyed."""

import logging
import struct
import sys
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dragoman.errors import UserError
from dragoman.plots import (
    STYLES,
    alignment,
    by_length,
    confusion,
    learning,
    over_frames,
    over_picture,
    over_sound,
    sentence_map,
    tours,
)
from dragoman.plots import labels as text
from dragoman.plots.lengths import Bucket
from dragoman.plots.maps import flatten

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
    labels = text.labels([" ", "\n", "\t", "\x07", "", "\u200b"], ["\u0301", "a b"], "a  title")
    assert labels.source == ["␣", "↵", "⇥", "U+0007", "∅", "U+200B"]
    assert labels.target == ["◌\u0301", "a␣b"]
    assert labels.title == "a title"
    assert labels.fonts == [text.BASE_FONT]


def test_letters_stand_upright_beside_unknown_ones() -> None:
    axes = alignment(np.eye(3), ["a", "<unk>", "</s>"], list("xyz")).figure.axes[0]
    shown = axes.get_xticklabels()
    assert [label.get_text() for label in shown] == ["a", "\ufffd", "</s>"]
    assert {label.get_rotation() for label in shown} == {0.0}
    assert axes.get_xlabel() == "input (\ufffd: not in the alphabet)"


def test_long_tokens_are_cut() -> None:
    (label,) = text.labels(["x" * 100], ["y"], "").source
    assert len(label) == text.LONGEST
    assert label.endswith("…")


def test_a_glyph_no_font_has_becomes_its_code_point() -> None:
    nowhere = "\u1bc0"  # Batak, in no font that comes with matplotlib
    if not text.find_fonts({nowhere})[1]:
        pytest.skip("this machine has a font for it")
    labels = text.labels([nowhere, f"a{nowhere}b", nowhere * 5], ["x"], "")
    assert labels.source == ["U+1BC0", "a U+1BC0 b", "U+1BC0 U+1BC0 U+1BC0 …"]


def test_another_font_is_found_for_what_the_first_one_lacks() -> None:
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    base, other = (
        set(FT2Font(findfont(name)).get_charmap()) for name in ("DejaVu Sans", "STIXGeneral")
    )
    rare = chr(min(other - base))
    fonts, missing = text.find_fonts({"a", rare})
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


def test_letters_are_joined_and_lines_turned() -> None:
    """Arabic letters take other shapes beside each other: joined they are narrower than alone."""
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    def width(text: str) -> float:
        font = FT2Font(findfont("DejaVu Sans"))
        font.set_text(text)
        return float(font.get_width_height()[0])

    alone = sum(width(char) for char in "مرحبا")
    assert width("مرحبا") < 0.95 * alone


def test_a_run_of_figures_becomes_curves(tmp_path: Path) -> None:
    rows = [{"step": n, "train_loss": 1 / n, "dev_loss": 2 / n, "dev_cer": 9.0} for n in (1, 2, 3)]
    figure = learning({"a": rows, "b": rows[:1]}, tmp_path / "a.svg").figure
    loss, metric = figure.axes
    assert loss.get_xlabel() == "training steps"
    assert metric.get_ylabel().startswith("CER (%)")
    assert [text.get_text() for text in metric.get_legend().get_texts()] == ["a", "b"]
    assert len(learning({"a": [{"step": 1, "train_loss": 1.0}]}).figure.axes) == 1
    with pytest.raises(UserError, match="b: no evaluation"):
        learning({"a": rows, "b": []})
    with pytest.raises(UserError, match="no run has 'bleu'; they have cer"):
        learning({"a": rows}, metric="bleu")


def test_systems_over_lengths(tmp_path: Path) -> None:
    row = [Bucket("1-5", 40, 80.0, 75.0, 84.0), Bucket("6-9", 38, 70.0, 64.0, 77.0)]
    figure = by_length({"a": row, "b $x$": row}, "BLEU", tmp_path / "a.png", "words").figure
    (axes,) = figure.axes
    assert axes.get_xlabel() == "length of the source (words)"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1-5\nn = 40", "6-9\nn = 38"]
    with pytest.raises(UserError, match="inputs are the same"):
        by_length({"a": row, "b": row[:1]}, "BLEU")
    with pytest.raises(UserError, match="no inputs"):
        by_length({}, "BLEU")


def test_names_on_a_map_cover_neither_each_other_nor_marks(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    names = [f"a sentence of number {n}" for n in range(40)] + SCRIPTS
    groups = ["one", "two"] * (len(names) // 2) + ["one"] * (len(names) % 2)
    figure = sentence_map(
        rng.normal(size=(len(names), 8)), names, tmp_path / "m.png", groups
    ).figure
    (axes,) = figure.axes
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    shown = [text.get_window_extent(renderer) for text in axes.texts if text.get_text()]
    assert len(shown) > 20
    overlaps = [(a, b) for i, a in enumerate(shown) for b in shown[:i] if a.overlaps(b)]
    assert not overlaps
    ends = [(axes.transData.transform(one.xy), one.xyann) for one in axes.texts if one.arrowprops]
    along = [np.linspace(a, a + np.array(far) * figure.dpi / 72, 50) for a, far in ends]
    assert along
    assert not any(((way > b.p0) & (way < b.p1)).all(1).any() for way in along for b in shown)


def test_a_map_keeps_what_differs_most() -> None:
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(50, 2)) * [9, 4] @ np.linalg.qr(rng.normal(size=(6, 6)))[0][:2]
    flat = flatten(wide + 5)
    near = np.linalg.norm(wide[:, None] - wide[None], axis=-1)
    assert np.allclose(np.linalg.norm(flat.places[:, None] - flat.places[None], axis=-1), near)
    assert sum(flat.shares) == pytest.approx(1)
    assert flatten(np.array([[1.0], [2.0]])).shares == (pytest.approx(1.0), 0.0)
    with pytest.raises(UserError, match="two sentences"):
        sentence_map(np.ones((1, 3)), ["one"])


def test_labels_are_counted_in_a_matrix(tmp_path: Path) -> None:
    figure = confusion(np.array([[5, 0], [2, 3]]), ["no", "yes, $1"], tmp_path / "c.svg").figure
    assert [text.get_text() for text in figure.axes[0].texts] == ["5", "2", "3"]
    assert "n = 10" in figure.axes[0].get_title()
    with pytest.raises(UserError, match="cannot be read"):
        confusion(np.ones((99, 99), int), ["a"] * 99)
    with pytest.raises(UserError, match="2 x 2 counts for 3 labels"):
        confusion(np.ones((2, 2), int), list("abc"))


def test_tours_tell_their_length(tmp_path: Path) -> None:
    square = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    figure = tours([square] * 5, [[0, 1, 2, 3]] * 4 + [[]], tmp_path / "t.png").figure
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert titles == ["length 4.00"] * 4 + ["length 0.00"]
    open_end = tours([square], [[0, 1, 2, 3]], closed=False).figure
    assert open_end.axes[0].get_title() == "length 3.00"
    with pytest.raises(UserError, match="not there"):
        tours([square], [[0, 9]])


@pytest.mark.parametrize("names", [ODD, SCRIPTS])
def test_names_of_runs_and_titles_are_text_too(tmp_path: Path, names: list[str]) -> None:
    """Folders have any name: nothing in it is obeyed, and each letter finds its font."""
    count, title = len(names), " ".join(names)
    rows = [{"step": n, "train_loss": 1 / n, "dev_loss": 2 / n, "dev_cer": 9.0} for n in (1, 2)]
    figure = learning(dict.fromkeys(names, rows), tmp_path / "c.png", title=title).figure
    told = figure.axes[1].get_legend().get_texts()
    assert [one.get_text() for one in told] == [text.line(name, 32)[0] for name in names]
    assert not any(one.get_parse_math() for one in told)
    by_length(
        {name: (Bucket("1-5", 40, 80.0, 75.0, 84.0),) for name in names}, "x", tmp_path / "l.png"
    )
    sentence_map(np.eye(count), names, tmp_path / "m.png", names, title)
    confusion(np.eye(count, dtype=int), names, tmp_path / "k.png", title)
    tours([np.eye(2)] * count, [[0, 1]] * count, tmp_path / "t.png", names, title=title)


def test_numbers_of_stops_keep_clear_of_the_way(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    points = rng.random((12, 2))
    order = np.argsort(np.arctan2(*(points - points.mean(0)).T)).tolist()
    figure = tours([points], [order], tmp_path / "t.png").figure
    (axes,) = figure.axes
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    boxes = [one.get_window_extent(renderer) for one in axes.texts]
    assert len(boxes) == 12
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    stops = points[[*order, order[0]]]
    path = np.concatenate([np.linspace(a, b, 99) for a, b in pairwise(stops)])
    dots = axes.transData.transform(path)
    assert not any(((dots > box.p0) & (dots < box.p1)).all(1).any() for box in boxes)


@pytest.mark.parametrize("tokens", [ODD, SCRIPTS])
def test_sights_draw_for_every_token(tmp_path: Path, tokens: list[str]) -> None:
    count, photo = len(tokens), np.random.default_rng(0).random((24, 30, 3))
    over_picture(np.ones((count, 3, 4)), photo, tokens, tmp_path / "p.png", title="<b>")
    over_frames(soft(count, 6), [photo] * 6, tokens, tmp_path / "f.png", title=" ".join(tokens))
    over_frames(soft(count, 6), [], tokens, tmp_path / "b.png")
    over_sound(soft(count, 9), photo[..., 0], tokens, tmp_path / "s.png", seconds=1.5)
    assert all(min(pixels(tmp_path / f"{name}.png")) > 100 for name in "pfbs")
    with pytest.raises(UserError, match="output tokens"):
        over_sound(soft(count + 1, 9), photo[..., 0], tokens)
    with pytest.raises(UserError, match="output tokens"):
        over_picture(np.ones((count, 12)), photo, tokens)


def test_notebooks_show_a_picture() -> None:
    page = alignment(np.eye(1), ["<script>"], ["b"])._repr_html_()
    assert page.startswith('<img alt="" style="max-width:100%" src="data:image/svg+xml;base64,')
    assert "<script" not in page
