"""From files, or pairs in memory, to a model folder."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from dragoman.checkpoint import MANIFEST
from dragoman.config import Config, resolve, validate
from dragoman.corpus import Corpus, Running, load_corpus, mark
from dragoman.crew import Crew, crewed, restarted
from dragoman.data.formats import Columns
from dragoman.data.rows import Table, chosen, table_of
from dragoman.disk import make_folder
from dragoman.errors import DragomanError, UserError
from dragoman.guess import guess
from dragoman.predict import Predictor, load
from dragoman.progress import Reporter
from dragoman.recipes import Tree, merge
from dragoman.signals import Calls, called
from dragoman.snapshots import Snapshot, load_snapshot
from dragoman.stored import stored_corpus
from dragoman.trainer import Trainer

try:
    import fcntl
except ImportError:  # Windows has no such lock: there people must take care themselves
    fcntl = None  # type: ignore[assignment]

PROBE = ".probe"  # a file that is written to see whether one can
Pairs = Sequence[tuple[str, ...]] | Sequence[str]  # the last text of a row is its answer


def train(
    data: str | Path | Sequence[str | Path] | Pairs | None,
    output: str | Path,
    *,
    recipe: str | None = None,
    config: Mapping[str, Any] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
) -> Predictor:
    """Train a model and leave it in the folder `output`.

    `data` is a file, several (parallel) files, or pairs in memory; `config` changes the recipe.
    When no recipe is named, what the data look like chooses one.

    >>> import tempfile
    >>> pairs = [("one", "eins"), ("two", "zwei")] * 10
    >>> model = train(pairs, tempfile.mkdtemp(), config={"train": {"max_steps": 2}}, quiet=True)
    >>> isinstance(model("one").text, str)
    True
    """
    tree, table = dict(config or {}), None
    columns = _columns(tree)
    if data is not None and _in_memory(data):
        table = table_of(data)  # type: ignore[arg-type]
    elif data is not None:
        names = [data] if isinstance(data, str | Path) else list(data)
        tree["data"] = dict(tree.get("data", {})) | {"train": [str(name) for name in names]}
    reporter, changes = Reporter(quiet), tree  # a run that is resumed has columns of its own
    seen = chosen(table, columns) if table and columns else table
    if not recipe and (found := guess(tree, seen)).why:
        recipe = found.recipe
        tree = merge(tree, {"data": {"columns": found.columns}} if found.columns else {})
        if not resume:
            reporter.say(found.told())
    settled = None if resume and data is None else resolve(recipe, tree=tree)
    return run(
        settled,
        Path(output),
        reporter,
        table=table,
        changes=changes,
        resume=resume,
        overwrite=overwrite,
    )


def _columns(tree: Tree) -> Columns:
    """The columns that a config names; the rest of it is settled when its recipe is known."""
    data = tree.get("data", {})
    told = {"columns": data.get("columns")} if isinstance(data, Mapping) else data
    return validate({"data": told}).data.columns


def run(
    config: Config | None,
    folder: Path,
    reporter: Reporter,
    *,
    table: Table | None = None,
    changes: Tree | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Predictor:
    """A training run. Resumed, it takes its config from the folder, with `changes` on top."""
    if restarted(os.environ):
        resume, overwrite = True, False
    if resume and overwrite:
        raise UserError("--resume and --overwrite contradict each other: choose one")
    if config is None and not folder.is_dir():
        raise UserError(f"{folder}: nothing to resume there: name the training data")
    with called() as calls, crewed() as crew:
        if not crew.writes:
            _follow(folder, table, calls, crew)
            return load(folder)
        with claimed(folder, occupied=resume or overwrite), alone(folder):
            past = begun(folder, changes or {}) if resume else None
            config = past.config if past else config
            if config is None:
                raise UserError(f"{folder}: nothing to resume there: name the training data")
            trainer = _prepare(config, folder, reporter, table, past, calls, crew)
            if past:
                named = table is not None or "train" in (changes or {}).get("data", {})
                _compare(trainer, named)
            else:
                _clear(folder)  # only now: it is lost to nothing but a run that can begin
            if trainer.spec.tensorboard:
                trainer.reporter = Reporter(reporter.quiet, reporter.stream, folder / "tensorboard")
            _run(trainer)
    return load(folder)


def _prepare(
    config: Config,
    folder: Path,
    reporter: Reporter,
    table: Table | None,
    past: Snapshot | None,
    calls: Calls,
    crew: Crew,
) -> Trainer:
    """A run that can begin, or go on."""
    fields = past.fields if past else None
    if config.data.store and table is None:
        corpus = stored_corpus(config, fields, reporter.say)
    else:
        corpus = load_corpus(config, fields, reporter.say, table)
    _refuse_idlers(corpus, crew)
    trainer = Trainer(corpus, folder, reporter, calls, crew)
    size = sum(p.numel() for p in trainer.model.parameters())
    several = f", in {crew.size} processes" if crew.size > 1 else ""
    reporter.say(
        f"model: {corpus.config.recipe}, {size:,} parameters, on {trainer.device}{several}"
    )
    if past:
        trainer.resume(past)
        reporter.say(f"resumed at step {trainer.progress.step}")
    return trainer


def _compare(trainer: Trainer, named: bool) -> None:
    """Are the rows those that the run has learned from so far? Others must be named to be meant."""
    progress, now = trainer.progress, mark(trainer.corpus)
    before, progress.data = progress.data, now
    if before in ("", now):
        return
    if not named:
        files = " and ".join([*trainer.config.data.train, *trainer.config.data.dev])
        raise UserError(
            f"{files}: not the rows that this run has learned from so far: bring them back, or "
            "name the files to go on with"
        )
    progress.best, progress.stale, progress.since_halving = None, 0, 0
    trainer.reporter.say("data: other rows than this run had so far: its best is sought anew")


def _refuse_idlers(corpus: Corpus, crew: Crew) -> None:
    """Every process needs something to do."""
    rows, what = len(corpus.train), "training rows"
    if isinstance(corpus.train, Running):
        rows, what = min(rows, corpus.config.train.batch_size or 64), "streams of running text"
    if rows < crew.size:
        raise UserError(f"{crew.size} processes for {rows} {what}: start fewer, or find more data")


def _run(trainer: Trainer) -> None:
    try:
        trainer.run()
        trainer.crew.wait()
    except (KeyboardInterrupt, SystemExit):
        step, folder = trainer.saved or 0, trainer.folder
        trainer.reporter.say(
            f"stopped; `dragoman train -o {folder} --resume` goes on from step {step}"
        )
        raise
    finally:
        trainer.reporter.close()


def _follow(folder: Path, table: Table | None, calls: Calls, crew: Crew) -> None:
    """The part of a process that is not the first: it begins with what the first has written."""
    config = validate(yaml.safe_load(crew.tell(None)))
    past = load_snapshot(folder)
    if past is None:
        raise UserError(f"{folder}: not there: all processes of a run need to see one disk")
    past = past._replace(config=config)
    trainer = _prepare(config, folder, Reporter(quiet=True), table, past, calls, crew)
    _compare(trainer, named=True)  # the first process has asked
    _run(trainer)


@contextmanager
def claimed(folder: Path, *, occupied: bool) -> Iterator[None]:
    """A folder that can be written, before any work is done; `occupied` lets it hold something.
    A run that fails before it has written anything leaves no empty folder behind.
    """
    there = folder.exists()
    try:
        _probe(folder, occupied)
        yield
    finally:
        if not there:
            with suppress(OSError):
                (folder / PROBE).unlink()
            for empty in (folder / "checkpoints", folder):
                with suppress(OSError):  # it holds something, as it should
                    empty.rmdir()


def _probe(folder: Path, occupied: bool) -> None:
    try:
        if folder.exists() and any(folder.iterdir()) and not occupied:
            raise UserError(
                f"{folder}: not empty: continue with --resume, or start anew with --overwrite"
            )
        make_folder(folder)
        (folder / PROBE).write_bytes(b"")
        (folder / PROBE).unlink()
    except OSError as error:
        kind = DragomanError if error.errno == errno.ENOSPC else UserError  # a disk fills by itself
        raise kind(f"{folder}: cannot be written: {error.strerror}") from None


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder: two runs in one would spoil each other. The system lets go of it when the
    process ends, however it ends.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(f"{folder}: another training is at work there; wait or stop it") from None
    finally:
        os.close(handle)


def _clear(folder: Path) -> None:
    """Remove what an earlier run left, and nothing else."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    (folder / MANIFEST).unlink(missing_ok=True)


def begun(folder: Path, changes: Tree) -> Snapshot | None:
    """The last checkpoint of a run, with changes to its config."""
    snapshot = load_snapshot(folder)
    if snapshot is None:
        if (folder / MANIFEST).exists():
            raise UserError(f"{folder}: has no checkpoint to go on from; start with --overwrite")
        return None
    config = snapshot.config
    changed = validate(merge(config.model_dump(mode="json"), changes))
    before, after = config.data, changed.data
    fixed = changed.model == config.model and before.shared == after.shared
    if not fixed or (before.source, before.target) != (after.source, after.target):
        raise UserError("--resume: the model of a run cannot change; train a new one")
    return snapshot._replace(config=changed)


def _in_memory(data: Any) -> bool:
    return (
        not isinstance(data, str | Path) and bool(len(data)) and not isinstance(data[0], str | Path)
    )


__all__ = ["run", "train"]
