"""From a config's files to encoded examples: read, split, learn the alphabets, encode."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dragoman.checkpoint import Fields
from dragoman.config import Config, DataSpec
from dragoman.data.batches import Budget, Examples, Ragged, Stream, plan
from dragoman.data.columns import Ints
from dragoman.data.fields import TextField, TextSpec, settle
from dragoman.data.rows import Table, chosen, read_table
from dragoman.data.senses import FIELDS, names_files
from dragoman.errors import UserError, many
from dragoman.examples import Say, encoded, fitting, tell_columns

CUT = 1  # the same dev rows, and so the same alphabets, whatever the seed of training
MARKED = 1 << 27  # symbols that a mark is made of; of more than twice as many, some
RATIOS = 100_000  # as many rows are looked at to see how long answers are beside their sources


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
    """Read the training and dev rows that a config names, or take the rows that are given, by the
    columns of the config. Without `fields` the alphabets are learned.
    """
    if table:
        table = chosen(table, config.data.columns)
    else:
        table = read_rows(config, config.data.train, say)
    if not len(table):
        raise UserError(f"{table.name}: no rows to train on")
    if len(table.columns) != len(config.source_specs) + 1:
        raise UserError(
            f"{table.name}: rows of {len(table.columns)} texts, this model takes "
            f"{len(config.source_specs) + 1}"
        )
    train, dev = _split(config, table, say)
    train = _mixed(config, train, say)
    config, fields = (config, fields) if fields else learn(config, train.columns, say)
    say(f"data: {many(len(train), 'row')} to train on, {many(len(dev), 'dev row')}")
    if config.data.format == "running":
        return Corpus(config, fields, running(fields, train), running(fields, dev), [])
    train, examples = encoded(config, fields, train, say)
    examples.weights, examples.lines = train.weights, train.lines
    examples = fitting(fields, train, examples, say)
    if not len(examples):
        raise UserError(f"{table.name}: all rows are longer than data.source/target.max_length")
    dev, held = encoded(config, fields, dev, say)
    return Corpus(settle_sizes(config, examples), fields, examples, held, list(dev))


def read_rows(config: Config, paths: tuple[str, ...], say: Say) -> Table:
    """The rows of files, by the rules of a config; what is skipped is said."""
    data = config.data
    if not paths:
        raise UserError("no training data: name a file, `dragoman train pairs.tsv -o model/`")
    columns = len(config.source_specs) + 1
    if data.columns is not None and len(data.columns) != columns:
        raise UserError(
            f"data.columns names {len(data.columns)} columns, this model takes {columns}"
        )
    table = read_table(
        paths,
        format=data.format,
        columns=data.columns,
        count=columns,
        on_bad=data.on_bad_line,
        files=[at for at, s in enumerate(config.source_specs.values()) if names_files(s)],
    )
    for problem, count in table.problems.items():
        say(f"data: {table.name}: {many(count, 'row')} skipped ({problem})")
    tell_columns(data, paths, table, say)
    return table


def _mixed(config: Config, table: Table, say: Say) -> Table:
    """The training rows with those of further corpora."""
    also = config.data.also
    if not also:
        return table
    if config.data.format == "running":
        raise UserError("data.also mixes rows; running text has none: put the texts into one file")
    others = [read_rows(config, corpus.files, say) for corpus in also]
    for corpus, other in zip(also, others, strict=True):
        say(f"data: {other.name}: {len(other):,} rows mixed in, {corpus.weight:g} times an epoch")
    return Table.join([table, *others], [1.0, *(corpus.weight for corpus in also)])


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
    held = np.arange(total) >= total - count
    if config.data.format != "running":  # running text keeps its order: its end is held out
        held = _held_out(_numbers(config, table), count)
    return table.select(np.flatnonzero(~held)), table.select(np.flatnonzero(held))


def _held_out(numbers: Ints, count: int) -> npt.NDArray[np.bool_]:
    """Which rows are held out: about so many at random, and with a row all others of its number.

    >>> _held_out(np.array([0, 0, 1, 1, 2, 2]), 1).tolist()
    [False, False, False, False, True, True]
    """
    turns = np.empty(numbers.max(initial=0) + 1, np.int64)
    order = np.random.default_rng(CUT).permutation(len(turns))
    turns[order] = np.arange(len(turns))
    mine = turns[numbers]
    held: npt.NDArray[np.bool_] = mine >= max(np.sort(mine)[-count], 1)
    return held


def _numbers(config: Config, table: Table) -> Ints:
    """Rows that tell of the same picture, clip or sound have the same number."""
    files = [at for at, spec in enumerate(config.source_specs.values()) if names_files(spec)]
    names = table.columns[files[0]] if files else []
    known = {name: number for number, name in enumerate(dict.fromkeys(names))}
    if len(known) < 2:
        return np.arange(len(table))
    return np.fromiter((known[name] for name in names), np.int64, len(table))


def total_share(rows: int) -> int:
    """A tenth of the rows, at least one.

    >>> total_share(50), total_share(3)
    (5, 1)
    """
    return max(1, rows // 10)


def learn(config: Config, columns: Sequence[Sequence[str]], say: Say) -> tuple[Config, Fields]:
    """Settle `auto` units, learn alphabets, and say what was picked."""
    data = config.data
    values: Iterable[str] = columns[-1]
    target = settle(data.target, columns[-1])
    if data.format == "running" and target.units in ("char", "bytes"):
        values = chain(columns[-1], ["\n"])
    specs = {
        name: settle(spec, column) if isinstance(spec, TextSpec) else spec
        for (name, spec), column in zip(config.source_specs.items(), columns, strict=False)
    }
    if data.shared:
        fields = _learn_shared(specs, target, columns, alone=data.shared == "sources")
    else:
        learned = {
            name: FIELDS[spec.kind].learn(spec, column)
            for (name, spec), column in zip(specs.items(), columns, strict=False)
        }
        fields = Fields(learned, _writer(target, values))
    for side, field in (fields.sources | {"target": fields.target}).items():
        say(f"{side}: {field.describe()}")
    return config.model_copy(update={"data": _settled(data, fields)}), fields


def _writer(spec: TextSpec, values: Iterable[str]) -> TextField:
    field = FIELDS[spec.kind].learn(spec, values)
    assert isinstance(field, TextField)  # the config saw to it
    return field


def _settled(data: DataSpec, fields: Fields) -> DataSpec:
    specs = {name: field.spec for name, field in fields.sources.items()}
    source = specs.pop("source", data.source)
    return data.model_copy(update={"source": source, "more": specs, "target": fields.target.spec})


def _learn_shared(
    specs: dict[str, Any], target: TextSpec, columns: Sequence[Sequence[str]], alone: bool
) -> Fields:
    """One alphabet for all texts; `alone`, for those of the sources, and another for the target."""
    pairs = dict(zip(specs, columns, strict=False))
    texts = [name for name, spec in specs.items() if isinstance(spec, TextSpec)]
    joined = [specs[name] for name in texts] + ([] if alone else [target])
    if not joined:
        raise UserError("data.shared: there are no texts that could share an alphabet")
    units = {spec.units for spec in joined}
    if len(units) > 1:
        raise UserError(
            f"data.shared needs the same units everywhere, not {' and '.join(sorted(units))}: "
            "set data.source.units and data.target.units, or data.shared=sources"
        )
    told = [pairs[name] for name in texts] + ([] if alone else [columns[-1]])
    common = TextField.learn(joined[0], chain(*told)).units
    sources = {
        name: TextField(spec, common)
        if name in texts
        else FIELDS[spec.kind].learn(spec, pairs[name])
        for name, spec in specs.items()
    }
    return Fields(sources, _writer(target, columns[-1]) if alone else TextField(target, common))


def running(fields: Fields, table: Table) -> Running:
    """One flat text: line breaks are symbols; for words and subwords, the end sign."""
    text = table.columns[-1]
    return Running(
        Ragged.of(map(fields.target.line, text)).flat, sum(len(line) + 1 for line in text)
    )


def settle_sizes(config: Config, examples: Examples) -> Config:
    """What depends on how long and how many the rows are, where nobody has said it."""
    train, search = config.train, config.search
    if train.batch_tokens is None:
        train = train.model_copy(update={"batch_tokens": batch_tokens(int(examples.lengths.sum()))})
    if examples.sources and search.ratio is None:
        # an answer may be half as much longer again, beside its source, as nearly all of training
        some = slice(None, None, max(1, len(examples.target) // RATIOS))
        ratios = examples.target.lengths[some] / examples.sources[0].lengths[some]
        ratio = round(float(1.5 * np.quantile(ratios, 0.99)), 2)
        search = search.model_copy(update={"ratio": ratio})
    return config.model_copy(update={"train": train, "search": search})


def batch_tokens(total: int) -> int:
    """A batch for so many symbols in all: little data wants many small steps, much data fast ones.

    >>> batch_tokens(7_000), batch_tokens(450_000), batch_tokens(10_000_000)
    (512, 3000, 4096)
    """
    return min(max(total // 150, 512), 4096)


def mark(corpus: Corpus) -> str:
    """A short mark of the rows that are learned from and judged by: other rows have another, the
    same ones in another file have the same.
    """
    return "-".join(f"{len(part):x}.{_sum(part):08x}" for part in (corpus.train, corpus.dev))


def _sum(part: "Examples | Running") -> int:
    if isinstance(part, Running):
        arrays: list[npt.NDArray[Any]] = [part.flat]
    else:
        texts = [c for c in (*part.sources, part.target) if isinstance(c, Ragged)]
        arrays = [array for column in texts for array in (column.flat, column.offsets)]
        arrays += [] if part.rows is None else [part.rows]
    found = 0
    for array in arrays:
        some = array[:: max(1, len(array) // MARKED)]
        found = crc32(np.ascontiguousarray(some).data, found)
    return found


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
        corpus.train.weights,
        corpus.train.kin if train.together else None,
    )
