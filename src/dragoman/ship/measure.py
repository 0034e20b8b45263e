"""What leaving costs: size, speed and quality of a model that was exported, against its own."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.checkpoint import Fields, Loaded
from dragoman.data.fields import Field
from dragoman.data.files import content
from dragoman.data.media import Media
from dragoman.errors import UserError
from dragoman.evaluate.exam import read_exam
from dragoman.metrics import Score
from dragoman.predict import Input, Predictor
from dragoman.ship.folder import write_files
from dragoman.ship.rounding import Form, round_model

Answers = Callable[[Sequence[Input], dict[str, Any]], list[str]]


@dataclass(frozen=True)
class Figures:
    """Of one form of a model."""

    name: str
    size: int  # bytes on disk
    speed: float | None  # inputs a second; not known of a page, which nobody opened
    scores: list[Score]

    @property
    def pace(self) -> str:
        """Its speed in words."""
        return "–" if self.speed is None else f"{self.speed:.1f}"


@dataclass(frozen=True)
class Change:
    """A model before and after it left."""

    before: Figures
    after: Figures
    same: float  # percent of the answers that are the same
    inputs: int

    @property
    def metric(self) -> str:
        """The metric that counts: the first."""
        return self.before.scores[0].name

    @property
    def loss(self) -> float:
        """By how many points of it the model is worse; below 0 it is better."""
        old, new = self.before.scores[0], self.after.scores[0]
        return old.value - new.value if old.better == "higher" else new.value - old.value

    def lines(self) -> Iterator[str]:
        """A table for people."""
        names = [score.name for score in self.before.scores]
        yield f"{'':<16}{'MB':>8}{'inputs/s':>10}" + "".join(f"{name:>10}" for name in names)
        for one in (self.before, self.after):
            values = "".join(f"{score.value:10.3f}" for score in one.scores)
            yield f"{one.name:<16}{one.size / 1e6:8.2f}{one.pace:>10}{values}"
        yield f"the same answer to {self.same:.2f} % of {self.inputs:,} inputs"

    def line(self) -> str:
        """The same in a sentence."""
        pairs = zip(self.before.scores, self.after.scores, strict=True)
        told = ", ".join(f"{a.name} {b.value:.2f} ({a.value:.2f} before)" for a, b in pairs)
        return f"On {self.inputs:,} test inputs: {told}."

    def card(self) -> str:
        """The same in Markdown."""
        names = [score.name for score in self.before.scores]
        rows = [
            f"| {one.name} | {one.size / 1e6:.2f} | {one.pace} | "
            + " | ".join(str(score).removeprefix(f"{score.name} ") for score in one.scores)
            + " |"
            for one in (self.before, self.after)
        ]
        return "\n".join(
            [
                "",
                "## As exported",
                "",
                f"| form | MB | inputs/s | {' | '.join(names)} |",
                "|---" * (3 + len(names)) + "|",
                *rows,
                "",
                f"The same answer to {self.same:.2f} % of {self.inputs:,} inputs of the test file.",
                "",
            ]
        )


def compare(
    loaded: Loaded,
    folder: Path,
    data: Mapping[str, Any],
    answers: Answers,
    size: int,
    beam: int | None = None,
    timed: bool = True,
) -> Change:
    """The model in `folder` and its exported form on the same test file. The form is not `timed` if
    `answers` come from somewhere else than where it will run.
    """
    predictor = Predictor(*loaded)
    if not loaded.fields.sources:
        raise UserError("--test compares answers: a language model gives none")
    exam = read_exam(predictor, data, ())
    search = {"beam": beam} if beam else {}

    def judged(name: str, give: Answers, size: int) -> tuple[Figures, list[str]]:
        give(exam.cases.sources[:1], search)  # what is made on first use is not speed
        begin = time.perf_counter()
        lines = give(exam.cases.sources, search)
        speed = len(lines) / (time.perf_counter() - begin)
        return Figures(name, size, speed, exam.of_answers(name, lines).scores()), lines

    weights = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    before, ours = judged("dragoman", model_answers(predictor), weights)
    after, theirs = judged("exported", answers, size)
    after = after if timed else replace(after, speed=None)
    same = 100 * sum(a == b for a, b in zip(ours, theirs, strict=True)) / max(len(ours), 1)
    return Change(before, after, same, len(ours))


def model_answers(predictor: Predictor) -> Answers:
    """What the model itself says."""
    return lambda inputs, search: [
        one.text for one in predictor.stream(inputs, predictor.options(**search))
    ]


def rounded_answers(loaded: Loaded, form: Form) -> Answers:
    """What a page says: the model with its weights rounded."""
    return model_answers(Predictor(*round_model(loaded, form)))


def runner_answers(files: Mapping[str, bytes], fields: Fields) -> Answers:
    """What the runner of an exported folder says."""
    from dragoman.ship.runner import Runner

    def answers(inputs: Sequence[Input], search: dict[str, Any]) -> list[str]:
        return [found[0].text for found in runner(unpacked(fields, inputs), **search)]

    with tempfile.TemporaryDirectory() as place:
        write_files(Path(place), files)
        runner = Runner(place)
    return answers


def unpacked(fields: Fields, inputs: Sequence[Input]) -> list[tuple[str | bytes, ...]]:
    """Inputs for a runner, which opens files alone: what lies in a zip is given by its content."""
    rows = [(one,) if isinstance(one, str) else tuple(one) for one in inputs]
    columns = list(fields.sources.values())
    return [tuple(_unpacked(*pair) for pair in zip(columns, row, strict=True)) for row in rows]


def _unpacked(field: Field, value: str) -> str | bytes:
    if not isinstance(field, Media) or not value.strip():
        return value
    place = field.find(value)
    return value if place.member is None else content(place, field.most)
