"""From the bytes of a file to rows, one reader per format, and no opinion about bad rows.

Every reader gives exactly one row per line (per record, in a csv). A bad line is a row like any
other: what can be read of it, U+FFFD or the empty text for the rest, and a `problem`. Who asks for
the rows decides whether that matters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import Literal

from dragoman.data import arrow
from dragoman.data.joins import Joins, is_name
from dragoman.data.lines import decoded, read_lines
from dragoman.data.quoting import Text, cells_of, records
from dragoman.errors import UserError, did_you_mean

Format = Literal["auto", "tsv", "csv", "jsonl", "parquet", "parallel", "lines", "running"]
Columns = Sequence[int | str] | None
# Plain tuples, for speed: a named one would cost a fifth of all the time it takes to read a table.
Parsed = tuple[tuple[str, ...], str, int, str]  # values, file name, line number, problem
Object = tuple[int, dict[str, object] | None, str]  # line number, values by name, problem

USUAL = ["source", "target"]  # the keys of pairs; where a jsonl has them, others are not asked for
_JSON = json.JSONDecoder(parse_int=str, parse_float=str)  # numbers stay as they were written


def parse(
    names: Sequence[str], kind: Format, columns: Columns, count: int, pad: bool = False
) -> Iterator[Parsed]:
    """One row per line of these files, good or bad. `pad` lets parallel files differ in length.
    A column may be several with blanks between them: "2+3", or "tags+label".

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".tsv") as file:
    ...     _ = file.write(b"cat\\tKatze\\ndog\\n")
    ...     file.flush()
    ...     [(values, problem) for values, _, _, problem in parse([file.name], "tsv", None, 2)]
    [(('cat', 'Katze'), ''), (('dog', ''), 'too few columns')]
    """
    if kind in ("parallel", "lines", "running") and columns:
        raise UserError(f"format '{kind}' has no columns to choose from; leave the columns out")
    if kind == "parallel":
        yield from _parallel(names, count, pad)
        return
    chosen = columns or range(1, count + 1)
    for name in names:
        if kind == "tsv":
            yield from _cut(name, read_lines(name), _tsv_cells, chosen, any(map(is_name, chosen)))
        elif kind == "csv":
            yield from _cut(name, records(read_lines(name)), cells_of, chosen, True)
        elif kind in ("jsonl", "parquet"):
            found = _jsonl(name) if kind == "jsonl" else _parquet(name)
            yield from _named(name, found, columns, count)
        else:
            yield from (((text,), name, line, problem) for line, text, problem in read_lines(name))


def header(name: str, kind: Format) -> list[str]:
    """The names of a table's columns: a csv's first line, the keys of a jsonl's first object, what
    a Parquet file tells.
    """
    if kind == "csv":
        return _header(name, records(read_lines(name)), cells_of) or []
    if kind == "parquet":
        return arrow.column_names(name)
    return list(next((found for _, found, _ in _jsonl(name) if found is not None), {}))


def tsv_cells(name: str) -> Iterator[list[str]]:
    """What stands in each line of a tsv file."""
    return (_tsv_cells(text) for _, text, _ in read_lines(name))


def _cut(
    name: str,
    texts: Iterator[Text],
    split: Callable[[str], list[str]],
    columns: Sequence[int | str],
    headed: bool,
) -> Iterator[Parsed]:
    """Rows of a table whose lines `split` cuts into cells; no cells at all means it could not."""
    header = _header(name, texts, split) if headed else None
    if headed and header is None:
        return
    joins = Joins(columns, header or [])
    rows = _cells(name, texts, split, joins.flat, header)
    yield from rows if joins.plain else _joined(rows, joins)


def _joined(rows: Iterator[Parsed], joins: Joins) -> Iterator[Parsed]:
    for cells, name, line, problem in rows:
        yield joins.values(cells), name, line, problem or joins.gap(cells)


def _cells(
    name: str,
    texts: Iterator[Text],
    split: Callable[[str], list[str]],
    columns: Sequence[int | str],
    header: list[str] | None,
) -> Iterator[Parsed]:
    places = _places(name, columns, header)
    needed, width = max(places) + 1, len(header) if header else sys.maxsize
    pick = picker(places)
    for line, text, problem in texts:
        cells = split(text)
        if needed <= len(cells) <= width:
            yield pick(cells), name, line, problem
        else:
            values = tuple(cells[at] if at < len(cells) else "" for at in places)
            yield values, name, line, problem or _miscount(text, cells, needed)


def picker(places: list[int]) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """What takes the cells at these places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda cells: (cells[places[0]],)  # of one place itemgetter makes no tuple


def _miscount(text: str, cells: list[str], needed: int) -> str:
    if not text.strip():
        return "empty line"
    if not cells:
        return "bad quoting"
    return "too few columns" if len(cells) < needed else "too many columns"


