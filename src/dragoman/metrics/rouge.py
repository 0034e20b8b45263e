"""ROUGE of Lin 2004: how much of a reference summary is in another, and the other way round.

Lines are lower-cased and split at all that is neither letter, mark nor digit, without stemming. On
plain English that is what the package `rouge-score` does by default; unlike it we keep the letters
of other alphabets, of which it would leave nothing. F1 is averaged over lines, each against its
best reference. A line too short for an n-gram scores 0, as is usual.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from dragoman.metrics.edits import common_length
from dragoman.metrics.tally import Counted, References, alternatives, metric, ratio

Grams = list[str] | list[tuple[str, str]]


@metric("ROUGE-1", "higher")
def rouge1(hypotheses: Sequence[str], references: References) -> Counted:
    """F1 of the words that a line shares with its reference.

    >>> print(rouge1(["the cat sat"], ["The cat, asleep."]))
    ROUGE-1 66.67
    """
    return _mean_f1(hypotheses, references, tokens, _shared)


@metric("ROUGE-2", "higher")
def rouge2(hypotheses: Sequence[str], references: References) -> Counted:
    """F1 of the pairs of neighbouring words that a line shares with its reference.

    >>> print(rouge2(["the cat sat"], ["The cat, asleep."]))
    ROUGE-2 50.00
    """
    return _mean_f1(hypotheses, references, _pairs, _shared)


@metric("ROUGE-L", "higher")
def rouge_l(hypotheses: Sequence[str], references: References) -> Counted:
    """F1 of the longest sequence of words that a line shares with its reference, gaps allowed.

    >>> print(rouge_l(["the cat sat down"], ["the dog sat"]))
    ROUGE-L 57.14
    """
    return _mean_f1(hypotheses, references, tokens, common_length)


def tokens(line: str) -> list[str]:
    """The words that ROUGE counts.

    >>> tokens("Don't: it's 3.5 €, हिन्दी!")
    ['don', 't', 'it', 's', '3', '5', 'हिन्दी']
    """
    kept = (c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in line.lower())
    return "".join(kept).split()


def _pairs(line: str) -> list[tuple[str, str]]:
    return list(pairwise(tokens(line)))


def _shared(a: Grams, b: Grams) -> int:
    return (Counter[object](a) & Counter[object](b)).total()


def _mean_f1(
    hypotheses: Sequence[str],
    references: References,
    cut: Callable[[str], Grams],
    shared: Callable[[Grams, Grams], int],
) -> Counted:
    rows = []
    for line, several in zip(hypotheses, alternatives(hypotheses, references), strict=True):
        given = cut(line)
        wanted = [cut(reference) for reference in several]
        best = max(2 * shared(given, one) / max(len(given) + len(one), 1) for one in wanted)
        rows.append([best, 1.0])
    return Counted(len(rows), ratio(np.array(rows)))
