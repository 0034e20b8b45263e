"""Csv by RFC 4180, which the `csv` module is not: it breaks at a lone CR and stops at 128 KB."""

import re
from collections.abc import Iterator

Text = tuple[int, str, str]  # line number, text without its line break, problem

_QUOTED = r'"(?:[^"]++|"")*+'  # all of a quoted csv value but its closing quote
_CELL = rf'{_QUOTED}"|[^",][^,]*+|'
_CELLS = re.compile(rf"(?:\A|,)({_CELL})")
_STILL_OPEN = re.compile(rf"(?:(?:{_CELL}),)*+{_QUOTED}\Z")


def cells_of(record: str) -> list[str]:
    """The values of a record; none at all where its quotes are wrong.

    >>> cells_of('1,"a, b",c'), cells_of('1,"a"b')
    (['1', 'a, b', 'c'], [])
    """
    if '"' not in record:
        return record.split(",")
    cells: list[str] = _CELLS.findall(record)
    if ",".join(cells) != record:
        return []
    return [cell[1:-1].replace('""', '"') if cell[:1] == '"' else cell for cell in cells]


def records(texts: Iterator[Text]) -> Iterator[Text]:
    """Lines joined while a quote is open; if it never closes, what it swallowed is bad.

    >>> list(records(iter([(1, 'a,"b', ""), (2, 'c"', "")])))
    [(1, 'a,"b\\nc"', '')]
    """
    pending: list[Text] = []
    for line, text, problem in texts:
        if not pending and '"' not in text:
            yield line, text, problem
            continue
        # inside a quoted value the line reads as if it began with the quote that is open
        still_open = _STILL_OPEN.match('"' + text if pending else text)
        pending.append((line, text, problem))
        if not still_open:
            first = next((problem for _, _, problem in pending if problem), "")
            yield pending[0][0], "\n".join(text for _, text, _ in pending), first
            pending = []
    yield from ((line, "", problem or "quote never closed") for line, _, problem in pending)
