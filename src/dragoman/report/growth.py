"""How much more data would help: the same recipe, trained on shares of the training rows."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from dragoman.corpus import read_rows
from dragoman.errors import UserError
from dragoman.evaluate import Exam
from dragoman.examples import Say
from dragoman.metrics import Score
from dragoman.predict import Predictor
from dragoman.progress import Reporter
from dragoman.training import run


class Grown(NamedTuple):
    """How good a model of so many rows is."""

    rows: int
    score: Score


def grow(predictor: Predictor, exam: Exam, shares: Sequence[float], say: Say) -> list[Grown]:
    """Train on each share of the model's own training rows; judge by the exam's first metric."""
    if any(not 0 < share <= 1 for share in shares):
        raise UserError("--sizes are shares of the training rows, above 0 and up to 1")
    config = predictor.config
    table = read_rows(config, config.data.train, say)
    order = np.random.default_rng(config.train.seed).permutation(len(table))
    found = []
    for share in sorted(shares):
        rows = np.sort(order[: max(2, round(share * len(table)))])
        say(f"training on {len(rows):,} of {len(table):,} rows")
        with TemporaryDirectory() as place:
            folder = Path(place) / "model"
            model = run(config, folder, Reporter(quiet=True), table=table.select(rows))
            found.append(Grown(len(rows), exam.of_model("model", model, {}).scores()[0]))
    return found
