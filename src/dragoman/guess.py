"""Which recipe suits a table of texts: what its answers look like beside its sources.

Nobody who has pairs should have to know that labels, tags and sentences want other models. What is
chosen here is said, and `-r` chooses otherwise.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.appearance import (
    CLIPS,
    LONG,
    PICTURES,
    SOUNDS,
    Texts,
    asked,
    counts,
    features,
    foreign,
    ids,
    in_order,
    labels,
    length,
    name_files,
    points,
    replies,
    several,
    spelled,
    tagged,
)
from dragoman.data.fields import TextSpec, settle
from dragoman.data.joins import is_name
from dragoman.data.kinds import columns_of, is_header, kind_of
from dragoman.data.rows import iter_rows
from dragoman.data.strings import some
from dragoman.errors import UserError

LOOK = 20_000  # rows that are looked at, drawn from all
FEW = 1500  # rows of which attention learns no more than a head that goes from left to right
PLAIN = {"train", "dev", "columns", "format", "on_bad_line", "also", "dev_rows", "store"}
Rows = Sequence[tuple[str, ...]]


class Guess(NamedTuple):
    """A recipe and why it was chosen."""

    recipe: str
    why: str
    columns: tuple[int | str, ...] | None = None  # where it is not the first ones that are read
    hint: str = ""  # what else could be meant

    def told(self) -> str:
        """For people.

        >>> Guess("entail", "it looks so", (2, 3, 4)).told()
        'recipe: entail on columns 2,3,4, since it looks so; -r and --columns choose others'
        """
        ways = "-r and --columns choose others" if self.columns else "-r chooses another"
        hint = f"; {self.hint}" if self.hint else ""
        return f"recipe: {self.name}, since {self.why}; {ways}{hint}"

    @property
    def name(self) -> str:
        """The recipe, and what it is to read."""
        places = ",".join(map(str, self.columns or ()))
        return f"{self.recipe} on columns {places}" if places else self.recipe


USUAL = Guess("transduce", "")


def guess(changes: Mapping[str, Any], rows: Iterable[tuple[str, ...]] | None = None) -> Guess:
    """The recipe for the files that a config names, or for rows at hand, where nothing else in the
    config says what kind of model it is to be.
    """
    data = changes.get("data", {})
    if "recipe" in changes or not isinstance(data, Mapping):
        return USUAL  # the second is no config, as whoever settles it says
    if "model" in changes or set(data) - PLAIN:
        return USUAL._replace(why="settings of the model or its columns are given, but no recipe")
    if rows is not None:
        return _of_chosen(_found(some(rows, LOOK)), data.get("columns"))
    files = data.get("train") or ()
    if any(name == "-" or Path(name).is_fifo() for name in files):
        return USUAL._replace(why="what can be read only once is not looked at")
    try:
        return _of_files(files, data) if files else USUAL
    except UserError:
        return USUAL  # whoever reads the files in earnest says what is wrong with them


def of_rows(rows: Rows) -> Guess:
    """The recipe for texts of which the last, or in a table of more the second, is the answer.

    >>> of_rows([(f"text {i}", "yes" if i % 2 else "no") for i in range(40)]).recipe
    'classify'
    """
    return _of_chosen(_found(rows), None)


def _of_chosen(found: "_Found", columns: Sequence[int | str] | None) -> Guess:
    """A guess about rows at hand: their columns have numbers, whatever names are given."""
    told = [int(c) if str(c).isdecimal() else c for c in columns or ()]
    return _at_places(found, None, False) if all(map(is_name, told)) else _reordered(found, told)


def _of_files(files: Sequence[str], data: Mapping[str, Any]) -> Guess:
    """What rows from all over the files suggest; rows that lack columns are passed over."""
    told = data.get("columns") or None
    columns = told and [int(c) if str(c).isdecimal() else c for c in told]
    kind = kind_of(files, data.get("format", "auto"), columns)
    if kind in ("lines", "running"):
        return USUAL
    names = files if kind == "parallel" else columns_of(files, kind)
    read = iter_rows(
        files,
        format=kind,
        columns=columns,
        count=max(2, len(names)),
        on_bad="skip",
        allow_empty=True,
    )
    rows = (row.values for row in read)
    first = next(rows, None)
    if first is None:
        return USUAL._replace(why="no row has two columns")
    seen = some(rows, LOOK)
    headed = kind == "tsv" and is_header(first, seen)
    found = _found([row for row in seen if row != first] if headed else [first, *seen])
    if columns:
        return _reordered(found, columns)
    every = [*files, *(data.get("dev") or ())]
    headed = headed and all(columns_of(name, kind) == list(first) for name in every)
    return _at_places(
        found, names if headed or kind in ("csv", "jsonl", "parquet") else None, headed
    )


def _at_places(found: "_Found", names: Sequence[str] | None, anyway: bool) -> Guess:
    """A guess that tells its columns where they are not the first ones, or `anyway`: by name where
    each has one that can be told from the others.
    """
    recipe, why, places, hint = found
    if not places or (places == tuple(range(1, len(places) + 1)) and not anyway):
        return Guess(recipe, why, None, hint)
    told = [names[place - 1] for place in places] if names else []
    clear = all(name.strip() and "," not in name and not name.isdecimal() for name in told)
    if told and clear and len(set(names or ())) == len(names or ()):
        return Guess(recipe, why, tuple(told), hint)
    return Guess(recipe, why, places, hint)


def _reordered(found: "_Found", columns: Sequence[int | str]) -> Guess:
    """A guess about columns that somebody chose: all of them are read, perhaps in another order."""
    recipe, why, places, hint = found
    chosen = [columns[place - 1] for place in places]
    other = len(chosen) == len(columns) and chosen != list(columns)
    return Guess(recipe, why, tuple(chosen) if other else None, hint)


class _Found(NamedTuple):
    """A recipe, why, and the places of the columns it reads, counted from 1."""

    recipe: str
    why: str
    places: tuple[int, ...] = (1, 2)
    hint: str = ""


def _found(rows: Rows) -> _Found:
    widths = Counter(len(row) for row in rows).most_common(1)
    width = widths[0][0] if widths else 0
    rows = [row[:width] for row in rows if len(row) >= width]  # no blank lines, none broken off
    if width < 2:
        return _Found(*USUAL[:2], ())
    columns = list(zip(*rows, strict=True))
    if found := _of_senses(*columns[:3]):
        return found
    skipped = int(width > 2 and ids(*columns[:3]))
    columns = columns[skipped:]
    found = _of_three(*columns[:3]) if len(columns) > 2 else None
    found = found or _of_two(*columns[:2])
    return found._replace(places=tuple(place + skipped for place in found.places))


def _of_senses(source: Texts, target: Texts, third: Texts = ()) -> _Found | None:
    """Names of files and lists of points are no texts."""
    found = None
    if name_files(source, PICTURES):
        found = _Found("show-attend-tell", "the first column names pictures")
        if third:
            found = _Found("vqa", "pictures, questions and answers", (1, 2, 3))
        elif labels(source, target):
            found = _Found("image-classify", "pictures, and answers that are labels")
    elif name_files(source, SOUNDS):
        found = _Found("las-small", "the first column names sounds")
    elif name_files(source, CLIPS):
        labelled = labels(source, target)
        recipe = "video-classify" if labelled else "video-attend"
        found = _Found(recipe, "the first column names clips")
    elif points(source, target):
        found = _Found("ptr-net-set", "sources are points, and answers are which of them")
    return found


def _of_three(first: Texts, second: Texts, last: Texts) -> _Found | None:
    found, kinds = None, len(set(last))
    if tagged(first, second) and labels(first, last):
        hint = "-r tag-and-label --columns 1,2+3 learns the labels of the third column, too"
        found = _of_two(first, second)._replace(hint=hint)
    elif tagged(first, second):
        pass  # what comes third is beside the point
    elif features(second) and spelled(first) and spelled(last):
        found = _Found("inflect", "the second column is of features", (1, 2, 3))
    elif features(last) and spelled(first) and spelled(second):
        found = _Found("inflect", "the third column is of features", (1, 3, 2))
    elif asked(first, second, last):
        found = _Found("answer", "a text, a question and a short answer", (1, 2, 3))
    elif asked(second, first, last):
        found = _Found("answer", "a question, a text and a short answer", (2, 1, 3))
    elif not labels(first, last) or counts(first, second, last):
        pass
    elif foreign(first, second):
        hint = f"-r entail reads both texts and learns the {kinds} labels of the third column"
        found = _of_two(first, second)._replace(hint=hint)
    else:
        found = _Found("entail", f"two texts and one of {kinds} labels", (1, 2, 3))
    return found


def _of_two(source: Texts, target: Texts) -> _Found:
    found = _Found("bahdanau2015-small", "both sides are sentences")
    if tagged(source, target):  # before labels: lines of tags, too, may be the same again and again
        found = _Found("tag", "each word has its tag")
    elif tagged(source, target, more=1):
        found = _Found("tag-and-label", "each word has its tag, and the text a label")
    elif several(source, target):
        found = _Found("classify-many", "answers are of several labels, with blanks between them")
    elif labels(source, target):
        found = _Found("classify", f"answers are {len(set(target))} labels")
    elif settle(TextSpec(), target).units != "subword":
        found = _Found("transduce", "answers are words or short strings")
    elif spelled(source):
        found = _Found("transduce", "sources are words or short strings")
    elif length(source) >= max(LONG, 3 * length(target)):
        found = _Found("summarize", "answers are short beside their sources")
    elif replies(source, target):
        found = _Found("dialog", "both sides are of one language, and answers say something else")
    if found.recipe == "transduce" and len(source) <= FEW and in_order(source, target):
        found = _Found("monotone", "rows are few, and answers follow them letter by letter")
    mark = next((mark for mark in ";|," if several(source, target, mark)), "")
    hint = f"for several labels an answer, write blanks instead of '{mark}' and -r classify-many"
    return found._replace(hint=hint) if mark else found
