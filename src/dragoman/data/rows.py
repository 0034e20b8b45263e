"""Files to rows of text: tsv, csv, jsonl, parallel files, plain lines and running text.

Training looks at what is wrong with a row and stops or counts (`iter_rows`, `read_table`);
prediction ignores it and answers every line (`iter_inputs`). Both read through `formats.parse`, so
they cannot drift apart.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal, NamedTuple, get_args

import numpy as np

from dragoman.data.files import beside
from dragoman.data.formats import Columns, Format, Parsed, parse
from dragoman.data.joins import Joins, read
from dragoman.data.kinds import Paths, check, kind_of, names_of
from dragoman.data.strings import Strings, Table
from dragoman.errors import UserError

__all__ = [
    "BadLines",
    "Format",
    "Row",
    "Strings",
    "Table",
    "chosen",
    "iter_inputs",
    "iter_rows",
    "read_table",
    "table_of",
]

BadLines = Literal["error", "skip"]

_CHUNK = 256  # rows moved to a table at once: enough to be fast, few enough for lines of a megabyte
_REMEDIES = {
    "bad UTF-8": "save the file as UTF-8",
    "NUL byte": "save the file as plain text in UTF-8",
    "too few columns": "columns {} are read: put a tab between them (a comma in .csv)",
    "too many columns": "quote the values that hold a separator",
    "bad quoting": "put values that hold a quote in quotes and double the quotes inside",
    "invalid JSON": "write one JSON object per line",
}


class Row(NamedTuple):
    """One good row and where it stands."""

    values: tuple[str, ...]
    name: str
    line: int


def read_table(
    paths: Paths,
    *,
    format: Format = "auto",
    columns: Columns = None,
    count: int = 2,
    on_bad: BadLines = "error",
    allow_empty: bool = False,
    files: Sequence[int] = (),
) -> Table:
    """Read whole files into a compact table; a file without rows gives an empty one.

    `columns` are 1-based numbers or names, by default the first `count`. `on_bad="skip"` leaves
    bad rows out and counts them by reason in `problems`. Values at the places `files` are names of
    files, told from the table's folder on.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pairs.tsv"
    >>> _ = path.write_text("cat\\tKatze\\ndog\\nbird\\tVogel\\n")
    >>> table = read_table(path, on_bad="skip")
    >>> list(table), table.lines.tolist(), table.problems
    ([('cat', 'Katze'), ('bird', 'Vogel')], [1, 3], {'too few columns': 1})
    """
    names = names_of(paths)
    kind = kind_of(names, format, columns, count)
    width = 1 if kind in ("lines", "running") else len(columns or range(count))
    held, lines, problems = [Strings() for _ in range(width)], array("q"), dict[str, int]()
    rows = _beside(parse(names, kind, columns, count), files)
    parsed = _sift(names, kind, rows, read(columns, count), on_bad, allow_empty, problems)
    while chunk := list(islice(parsed, _CHUNK)):
        texts, _, numbers, _ = zip(*chunk, strict=True)
        lines.extend(numbers)
        for strings, values in zip(held, zip(*texts, strict=True), strict=True):
            strings.extend(values)
    return Table(tuple(held), np.array(lines, np.int64), " + ".join(names), problems)


def table_of(rows: Sequence[Sequence[str]] | Sequence[str]) -> Table:
    """A table from memory, with all that is in it: pairs (source, target), or single texts.

    >>> list(table_of([("cat", "Katze")]))
    [('cat', 'Katze')]
    """
    tuples = [(row,) if isinstance(row, str) else tuple(row) for row in rows]
    for number, row in enumerate(tuples, 1):
        if len(row) != len(tuples[0]) or not all(isinstance(value, str) for value in row):
            raise UserError(
                f"row {number} is not like the first: give pairs of texts, or texts alone"
            )
        if not all(map(_is_unicode, row)):
            raise UserError(f"row {number}: not valid Unicode (half a surrogate pair)")
    held = tuple(Strings(column) for column in zip(*tuples, strict=True))
    return Table(held, np.arange(1, len(tuples) + 1), "the given rows")


def chosen(table: Table, columns: Columns = None) -> Table:
    """What is read of rows from memory: columns by their numbers, which can be joined. Rows have no
    names: of those that columns have in a file, there must be as many as texts in a row.

    >>> rows = table_of([("call Ann", "O B-who", "phone")])
    >>> list(chosen(rows, [1, "2+3"]))
    [('call Ann', 'O B-who phone')]
    """
    joins = Joins(_places(columns, len(table.columns)), ())
    cells = [table.columns[int(place) - 1] for place in joins.flat]
    values = []
    for number, row in enumerate(zip(*cells, strict=True), 1):
        values.append(joins.values(row))
        if problem := joins.gap(row):
            raise UserError(f"row {number}: {problem}")
        if not all(map(str.strip, values[-1])):
            raise UserError(f"row {number}: empty text")
    held = cells if joins.plain else map(Strings, zip(*values, strict=True))
    return replace(table, columns=tuple(held))


def _places(columns: Columns, width: int) -> Sequence[int | str]:
    """Columns as numbers from 1 to `width`, some of them joined."""
    every = range(1, width + 1)
    told = [int(c) if str(c).isdecimal() else c for c in columns or every]
    flat = Joins(told, ()).flat
    if len(told) == width and all(isinstance(column, str) for column in flat):
        return every
    for column in flat:
        if column not in every:
            raise UserError(f"rows have no column '{column}'; they are numbered from 1 to {width}")
    return told


def iter_rows(
    paths: Paths,
    *,
    format: Format = "auto",
    columns: Columns = None,
    count: int = 2,
    on_bad: BadLines = "error",
    allow_empty: bool = False,
    problems: dict[str, int] | None = None,
) -> Iterator[Row]:
    """Good rows one by one, as soon as they can be read; `problems` is filled on the way.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "words.csv"
    >>> _ = path.write_text('id,word,sound\\n1,"a, b",AB\\n')
    >>> [row.values for row in iter_rows(path, columns=["word", 3])]
    [('a, b', 'AB')]
    """
    names = names_of(paths)
    kind = kind_of(names, format, columns, count)
    tally = {} if problems is None else problems
    parsed = parse(names, kind, columns, count)
    told = read(columns, count)
    for values, name, line, _ in _sift(names, kind, parsed, told, on_bad, allow_empty, tally):
        yield Row(values, name, line)


def iter_inputs(
    paths: Paths,
    *,
    format: Format = "lines",
    columns: Columns = None,
    count: int = 1,
    files: Sequence[int] = (),
    on_bad: BadLines = "skip",
    problems: dict[str, int] | None = None,
) -> Iterator[Row]:
    """Inputs to predict from, and where each stands: n lines give n rows, whatever is in them.

    What cannot be read becomes U+FFFD, what is missing becomes the empty text; `problems` counts
    such lines (blank ones are none), and `on_bad="error"` stops at the first.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "inputs.txt"
    >>> _ = path.write_bytes(b"good\\n\\nbad \\xff\\n")
    >>> [row.values for row in iter_inputs(path)]
    [('good',), ('',), ('bad \ufffd',)]
    """
    names = names_of(paths)
    kind = kind_of(names, format, columns, count)
    rows = _beside(parse(names, kind, columns, count, pad=True), files)
    for values, name, line, problem in rows:
        if problem and problem != "empty line":
            if on_bad == "error":
                remedy = _REMEDIES.get(problem, "correct the line").format(read(columns, count))
                raise UserError(f"{name}:{line}: {problem}; {remedy}, or --on-bad-line skip")
            if problems is not None:
                problems[problem] = problems.get(problem, 0) + 1
        yield Row(values, name, line)


def _beside(parsed: Iterator[Parsed], files: Sequence[int]) -> Iterator[Parsed]:
    """Rows whose values at some places are names of files, told from their table's folder on."""
    if not files:
        yield from parsed
        return
    for values, name, line, problem in parsed:
        told = [beside(name, v) if at in files else v for at, v in enumerate(values)]
        yield tuple(told), name, line, problem


