"""Which kind of file is this, and which columns has it? Asked by whoever reads rows, and by whoever
looks at files before that.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import get_args

from dragoman.data.formats import USUAL, Columns, Format, header, tsv_cells
from dragoman.data.lines import STDIN
from dragoman.errors import UserError, did_you_mean

Paths = str | Path | Sequence[str | Path]

_SUFFIXES: dict[str, Format] = {
    ".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"
}  # fmt: skip
_FIRST = 100  # lines that tell how many columns a tsv has
_NAMES = re.compile(  # what people call columns
    "answer|article|category|class|context|document|domain|features|feats|form|hypothesis|id|idx|"
    "index|input|intent|ipa|labels?|lemma|ner|output|phonemes|premise|pronunciation|question|"
    "reply|response|sentence|sentiment|source|src|summary|tags?|target|text|tgt|topic|"
    "translation|words?"
)


def kind_of(
    paths: Paths, format: Format = "auto", columns: Columns = None, count: int = 2
) -> Format:
    """The format that was asked for, or the one the names of the files tell.

    >>> kind_of("a.TSV.gz"), kind_of(["a.de", "a.en"]), kind_of("a.txt"), kind_of("a.txt", count=1)
    ('tsv', 'parallel', 'tsv', 'lines')
    """
    check("format", format, get_args(Format))
    if format != "auto":
        return format
    names = names_of(paths)
    found = [_SUFFIXES.get(Path(name.lower().removesuffix(".gz")).suffix) for name in names]
    if len(set(found)) > 1:
        raise UserError(f"{' + '.join(names)}: different kinds of file; give files of one kind")
    if found[0]:
        return found[0]
    if columns or len(names) == 1:
        return "tsv" if columns or count > 1 else "lines"
    return "parallel" if count > 1 else "lines"


def columns_of(paths: Paths, kind: Format) -> list[str]:
    """The columns of files of a kind: their names or, in a tsv, what stands in the first line that
    is as long as most. Of what can be read only once, and where there are no columns, none.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "words.csv"
    >>> _ = path.write_text("id,word,sound\\n1,a,A\\n")
    >>> columns_of(path, "csv"), columns_of(path, "lines")
    (['id', 'word', 'sound'], [])
    """
    name = names_of(paths)[0]
    if not Path(name).is_file():
        return []
    if kind == "tsv":
        return _usual_line(name)
    if kind in ("jsonl", "parquet"):
        keys = header(name, kind)
        return USUAL if set(USUAL) <= set(keys) else keys
    return header(name, kind) if kind == "csv" else []


def _usual_line(name: str) -> list[str]:
    lines = list(islice(tsv_cells(name), _FIRST))
    widths = Counter(len(cells) for cells in lines if any(cells)).most_common(1)
    return next((cells for cells in lines if widths and len(cells) == widths[0][0]), [])


def is_header(row: Sequence[str], others: Iterable[Sequence[str]]) -> bool:
    """Whether the first row of a table names its columns: with words that columns are called by,
    and an answer that no other row has.

    >>> is_header(["text", "label"], [("so good", "yes")]), is_header(["cat", "Katze"], [])
    (True, False)
    """
    return are_names(row) and is_alone(row, others)


def are_names(cells: Sequence[str]) -> bool:
    """Whether each cell has a word that columns are called by, and few others."""
    words = [re.findall("[a-z]+", cell.lower()) for cell in cells]
    return bool(cells) and all(
        len(several) <= 3 and any(map(_NAMES.fullmatch, several)) for several in words
    )


def is_alone(row: Sequence[str], others: Iterable[Sequence[str]]) -> bool:
    """Whether no other row has this one's answer; the same row of a further file is no other."""
    return all(tuple(o) == tuple(row) or o[-1] != row[-1] for o in others)


def names_of(paths: Paths) -> list[str]:
    """Files as messages call them.

    >>> names_of("a.tsv"), names_of(["-"])
    (['a.tsv'], ['<stdin>'])
    """
    several = [paths] if isinstance(paths, str | Path) else paths
    names = [STDIN if str(path) == "-" else str(path) for path in several]
    if not names:
        raise UserError("no input file; name one, or - for standard input")
    if names.count(STDIN) > 1:
        raise UserError("standard input can be read only once; name a file instead of the other -")
    return names


def check(what: str, value: str, known: Sequence[str]) -> None:
    """Refuse what is not among the known values of an option."""
    if value not in known:
        hint = did_you_mean(value, list(known))
        raise UserError(f"unknown {what} '{value}'{hint}; choose one of {', '.join(known)}")
