"""A corpus that does not fit in memory: read twice, once for the alphabets, once into a store."""

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from dragoman.checkpoint import Fields, field_files
from dragoman.config import Config
from dragoman.corpus import CUT, Corpus, learn, read_rows, settle_sizes, total_share
from dragoman.data.batches import Examples
from dragoman.data.columns import Ints
from dragoman.data.copying import copy_ids, copy_target, pieces
from dragoman.data.fields import TextField, TextSpec
from dragoman.data.rows import Row as Line
from dragoman.data.rows import iter_rows
from dragoman.data.store import Row, Store
from dragoman.errors import UserError, many
from dragoman.examples import Say, encoded, miscounted


def stored_corpus(config: Config, fields: Fields | None, say: Say) -> Corpus:
    """The corpus of a config that names a store; what is there already is not built again."""
    _check(config)
    if fields is None:
        columns = [_Column(config, place) for place in range(len(config.source_specs) + 1)]
        config, fields = learn(config, columns, say)
    store = Store(Path(str(config.data.store)), _key(config, fields), _width(config))
    if not store.state["done"]:
        _build(store, config, fields, say)
    rows, origins = _examples(config, store)
    if len(rows) < 2:
        raise UserError(f"{store.folder}: too few rows to train on")
    train, dev, texts = _split(config, fields, rows, origins, say)
    told = f"{many(len(train), 'row')} to train on, {many(len(dev), 'dev row')}"
    say(f"data: {told}, in {store.folder}")
    return Corpus(settle_sizes(config, train), fields, train, dev, texts)


def _check(config: Config) -> None:
    data = config.data
    if not all(isinstance(spec, TextSpec) for spec in config.source_specs.values()):
        raise UserError("data.store is for texts: other columns have a cache of their own")
    if config.model.head.kind == "pointer":
        raise UserError("data.store does not look whether positions are there: leave it out")
    if data.format == "running":
        raise UserError("data.store takes rows, not running text")
    if _copies(config) and not data.dev:
        raise UserError("data.store with model.head.kind=copy needs a dev file: name it with --dev")
    if "-" in data.train or not data.train:
        raise UserError("data.store reads its files twice: name files, not stdin")


def _copies(config: Config) -> bool:
    return config.model.head.kind == "copy"


def _width(config: Config) -> int:
    """Columns of the store: sources, target, what can be copied, which corpus a row is of."""
    return len(config.source_specs) + 1 + _copies(config) + bool(config.data.also)


def _examples(config: Config, store: Store) -> tuple[Examples, Ints]:
    """The rows of a store with their weights, and the number of the corpus each is of."""
    columns, count = store.columns(), len(config.source_specs)
    copies = columns[count + 1] if _copies(config) else None
    rows = Examples(columns[:count], columns[count], copies)
    if not config.data.also:
        return rows, np.zeros(len(rows), np.int64)
    origins = np.asarray(columns[-1].flat, np.int64)
    often = np.array([1.0, *(corpus.weight for corpus in config.data.also)])
    rows.weights = often[origins]
    return rows, origins


