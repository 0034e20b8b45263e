"""The model card: what a folder holds, for the person who finds it."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from dragoman import __version__
from dragoman.corpus import Corpus
from dragoman.recipes import recipe, recipe_names
from dragoman.validate import better

USE = """Text metrics are of greedy decoding, by the model's own history.

```
dragoman predict model/ < inputs.txt
python -c 'import dragoman; print(dragoman.load("model/")("some text"))'
```
"""


def card(
    corpus: Corpus,
    weights: Mapping[str, Tensor],
    history: Sequence[Mapping[str, float]],
    metric: str,
) -> str:
    """Markdown about a trained model."""
    config, best, last = corpus.config, _best(history, metric), history[-1]
    rows, files = corpus_unit(corpus), ", ".join(config.data.train) or "given pairs"
    lines = [
        f"# {config.recipe}",
        "",
        _about(config.recipe),
        "",
        f"- parameters: {sum(tensor.numel() for tensor in weights.values()):,}",
        *(f"- {line}" for line in _columns(corpus)),
        f"- trained on {len(corpus.train):,} {rows} ({files}), seed {config.train.seed}, "
        f"{int(last['step']):,} steps",
        f"- the weights are those of step {int(best['step']):,}, "
        f"the best of {len(history)} evaluations on {len(corpus.dev):,} dev {rows} by {metric}",
        "",
        "| dev metric | value |",
        "|---|---|",
        *(f"| {k.removeprefix('dev_')} | {v:.3f} |" for k, v in best.items() if k[:4] == "dev_"),
        "",
        USE,
        f"Written by dragoman {__version__}. All files are data, with checksums in manifest.json.",
        "",
    ]
    return "\n".join(lines)


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
