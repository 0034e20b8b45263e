"""From the rows of a table to examples: what models read and write, and which rows are left out."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dragoman.checkpoint import Fields
from dragoman.config import Config, DataSpec
from dragoman.data.batches import Examples, Ragged
from dragoman.data.columns import Column
from dragoman.data.copying import copy_ids, copy_target, pieces
from dragoman.data.fields import Field, TextField
from dragoman.data.joins import Joins
from dragoman.data.kinds import are_names, columns_of, is_alone, kind_of
from dragoman.data.rows import Table
from dragoman.errors import UserError, many
from dragoman.pointing import astray

SHOWN = 10  # rows that cannot be read are named, so many of them
Say = Callable[[str], None]  # tells people what was found and chosen, one line a call


def tell_columns(data: DataSpec, paths: Sequence[str], table: Table, say: Say) -> None:
    """People whose files have more columns than the model takes should hear which are not read, and
    that a first line is read as a row though it looks like names.
    """
    count = len(table.columns)
    kind = kind_of(paths, data.format, data.columns, count)
    columns = columns_of(paths, kind)
    if data.columns is None and len(columns) > count:
        named = "" if kind == "tsv" else f" ({', '.join(columns[:count])})"
        say(
            f"data: {paths[0]}: {len(columns)} columns, of which the first {count} are read"
            f"{named}; choose with --columns, or a recipe that takes more"
        )
    joins = Joins(data.columns or range(1, count + 1), ())
    places = [place for place in joins.flat if isinstance(place, int)]
    if kind != "tsv" or len(places) < len(joins.flat) or max(places) > len(columns):
        return
    cells = tuple(columns[place - 1] for place in places)
    if are_names(cells) and is_alone(joins.values(cells), zip(*table.columns, strict=True)):
        say(
            f"data: {paths[0]}: warning: the first line is read as a row, but looks like names of "
            f"columns; --columns {','.join(joins.names(cells))} takes it so"
        )


def encoded(config: Config, fields: Fields, table: Table, say: Say) -> tuple[Table, Examples]:
    """A table and its rows encoded, without those that cannot be read, by policy."""
    bad: dict[int, str] = {}
    rows = encode(config, fields, table.columns, bad)
    if config.model.decoder.kind == "aligned":
        bad = _uneven(config, fields, table, rows) | bad
    if not bad:
        return table, rows
    told = [f"{table.name}:{table.lines[row]}: {why}" for row, why in sorted(bad.items())]
    if config.data.on_bad_line == "error":
        raise UserError(f"{told[0]}; correct it, or leave such rows out with --on-bad-line skip")
    for line in [*told[:SHOWN], *(["..."] if len(told) > SHOWN else [])]:
        say(f"data: {line}")
    say(f"data: {table.name}: {many(len(bad), 'row')} skipped (cannot be used)")
    good = np.array([row for row in range(len(table)) if row not in bad], np.int64)
    if not len(good):
        raise UserError(f"{table.name}: none of its {len(table):,} rows can be read")
    return table.select(good), rows.select(good)


def encode(
    config: Config,
    fields: Fields,
    columns: Sequence[Sequence[str]],
    bad: dict[int, str] | None = None,
) -> Examples:
    """Rows as models read them, from their columns: the sources, then the target. Rows that cannot
    be read are refused, or told to `bad`.
    """
    pairs = list(zip(fields.sources.values(), columns, strict=False))
    sources = [_read(field, column, bad) for field, column in pairs]
    if config.model.head.kind != "copy":
        plain = Examples(sources, Ragged.of(map(fields.target.encode, columns[-1])))
        if config.model.head.kind == "pointer":
            _tell(astray(fields, plain), columns[-1], bad)
        return plain
    field, column = pairs[0]
    assert isinstance(field, TextField)  # the model saw to it
    copies = Ragged.of(copy_ids(pieces(field, value), fields.target) for value in column)
    target = Ragged.of(
        copy_target(wanted, pieces(field, value), fields.target)
        for value, wanted in zip(column, columns[-1], strict=True)
    )
    return Examples(sources, target, copies)


def _read(field: Field, values: Sequence[str], bad: dict[int, str] | None) -> Column:
    rows, problems = field.read(values)
    _tell(problems, values, bad)
    return rows


def _tell(problems: dict[int, str], values: Sequence[str], bad: dict[int, str] | None) -> None:
    """Rows that cannot be read are told to `bad`, or refused."""
    if problems and bad is None:
        row, why = min(problems.items())
        raise UserError(f"{values[row]}: {why}")
    for row, why in problems.items() if bad is not None else ():
        bad.setdefault(row, f"{values[row]}: {why}")  # type: ignore[union-attr]


def fitting(fields: Fields, table: Table, rows: Examples, say: Say) -> Examples:
    """The rows that are not too long to learn from; what is left out is counted."""
    cut = _long(fields, table, rows)
    if cut.any():
        say(f"data: {many(int(cut.sum()), 'training row')} left out (longer than max_length)")
    return rows.select(np.flatnonzero(~cut)) if cut.any() else rows


def _uneven(config: Config, fields: Fields, table: Table, rows: Examples) -> dict[int, str]:
    """What is wrong with rows whose source and target do not have the same number of places."""
    reader = next(iter(fields.sources.values()))
    here = rows.sources[0].lengths - reader.signs
    there = rows.target.lengths - 1 - config.beyond
    uneven = here != there
    if uneven.any():
        uneven &= ~_long(fields, table, rows)  # what was cut off cannot be counted
    places = "symbols" if isinstance(reader, TextField) else "places"
    return {
        int(at): miscounted(config, int(here[at]), int(there[at]), places)
        for at in np.flatnonzero(uneven)
    }


def miscounted(config: Config, here: int, there: int, places: str = "symbols") -> str:
    """What is wrong with a row that has more tags than places, or fewer."""
    last = " before the label of the whole" if config.beyond else ""
    return f"{here} {places} but {max(there, 0)} tags{last}"


def _long(fields: Fields, table: Table, rows: Examples) -> npt.NDArray[np.bool_]:
    """Which rows are longer than they may be."""
    cut = _cut(fields.target, table.columns[-1], rows.target)
    for field, column, source in zip(
        fields.sources.values(), table.columns, rows.sources, strict=False
    ):
        cut |= _cut(field, column, source)
    return cut


def _cut(field: Field, values: Iterable[str], rows: Column) -> npt.NDArray[np.bool_]:
    """Which rows lost their tail when they were encoded."""
    if not isinstance(field, TextField):
        return np.zeros(len(rows), bool)
    full = rows.lengths >= field.spec.max_length
    for row, value in enumerate(values) if full.any() else ():
        full[row] = full[row] and field.longer(value)
    return np.asarray(full)
