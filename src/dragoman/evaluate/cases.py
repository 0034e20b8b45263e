"""Inputs, each with all answers that are right."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from dragoman.metrics import References
from dragoman.metrics.tally import alternatives
from dragoman.predict import Input


class Cases(NamedTuple):
    """What is asked, in the order of the file."""

    sources: list[Input]
    references: list[list[str]]
    rows: list[int]  # where each input first stood in its file
    total: int  # rows of the file

    @property
    def examples(self) -> list[tuple[str, ...]]:
        """Rows as a file holds them: the columns of an input, then one right answer."""
        return [
            (*columns(source), one)
            for source, several in zip(self.sources, self.references, strict=True)
            for one in several
        ]


def columns(source: Input) -> tuple[str, ...]:
    """The texts of an input.

    >>> columns("a"), columns(("a", "b"))
    (('a',), ('a', 'b'))
    """
    return (source,) if isinstance(source, str) else source


def gather(sources: Sequence[Input], references: References, group: bool = False) -> Cases:
    """Cases of two columns. With `group`, rows of the same source are one case: a dictionary lists
    several pronunciations as several lines, and whoever gives one of them is right.

    >>> gather(["a", "b", "a"], ["x", "y", "z"], group=True)
    Cases(sources=['a', 'b'], references=[['x', 'z'], ['y']], rows=[0, 1], total=3)
    """
    rows: dict[Hashable, int] = {}
    answers: dict[Hashable, dict[str, None]] = {}
    for row, wanted in enumerate(alternatives(sources, references)):
        key = sources[row] if group else row
        rows.setdefault(key, row)
        answers.setdefault(key, {}).update(dict.fromkeys(wanted))
    first = list(rows.values())
    inputs, several = [sources[row] for row in first], [list(found) for found in answers.values()]
    return Cases(inputs, several, first, len(sources))
