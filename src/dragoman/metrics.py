"""Metrics: functions on lists of lines, so that any model, file or pipe can be measured alike.

Every one returns a `Score`. Shares and rates are percentages, as BLEU and chrF are by custom, so
that all numbers in one table read on one scale.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal, NamedTuple

from dragoman.errors import UserError, did_you_mean


class Score(NamedTuple):
    """A number with what one needs to compare it: its direction and, for BLEU, how it was counted.

    >>> print(Score("CER", 12.5, "lower"))
    CER 12.50
    """

    name: str
    value: float
    better: Literal["higher", "lower"]
    signature: str | None = None  # of sacrebleu: scores compare only where signatures are equal

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f}"


def bleu(hypotheses: list[str], references: list[str], lowercase: bool = False) -> Score:
    """Corpus BLEU of Papineni et al. 2002 as sacrebleu counts it, on untokenised text.

    It counts up to 4-grams: a corpus that has none scores 0, even where every line is right.

    >>> bleu(["the cat sat on the mat"], ["the cat sat on a mat"]).value > 50
    True
    """
    from sacrebleu.metrics.bleu import BLEU

    _check(hypotheses, references)
    metric = BLEU(
        lowercase=lowercase, force=True
    )  # force: the text is what it is, do not warn of tokens
    value = metric.corpus_score(hypotheses, [references]).score
    return Score("BLEU", min(value, 100.0), "higher", str(metric.get_signature()))


def chrf(hypotheses: list[str], references: list[str], lowercase: bool = False) -> Score:
    """Character n-gram F-score of Popović 2015 (chrF2): kinder than BLEU to rich morphology.

    >>> print(chrf(["talossa"], ["talossa"]))
    chrF 100.00
    """
    from sacrebleu.metrics.chrf import CHRF

    _check(hypotheses, references)
    metric = CHRF(lowercase=lowercase)
    value = metric.corpus_score(hypotheses, [references]).score
    return Score("chrF", min(value, 100.0), "higher", str(metric.get_signature()))


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Fewest insertions, deletions and substitutions between two sequences (Levenshtein).

    The bit-parallel recurrence of Myers 1999 in the form of Hyyrö 2003: one column of the table is
    two integers, its steps up and its steps down, so it costs a few operations and not a loop.

    >>> edit_distance("kitten", "sitting"), edit_distance(["a", "b"], ["b"])
    (3, 1)
    """
    if not a:
        return len(b)
    places: dict[Hashable, int] = {}
    for i, symbol in enumerate(a):
        places[symbol] = places.get(symbol, 0) | 1 << i
    full, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    up, down, distance = full, 0, len(a)
    for symbol in b:
        same = places.get(symbol, 0)
        level = (((same & up) + up) ^ up) | same | down
        right_up, right_down = down | (full & ~(level | up)), up & level
        if right_up & last:
            distance += 1
        elif right_down & last:
            distance -= 1
        right_up = right_up << 1 | 1  # the top row counts insertions: it always steps up
        up = full & (right_down << 1 | ~(level | right_up))
        down = full & right_up & level
    return distance


def cer(hypotheses: list[str], references: list[str]) -> Score:
    """Character error rate: edits per 100 characters of the references, spaces included.

    >>> print(cer(["abcd"], ["abce"]))
    CER 25.00
    """
    _check(hypotheses, references)
    return Score("CER", _error_rate(hypotheses, references), "lower")


def wer(hypotheses: list[str], references: list[str]) -> Score:
    """Word error rate: edits per 100 words of all references together, so long lines weigh more.

    >>> print(wer(["the cat sat", "no"], ["the cat sat", "yes"]))
    WER 25.00
    """
    _check(hypotheses, references)
    return Score("WER", _error_rate(_words(hypotheses), _words(references)), "lower")


def per(hypotheses: list[str], references: list[str]) -> Score:
    """Phone error rate: `wer` where the words of a line are phones, as speech people call it.

    >>> print(per(["K AE T"], ["K AA T"]))
    PER 33.33
    """
    return wer(hypotheses, references)._replace(name="PER")


def exact(hypotheses: list[str], references: list[str]) -> Score:
    """Share of lines that equal their reference to the last character.

    >>> print(exact(["2024-11-05", "2024-11-06"], ["2024-11-05", "2024-11-07"]))
    exact 50.00
    """
    return Score("exact", _share_equal(hypotheses, references), "higher")


def accuracy(hypotheses: Sequence[object], references: Sequence[object]) -> Score:
    """Share of labels that are right; unlike the others it takes labels of any type.

    >>> print(accuracy([3, 1, 2, 2], [3, 1, 2, 0]))
    accuracy 75.00
    """
    return Score("accuracy", _share_equal(hypotheses, references), "higher")


def perplexity(total_log_prob: float, tokens: int) -> Score:
    """How many equally likely tokens the model hesitates between; `total_log_prob` is in nats.

    >>> print(perplexity(3 * math.log(1 / 8), tokens=3))
    perplexity 8.00
    """
    nats = _surprise(total_log_prob, tokens, "tokens")
    try:
        value = math.exp(nats)
    except OverflowError:  # a model this lost is as good as infinitely lost
        value = math.inf
    return Score("perplexity", value, "lower")


def bits_per_character(total_log_prob: float, characters: int) -> Score:
    """Unlike perplexity comparable between units: characters are the same whatever the tokens are.

    >>> print(bits_per_character(4 * math.log(1 / 2), characters=4))
    bits per character 1.00
    """
    nats = _surprise(total_log_prob, characters, "characters")
    return Score("bits per character", nats / math.log(2), "lower")


METRICS: dict[str, Callable[[list[str], list[str]], Score]] = {
    "bleu": bleu,
    "chrf": chrf,
    "cer": cer,
    "wer": wer,
    "per": per,
    "exact": exact,
    "accuracy": accuracy,
}


def compute(names: Iterable[str], hypotheses: list[str], references: list[str]) -> list[Score]:
    """The named metrics of one list of lines, in the order of the names.

    All names are checked first: a typo in the last one should not cost the time of the others.

    >>> [str(score) for score in compute(["exact", "cer"], ["ab", "c"], ["ab", "d"])]
    ['exact 50.00', 'CER 33.33']
    """
    wanted = list(names)
    for name in wanted:
        if name not in METRICS:
            hint = did_you_mean(name, list(METRICS))
            raise UserError(f"unknown metric '{name}'{hint}; known: {', '.join(METRICS)}")
    return [METRICS[name](hypotheses, references) for name in wanted]


def _check(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} predictions but {len(references)} references: pair them up"
        )
    if not references:
        raise UserError("nothing to measure: there are no predictions and no references")


def _words(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def _error_rate(
    hypotheses: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Hashable]]
) -> float:
    """Where all references are empty each edit is a whole error: silence is 0, a symbol 100."""
    edits = sum(map(edit_distance, hypotheses, references))
    return 100 * edits / max(sum(map(len, references)), 1)


def _share_equal(hypotheses: Sequence[object], references: Sequence[object]) -> float:
    _check(hypotheses, references)
    hits = sum(bool(a == b) for a, b in zip(hypotheses, references, strict=True))
    return 100 * hits / len(references)


def _surprise(total_log_prob: float, count: int, what: str) -> float:
    if count <= 0:
        raise UserError(f"nothing to measure: {count} {what}")
    return -total_log_prob / count
