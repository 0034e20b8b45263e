"""The report: what is on the page is what was judged, and text stays text."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from dragoman.report.charts import Axes, Point, Series, chart, ticks
from dragoman.report.mistakes import mistakes, pieces
from small import TREE, words


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "test.tsv"
    path.write_text("abc\tcba\nab\t<b>\nfed\tdef\nabcd\tdcba\n")
    return path


def test_a_report_tells_figures_and_mistakes(
    verb: Callable, tiny_model: Path, rows: Path, tmp_path: Path
) -> None:
    ran = verb("report", tiny_model, rows, "-o", tmp_path / "r.html")
    assert ran.code == 0, ran.err
    text = (tmp_path / "r.html").read_text()
    told = verb("evaluate", tiny_model, rows).out.split()[1]
    assert f"<bdi>{float(told):.2f}</bdi>" in text
    assert "<svg" in text
    assert "<b></bdi>" not in text  # the reference of row 2 is text, not markup
    assert "&lt;" in text
    assert "<script" not in text
    assert not re.search(r"""(src|href)=["']""", text)  # nothing from elsewhere


def test_a_report_can_ask_what_more_data_gives(verb: Callable, tmp_path: Path, rows: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words(60, seed=3)))
    config = tmp_path / "small.yaml"
    config.write_text(yaml.safe_dump(TREE | {"train": {"max_steps": 3}}))
    assert verb("train", pairs, "-c", config, "-o", tmp_path / "m").code == 0
    ran = verb("report", tmp_path / "m", rows, "-o", tmp_path / "r.html", "--sizes", "0.5,1")
    assert ran.code == 0, ran.err
    assert "By size of the training data" in (tmp_path / "r.html").read_text()
    assert verb("report", tmp_path / "m", rows, "--sizes", "2").code == 2
    assert verb("report", tmp_path / "m", rows, "--sizes", "half").code == 2
    pairs.write_text("".join(f"{word}\t{word}\n" for word in words(60, seed=4)))
    ran = verb("report", tmp_path / "m", rows, "-o", tmp_path / "s.html", "--sizes", "0.5")
    assert ran.code == 2
    assert "pairs.tsv: not the rows that" in ran.err
    assert not (tmp_path / "s.html").exists()


def test_language_models_have_no_report(verb: Callable, tiny_lm: Path, rows: Path) -> None:
    ran = verb("report", tiny_lm, rows)
    assert ran.code == 2
    assert "language model" in ran.err


def test_mistakes_are_told_from_right_answers() -> None:
    found = mistakes(["a", "b", "xyz"], [["a"], ["c", "b"], ["abc", "xy"]])
    assert [(one.item, one.wanted) for one in found] == [(2, "xy")]


def test_pieces_join_to_what_they_were_cut_from() -> None:
    a, b = "intention", "execution"
    found = pieces(a, b)
    assert "".join(left for _, left, _ in found) == a
    assert "".join(right for _, _, right in found) == b
    assert all((left == right) == same for same, left, right in found)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 17), (1e-4, 2e-4), (99.9, 100), (5, 5)])
def test_ticks_span_what_they_measure(low: float, high: float) -> None:
    found = ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 2 <= len(found) <= 12
    assert found == sorted(set(found))


def test_what_is_higher_is_drawn_higher() -> None:
    svg = chart([Series("s", [Point(0, 1), Point(1, 3), Point(2, 2)])], Axes("x", "y"))
    first, second, third = (float(y) for y in re.findall(r'cy="([\d.]+)"', svg))
    assert second < third < first
