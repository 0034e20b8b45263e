"""From files, or pairs in memory, to a model folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.checkpoint import Fields, load_config, load_fields, open_folder
from dragoman.config import Config, assign, resolve, validate
from dragoman.corpus import Corpus, load_corpus
from dragoman.data.rows import Table, table_of
from dragoman.errors import UserError
from dragoman.predict import Predictor, load
from dragoman.progress import Reporter
from dragoman.trainer import Trainer

Pairs = Sequence[tuple[str, str]] | Sequence[str]


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

    >>> import tempfile
    >>> pairs = [("one", "eins"), ("two", "zwei")] * 10
    >>> model = train(pairs, tempfile.mkdtemp(), config={"train": {"max_steps": 2}}, quiet=True)
    >>> isinstance(model("one").text, str)
    True
    """
    tree = dict(config or {})
    table = None
    if data is not None and _in_memory(data):
        table = table_of(data)  # type: ignore[arg-type]
    elif data is not None:
        names = [data] if isinstance(data, str | Path) else list(data)
        tree["data"] = dict(tree.get("data", {})) | {"train": [str(name) for name in names]}
    folder = Path(output)
    reporter = Reporter(quiet)
    settled = None if resume and not tree else resolve(recipe, tree=tree)
    return run(settled, folder, reporter, table=table, resume=resume, overwrite=overwrite)


def run(
    config: Config | None,
    folder: Path,
    reporter: Reporter,
    *,
    table: Table | None = None,
    settings: Sequence[str] = (),
    resume: bool = False,
    overwrite: bool = False,
) -> Predictor:
    """A training run. Resumed, it takes its config from the folder, with `settings` on top."""
    fields: Fields | None = None
    if resume and (folder / "manifest.json").exists():
        config, fields = _begun(folder, settings)
    elif config is None:
        raise UserError(f"{folder}: nothing to resume there: name the training data")
    else:
        claim(folder, overwrite=overwrite or resume)
    corpus = load_corpus(config, fields, reporter.say, table)
    if corpus.config.train.tensorboard:
        reporter = Reporter(reporter.quiet, reporter.stream, folder / "tensorboard")
    trainer = Trainer(corpus, folder, reporter)
    size = sum(p.numel() for p in trainer.model.parameters())
    reporter.say(f"model: {corpus.config.recipe}, {size:,} parameters, on {trainer.device}")
    if resume and trainer.resume():
        reporter.say(f"resumed at step {trainer.progress.step}")
    try:
        trainer.run()
    finally:
        reporter.close()
    return load(folder)


def claim(folder: Path, *, overwrite: bool) -> None:
    """Make sure the folder can be written, before any work is done."""
    try:
        if folder.exists() and any(folder.iterdir()) and not overwrite:
            raise UserError(
                f"{folder}: not empty: continue with --resume, or start anew with --overwrite"
            )
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise UserError(f"{folder}: cannot be written: {error.strerror}") from None
    if overwrite:
        _clear(folder)


def _clear(folder: Path) -> None:
    """Remove what an earlier run left, and nothing else."""
    import shutil

    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    (folder / "manifest.json").unlink(missing_ok=True)


def _begun(folder: Path, settings: Sequence[str]) -> tuple[Config, Fields]:
    read = open_folder(folder)
    config = load_config(read, folder)
    tree = config.model_dump(mode="json")
    for setting in settings:
        tree = assign(tree, setting)
    changed = validate(tree)
    if changed.model != config.model:
        raise UserError("--resume: the model of a run cannot change; train a new one")
    return changed, load_fields(read, changed)


def _in_memory(data: Any) -> bool:
    return (
        not isinstance(data, str | Path) and bool(len(data)) and not isinstance(data[0], str | Path)
    )


__all__ = ["Corpus", "claim", "run", "train"]
