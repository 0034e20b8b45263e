"""Clients come one by one, a model answers many at once: its inputs wait in a queue, and those with
the same options are decoded together. What a client gets does not depend on its neighbours.
"""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from threading import Condition, Thread
from typing import Any

from dragoman import search
from dragoman.choices import Choice, choices
from dragoman.config import SearchSpec
from dragoman.decode import Asked, Query
from dragoman.errors import DragomanError, UserError
from dragoman.live import write
from dragoman.predict import Prediction, Predictor
from dragoman.serve.costs import fitting
from dragoman.serve.counters import Counters
from dragoman.serve.settings import Settings

LOG = logging.getLogger("uvicorn.error")  # the server's own
PATIENCE = 0.3  # of the time of a batch, for which the next one may be held up ...
PAUSE = 0.1  # ... and after which nobody else is coming
LONG = 0.3  # seconds: a batch that took longer holds up the next one no longer for it


class FullError(Exception):
    """More inputs wait than may."""


class LateError(Exception):
    """The time for an answer is over."""


@dataclass
class Row:
    """An input's answer, and what else could have been written."""

    prediction: Prediction
    places: list[list[Choice]] | None = None

    @property
    def written(self) -> bool:
        """Whether the model was asked at all: a blank has an answer without it."""
        return bool(self.prediction.log_probs)


@dataclass(eq=False)
class Job:
    """A client's inputs and how to reach it: `tell` is called from the model's own thread, with a
    `Stroke` for each token that is streamed, and in the end with all rows or an error.
    """

    asked: list[Asked | Query]
    options: SearchSpec
    deadline: float
    tell: Callable[[Any], None]
    choices: int = 0
    stream: bool = False
    shown: list[dict[str, Any]] = field(default_factory=list)  # what the model sees of a file
    gone: bool = False  # nobody waits for it any more
    begun: int = 0  # inputs that were taken up
    rows: dict[int, Row] = field(default_factory=dict)

    @cached_property
    def fits(self) -> int:
        """How many inputs like these may be decoded together."""
        return fitting(self.asked, self.options)

    @property
    def left(self) -> int:
        return len(self.asked) - self.begun

    def late(self) -> bool:
        return self.gone or time.monotonic() > self.deadline


