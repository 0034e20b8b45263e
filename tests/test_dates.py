"""The date task: one draw for a seed, one meaning for a text, no leak into held-out rows."""

import builtins
import re
import time
import unicodedata
from datetime import date, timedelta
from typing import Any

import pytest

from dragoman.demo import dates
from dragoman.demo.dates import LANGUAGES, LOCALES, examples, forms, pairs, render, split
from dragoman.errors import UserError

pytest.importorskip("babel")
DAY = date(2024, 11, 5)


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, str]]:
    return pairs(30_000, seed=7)


def drawable(day: date) -> set[str]:
    return {render(day, *form) for of_locale in forms().values() for form in of_locale}


def plain(text: str) -> str:
    """As a careless reader sees it: no case, digits 0-9."""
    return re.sub(r"\d", lambda d: str(unicodedata.decimal(d.group())), text).casefold()


def test_a_draw_depends_on_its_seed_alone(rows: list[tuple[str, str]]) -> None:
    assert pairs(200, seed=7) == rows[:200]
    assert pairs(200, seed=8) != rows[:200]


def test_known_forms_can_be_drawn() -> None:
    wanted = {
        "mardi 5 novembre 2024",
        "5. studenoga 2024.",
        "2024年11月5日",
        "2024년 11월 5일 화요일",
        "Tuesday, November 5, 2024",
        "5 tháng 11, 2024",
        "৫ নভেম্বর, ২০২৪",
        "5 พฤศจิกายน 2024",
        "سه\u200cشنبه ۵ نوامبر ۲۰۲۴",
    }
    assert wanted <= drawable(DAY)


def test_day_and_month_are_never_two_bare_numbers() -> None:
    assert render(DAY, "de", "medium") == "05.11.2024"  # can be written, will not be drawn
    for text in drawable(DAY):
        assert not re.search(r"\d{1,2}\s*[./-]\s*\d{1,2}\s*[./-]", text), text
        assert "2024" in plain(text)


def test_every_language_takes_part() -> None:
    assert all(forms()[locale] for locale in LOCALES)
    assert 40 <= LANGUAGES <= len(LOCALES)


def test_no_text_has_two_meanings(rows: list[tuple[str, str]]) -> None:
    meanings: dict[str, str] = {}
    for text, iso in rows:
        assert meanings.setdefault(plain(text), iso) == iso, text


@pytest.mark.parametrize("year", [1999, 2000])
def test_no_text_has_two_meanings_on_any_day_of_a_year(year: int) -> None:
    meanings: dict[str, date] = {}
    for offset in range(366):
        day = date(year, 1, 1) + timedelta(offset)
        for text in drawable(day):
            assert meanings.setdefault(plain(text), day) == day, text


def test_rows_are_distinct_short_and_clean(rows: list[tuple[str, str]]) -> None:
    texts = [text for text, _ in rows]
    assert len(set(texts)) == len(rows) == 30_000
    assert sum(map(len, texts)) / len(texts) <= 40
    assert all(text == " ".join(text.split()) for text in texts)
    assert not {"\u200f", "\u200e", "\u0307"} & set(
        "".join(texts)
    )  # marks, and the dot of a bad lower


def test_dates_spread_over_the_century_and_are_iso(rows: list[tuple[str, str]]) -> None:
    days = [date.fromisoformat(iso) for _, iso in rows]
    decades = [day.year // 10 for day in days]
    assert set(decades) == set(range(195, 205))
    assert all(2_600 < decades.count(decade) < 3_400 for decade in set(decades))


def test_capitals_vary(rows: list[tuple[str, str]]) -> None:
    texts = {text for text, _ in rows}
    english = [text for text in texts if "november" in text.casefold()]
    assert any(text == text.lower() for text in english)
    assert any(" De " in text for text in texts)  # Title Case, as in "5 De Noviembre De 2024"
    assert any(" de " in text for text in texts)


def test_a_draw_is_fast() -> None:
    start = time.perf_counter()
    pairs(30_000, seed=1)
    assert time.perf_counter() - start < 10  # under 1 s on an idle machine


def test_held_out_dates_are_never_trained_on(rows: list[tuple[str, str]]) -> None:
    train, test = split(rows, held_out=500, seed=3)
    assert len(test) == 500
    assert not {iso for _, iso in train} & {iso for _, iso in test}
    assert not {plain(text) for text, _ in train} & {plain(text) for text, _ in test}
    assert len(train) + len(test) >= len(rows) - 10
    assert set(train) | set(test) <= set(rows)
    assert (train, test) == split(rows, held_out=500, seed=3)
    assert test != split(rows, held_out=500, seed=4)[1]


def test_splits_of_nothing_and_everything() -> None:
    rows = pairs(20, seed=0)
    assert split(rows, 0, seed=0) == (rows, [])
    assert split(rows, 20, seed=0)[0] == []
    with pytest.raises(UserError, match="cannot hold out 21 of 20 rows"):
        split(rows, 21, seed=0)


def test_examples_show_many_scripts() -> None:
    shown = examples()
    first_letters = [next(c for c in text if c.isalpha()) for text, _ in shown]
    assert len({unicodedata.name(letter).split()[0] for letter in first_letters}) >= 6
    assert all(date.fromisoformat(iso) for _, iso in shown)


def test_errors_name_the_mistake() -> None:
    with pytest.raises(UserError, match=r"unknown locale 'en-GB' \(did you mean 'en_GB'\?\)"):
        render(DAY, "en-GB", "full")
    with pytest.raises(UserError, match=r"'de' has no form 'ful' \(did you mean 'full'\?\)"):
        render(DAY, "de", "ful")
    with pytest.raises(UserError, match="cannot draw -1 dates"):
        pairs(-1, seed=0)


def test_without_babel_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_babel(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "babel":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_babel)
    dates._style.cache_clear()
    dates.forms.cache_clear()
    with pytest.raises(UserError, match=r"pip install 'dragoman\[demo\]'"):
        pairs(1, seed=0)
