"""One page about a model on a test file: how good, where, what goes wrong, what more data gives."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.errors import UserError
from dragoman.evaluate import Exam, Part, read_exam, split
from dragoman.evaluate.cases import columns
from dragoman.examples import Say
from dragoman.metrics import Score
from dragoman.predict import Prediction, Predictor
from dragoman.report.growth import Grown, grow
from dragoman.report.mistakes import Confusion, Mistake, confusions, mistakes, worst_and_typical


@dataclass(frozen=True)
class Shown:
    """A mistake with its source, and what the model has to say about it."""

    source: tuple[str, ...]
    mistake: Mistake
    prediction: Prediction


@dataclass(frozen=True)
class Findings:
    """All that the page tells."""

    name: str
    about: dict[str, str]
    scores: list[Score]
    parts: list[tuple[Part, Score]]  # by length of the source, the first metric
    history: list[dict[str, float]]  # of training, one entry an evaluation
    inputs: int
    wrong: int
    words: bool  # whether confusions are of words, not of characters
    confused: list[Confusion]
    worst: list[Shown]
    typical: list[Shown]
    grown: list[Grown] = field(default_factory=list)


def investigate(
    predictor: Predictor,
    name: str,
    data: Mapping[str, Any],
    *,
    history: Sequence[dict[str, float]] = (),
    metrics: Sequence[str] = (),
    sizes: Sequence[float] = (),
    say: Say = lambda line: None,
) -> Findings:
    """Judge a model on files (the `data` part of a config) and look at what it gets wrong."""
    exam = read_exam(predictor, data, metrics, say)
    if exam.text is not None or predictor.fields.source is None:
        raise UserError("a report is about answers to sources; a language model has neither")
    judged = exam.of_model(name, predictor, {})
    found = mistakes(judged.written, exam.wanted)
    worst, typical = worst_and_typical(found)
    words = predictor.fields.target.spec.units in ("word", "subword", "label")
    parts = split("length", exam, predictor)
    return Findings(
        name,
        _about(predictor, data, len(exam.cases.sources)),
        judged.scores(),
        [(part, judged.scores(part.items)[0]) for part in parts],
        list(history),
        len(exam.cases.sources),
        len(found),
        words,
        confusions(found, words),
        _shown(predictor, exam, worst),
        _shown(predictor, exam, typical),
        grow(predictor, exam, sizes, say) if sizes else [],
    )


def _about(predictor: Predictor, data: Mapping[str, Any], inputs: int) -> dict[str, str]:
    size = sum(p.numel() for p in predictor.model.parameters())
    return {
        "recipe": predictor.config.recipe,
        "parameters": f"{size:,}",
        "trained on": ", ".join(Path(p).name for p in predictor.config.data.train)
        or "rows in memory",
        "tested on": f"{', '.join(Path(p).name for p in data['train'])}: {inputs:,} inputs",
        "search": f"beam {predictor.config.search.beam}",
    }


def _shown(predictor: Predictor, exam: Exam, chosen: Sequence[Mistake]) -> list[Shown]:
    sources = [exam.cases.sources[mistake.item] for mistake in chosen]
    answers = predictor.predict(sources, predictor.options()) if sources else []
    return [
        Shown(columns(source), mistake, answer)
        for source, mistake, answer in zip(sources, chosen, answers, strict=True)
    ]


def read_history(folder: Path) -> list[dict[str, float]]:
    """The figures of training that a model folder holds; none where it holds none."""
    try:
        lines = (folder / "metrics.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []


__all__ = ["Findings", "Shown", "investigate", "read_history"]
