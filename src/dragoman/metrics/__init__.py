"""Metrics: functions on lists of lines, so that any model, file or pipe can be measured alike.

Every one returns a `Score`. Shares and rates are percentages, as BLEU and chrF are by custom, so
that all numbers in one table read on one scale. A line may have several references: give a list
of lists.
"""

from dragoman.metrics.captions import bleu1, bleu2, bleu3, bleu4, caption_rouge, cider
from dragoman.metrics.corpus import bleu, chrf, ter
from dragoman.metrics.edits import edit_distance
from dragoman.metrics.intervals import Comparison, compare, estimate, interval
from dragoman.metrics.labels import (
    Confusion,
    LabelReport,
    accuracy,
    accuracy_last,
    confusion,
    entities,
    f1_entity,
    f1_macro,
    f1_micro,
    per_label,
)
from dragoman.metrics.likelihood import bits, bits_per_character, perplexities, perplexity
from dragoman.metrics.rouge import rouge1, rouge2, rouge_l
from dragoman.metrics.table import METRICS, SOURCED, Measure, compute, require, tallies
from dragoman.metrics.tally import Interval, References, Score, Tally, slowly
from dragoman.metrics.text import cer, exact, per, wer

__all__ = [
    "METRICS",
    "SOURCED",
    "Comparison",
    "Confusion",
    "Interval",
    "LabelReport",
    "Measure",
    "References",
    "Score",
    "Tally",
    "accuracy",
    "accuracy_last",
    "bits",
    "bits_per_character",
    "bleu",
    "bleu1",
    "bleu2",
    "bleu3",
    "bleu4",
    "caption_rouge",
    "cer",
    "chrf",
    "cider",
    "compare",
    "compute",
    "confusion",
    "edit_distance",
    "entities",
    "estimate",
    "exact",
    "f1_entity",
    "f1_macro",
    "f1_micro",
    "interval",
    "per",
    "per_label",
    "perplexities",
    "perplexity",
    "require",
    "rouge1",
    "rouge2",
    "rouge_l",
    "slowly",
    "tallies",
    "ter",
    "wer",
]
