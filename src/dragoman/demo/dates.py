"""Dates as people write them in many languages, with their ISO form: a task checked at a glance.

The forms come from the Unicode CLDR through Babel. Those that two readers could take for two
different dates, such as 05/11/2024, are left out: what remains can be learnt without being told
the language.
"""

import random
import re
import unicodedata
from collections.abc import Mapping
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from dragoman.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from babel import Locale
    from babel.dates import DateTimePattern

Pair = tuple[str, str]  # (as written, ISO)

_LOCALES = """
en_GB en_US fr de es pt it nl sv da nb fi is et lv lt pl cs sk sl hr ro sq ga cy eu ca gl hu tr
sr bg ru uk be el ka hy he ar fa ur am hi bn ta te th vi id ms sw af ja zh ko
"""
LOCALES = tuple(_LOCALES.split())
LANGUAGES = len({locale.partition("_")[0] for locale in LOCALES})
FORMS = ("full", "long", "medium", "yMMMd", "yMMMEd", "yMMMMd", "yMMMMEEEEd")  # names and skeletons

FIRST, LAST = date(1950, 1, 1), date(2049, 12, 31)
MOST = 1_000_000  # far fewer than there are, so that a draw never searches long for an unused text

_NATIVE_ZERO = {"beng": "০", "arab": "٠", "arabext": "۰"}
_PROBE = date(2024, 11, 5)
# Whether two forms clash hangs on month and weekday names alone; weekdays shift in leap years.
_PROBES = [date(year, month, 5) for year in (2023, 2024) for month in range(1, 13)]
_DAY_BESIDE_MONTH = re.compile(r"(?<!\d)(0?5\W+11|11\W+0?5)(?!\d)")  # of _PROBE, no letter between


class Form(NamedTuple):
    """One way of one language to write a date."""

    locale: str
    name: str


def render(day: date, locale: str, form: str) -> str:
    """The date in the words of a language, with its own digits and with plain spaces.

    >>> render(date(2024, 11, 5), "fr", "full")
    'mardi 5 novembre 2024'
    >>> render(date(2024, 11, 5), "hr", "long"), render(date(2024, 11, 5), "ja", "long")
    ('5. studenoga 2024.', '2024年11月5日')
    """
    style = _style(locale)
    if form not in style.patterns:
        known = list(style.patterns)
        raise UserError(
            f"'{locale}' has no form '{form}'{did_you_mean(form, known)}; known: {', '.join(known)}"
        )
    text = style.patterns[form].apply(day, style.locale).translate(style.digits)
    return " ".join(
        re.sub("[\u200e\u200f]", "", text).split()
    )  # marks and thin spaces nobody types


@cache
def forms() -> Mapping[str, tuple[Form, ...]]:
    """Of each locale the forms that `pairs` draws: each tells the whole date, no two contradict.

    Where two forms would give one text two meanings, the locale listed first keeps it.

    >>> [form.name for form in forms()["de"]]
    ['full', 'long', 'yMMMd', 'yMMMEd']
    """
    meanings: dict[str, date] = {}
    table: dict[str, tuple[Form, ...]] = {}
    for locale in LOCALES:
        kept: dict[tuple[str, ...], Form] = {}  # by the texts: CLDR gives one pattern several names
        for name in _style(locale).patterns:
            texts = _probe(locale, name)
            fits = all(meanings.get(text, day) == day for text, day in texts.items())
            if texts and fits:
                meanings.update(texts)
                kept.setdefault(tuple(texts), Form(locale, name))
        table[locale] = tuple(kept.values())
    return table


def pairs(count: int, seed: int) -> list[Pair]:
    """Distinct texts with their dates: every language alike, every day from 1950 to 2049 alike.

    >>> pairs(3, seed=1) == pairs(5, seed=1)[:3]
    True
    """
    if not 0 <= count <= MOST:
        raise UserError(f"cannot draw {count} dates: ask for 0 to {MOST}")
    rng = random.Random(seed)
    drawn: dict[str, str] = {}
    while len(drawn) < count:
        form = rng.choice(forms()[rng.choice(LOCALES)])
        day = date.fromordinal(rng.randint(FIRST.toordinal(), LAST.toordinal()))
        drawn[_vary(render(day, *form), rng)] = day.isoformat()
    return list(drawn.items())


