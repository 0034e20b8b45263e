"""How good a model is on a test file: metrics of its own writing, and how likely it holds the
references.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.config import merge, validate
from dragoman.corpus import Running, Say, read_rows, running
from dragoman.data.fields import clean
from dragoman.metrics import Score, bits_per_character, compute, perplexity
from dragoman.predict import Predictor
from dragoman.validate import likelihood, usual


def evaluate_files(
    predictor: Predictor,
    data: Mapping[str, Any],
    search: Mapping[str, Any],
    names: Sequence[str],
    batch_size: int = 32,
    say: Say = lambda line: None,
) -> list[Score]:
    """Scores of a model on files, given as the `data` part of a config."""
    own = predictor.config.model_dump(mode="json")
    own["data"] |= {"train": [], "dev": [], "columns": None}
    config = validate(merge(own, {"data": dict(data)}))
    table = read_rows(config, config.data.train, say)
    if config.data.format == "running":
        return _of_text(predictor, running(predictor.fields, table))
    if not config.reads_source:
        return _of_lines(predictor, [row[-1] for row in table], batch_size)
    sources, references = list(table.columns[0]), list(table.columns[-1])
    return evaluate(predictor, sources, references, search, names, batch_size)


def evaluate(
    predictor: Predictor,
    sources: Sequence[str],
    references: Sequence[str],
    search: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    batch_size: int = 32,
) -> list[Score]:
    """Scores of what the model writes for `sources`, beside its perplexity on the references.

    References are brought into the form the model was taught to write (its lower-casing, its NFC).
    """
    options = predictor.options(**(search or {}))
    written = [p.text for p in predictor.stream(sources, options, batch_size)]
    wanted = [clean(reference, predictor.fields.target.spec) for reference in references]
    scores = compute(list(names) or usual(predictor.fields), written, wanted)
    scored = predictor.score(list(zip(sources, references, strict=True)), batch_size)
    return [
        *scores,
        perplexity(sum(s.score for s in scored), sum(len(s.log_probs) for s in scored)),
    ]


def _of_text(predictor: Predictor, text: Running) -> list[Score]:
    figures = likelihood(text, predictor.model, predictor.config)
    total = -figures["loss"] * len(text)
    return [perplexity(total, len(text)), bits_per_character(total, text.characters)]


def _of_lines(predictor: Predictor, lines: list[str], batch_size: int) -> list[Score]:
    scored = predictor.score([("", line) for line in lines], batch_size)
    total = sum(s.score for s in scored)
    return [
        perplexity(total, sum(len(s.log_probs) for s in scored)),
        bits_per_character(total, sum(len(line) + 1 for line in lines)),
    ]