class _Column(Sequence[str]):
    """A column of the training files, read anew each time somebody goes through it."""

    def __init__(self, config: Config, place: int) -> None:
        self.config, self.place = config, place

    def __iter__(self) -> Iterator[str]:
        return (row.values[self.place] for _, row in _rows(self.config, {}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("a column of a file can only be read through")


def _rows(config: Config, problems: dict[str, int]) -> Iterator[tuple[int, Line]]:
    """All rows with the number of their corpus: 0 is that of `data.train`."""
    data, count = config.data, len(config.source_specs) + 1
    for number, files in enumerate([data.train, *(corpus.files for corpus in data.also)]):
        rows = iter_rows(
            files,
            format=data.format,
            columns=data.columns,
            count=count,
            on_bad=data.on_bad_line,
            problems=problems,
        )
        yield from ((number, row) for row in rows)


def _build(store: Store, config: Config, fields: Fields, say: Say) -> None:
    problems: dict[str, int] = {}
    bar = tqdm(_rows(config, problems), unit="rows", disable=not sys.stderr.isatty(), leave=False)
    begun = store.state["read"]
    say(f"store: encoding into {store.folder}" + (f", going on at row {begun:,}" if begun else ""))
    store.build(_encoded(bar, config, fields))
    state = store.state
    if state["read"] > state["rows"]:
        say(f"data: {many(state['read'] - state['rows'], 'row')} left out ({_reasons(config)})")
    for problem, count in problems.items():
        say(f"data: {many(count, 'row')} skipped ({problem})")


def _encoded(
    rows: Iterable[tuple[int, Line]], config: Config, fields: Fields
) -> Iterator[Row | None]:
    every, copying, several = _texts_of(fields), _copies(config), bool(config.data.also)
    for number, line in rows:
        values = line.values
        ids = [field.encode(value) for field, value in zip(every, values, strict=True)]
        full = any(len(i) >= f.spec.max_length for i, f in zip(ids, every, strict=True))
        long = full and any(f.longer(v) for f, v in zip(every, values, strict=True))
        if long or _uneven(config, line, every[0], ids):
            yield None
            continue
        if copying:
            told = pieces(every[0], values[0])
            ids[-1:] = [copy_target(values[-1], told, every[-1]), copy_ids(told, every[-1])]
        yield [*ids, [number]] if several else ids


def _uneven(config: Config, line: Line, reader: TextField, ids: list[list[int]]) -> bool:
    """Whether a row has not one tag for each symbol, and such rows are left out."""
    here, there = len(ids[0]) - reader.signs, len(ids[-1]) - 1 - config.beyond
    if not _tags(config) or here == there:
        return False
    if config.data.on_bad_line == "error":
        why = f"{line.name}:{line.line}: {miscounted(config, here, there)}"
        raise UserError(f"{why}; correct it, or leave such rows out with --on-bad-line skip")
    return True


def _tags(config: Config) -> bool:
    return config.model.decoder.kind == "aligned"


def _reasons(config: Config) -> str:
    return "longer than max_length" + (", or not one tag a symbol" if _tags(config) else "")


def _texts_of(fields: Fields) -> list[TextField]:
    every = [*fields.sources.values(), fields.target]
    return [field for field in every if isinstance(field, TextField)]  # all are: see _check


def _key(config: Config, fields: Fields) -> str:
    """What a store was made of: the files, how they are read, and the alphabets."""
    told = config.data.model_dump(mode="json", exclude={"store", "dev", "dev_rows"})
    names = (config.data.train, *(corpus.files for corpus in config.data.also))
    files = [(name, *_stamp(Path(name))) for name in chain(*names)]
    told |= {"also": len(config.data.also), "copies": _copies(config)}  # a weight is not stored
    found = hashlib.sha256(json.dumps([told, files], sort_keys=True).encode())
    for name, content in sorted(field_files(fields).items()):
        found.update(name.encode() + content)
    return found.hexdigest()


def _stamp(path: Path) -> tuple[int, int]:
    """What changes when a file does."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _split(
    config: Config, fields: Fields, rows: Examples, origins: Ints, say: Say
) -> tuple[Examples, Examples, list[tuple[str, ...]]]:
    """Training rows, dev rows and their texts. Where there is no dev file, dev rows are drawn from
    the first corpus; no text is copied for those that remain.
    """
    if config.data.dev:
        table, dev = encoded(config, fields, read_rows(config, config.data.dev, say), say)
        return rows, dev, list(table)
    own = np.flatnonzero(origins == 0)
    count = config.data.dev_rows or min(1000, total_share(len(own)))
    if count >= len(own):
        raise UserError(f"data.dev_rows={count} leaves nothing of {len(own)} rows to train on")
    held = np.sort(np.random.default_rng(CUT).permutation(own)[-count:])
    kept = np.ones(len(rows), bool)
    kept[held] = False
    dev = rows.select(held)
    return rows.part(np.flatnonzero(kept)), dev, _texts(fields, dev)


def _texts(fields: Fields, dev: Examples) -> list[tuple[str, ...]]:
    """Dev rows as text, from their symbols."""
    every = _texts_of(fields)
    columns = [*dev.sources, dev.target]
    return [
        tuple(f.decode(c[row].tolist()) for f, c in zip(every, columns, strict=True))
        for row in range(len(dev))
    ]
