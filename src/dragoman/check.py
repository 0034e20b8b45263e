"""A look at a data file or a model folder before one trains on it or trusts it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.checkpoint import load_model, verify
from dragoman.config import Config, DataSpec, resolve, validate
from dragoman.data.fields import TextSpec, settle
from dragoman.data.files import UnreadableError, locate
from dragoman.data.kinds import columns_of, kind_of
from dragoman.data.rows import Table, read_table
from dragoman.data.senses import names_files
from dragoman.errors import many
from dragoman.guess import guess

SHOWN = 5  # files that are named


def check_model(folder: Path) -> tuple[list[str], bool]:
    """Checksums, config, alphabets and weights; raises at the first thing amiss."""
    names = verify(folder)
    model = load_model(folder).model
    size = sum(p.numel() for p in model.parameters())
    return [f"{folder}: sound; {len(names)} files as written, {size:,} parameters"], True


def check_data(data: Mapping[str, Any], recipe: str | None = None) -> tuple[list[str], bool]:
    """How many rows are good, what is wrong with the others, how long the columns are, what `auto`
    would pick. A recipe says how many columns there are, and whether each symbol has its tag;
    without one, all columns are looked at.
    """
    found = guess({"data": data})
    config = resolve(recipe, tree={"data": dict(data)}) if recipe else None
    named = _of_files(config or resolve(found.recipe))
    if found.columns and named and not config:  # pictures behind an id, or below a line of names
        data = {**data, "columns": found.columns}
    spec: DataSpec = config.data if config else validate({"data": dict(data)}).data
    count = len(config.source_specs) + 1 if config else len(spec.columns or ()) or _width(spec)
    table = read_table(
        spec.train,
        format=spec.format,
        columns=spec.columns,
        count=count,
        on_bad="skip",
        files=named,
    )
    bad = sum(table.problems.values())
    lines = [f"{table.name}: {many(len(table), 'good row')}, {bad:,} bad"]
    lines += [f"  bad: {number:,} × {problem}" for problem, number in table.problems.items()]
    for place, column in enumerate(table.columns, 1):
        if len(column):
            files = place - 1 in named
            lines.append(f"  column {place}: {_files(column) if files else _describe(column)}")
    lost = _lost(table, named)
    lines += lost[:SHOWN]
    lines += [f"  {many(len(lost), 'file')} cannot be found"] if lost else []
    aligned = config and config.model.decoder.kind == "aligned"
    uneven = _uneven(table, config.beyond) if config and aligned else 0
    lines += [f"  {many(uneven, 'row')} without one tag for each symbol"] if uneven else []
    if not recipe and found.why:
        lines.append(f"  train would choose the recipe {found.name}: {found.why}")
    if len(table.columns) > 1:
        repeated = len(table) - len(set(table))
        lines += [f"  {many(repeated, 'repeated row')}"] if repeated else []
    return lines, bool(len(table)) and not bad and not uneven and not lost


def _of_files(config: Config) -> list[int]:
    """Places of columns that name files."""
    return [at for at, spec in enumerate(config.source_specs.values()) if names_files(spec)]


def _files(column: Sequence[str]) -> str:
    kinds = Counter(Path(name).suffix.lower() or "no ending" for name in column)
    return f"names of files ({', '.join(f'{n:,} × {kind}' for kind, n in kinds.most_common(3))})"


def _lost(table: Table, places: Sequence[int]) -> list[str]:
    """A line for each file that is not there."""
    told, seen = [], set[str]()
    for row, values in enumerate(table):
        for name in {values[place] for place in places} - seen:
            seen.add(name)
            try:
                locate(name)
            except UnreadableError as error:
                told.append(f"  line {table.lines[row]}: {name}: {error}")
    return told


def _width(spec: DataSpec) -> int:
    """How many columns files have, as far as their first lines tell."""
    kind = kind_of(spec.train, spec.format, spec.columns)
    if kind in ("lines", "running"):
        return 1
    return max(2, len(spec.train if kind == "parallel" else columns_of(spec.train, kind)))


def _uneven(table: Table, more: int) -> int:
    """Rows whose words and tags are not as many, with so many tags on top."""
    rows = zip(table.columns[0], table.columns[-1], strict=True)
    return sum(len(words.split()) + more != len(tags.split()) for words, tags in rows)


def _describe(column: Sequence[str]) -> str:
    lengths = np.fromiter(map(len, column), np.int64, len(column))
    words = np.fromiter((len(text.split()) for text in column), np.int64, len(column))
    units = settle(TextSpec(), column).units
    return (
        f"{lengths.mean():.1f} characters, {words.mean():.1f} words on average; "
        f"longest {lengths.max():,} characters; auto would read it by {units}"
    )
