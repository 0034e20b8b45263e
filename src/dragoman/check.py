"""A look at a data file or a model folder before one trains on it or trusts it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dragoman.checkpoint import load_model, verify
from dragoman.config import DataSpec, validate
from dragoman.data.fields import TextSpec, settle
from dragoman.data.rows import read_table


def check_model(folder: Path) -> tuple[list[str], bool]:
    """Checksums, config, alphabets and weights; raises at the first thing amiss."""
    names = verify(folder)
    model = load_model(folder).model
    size = sum(p.numel() for p in model.parameters())
    return [f"{folder}: sound; {len(names)} files as written, {size:,} parameters"], True


def check_data(data: Mapping[str, Any]) -> tuple[list[str], bool]:
    """How many rows are good, what is wrong with the others, how long the columns are, what `auto`
    would pick.
    """
    spec: DataSpec = validate({"data": dict(data)}).data
    count = 1 if spec.format in ("lines", "running") else 2
    table = read_table(
        spec.train, format=spec.format, columns=spec.columns, count=count, on_bad="skip"
    )
    bad = sum(table.problems.values())
    lines = [f"{table.name}: {len(table):,} good rows, {bad:,} bad"]
    lines += [f"  bad: {number:,} × {problem}" for problem, number in table.problems.items()]
    for place, column in enumerate(table.columns, 1):
        if len(column):
            lines.append(f"  column {place}: {_describe(column)}")
    if len(table.columns) > 1:
        repeated = len(table) - len(set(table))
        lines += [f"  {repeated:,} rows repeat an earlier one"] if repeated else []
    return lines, bool(len(table)) and not bad


def _describe(column: Sequence[str]) -> str:
    lengths = np.fromiter(map(len, column), np.int64, len(column))
    words = np.fromiter((len(text.split()) for text in column), np.int64, len(column))
    units = settle(TextSpec(), column).units
    return (
        f"{lengths.mean():.1f} characters, {words.mean():.1f} words on average; "
        f"longest {lengths.max():,} characters; auto would read it by {units}"
    )
