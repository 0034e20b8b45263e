"""How good a model is on a test file: metrics of its own writing, and how likely it holds the
references.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.evaluate.exam import Exam, read_exam, read_outputs
from dragoman.evaluate.judged import Judged, Spread, spread
from dragoman.evaluate.parts import BREAKDOWNS, Part, split
from dragoman.examples import Say
from dragoman.metrics import References, Score
from dragoman.predict import Input, Predictor

__all__ = [
    "BREAKDOWNS",
    "Exam",
    "Judged",
    "Part",
    "Spread",
    "evaluate",
    "evaluate_files",
    "read_exam",
    "read_outputs",
    "split",
    "spread",
]


def evaluate_files(
    predictor: Predictor,
    data: Mapping[str, Any],
    search: Mapping[str, Any],
    names: Sequence[str],
    batch_size: int = 32,
    say: Say = lambda line: None,
    group: bool | None = None,
) -> list[Score]:
    """Scores of a model on files, the `data` part of a config; `group` as in `read_exam`."""
    exam = read_exam(predictor, data, names, say, group)
    return exam.of_model("model", predictor, search, batch_size).scores()


def evaluate(
    predictor: Predictor,
    sources: Sequence[Input],
    references: References,
    search: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    batch_size: int = 32,
) -> list[Score]:
    """Scores of what the model writes for `sources`, beside its perplexity on the references.

    References are brought into the form the model was taught to write (its lower-casing, its NFC).
    """
    exam = Exam.of(predictor, sources, references, names)
    return exam.of_model("model", predictor, search or {}, batch_size).scores()
