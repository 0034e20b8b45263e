"""Parquet: tables by column, read a piece at a time."""

from collections.abc import Iterator
from typing import Any

from dragoman.errors import UserError

_PIECE = 4096  # rows read at once


def column_names(name: str) -> list[str]:
    """The columns of a Parquet file, in order."""
    return list(_open(name).schema_arrow.names)


def records(name: str) -> Iterator[dict[str, object]]:
    """The rows of a Parquet file; numbers as text.

    >>> import tempfile, pyarrow, pyarrow.parquet
    >>> with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
    ...     pyarrow.parquet.write_table(pyarrow.table({"word": ["a"], "times": [2]}), file.name)
    ...     list(records(file.name)), column_names(file.name)
    ([{'word': 'a', 'times': '2'}], ['word', 'times'])
    """
    try:
        for piece in _open(name).iter_batches(_PIECE):
            for row in piece.to_pylist():
                yield {key: _text(value) for key, value in row.items()}
    except OSError as error:
        raise UserError(f"{name}: broken Parquet file ({error}); write it again") from error


def _text(value: object) -> object:
    return str(value) if isinstance(value, bool | int | float) else value


def _open(name: str) -> Any:
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UserError(f"{name}: Parquet needs pyarrow: pip install 'dragoman[arrow]'") from None
    try:
        return ParquetFile(name)
    except FileNotFoundError:
        raise UserError(f"{name}: no such file; check the path") from None
    except (ArrowInvalid, OSError) as error:
        why = str(error).splitlines()[0]
        raise UserError(f"{name}: not a Parquet file ({why}); check the file") from None
