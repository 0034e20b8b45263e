"""From a config's files to encoded examples: read, split, learn the alphabets, encode."""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.checkpoint import Fields
from dragoman.config import Config, DataSpec
from dragoman.data.batches import Budget, Examples, Ints, Ragged, Stream, plan
from dragoman.data.fields import TextField, TextSpec, settle
from dragoman.data.rows import Table, read_table
from dragoman.errors import UserError

Say = Callable[[str], None]  # tells people what was found and chosen, one line a call


class Corpus(NamedTuple):
    """All that training reads."""

    config: Config  # with `auto` replaced by what was chosen
    fields: Fields
    train: "Examples | Running"
    dev: "Examples | Running"
    samples: list[tuple[str, ...]]  # dev rows as text: (source, target), or (target,)


class Running(NamedTuple):
    """A text without rows."""

    flat: npt.NDArray[np.int32]
    characters: int  # how long the text was before it was cut into symbols

    def __len__(self) -> int:
        return len(self.flat)

    def stream(self, streams: int, steps: int) -> Stream:
        return Stream(self.flat, streams, steps)


def load_corpus(
    config: Config, fields: Fields | None, say: Say, table: Table | None = None
) -> Corpus:
    """Read the training and dev rows that a config names, or take the rows that are given.
    Without `fields` the alphabets are learned."""
    table = table or read_rows(config, config.data.train, say)
    if not len(table):
        raise UserError(f"{table.name}: no rows to train on")
    if config.reads_source and len(table.columns) < 2:
        raise UserError(f"{table.name}: this model takes pairs of source and target, not texts")
    train, dev = _split(config, table, say)
    config, fields = (config, fields) if fields else _learn(config, train, say)
    say(f"data: {len(train):,} rows to train on, {len(dev):,} dev rows")
    if config.data.format == "running":
        return Corpus(config, fields, running(fields, train), running(fields, dev), [])
    examples = _encode(fields, train, say, "training")
    if not len(examples):
        raise UserError(f"{table.name}: all rows are longer than data.source/target.max_length")
    held = _encode(fields, dev, say, "dev")
    return Corpus(_settle(config, examples), fields, examples, held, list(dev))


def read_rows(config: Config, paths: tuple[str, ...], say: Say) -> Table:
    """The rows of files, by the rules of a config; what is skipped is said."""
    data = config.data
    if not paths:
        raise UserError("no training data: name a file, `dragoman train pairs.tsv -o model/`")
    columns = 2 if config.reads_source else 1
    if data.columns is not None and len(data.columns) != columns:
        raise UserError(
            f"data.columns names {len(data.columns)} columns, this model takes {columns}"
        )
    table = read_table(
        paths, format=data.format, columns=data.columns, count=columns, on_bad=data.on_bad_line
    )
    for problem, count in table.problems.items():
        say(f"data: {table.name}: {count} rows skipped ({problem})")
    return table


def _split(config: Config, table: Table, say: Say) -> tuple[Table, Table]:
    """Training and dev rows; where no dev file is given, rows are cut off the training file."""
    if config.data.dev:
        dev = read_rows(config, config.data.dev, say)
        if not len(dev):
            raise UserError(f"{dev.name}: no rows to evaluate on")
        return table, dev
    count, total = config.data.dev_rows or min(1000, total_share(len(table))), len(table)
    if count >= total:
        if total > 1 and config.data.dev_rows:
            raise UserError(f"data.dev_rows={count} leaves nothing of {total} rows to train on")
        say("data: warning: too few rows for a dev set: the training rows serve as one")
        return table, table
    order = np.arange(total)
    if config.data.format != "running":  # running text keeps its order: its end is held out
        order = np.random.default_rng(config.train.seed).permutation(total)
    return table.select(np.sort(order[:-count])), table.select(np.sort(order[-count:]))