class Batcher:
    """A model, its queue and the one thread that works on it."""

    def __init__(
        self, predictor: Predictor, settings: Settings, counters: Counters, name: str = ""
    ) -> None:
        self.predictor, self.settings = predictor, settings
        self.counters, self.name = counters, name
        self.waiting: list[Job] = []
        self.writing: list[tuple[Job, Iterator[Any]]] = []
        self._news, self._closed = Condition(), False
        self._last, self._took = 0, 0.0  # inputs of the last batch, and its seconds
        self._thread = Thread(target=self._work, name=f"model {name}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether somebody works on the queue."""
        return self._thread.is_alive()

    @property
    def depth(self) -> int:
        """Inputs that wait."""
        return sum(job.left for job in self.waiting)

    def submit(self, job: Job) -> None:
        """Take a job up, or refuse it at once."""
        with self._news:
            self.waiting = [one for one in self.waiting if not one.gone]
            if self._closed or self.depth + len(job.asked) > self.settings.queue:
                raise FullError
            self.waiting.append(job)
            self._news.notify()

    def replace(self, predictor: Predictor) -> None:
        """Go on with other weights: those of a later checkpoint."""
        with self._news:
            self.predictor = predictor

    def close(self, seconds: float = 5.0) -> None:
        """Finish what is waiting, then end the thread."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join(seconds)

    def _work(self) -> None:
        import torch

        torch.set_num_threads(1)  # of this thread: a second one makes a busy machine slower
        while True:
            batch: list[tuple[Job, int]] = []
            try:
                with self._news:
                    while not (self.waiting or self.writing or self._closed):
                        self._news.wait()
                    if self._closed and not self.waiting and not self.writing:
                        return
                    self._gather()
                    batch = self._take()
                self._serve(batch)
            except Exception as error:  # a mistake of ours: the next clients must not pay for it
                self._mend(batch, error)

    def _serve(self, batch: list[tuple[Job, int]]) -> None:
        """Answer a batch, and go a token further with all answers that are streamed."""
        begun = time.monotonic()
        if batch:
            self._answer(batch)
            self._last, self._took = len(batch), min(LONG, time.monotonic() - begun)
        for job, strokes in list(self.writing):
            self._advance(job, strokes)

    def _mend(self, batch: list[tuple[Job, int]], error: Exception) -> None:
        """Tell those who would wait in vain: a batch, or everybody where there was none yet."""
        self._log(error)
        jobs = [job for job, _ in batch or self.writing]
        if not batch:
            with self._news:
                jobs, self.waiting, self.writing = [*jobs, *self.waiting], [], []
        for job in jobs:
            try:
                self._end(job, error)
            except Exception as another:
                self._log(another)

    def _gather(self) -> None:
        """Clients who were answered together come again one after the other: without a moment's
        patience the first of them would be a batch of its own, and all others wait for it.
        """
        end = time.monotonic() + PATIENCE * self._took
        while self.depth < self._last and not (self.writing or self._closed):
            before = self.depth
            self._news.wait(min(PAUSE * self._took, end - time.monotonic()))
            if self.depth == before or time.monotonic() > end:
                return

    def _take(self) -> list[tuple[Job, int]]:
        """The next inputs to decode together: the first job's, and in turn with them those of all
        jobs with the same options. Then others come first: a long list does not hold them up.
        """
        for job in [one for one in self.waiting if one.late()]:
            self._drop(job)
        for job in [one for one in self.waiting if one.stream]:
            self.waiting.remove(job)
            self._begin(job)
        if not self.waiting:
            return []
        wanted = self.waiting[0].options
        alike = [job for job in self.waiting if job.options == wanted]
        others = [job for job in self.waiting if job.options != wanted]
        batch, room = list[tuple[Job, int]](), self.settings.batch
        while alike and len(batch) < min(room, alike[0].fits):
            job = alike.pop(0)
            batch.append((job, job.begun))
            room = min(room, job.fits)
            job.begun += 1
            if job.left:
                alike.append(job)
        self.waiting = [*others, *alike]
        return batch

    def _drop(self, job: Job) -> None:
        self.counters.add("dragoman_dropped_total", len(job.asked), model=self.name)
        self._end(job, LateError())

    def _answer(self, batch: list[tuple[Job, int]]) -> None:
        self.counters.add("dragoman_batches_total", model=self.name)
        self.counters.add("dragoman_batched_inputs_total", len(batch), model=self.name)
        try:
            found = self._decode(batch)
        except UserError as error:
            if len({id(job) for job, _ in batch}) == 1:
                self._fail(batch[0][0], error)
                return
            for one in batch:  # somebody's wish cannot be granted: the others' can
                self._answer([one])
            return
        except search.StoppedError:  # nobody waits for any of them
            for job in {job for job, _ in batch}:
                self._drop(job)
            return
        except Exception as error:
            for job, _ in batch:
                self._fail(job, error)
            return
        for (job, place), row in zip(batch, found, strict=True):
            job.rows[place] = row
            self.counters.add("dragoman_tokens_total", len(row.prediction.tokens), model=self.name)
            if len(job.rows) == len(job.asked):
                job.tell([job.rows[place] for place in range(len(job.asked))])

    def _decode(self, batch: list[tuple[Job, int]]) -> list[Row]:
        asked: list[Any] = [job.asked[place] for job, place in batch]
        options, places = batch[0][0].options, [place for _, place in batch]
        with search.until(lambda: all(job.late() for job, _ in batch)):
            found = self.predictor.predict(asked, options, len(asked), places)
        rows = [Row(prediction) for prediction in found]
        curious = [i for i, (job, _) in enumerate(batch) if job.choices and rows[i].written]
        if curious:
            self._look(batch, asked, rows, curious)
        return rows

    def _look(
        self,
        batch: list[tuple[Job, int]],
        asked: list[Asked | Query],
        rows: list[Row],
        curious: list[int],
    ) -> None:
        """What else could have been written, for those who want to know."""
        most = max(batch[i][0].choices for i in curious)
        pairs = [(asked[i], rows[i].prediction.tokens) for i in curious]
        found = choices(self.predictor.team, pairs, batch[0][0].options, most)
        for i, places in zip(curious, found, strict=True):
            rows[i].places = [place[: batch[i][0].choices] for place in places]

    def _begin(self, job: Job) -> None:
        try:
            strokes = write(self.predictor, job.asked[0], job.options)
        except Exception as error:
            self._fail(job, error)
            return
        self.writing.append((job, strokes))

    def _advance(self, job: Job, strokes: Iterator[Any]) -> None:
        """One token further with an answer that is streamed."""
        try:
            if job.late():
                raise LateError
            stroke = next(strokes)
            if not isinstance(stroke, Prediction):
                self.counters.add("dragoman_tokens_total", model=self.name)
                job.tell(stroke)
                return
            row = Row(stroke)
            if job.choices and row.written:
                self._look([(job, 0)], job.asked, [row], [0])
            job.tell([row])
        except Exception as error:
            self._fail(job, error)
        self.writing.remove((job, strokes))

    def _fail(self, job: Job, error: Exception) -> None:
        if not isinstance(error, DragomanError | LateError):
            self._log(error)
        self._end(job, error)

    def _log(self, error: Exception) -> None:
        LOG.error("model %s failed", self.name, exc_info=error)
        self.counters.add("dragoman_failures_total", model=self.name)

    def _end(self, job: Job, error: Exception) -> None:
        with self._news:  # clients come and go at the same time
            if job in self.waiting:
                self.waiting.remove(job)
        if not job.gone:
            job.gone = True
            job.tell(error)
