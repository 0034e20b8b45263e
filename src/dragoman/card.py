"""The model card: what a folder holds, for the person who finds it."""

import hashlib
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from dragoman import __version__
from dragoman.config import DataSpec
from dragoman.corpus import Corpus
from dragoman.data.fields import TextField
from dragoman.data.text import Listed
from dragoman.recipes import recipe, recipe_names
from dragoman.validate import ROWS, Evaluation, better

MODEL = "model/"  # what the card calls the folder it lies in; `dragoman info` knows better
USE = f"""```
dragoman predict {MODEL} < inputs.txt
python -c 'import dragoman; print(dragoman.load("{MODEL}")("some text"))'
```
"""


def card(
    corpus: Corpus,
    weights: Mapping[str, Tensor],
    history: Sequence[Mapping[str, float]],
    metric: str,
    commands: Sequence[str],
    proof: Evaluation | None = None,
) -> str:
    """Markdown about a trained model. `commands` made it; `proof` is what its weights wrote when
    they were judged.
    """
    config, best = corpus.config, _best(history, metric)
    numbers = sum(tensor.numel() for tensor in weights.values())
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    parts = [
        [f"# {config.recipe}", "", _about(config.recipe)],
        [
            *(f"- {line}" for line in _columns(corpus)),
            f"- {numbers:,} parameters, {size / 1e6:.1f} MB",
            *_training(corpus, history, metric),
        ],
        ["## How good it is", "", *_figures(best, proof)],
        _examples(proof),
        ["## Use", "", USE.rstrip()],
        ["## Limits", "", *(f"- {line}" for line in _limits(corpus))],
        ["## Made with", "", *(f"- {line}" for line in _made_with(commands, _files(config.data)))],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _training(corpus: Corpus, history: Sequence[Mapping[str, float]], metric: str) -> list[str]:
    config, rows = corpus.config, corpus_unit(corpus)
    files = ", ".join(config.data.train) or "given in memory"
    return [
        f"- trained on {len(corpus.train):,} {rows} ({files}), seed {config.train.seed}, "
        f"{int(history[-1]['step']):,} steps",
        f"- the weights are those of step {int(_best(history, metric)['step']):,}, "
        f"the best of {len(history)} evaluations on {len(corpus.dev):,} dev {rows}{_asked(corpus)} "
        f"by {metric}",
    ]


def _asked(corpus: Corpus) -> str:
    """Answers are written to some of many dev rows; the likelihood is of all."""
    some = corpus.config.reads_source and len(corpus.samples) > ROWS
    return f" (answers to {ROWS:,} of them)" if some else ""


def _figures(best: Mapping[str, float], proof: Evaluation | None) -> list[str]:
    """Dev metrics, with intervals and signatures where they are known."""
    known = proof.intervals() if proof else {}
    lines = ["| dev metric | value | 95 % interval | signature |", "|---|---|---|---|"]
    for key, value in best.items():
        if key.startswith("dev_"):
            name = key.removeprefix("dev_")
            score = known.get(name)
            bounds = str(score.interval) if score and score.interval else ""
            signature = (score.signature if score else None) or ""
            lines.append(f"| {name} | {value:.3f} | {bounds} | {signature} |")
    told = "Of greedy decoding, by the model's own history." if known else ""
    return [*lines, "", told] if told else lines


def _examples(proof: Evaluation | None) -> list[str]:
    """Dev rows, what the model wrote for them, and what it should have written."""
    if not proof or not proof.samples or not proof.samples[0].source:
        return []
    lines = ["## Examples", "", "| input | answer | reference |", "|---|---|---|"]
    for source, written, wanted in proof.samples:
        cells = [" · ".join(source), written, wanted]
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return lines


def _cell(text: str) -> str:
    """A text in a table: one line, not too long.

    >>> _cell("a|b")
    'a\\\\|b'
    """
    short = text if len(text) <= 80 else f"{text[:79]}…"
    return " ".join(short.split()).replace("\\", "\\\\").replace("|", "\\|")


def _limits(corpus: Corpus) -> list[str]:
    fields = corpus.fields
    lines = []
    for name, field in fields.sources.items():
        if isinstance(field, TextField):
            lines.append(f"{name}: read up to {field.spec.max_length:,} symbols, the rest is cut")
            if field.spec.units in ("char", "word", "features"):
                lines.append(f"{name}: what is not in the alphabet is read as <unk>")
    if isinstance(fields.target.units, Listed):
        lines.append(f"writes nothing beyond its {fields.target.size:,} symbols")
    lines.append("judged on rows like those it learned from; elsewhere nobody has looked")
    return lines


def _files(data: DataSpec) -> list[str]:
    """All that was read: to learn from, and to judge by."""
    return [*data.train, *(name for more in data.also for name in more.files), *data.dev]


def command() -> str:
    """What is running now, as it would be typed."""
    own = Path(sys.argv[0]).name in ("dragoman", "__main__.py")
    return shlex.join(["dragoman", *sys.argv[1:]]) if own else "dragoman.train, from Python"


def _made_with(commands: Sequence[str], files: Sequence[str]) -> list[str]:
    """Versions, the commands, and which files exactly were read."""
    found = [
        f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    ]
    found += [f"`{one}`" for one in commands]
    for name in files:
        if digest := _digest(name):
            found.append(f"{name}: sha256 {digest}")
    return [*found, "all files here are data, with checksums in manifest.json"]


@lru_cache(maxsize=64)
def _digest(name: str) -> str | None:
    """The checksum of a file; nothing for what can be read only once, or is gone."""
    path = Path(name)
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _about(name: str) -> str:
    if name not in recipe_names():
        return "A model of its own recipe."
    known = recipe(name)
    return f"{known.line[0].upper()}{known.line[1:]} ({known.paper})."


def corpus_unit(corpus: Corpus) -> str:
    """What is counted: pairs, lines, or symbols of a running text."""
    if corpus.config.data.format == "running":
        return "symbols"
    return "pairs" if corpus.config.reads_source else "lines"


def _best(history: Sequence[Mapping[str, float]], metric: str) -> Mapping[str, float]:
    best = history[0]
    for figures in history:
        if better(metric, figures[f"dev_{metric}"], best[f"dev_{metric}"]):
            best = figures
    return best


def _columns(corpus: Corpus) -> list[str]:
    sides = [("reads", field) for field in corpus.fields.sources.values()]
    sides.append(("writes", corpus.fields.target))
    return [f"{verb} {field.describe()}" for verb, field in sides]