def split(rows: list[Pair], held_out: int, seed: int) -> tuple[list[Pair], list[Pair]]:
    """Training and held-out rows that share no date: one learnt in another language is no hint.

    Held-out rows are exactly as many as asked; the few left-over rows of the last held-out date are
    in neither part.

    >>> train, test = split([("1 May", "05-01"), ("1 mai", "05-01"), ("2 May", "05-02")], 1, seed=0)
    >>> {iso for _, iso in train} & {iso for _, iso in test}
    set()
    """
    if not 0 <= held_out <= len(rows):
        raise UserError(f"cannot hold out {held_out} of {len(rows)} rows")
    days = sorted({iso for _, iso in rows})
    random.Random(seed).shuffle(days)
    by_day: dict[str, list[Pair]] = {day: [] for day in days}
    for row in rows:
        by_day[row[1]].append(row)
    chosen: set[str] = set()
    test: list[Pair] = []
    for day, group in by_day.items():
        if len(test) >= held_out:
            break
        test += group
        chosen.add(day)
    return [row for row in rows if row[1] not in chosen], test[:held_out]


def examples() -> list[Pair]:
    """A handful of lines in as many scripts, to show what the task is.

    >>> examples()[0]
    ('mardi 5 novembre 2024', '2024-11-05')
    """
    shown = [
        (_PROBE, "fr", "full"),
        (date(1969, 7, 20), "en_US", "full"),
        (date(1989, 11, 9), "ja", "full"),
        (date(1961, 4, 12), "ru", "long"),
        (date(2004, 8, 13), "el", "full"),
        (date(1950, 1, 26), "hi", "full"),
        (date(2011, 2, 11), "ar", "full"),
        (date(1971, 3, 26), "bn", "long"),
        (date(1988, 9, 17), "ko", "full"),
    ]
    return [(render(day, locale, form), day.isoformat()) for day, locale, form in shown]


class _Style(NamedTuple):
    locale: "Locale"
    patterns: "dict[str, DateTimePattern]"
    digits: dict[int, str]


@cache
def _style(locale: str) -> _Style:
    """What Babel would look up again at each call; kept, one date takes some ten microseconds."""
    try:
        from babel import Locale
    except ImportError:
        raise UserError("dates need Babel: pip install 'dragoman[demo]'") from None

    if locale not in LOCALES:
        raise UserError(f"unknown locale '{locale}'{did_you_mean(locale, list(LOCALES))}")
    found = Locale.parse(locale)
    patterns = {**found.datetime_skeletons, **found.date_formats}
    zero = ord(_NATIVE_ZERO.get(found.default_numbering_system, "0"))
    return _Style(
        found,
        {form: patterns[form] for form in FORMS if form in patterns},
        {ord("0") + i: chr(zero + i) for i in range(10)},  # Babel itself writes 0-9 only
    )


def _probe(locale: str, name: str) -> dict[str, date]:
    """The probe dates as a careless reader sees them; none if the form is not clear in itself."""
    sample = _latin_digits(render(_PROBE, locale, name))
    numbers = [int(number) for number in re.findall(r"\d+", sample)]
    if _PROBE.year not in numbers or _PROBE.day not in numbers or _DAY_BESIDE_MONTH.search(sample):
        return {}
    texts = {_latin_digits(render(day, locale, name)).casefold(): day for day in _PROBES}
    return texts if len(texts) == len(_PROBES) else {}


def _vary(text: str, rng: random.Random) -> str:
    """People are careless of capitals, and type 0-9 where print has their script's own digits."""
    if rng.random() < 0.5:
        text = _latin_digits(text)
    luck = rng.random()
    if luck < 0.25:
        return text.lower()
    if (
        luck < 0.4
    ):  # title() by letter: upper() would make capitals of Georgian, which has none in use
        return re.sub(r"(?<!\S)\w", lambda first: first.group().title(), text)
    return text


def _latin_digits(text: str) -> str:
    return re.sub(r"\d", lambda digit: str(unicodedata.decimal(digit.group())), text)
