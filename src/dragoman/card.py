"""The model card: what a folder holds, for the person who finds it."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from dragoman import __version__
from dragoman.config import recipe, recipe_names
from dragoman.corpus import Corpus
from dragoman.data.fields import TextField
from dragoman.validate import better


def card(
    corpus: Corpus,
    weights: Mapping[str, Tensor],
    history: Sequence[Mapping[str, float]],
    metric: str,
) -> str:
    """Markdown about a trained model."""
    config = corpus.config
    size = sum(tensor.numel() for tensor in weights.values())
    known = recipe(config.recipe) if config.recipe in recipe_names() else None
    best = _best(history, metric)
    lines = [
        f"# {config.recipe}",
        "",
        f"{known.line[0].upper()}{known.line[1:]} ({known.paper})."
        if known
        else "A model of its own recipe.",
        "",
        f"- parameters: {size:,}",
        *(f"- {line}" for line in _columns(corpus)),
        f"- trained on {len(corpus.train):,} {corpus_unit(corpus)} of {', '.join(config.data.train) or 'given pairs'}, "
        f"seed {config.train.seed}, {int(history[-1]['step']):,} steps, {history[-1]['seconds']:.0f} seconds",
        f"- the weights are those of step {int(best['step']):,}, best on {len(corpus.dev):,} dev {corpus_unit(corpus)} by {metric}",
        "",
        "| dev metric | value |",
        "|---|---|",
        *(
            f"| {name.removeprefix('dev_')} | {value:.3f} |"
            for name, value in best.items()
            if name.startswith("dev_")
        ),
        "",
        "Text metrics are of greedy decoding, by the model's own history.",
        "",
        "```",
        "dragoman predict model/ < inputs.txt",
        'python -c \'import dragoman; print(dragoman.load("model/")("some text"))\'',
        "```",
        "",
        f"Written by dragoman {__version__}. All files are data; `manifest.json` holds their checksums.",
        "",
    ]
    return "\n".join(lines)


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
    sides: list[tuple[str, TextField | None]] = [
        ("reads", corpus.fields.source),
        ("writes", corpus.fields.target),
    ]
    return [
        f"{verb} text by {field.spec.units}, an alphabet of {field.size:,}"
        + (", lower-cased" if field.spec.lower else "")
        + (", reversed" if field.spec.reverse else "")
        for verb, field in sides
        if field
    ]
