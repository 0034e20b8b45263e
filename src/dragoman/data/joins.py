"""Columns that stand for several, with blanks between what is in them: "2+3", or "tags+label"."""

from collections.abc import Sequence
from itertools import accumulate, chain

Name = int | str  # a column's number, from 1 on, or what it is called


def is_name(column: Name) -> bool:
    """Whether a column can be found by names alone; numbers that are joined are numbers.

    >>> is_name("tags+label"), is_name("2+3"), is_name(2)
    (True, False, False)
    """
    return isinstance(column, str) and not all(isinstance(part, int) for part in _split(column))


def read(columns: Sequence[Name] | None, count: int) -> str:
    """The columns that are read, as people write them.

    >>> read(None, 2), read([1, "2+3"], 2)
    ('1,2', '1,2+3')
    """
    return ",".join(map(str, columns or range(1, count + 1)))


class Joins:
    """Which columns of a file are read, and how what is in them becomes the values of a row.

    >>> joins = Joins([1, "2+3"], known=[])
    >>> joins.flat, joins.values(("call Ann", "O B-who", "phone"))
    ([1, 2, 3], ('call Ann', 'O B-who phone'))
    >>> joins.names(("text", "tags", "label"))
    ['text', 'tags+label']
    >>> joins.gap(("call Ann", "O B-who", "")), joins.gap(("call Ann", "", ""))
    ("a part of column '2+3' is empty", '')
    """

    def __init__(self, columns: Sequence[Name], known: Sequence[str]) -> None:
        """`known` are the names that columns have; one with such a name is not taken apart."""
        parts = [[column] if column in known else _split(column) for column in columns]
        ends = accumulate(map(len, parts))
        self.flat = list(chain(*parts))
        self.plain = len(self.flat) == len(columns)
        self._spans = [
            (str(column), slice(end - len(part), end))
            for column, part, end in zip(columns, parts, ends, strict=True)
        ]

    def values(self, cells: tuple[str, ...]) -> tuple[str, ...]:
        """What the columns hold, of all that was read."""
        if self.plain:
            return cells
        return tuple(" ".join(filter(None, cells[span])) for _, span in self._spans)

    def names(self, cells: tuple[str, ...]) -> list[str]:
        """What the columns are called, where cells are the names of all that is read."""
        return ["+".join(cells[span]) for _, span in self._spans]

    def gap(self, cells: tuple[str, ...]) -> str:
        """What is wrong where a part is empty and another is not: the rest would mean another
        thing.
        """
        for column, span in () if self.plain else self._spans:
            there = [bool(cell.strip()) for cell in cells[span]]
            if any(there) and not all(there):
                return f"a part of column '{column}' is empty"
        return ""


def _split(column: Name) -> list[Name]:
    parts = column.split("+") if isinstance(column, str) else []
    if len(parts) < 2 or "" in parts:
        return [column]
    return [int(part) if part.isdecimal() else part for part in parts]
