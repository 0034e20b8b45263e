"""The metrics by the names people give on the command line and in configs."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from dragoman.errors import UserError, did_you_mean
from dragoman.metrics import orders
from dragoman.metrics.captions import bleu1, bleu2, bleu3, bleu4, caption_rouge, cider
from dragoman.metrics.corpus import bleu, chrf, ter
from dragoman.metrics.labels import (
    accuracy,
    accuracy_last,
    but_last,
    f1_entity,
    f1_macro,
    f1_micro,
    f1_set,
    last_words,
)
from dragoman.metrics.rouge import rouge1, rouge2, rouge_l
from dragoman.metrics.tally import Better, References, Score, Tally, alternatives
from dragoman.metrics.text import cer, exact, per, wer


class Measure(Protocol):
    """A metric of lines."""

    name: str
    better: Better

    def __call__(self, hypotheses: Sequence[str], references: References, /) -> Score: ...

    def tally(self, hypotheses: Sequence[str], references: References, /) -> Tally: ...


class MeasureOfSources(Protocol):
    """A metric of lines that looks at what they answer to."""

    name: str
    better: Better

    def tally(
        self, hypotheses: Sequence[str], references: References, sources: Sequence[str], /
    ) -> Tally: ...


METRICS: dict[str, Measure] = {
    "bleu": bleu,
    "chrf": chrf,
    "ter": ter,
    "rouge1": rouge1,
    "rouge2": rouge2,
    "rougeL": rouge_l,
    "bleu1": bleu1,
    "bleu2": bleu2,
    "bleu3": bleu3,
    "bleu4": bleu4,
    "rouge-captions": caption_rouge,
    "cider": cider,
    "cer": cer,
    "wer": wer,
    "per": per,
    "exact": exact,
    "accuracy": accuracy,
    "accuracy-last": accuracy_last,
    "f1-micro": f1_micro,
    "f1-macro": f1_macro,
    "f1-entity": f1_entity,
    "f1-set": f1_set,
}
OF_WHOLES: dict[str, Callable[[Sequence[str]], list[str]]] = {  # what is judged where the last
    "accuracy": last_words,  # word of a line is a label of the whole, behind tags
    "f1-micro": last_words,
    "f1-macro": last_words,
    "f1-entity": but_last,
}
SOURCED: dict[str, MeasureOfSources] = {
    "tour": orders.tour,
    "tour-length": orders.tour_length,
    "tour-valid": orders.tour_valid,
    "hull": orders.hull,
    "hull-area": orders.hull_area,
}


def compute(
    names: Iterable[str],
    hypotheses: Sequence[str],
    references: References,
    sources: Sequence[str] | None = None,
    whole: bool = False,
) -> list[Score]:
    """The named metrics of one list of lines, in the order of the names.

    All names are checked first: a typo in the last one should not cost the time of the others.

    >>> [str(score) for score in compute(["exact", "cer"], ["ab", "c"], ["ab", ["d", "e"]])]
    ['exact 50.00', 'CER 33.33']
    """
    return [tally.score() for tally in tallies(names, hypotheses, references, sources, whole)]


def tallies(
    names: Iterable[str],
    hypotheses: Sequence[str],
    references: References,
    sources: Sequence[str] | None = None,
    whole: bool = False,
) -> list[Tally]:
    """The same, with the counting done and the adding left open. Where lines are tags and a label
    of the `whole` behind them, metrics of labels look at the label and entities are in the tags.

    >>> [tally.items for tally in tallies(["exact"], ["ab", "c"], ["ab", "d"])]
    [2]
    >>> print(tallies(["f1-entity"], ["B-x E-mail"], ["B-x S-rate"], whole=True)[0].score())
    F1-entity 100.00
    """
    wanted = list(names)
    require(wanted)
    found = []
    for name in wanted:
        if whole and name in OF_WHOLES:
            look, several = OF_WHOLES[name], alternatives(hypotheses, references)
            found.append(METRICS[name].tally(look(hypotheses), [look(one) for one in several]))
        elif name in METRICS:
            found.append(METRICS[name].tally(hypotheses, references))
        elif sources is None:
            raise UserError(f"{name} looks at the sources: give a model and its data")
        else:
            found.append(SOURCED[name].tally(hypotheses, references, sources))
    return found


def require(names: Iterable[str]) -> None:
    """Refuse names that no metric has.

    >>> require(["bleu"])
    """
    for name in names:
        if name not in METRICS | SOURCED:
            known = [*METRICS, *SOURCED]
            hint = did_you_mean(name, known)
            raise UserError(f"unknown metric '{name}'{hint}; known: {', '.join(known)}")
