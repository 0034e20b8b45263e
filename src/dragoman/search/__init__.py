"""Search over any (step, state). Knows nothing of encoders, attention or vocabularies.

A strategy takes a pair and options and gives `Hypotheses`. A rule takes a pair and gives a pair: it
edits the log-probabilities, and what it must remember rides in the state, so that beams reorder it.

Rules that restrict never leave a path without a way on: where one would, it stands aside. So of two
rules that contradict each other the inner one wins, and every search ends with an answer.
"""

from dragoman.search.beams import PLAIN, Banks, Taste, beam
from dragoman.search.mixtures import ensemble, fuse, known
from dragoman.search.phrases import Phrases, require
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
    "Banks",
    "Phrases",
    "Pick",
    "Stride",
    "Taste",
    "beam",
    "below",
    "by_chance",
    "collect",
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
    "repetition_penalty",
    "require",
    "sample",
    "top",
    "walk",
    "within",
]
