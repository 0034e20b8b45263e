"""What a file holds to be answered: one input for each line, whatever is in it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.data.rows import BadLines, iter_inputs
from dragoman.decode import Asked
from dragoman.predict import Predictor

TABLES = (".tsv", ".csv", ".jsonl")


def known_columns(predictor: Predictor, path: str) -> str | None:
    """The source columns of a table, as the model was trained on them; lines have none."""
    if Path(path.removesuffix(".gz")).suffix not in TABLES:
        return None
    count = max(len(predictor.fields.sources), 1)
    trained = predictor.config.data.columns or range(1, count + 1)
    return ",".join(str(column) for column in trained[:count])


class Inputs:
    """The inputs of a file: `count` columns of source, and perhaps one of required phrases.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lines.txt"
    >>> _ = path.write_text("one\\ntwo\\n")
    >>> [asked.texts for asked in Inputs(str(path), 1)]
    [('one',), ('two',)]
    """

    def __init__(
        self,
        path: str,
        count: int,
        columns: str | None = None,
        required: str | None = None,
        on_bad: BadLines = "skip",
        files: Sequence[int] = (),
    ) -> None:
        self.files = files  # columns that name files
        self.path, self.count, self.required, self.on_bad = path, max(count, 1), required, on_bad
        self.problems: dict[str, int] = {}  # what could not be read, of those read so far
        chosen: list[int | str] = list(range(1, self.count + 1))
        if columns is not None:
            chosen = [_column(name) for name in columns.split(",")]
        if required is not None:
            chosen.append(_column(required))
        self.plain = columns is None and required is None and self.count == 1
        self.chosen = chosen

    def __iter__(self) -> Iterator[Asked]:
        for row in self._rows():
            phrases = row[-1].split(" ||| ") if self.required is not None else ()
            texts = row[:-1] if self.required is not None else row
            yield Asked(tuple(texts), tuple(phrase for phrase in phrases if phrase.strip()))

    def total(self) -> int:
        """How many there are; this reads the file through."""
        return sum(1 for _ in self._rows())

    def complain(self, say: Callable[[str], Any]) -> None:
        """Tell people what was answered though it could not be read."""
        for problem, times in self.problems.items():
            say(
                f"dragoman: {self.path}: {times} lines: {problem}; what is missing is taken as "
                f"empty (this model reads {self.count} columns; --on-bad-line error stops there)"
            )

    def _rows(self) -> Iterator[tuple[str, ...]]:
        self.problems = {}
        layout: Any = "lines" if self.plain else "auto"
        return iter_inputs(
            [self.path],
            format=layout,
            columns=None if self.plain else self.chosen,
            count=len(self.chosen),
            files=self.files,
            on_bad=self.on_bad,
            problems=self.problems,
        )


def _column(name: str) -> int | str:
    return int(name) if name.isdigit() else name
