"""How good a model is on rows it was not trained on, judged by what it writes by itself."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from dragoman.checkpoint import Fields
from dragoman.config import Config
from dragoman.core import move
from dragoman.corpus import Corpus, Running
from dragoman.data.batches import Batch, Budget, Examples, cut
from dragoman.data.fields import TextField, clean
from dragoman.decode import Asked, Query
from dragoman.errors import DragomanError, UserError, did_you_mean
from dragoman.metrics import METRICS, SOURCED, Score, compute, estimate, tallies
from dragoman.metrics.labels import DIALECTS
from dragoman.model import Model
from dragoman.predict import Prediction, Predictor

CAPTIONED = ("image",)  # what is described in words
MARK = rf"[{''.join(DIALECTS)}]-.+"  # the tag of a name or a slot
ROWS = 1000  # as many dev rows are decoded at each evaluation
SHOWN = 6  # and so many of them kept to look at
EXPLODED = 700.0  # -log p of a symbol: beyond it a perplexity is no number
LIKELIHOODS = ["loss", "perplexity", "bits"]  # what needs no decoding; less is better
WRITTEN = METRICS | SOURCED  # what needs decoding
LOWER = {*LIKELIHOODS, *(name for name, metric in WRITTEN.items() if metric.better == "lower")}
ORDERS = {  # what people look at where answers are positions, by which orders of them are valid
    "none": ["exact", "wer"],
    "each-once": ["exact", "wer"],
    "tour": ["exact", "tour-valid", "tour"],
    "hull": ["hull-area", "hull"],
}


class Sample(NamedTuple):
    """What a model wrote for a dev row, and what it should have written."""

    source: tuple[str, ...]
    written: str
    wanted: str


class Evaluation(NamedTuple):
    """Figures by name, and samples of what the model writes."""

    figures: dict[str, float]
    sample: tuple[str, str, str] | None  # source, what the model wrote, reference
    samples: list[Sample]  # of the same rows at each evaluation
    written: tuple[list[str], list[str]] = ([], [])  # all answers that were judged, and references
    whole: bool = False  # they are tags, and behind them a label

    def intervals(self) -> dict[str, Score]:
        """The metrics of what was written, each with its 95 % bootstrap interval."""
        names = [name for name in self.figures if name in METRICS] if self.written[0] else []
        found = tallies(names, *self.written, whole=self.whole) if names else []
        return dict(zip(names, map(estimate, found), strict=True))


def watched(config: Config, fields: Fields) -> str:
    """The metric that decides when to stop: the one that is named, or what suits the target's
    units.
    """
    metric = config.train.metric
    known = [*WRITTEN, *LIKELIHOODS]
    if metric == "auto":
        if not config.reads_source:
            return "perplexity"
        return usual(config, fields)[-1]
    if metric not in known:
        raise UserError(f"train.metric: there is no metric '{metric}'{did_you_mean(metric, known)}")
    if metric in WRITTEN and not config.reads_source:
        raise UserError(f"train.metric: a language model is judged by perplexity, not by {metric}")
    return metric


def usual(config: Config, fields: Fields) -> list[str]:
    """What people look at for such a target; the last tells most about progress."""
    units = fields.target.spec.units
    if units == "position":
        return ORDERS[config.search.valid]
    if units in ("subword", "label"):
        return ["chrf", "bleu"] if units == "subword" else ["f1-macro", "accuracy"]
    if units != "word":
        return ["exact", "cer"]
    if tags := _of_tags(fields.target.units.symbols, bool(config.beyond)):
        return tags
    source = fields.source
    if source is not None and source.spec.kind in CAPTIONED:
        return ["bleu1", "bleu4", "rouge-captions", "cider"]
    spelled = isinstance(source, TextField) and source.spec.units in ("char", "bytes")
    return ["exact", "per" if spelled else "wer"]  # letters to words are letters to phones


def _of_tags(symbols: Sequence[str], whole: bool) -> list[str]:
    """What people look at where symbols mark names or slots, and where a label follows them.

    >>> _of_tags(["O", "B-who"], False), _of_tags(["NOUN", "E-mail"], True)
    (['exact', 'f1-entity'], ['accuracy-last', 'exact', 'wer'])
    """
    marks = [symbol for symbol in symbols if re.fullmatch(MARK, symbol)]
    outside = "O" in symbols
    if whole:  # labels, such as E-mail, may look like marks; tags have an O or one of their kind
        tags = marks and (outside or len({mark[2:] for mark in marks}) < len(marks))
        return ["accuracy-last", *(["f1-entity"] if tags else []), "exact", "wer"]
    return ["exact", "f1-entity"] if marks and len(marks) + outside == len(symbols) else []


def better(metric: str, value: float, best: float | None) -> bool:
    """Whether a value improves on the best so far.

    >>> better("cer", 4.0, 5.0), better("bleu", 30.0, None), better("bleu", math.nan, 1.0)
    (True, True, False)
    """
    if math.isnan(value):
        return False
    return best is None or (value < best if metric in LOWER else value > best)


def spread(count: int, most: int) -> list[int]:
    """At most so many of `count` places, evenly spread: files are often sorted.

    >>> spread(10, 4), spread(3, 4)
    ([0, 2, 5, 7], [0, 1, 2])
    """
    return [i * count // most for i in range(most)] if count > most else list(range(count))


def evaluate(corpus: Corpus, model: Model, metric: str) -> Evaluation:
    """Likelihood of the dev rows, and metrics of what greedy decoding makes of their sources."""
    model.eval()
    usually, whole = usual(corpus.config, corpus.fields), bool(corpus.config.beyond)
    names = sorted({metric, *usually} - set(LIKELIHOODS))
    figures = likelihood(corpus.dev, model, corpus.config)
    if not figures["loss"] < EXPLODED:
        raise DragomanError(
            f"the loss of the dev rows is {figures['loss']:.3g}: lower train.lr; "
            "the last checkpoint is unharmed"
        )
    sample, samples, texts, wanted = None, list[Sample](), list[str](), list[str]()
    if corpus.config.reads_source and isinstance(corpus.dev, Examples):
        places = spread(len(corpus.samples), ROWS)
        rows = [corpus.samples[place] for place in places]
        predictor = Predictor(corpus.config, corpus.fields, model)
        asked = [_query(corpus, place, row) for place, row in zip(places, rows, strict=True)]
        written = predictor.predict(asked, predictor.options(beam=1), batch_size=64)
        spec = corpus.fields.target.spec
        wanted = [clean(row[-1], spec) for row in rows]  # as the model was taught to write
        told = [row[0] for row in rows]
        texts = [prediction.text for prediction in written]
        scores = compute(names, texts, wanted, told, whole)
        figures |= {name: score.value for name, score in zip(names, scores, strict=True)}
        sample = _sample(rows, written, wanted)
        samples = [
            Sample(_source(corpus, rows[at]), written[at].text, wanted[at])
            for at in spread(len(rows), SHOWN)
        ]
    elif not corpus.config.reads_source:
        predictor = Predictor(corpus.config, corpus.fields, model)
        (own,) = predictor.predict([""], predictor.options(sample=True, max_length=40))
        sample, samples = ("", own.text, own.text), [Sample((), own.text, "")]
    model.train()
    return Evaluation(figures, sample, samples, (texts, wanted), whole)


def _query(corpus: Corpus, place: int, row: tuple[str, ...]) -> Query | tuple[str, ...]:
    """A dev row to ask; files that it names are not read again."""
    if not corpus.fields.files:
        return row[:-1]
    assert isinstance(corpus.dev, Examples)
    return Query(Asked(row[:-1]), [column[place] for column in corpus.dev.sources], (), [])


def likelihood(dev: Examples | Running, model: Model, config: Config) -> dict[str, float]:
    """Loss per symbol, perplexity, and bits per character of a running text."""
    device = next(model.parameters()).device
    total, tokens, carried = 0.0, 0, None
    with torch.inference_mode():
        for batch in _batches(dev, config):
            loss, after = model.loss(
                move(batch.source, device), move(batch.target, device), carried=carried
            )
            carried = after if isinstance(dev, Running) else None
            total, tokens = total + float(loss.nll), tokens + int(loss.tokens)
    mean = total / max(tokens, 1)
    figures = {"loss": mean, "perplexity": math.exp(min(mean, EXPLODED))}
    if isinstance(dev, Running):
        figures["bits"] = total / math.log(2) / max(dev.characters, 1)
    return figures


def _batches(dev: Examples | Running, config: Config) -> Iterator[Batch]:
    if isinstance(dev, Running):
        stream = dev.stream(1, config.train.bptt)
        return (stream.batch(position) for position in range(len(stream)))
    order = dev.lengths.argsort(kind="stable")
    return (dev.batch(rows) for rows in cut(order, dev.lengths, Budget(4096)))


def _source(corpus: Corpus, row: tuple[str, ...]) -> tuple[str, ...]:
    """What a row asks; of files only their names: where they lie is nobody's business."""
    columns = zip(corpus.fields.sources.values(), row, strict=False)
    named = ((getattr(field, "names_files", False), text) for field, text in columns)
    return tuple(Path(text).name if is_file else text for is_file, text in named)


def _sample(
    rows: list[tuple[str, ...]], written: list[Prediction], wanted: list[str]
) -> tuple[str, str, str]:
    """A wrong answer if there is one: it tells more."""
    wrong = [i for i, text in enumerate(wanted) if written[i].text != text]
    at = wrong[len(wrong) // 2] if wrong else 0
    return " | ".join(rows[at][:-1]), written[at].text, wanted[at]