def total_share(rows: int) -> int:
    """A tenth of the rows, at least one.

    >>> total_share(50), total_share(3)
    (5, 1)
    """
    return max(1, rows // 10)


def _learn(config: Config, table: Table, say: Say) -> tuple[Config, Fields]:
    """Settle `auto` units, learn alphabets, and say what was picked."""
    data, columns = config.data, table.columns
    target = settle(data.target, columns[-1])
    if not config.reads_source:
        values: Iterable[str] = columns[-1]
        if data.format == "running" and target.units in ("char", "bytes"):
            values = chain(columns[-1], ["\n"])
        fields = Fields(None, TextField.learn(target, values))
    else:
        fields = _learn_both(data, settle(data.source, columns[0]), target, table)
    source = fields.source.spec if fields.source else data.source
    for side, field in (("source", fields.source), ("target", fields.target)):
        if field:
            say(f"{side}: {field.spec.units} units, an alphabet of {field.size}")
    data = data.model_copy(update={"source": source, "target": fields.target.spec})
    return config.model_copy(update={"data": data}), fields


def _learn_both(data: DataSpec, source: TextSpec, target: TextSpec, table: Table) -> Fields:
    if not data.shared:
        return Fields(
            TextField.learn(source, table.columns[0]), TextField.learn(target, table.columns[1])
        )
    if source.units != target.units:
        raise UserError(
            f"data.shared needs the same units on both sides, not {source.units} and "
            f"{target.units}: set data.source.units and data.target.units"
        )
    units = TextField.learn(source, chain(*table.columns)).units
    return Fields(TextField(source, units), TextField(target, units))


def _encode(fields: Fields, table: Table, say: Say, name: str) -> Examples:
    """Rows as symbols; rows beyond the maximum length are left out of training and counted."""
    source = Ragged.of(map(fields.source.encode, table.columns[0])) if fields.source else None
    target = Ragged.of(map(fields.target.encode, table.columns[-1]))
    cut = _cut(fields.target, table.columns[-1], target)
    if source is not None and fields.source:
        cut |= _cut(fields.source, table.columns[0], source)
    kept = np.flatnonzero(~cut)
    if len(kept) == len(table) or name == "dev":
        return Examples(source, target)
    say(f"data: {len(table) - len(kept)} {name} rows left out (longer than max_length)")
    return Examples(source.select(kept) if source else None, target.select(kept))


def _cut(field: TextField, values: Iterable[str], rows: Ragged) -> npt.NDArray[np.bool_]:
    """Which rows lost their tail when they were encoded."""
    full = rows.lengths == field.spec.max_length + 1
    for row, value in enumerate(values) if full.any() else ():
        full[row] = full[row] and field.longer(value)
    return np.asarray(full)


def running(fields: Fields, table: Table) -> Running:
    """One flat text: line breaks are symbols; for words and subwords, the end sign."""
    text = table.columns[-1]
    return Running(
        Ragged.of(map(fields.target.line, text)).flat, sum(len(line) + 1 for line in text)
    )


def _settle(config: Config, examples: Examples) -> Config:
    """What depends on how long and how many the rows are, where nobody has said it."""
    train, search = config.train, config.search
    if train.batch_tokens is None:
        train = train.model_copy(update={"batch_tokens": batch_tokens(int(examples.lengths.sum()))})
    if examples.source is not None and search.ratio is None:
        # an answer may be half as much longer again, beside its source, as nearly all of training
        ratios = examples.target.lengths / examples.source.lengths
        ratio = round(float(1.5 * np.quantile(ratios, 0.99)), 2)
        search = search.model_copy(update={"ratio": ratio})
    return config.model_copy(update={"train": train, "search": search})


def batch_tokens(total: int) -> int:
    """A batch for so many symbols in all: little data wants many small steps, much data fast ones.

    >>> batch_tokens(7_000), batch_tokens(450_000), batch_tokens(10_000_000)
    (512, 3000, 4096)
    """
    return min(max(total // 150, 512), 4096)


def steps_of(corpus: Corpus, epoch: int) -> "list[Ints] | Stream":
    """The batches of an epoch, in order."""
    train = corpus.config.train
    if isinstance(corpus.train, Running):
        return corpus.train.stream(train.batch_size or 64, train.bptt)
    return plan(
        corpus.train.lengths,
        Budget(train.batch_tokens or 4096, train.batch_size),
        train.seed,
        epoch,
    )