def _header(
    name: str, texts: Iterator[Text], split: Callable[[str], list[str]]
) -> list[str] | None:
    """The names of the columns, or None for a file without any line."""
    for line, text, problem in texts:
        cells = split(text)
        if problem or not cells:
            raise UserError(f"{name}:{line}: {problem or 'bad quoting'} in the header; correct it")
        return cells
    return None


def _places(name: str, columns: Sequence[int | str], header: list[str] | None) -> list[int]:
    """Where the asked columns are in a line, counted from 0."""
    places = []
    for column in columns:
        if isinstance(column, str):
            known = header or []
            if column not in known:
                hint = did_you_mean(column, known)
                raise UserError(
                    f"{name}:1: no column '{column}'{hint}; there are {', '.join(known)}"
                )
            places.append(known.index(column))
        elif column < 1:
            raise UserError(f"{name}: no column {column}; columns are numbered from 1")
        elif header and column > len(header):
            raise UserError(f"{name}:1: no column {column}; the header has only {len(header)}")
        else:
            places.append(column - 1)
    return places


def _tsv_cells(text: str) -> list[str]:
    return text.split("\t")


def _jsonl(name: str) -> Iterator[Object]:
    for line, text, problem in read_lines(name):
        record = _object(text)
        fault = "invalid JSON" if text.strip() else "empty line"
        yield line, record, problem or ("" if record is not None else fault)


def _parquet(name: str) -> Iterator[Object]:
    return ((line, record, "") for line, record in enumerate(arrow.records(name), 1))


def _named(name: str, objects: Iterable[Object], columns: Columns, count: int) -> Iterator[Parsed]:
    """Rows of values that have names; which, a file's first object decides."""
    joins, keys = Joins((), ()), list[str]()
    blank = ("",) * len(columns or range(count))
    for line, record, problem in objects:
        if record is not None and not keys:
            joins = Joins(columns or _usual(record, count), list(record))
            keys = _keys(name, record, joins.flat)
        if record is None or not keys:
            yield blank, name, line, problem or "too few columns"
            continue
        cells, fault = _take(record, keys)
        yield joins.values(cells), name, line, problem or fault or joins.gap(cells)


def _object(text: str) -> dict[str, object] | None:
    try:
        record = _JSON.decode(text)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _usual(record: dict[str, object], count: int) -> Sequence[int | str]:
    """The columns to take where nobody chose: those of pairs, or the first."""
    usual = USUAL[:count]
    return usual if len(usual) == count and set(usual) <= set(record) else range(1, count + 1)


def _keys(name: str, record: dict[str, object], columns: Sequence[int | str]) -> list[str]:
    """The keys to take; none when the record has too few to decide."""
    known = list(record)
    numbers = [column for column in columns if isinstance(column, int)]
    if min(numbers, default=1) < 1:
        raise UserError(f"{name}: no column {min(numbers)}; columns are numbered from 1")
    if max(numbers, default=0) > len(known):
        return []
    return [column if isinstance(column, str) else known[column - 1] for column in columns]


def _take(record: dict[str, object], keys: Iterable[str]) -> tuple[tuple[str, ...], str]:
    """The values under these keys, and the first thing that is wrong with them."""
    values, problem = [], ""
    for key in keys:
        value = record.get(key)
        if isinstance(value, str):  # escapes can spell a NUL or half a surrogate pair
            value, fault = decoded(value.encode("utf-8", "surrogatepass"))
        elif key in record:
            value, fault = "", f"value of '{key}' is not a text"
        else:
            value, fault = "", f"missing key '{key}'{did_you_mean(key, list(record))}"
        values.append(value)
        problem = problem or fault
    return tuple(values), problem


def _parallel(names: Sequence[str], count: int, pad: bool) -> Iterator[Parsed]:
    title = " + ".join(names)
    if len(names) != count:
        raise UserError(f"{title}: {len(names)} parallel files for {count} columns; give {count}")
    streams = [read_lines(name) for name in names]
    for line, texts in enumerate(zip_longest(*streams), 1):
        if None in texts and not pad:
            rest = (sum(1 for _ in stream) for stream in streams)
            sizes = [
                line - 1 + (text is not None) + more for text, more in zip(texts, rest, strict=True)
            ]
            told = ", ".join(f"{name} has {size}" for name, size in zip(names, sizes, strict=True))
            raise UserError(f"parallel files differ in length: {told} lines; give equal ones")
        read = [text or (line, "", "") for text in texts]
        where, problem = title, ""
        for name, (_, _, fault) in zip(names, read, strict=True):
            if fault and not problem:
                where, problem = name, fault
        yield tuple(text for _, text, _ in read), where, line, problem
