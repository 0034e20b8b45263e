"""Metrics of written lines: whole lines, characters, words and phones."""

from collections.abc import Hashable, Sequence

import numpy as np

from dragoman.metrics.edits import edit_distance
from dragoman.metrics.tally import (
    Counted,
    Floats,
    References,
    Values,
    alternatives,
    metric,
    ratio,
)


@metric("exact", "higher")
def exact(hypotheses: Sequence[str], references: References) -> Counted:
    """Share of lines that equal a reference of theirs to the last character.

    >>> print(exact(["2024-11-05", "2024-11-06"], ["2024-11-05", ["2024-11-07", "2024-11-08"]]))
    exact 50.00
    """
    return share_right(hypotheses, alternatives(hypotheses, references))


@metric("CER", "lower")
def cer(hypotheses: Sequence[str], references: References) -> Counted:
    """Character error rate: edits per 100 characters of the references, spaces included.

    >>> print(cer(["abcd"], ["abce"]))
    CER 25.00
    """
    return _error_rate(hypotheses, alternatives(hypotheses, references))


@metric("WER", "lower")
def wer(hypotheses: Sequence[str], references: References) -> Counted:
    """Word error rate: edits per 100 words of all references together, so long lines weigh more.

    >>> print(wer(["the cat sat", "no"], ["the cat sat", ["yes", "yeah"]]))
    WER 25.00
    """
    return _word_errors(hypotheses, references)


@metric("PER", "lower")
def per(hypotheses: Sequence[str], references: References) -> Counted:
    """Phone error rate: `wer` where the words of a line are phones, as speech people call it.

    >>> print(per(["K AE T"], ["K AA T"]))
    PER 33.33
    """
    return _word_errors(hypotheses, references)


def share_right(hypotheses: Sequence[object], references: Sequence[Sequence[object]]) -> Counted:
    """How many of 100 items are among their references.

    >>> share_right([1, 2], [[1], [3, 4]]).values(np.ones((1, 2))).tolist()
    [50.0]
    """
    right = [
        any(bool(wanted == given) for wanted in several)
        for given, several in zip(hypotheses, references, strict=True)
    ]
    return Counted(len(right), ratio(np.array([[hit, 1] for hit in right], float)))


def _word_errors(hypotheses: Sequence[str], references: References) -> Counted:
    several = alternatives(hypotheses, references)
    words = [[line.split() for line in lines] for lines in several]
    return _error_rate([line.split() for line in hypotheses], words)


def _error_rate(
    hypotheses: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Sequence[Hashable]]]
) -> Counted:
    """Each line has the edits and the length of each reference, the fewest edits (of the longest
    reference) first; lines with fewer references than others repeat their first.
    """
    width = max(map(len, references))
    rows = []
    for given, several in zip(hypotheses, references, strict=True):
        found = sorted((edit_distance(given, wanted), -len(wanted)) for wanted in several)
        rows.append(found + found[:1] * (width - len(found)))
    edits, lengths = np.moveaxis(np.array(rows, float), 2, 0)
    return Counted(len(rows), _least_rate(edits, -lengths))


def _least_rate(edits: Floats, lengths: Floats) -> Values:  # both (N, M): N lines, M references
    """The rate under the choice of references that makes it least, so that a further reference
    never hurts. No rule that looks at one line can promise that: the reference of fewest edits, or
    of fewest per symbol, may be short, and then the errors of all other lines weigh more.

    A ratio of sums is least where sum(edits - rate * lengths) is, and each line can choose for
    that by itself, so a few rounds find it (Dinkelbach 1967). Only a reference longer than the one
    of fewest edits is worth a thought. Where all references are empty each edit is a whole error:
    silence is 0, a symbol 100.
    """
    torn = np.flatnonzero((lengths > lengths[:, :1]).any(1))
    more, longer = (of[torn] - of[torn, :1] for of in (edits, lengths))  # than the fewest edits
    lines = np.arange(len(torn))

    def values(weights: Floats) -> Floats:
        above, below = weights @ edits[:, 0], weights @ lengths[:, 0]
        rate = above / np.maximum(below, 1)
        while len(torn):
            chosen = (more - rate[:, None, None] * longer).argmin(2)  # (R, torn lines)
            further, wider = (
                (weights[:, torn] * of[lines, chosen]).sum(1) for of in (more, longer)
            )
            better = (above + further) / np.maximum(below + wider, 1)
            if not (better < rate).any():
                break
            rate = np.minimum(rate, better)
        return np.asarray(100 * rate)

    return values
