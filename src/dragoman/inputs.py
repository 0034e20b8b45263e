"""What a file holds to be answered: one input for each line, whatever is in it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from dragoman.data.formats import USUAL
from dragoman.data.joins import read
from dragoman.data.kinds import columns_of, kind_of
from dragoman.data.rows import BadLines, Row, iter_inputs
from dragoman.decode import Asked
from dragoman.errors import UserError
from dragoman.predict import Predictor


def known_columns(predictor: Predictor, path: str) -> str | None:
    """The source columns of a table, as the model was trained on them; lines have none."""
    kind = kind_of(path, count=1)
    if kind == "lines":
        return None
    count = max(len(predictor.fields.sources), 1)
    trained = predictor.config.data.columns
    if (
        trained is None
        and count == 1
        and kind in ("jsonl", "parquet")
        and USUAL[0] in columns_of(path, kind)
    ):
        return USUAL[0]  # training, too, takes it by its name
    return ",".join(str(column) for column in (trained or range(1, count + 1))[:count])


def scored_rows(
    predictor: Predictor,
    paths: Sequence[str],
    columns: str | None,
    on_bad: BadLines,
    problems: dict[str, int],
    say: Callable[[str], Any],
) -> Iterator[tuple[str, ...]]:
    """Sources and answers that are given, by the columns that somebody names, or those of training
    (of standard input, the first ones); `problems` is filled on the way.
    """
    data, count = predictor.config.data, len(predictor.fields.sources) + 1
    chosen: Any = [_column(name) for name in columns.split(",")] if columns else None
    if chosen and len(chosen) != count:
        raise UserError(f"--columns names {len(chosen)} columns, this model takes {count}")
    plain = count == 1 and data.format in ("lines", "running")
    kind = "lines" if plain and not chosen else kind_of(paths, columns=chosen, count=count)
    tabular = not chosen and kind not in ("lines", "parallel")
    if tabular and "-" not in paths:
        chosen = data.columns
    elif tabular and data.columns:
        told = f"{read(None, count)} are read, not {read(data.columns, count)} as in training"
        say(f"dragoman: {' '.join(paths)}: columns {told}; --columns names others")
    rows = iter_inputs(
        paths,
        format=kind,
        columns=chosen,
        count=count,
        on_bad=on_bad,
        problems=problems,
        files=predictor.fields.files,
    )
    return (row.values for row in rows)


class Inputs:
    """The inputs of a file: `count` columns of source, and perhaps one of required phrases.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "lines.txt"
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
            texts, phrases = row.values, list[str]()
            if self.required is not None:
                texts, phrases = texts[:-1], texts[-1].split(" ||| ")
            wanted = tuple(phrase for phrase in phrases if phrase.strip())
            yield Asked(texts, wanted, place=f"{row.name}:{row.line}")

    def part(self, begin: int, end: int) -> Iterator[Asked]:
        """Some of them, by their numbers; `problems` then are theirs alone."""
        asked = iter(self)
        for _ in islice(asked, begin):
            pass
        self.problems.clear()
        yield from islice(asked, end - begin)

    def total(self) -> int:
        """How many there are; this reads the file through."""
        return sum(1 for _ in self._rows())

    def complain(self, say: Callable[[str], Any]) -> None:
        """Tell people what was answered though it could not be read."""
        name = "stdin" if self.path == "-" else self.path
        told = read(self.chosen, self.count)
        for problem, times in self.problems.items():
            say(
                f"dragoman: {name}: {times} lines: {problem}; what is missing is taken as "
                f"empty (columns {told} are read; --on-bad-line error stops there)"
            )

    def _rows(self) -> Iterator[Row]:
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