def _sift(
    names: list[str],
    kind: Format,
    parsed: Iterator[Parsed],
    read: str,
    on_bad: BadLines,
    allow_empty: bool,
    tally: dict[str, int],
) -> Iterator[Parsed]:
    """The good rows; at a bad one, stop or count."""
    check("on_bad", on_bad, get_args(BadLines))
    may_be_blank = allow_empty or kind == "running"  # there a blank line ends a paragraph
    for row in parsed:
        values, name, line, problem = row
        if not problem and (may_be_blank or all(map(str.strip, values))):
            yield row
            continue
        if not problem:
            at, problem = _emptiness(values)
            name = names[at] if kind == "parallel" else name
        if on_bad == "error":
            remedy = _REMEDIES.get(problem, "correct the line").format(read)
            skip = "or leave such lines out with --on-bad-line skip"
            raise UserError(f"{name}:{line}: {problem}; {remedy}, {skip}")
        tally[problem] = tally.get(problem, 0) + 1


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _emptiness(values: tuple[str, ...]) -> tuple[int, str]:
    """Which value is blank, and what to call that."""
    blank = [at for at, value in enumerate(values) if not value.strip()]
    if len(blank) == len(values):
        return 0, "empty line"
    at = blank[0]
    role = ("source", "target")[at] if len(values) == 2 else f"column {at + 1}"
    return at, f"empty {role}"
