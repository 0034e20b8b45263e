"""A corpus that does not fit in memory: read twice, once for the alphabets, once into a store."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dragoman.checkpoint import Fields, field_files
from dragoman.config import Config
from dragoman.corpus import Corpus, learn, settle_sizes
from dragoman.data.batches import Examples
from dragoman.data.fields import TextField, TextSpec
from dragoman.data.rows import iter_rows
from dragoman.data.store import Row, Store
from dragoman.errors import UserError
from dragoman.examples import Say


def stored_corpus(config: Config, fields: Fields | None, say: Say) -> Corpus:
    """The corpus of a config that names a store; what is there already is not built again."""
    _check(config)
    if fields is None:
        columns = [_Column(config, place) for place in range(len(config.source_specs) + 1)]
        config, fields = learn(config, columns, say)
    store = Store(Path(str(config.data.store)), _key(config, fields), len(fields.sources) + 1)
    if not store.state["done"]:
        _build(store, config, fields, say)
    *sources, target = store.columns()
    rows = Examples(sources, target)
    if len(rows) < 2:
        raise UserError(f"{store.folder}: too few rows to train on")
    train, dev = _split(config, rows)
    say(f"data: {len(train):,} rows to train on, {len(dev):,} dev rows, in {store.folder}")
    return Corpus(settle_sizes(config, train), fields, train, dev, _texts(fields, dev))


def _check(config: Config) -> None:
    data = config.data
    if not all(isinstance(spec, TextSpec) for spec in config.source_specs.values()):
        raise UserError("data.store is for texts: other columns have a cache of their own")
    if data.format == "running" or config.model.head.kind == "copy" or data.shared:
        raise UserError("data.store takes rows; no running text, copying or shared alphabets yet")
    if "-" in data.train or not data.train:
        raise UserError("data.store reads its files twice: name files, not stdin")


class _Column(Sequence[str]):
    """A column of the training files, read anew each time somebody goes through it."""

    def __init__(self, config: Config, place: int) -> None:
        self.config, self.place = config, place

    def __iter__(self) -> Iterator[str]:
        return (values[self.place] for values in _rows(self.config, {}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("a column of a file can only be read through")


def _rows(config: Config, problems: dict[str, int]) -> Iterator[tuple[str, ...]]:
    data, count = config.data, len(config.source_specs) + 1
    rows = iter_rows(
        data.train,
        format=data.format,
        columns=data.columns,
        count=count,
        on_bad=data.on_bad_line,
        problems=problems,
    )
    return (row.values for row in rows)


def _build(store: Store, config: Config, fields: Fields, say: Say) -> None:
    problems: dict[str, int] = {}
    bar = tqdm(_rows(config, problems), unit="rows", disable=not sys.stderr.isatty(), leave=False)
    begun = store.state["read"]
    say(f"store: encoding into {store.folder}" + (f", going on at row {begun:,}" if begun else ""))
    store.build(_encoded(bar, fields))
    state = store.state
    if state["read"] > state["rows"]:
        say(f"data: {state['read'] - state['rows']:,} rows left out (longer than max_length)")
    for problem, count in problems.items():
        say(f"data: {count} rows skipped ({problem})")


def _encoded(rows: Iterable[tuple[str, ...]], fields: Fields) -> Iterator[Row | None]:
    every = _texts_of(fields)
    for values in rows:
        ids = [field.encode(value) for field, value in zip(every, values, strict=True)]
        full = any(len(i) >= f.spec.max_length for i, f in zip(ids, every, strict=True))
        long = full and any(f.longer(v) for f, v in zip(every, values, strict=True))
        yield None if long else ids


def _texts_of(fields: Fields) -> list[TextField]:
    every = [*fields.sources.values(), fields.target]
    return [field for field in every if isinstance(field, TextField)]  # all are: see _check


def _key(config: Config, fields: Fields) -> str:
    """What a store was made of: the files, how they are read, and the alphabets."""
    told = config.data.model_dump(mode="json", exclude={"store", "dev", "dev_rows"})
    files = [(name, Path(name).stat().st_size) for name in config.data.train]
    found = hashlib.sha256(json.dumps([told, files], sort_keys=True).encode())
    for name, content in sorted(field_files(fields).items()):
        found.update(name.encode() + content)
    return found.hexdigest()


def _split(config: Config, rows: Examples) -> tuple[Examples, Examples]:
    """Dev rows drawn from the store; no text is copied for those that remain."""
    if config.data.dev:
        raise UserError("data.store cuts its own dev rows off: leave data.dev out")
    count = min(config.data.dev_rows or 1000, max(1, len(rows) // 10))
    order = np.random.default_rng(config.train.seed).permutation(len(rows))
    return rows.part(np.sort(order[:-count])), rows.select(np.sort(order[-count:]))


def _texts(fields: Fields, dev: Examples) -> list[tuple[str, ...]]:
    """Dev rows as text, from their symbols."""
    every = _texts_of(fields)
    columns = [*dev.sources, dev.target]
    return [
        tuple(f.decode(c[row].tolist()) for f, c in zip(every, columns, strict=True))
        for row in range(len(dev))
    ]
