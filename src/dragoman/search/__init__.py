"""Search over any (step, state). Knows nothing of encoders, attention or vocabularies.

A strategy takes a pair and options and gives `Hypotheses`. A rule takes a pair and gives a pair: it
edits the log-probabilities, and what it must remember rides in the state, so that beams reorder it.

Rules that restrict never leave a path without a way on: where one would, it stands aside. So of two
rules that contradict each other the inner one wins, and every search ends with an answer.
"""

from dragoman.search.beams import PLAIN, Banks, Taste, beam
from dragoman.search.course_beams import Rank
from dragoman.search.courses import Limits
from dragoman.search.courses import sample as direct_sample
from dragoman.search.graphs import beam as recorded_beam
from dragoman.search.graphs import sample as recorded_sample
from dragoman.search.mixtures import ensemble, fuse, known
from dragoman.search.orders import VALID, each_once, ring, tour
from dragoman.search.phrases import Phrases, require
from dragoman.search.replayed import beam as direct_beam
from dragoman.search.replayed import greedy as direct_greedy
from dragoman.search.rules import (
    NEVER,
    below,
    forbid,
    never,
    never_phrases,
    no_repeat_ngrams,
    prefix,
    repetition_penalty,
    within,
)
from dragoman.search.stops import StoppedError, until
from dragoman.search.strategies import (
    Pick,
    Stride,
    by_chance,
    collect,
    force,
    greedy,
    likeliest,
    nucleus,
    sample,
    top,
    walk,
)

__all__ = [
    "NEVER",
    "PLAIN",
    "VALID",
    "Banks",
    "Limits",
    "Phrases",
    "Pick",
    "Rank",
    "StoppedError",
    "Stride",
    "Taste",
    "beam",
    "below",
    "by_chance",
    "collect",
    "direct_beam",
    "direct_greedy",
    "direct_sample",
    "each_once",
    "ensemble",
    "forbid",
    "force",
    "fuse",
    "greedy",
    "known",
    "likeliest",
    "never",
    "never_phrases",
    "no_repeat_ngrams",
    "nucleus",
    "prefix",
    "recorded_beam",
    "recorded_sample",
    "repetition_penalty",
    "require",
    "ring",
    "sample",
    "top",
    "tour",
    "until",
    "walk",
    "within",
]
