"""The metrics of captions, over several references: CIDEr-D, BLEU-1 to BLEU-4, and ROUGE-L as it is
counted there.

Words are those of ROUGE: lower-cased, without punctuation. On such words the numbers are those of
the COCO caption evaluation (Chen et al. 2015), times a hundred.
"""

from collections import Counter
from collections.abc import Sequence
from math import exp, log

import numpy as np

from dragoman.metrics.edits import common_length
from dragoman.metrics.rouge import tokens
from dragoman.metrics.tally import Counted, Floats, Metric, References, alternatives, metric, ratio

LONGEST = 4  # words of an n-gram
SIGMA = 6.0  # CIDEr-D: how far lengths may differ, in words
BETA = 1.2  # ROUGE-L: recall counts so much more than precision
_TINY, _SMALL = 1e-15, 1e-9  # the evaluation's own: nothing right is nearly, not quite, nothing

Grams = Counter[tuple[str, ...]]
Vector = dict[tuple[str, ...], float]


@metric("CIDEr-D", "higher")
def cider(hypotheses: Sequence[str], references: References) -> Counted:
    """CIDEr-D of Vedantam et al. 2015: how alike the n-grams are, rare ones counting more. What is
    rare is told by the references of all items, also where a part of them is asked for.

    >>> round(cider(["a red old car", "two dogs"], ["a red old car", "three cats"]).value)
    500
    """
    several = alternatives(hypotheses, references)
    wanted = [[_grams(tokens(one)) for one in all_of_it] for all_of_it in several]
    holders = Counter(gram for refs in wanted for gram in set().union(*refs))
    rows = [
        [_likeness(_grams(tokens(line)), refs, holders, len(several)), 1.0]
        for line, refs in zip(hypotheses, wanted, strict=True)
    ]
    return Counted(len(rows), ratio(np.array(rows)))


def _likeness(given: Grams, wanted: Sequence[Grams], holders: Grams, items: int) -> float:
    """Ten times the mean over references and lengths of n-grams."""
    mine, total = _weighted(given, holders, items), 0.0
    for reference in wanted:
        other = _weighted(reference, holders, items)
        apart = _pairs(given) - _pairs(reference)
        nearness = exp(-(apart**2) / (2 * SIGMA**2))
        total += sum(_cosine(a, b) for a, b in zip(mine, other, strict=True)) * nearness
    return 10 * total / len(wanted) / LONGEST


def _weighted(grams: Grams, holders: Grams, items: int) -> list[Vector]:
    """For each length of n-grams, how often each stands there, times how rare it is."""
    vectors: list[Vector] = [{} for _ in range(LONGEST)]
    for gram, count in grams.items():
        vectors[len(gram) - 1][gram] = count * (log(items) - log(max(1, holders[gram])))
    return vectors


def _cosine(given: Vector, wanted: Vector) -> float:
    """What is given counts no more than it is wanted: repeating a word wins nothing."""
    shared = sum(min(x, wanted.get(gram, 0.0)) * wanted.get(gram, 0.0) for gram, x in given.items())
    norms = [sum(x * x for x in side.values()) ** 0.5 for side in (given, wanted)]
    return shared / (norms[0] * norms[1]) if norms[0] and norms[1] else 0.0


def _pairs(grams: Grams) -> int:
    return sum(count for gram, count in grams.items() if len(gram) == 2)


def _grams(words: Sequence[str]) -> Grams:
    return Counter(
        tuple(words[at : at + size])
        for size in range(1, LONGEST + 1)
        for at in range(len(words) - size + 1)
    )


def _bleu(longest: int) -> Metric[[Sequence[str], References]]:
    def count(hypotheses: Sequence[str], references: References) -> Counted:
        """Corpus BLEU of Papineni et al. 2002 up to so many words, against the reference nearest in
        length.
        """
        several = alternatives(hypotheses, references)
        rows = np.array(
            [_bleu_row(line, refs) for line, refs in zip(hypotheses, several, strict=True)], float
        )

        def values(weights: Floats) -> Floats:
            return np.array([_bleu_value(sums, longest) for sums in weights @ rows])

        return Counted(len(rows), values)

    return metric(f"BLEU-{longest}", "higher")(count)


def _bleu_row(line: str, references: Sequence[str]) -> list[float]:
    """Lengths of the line and its nearest reference; n-grams right and given, by their length."""
    words, wanted = tokens(line), [tokens(one) for one in references]
    given, most = _grams(words), Grams()
    for one in wanted:
        most |= _grams(one)
    near = min((abs(len(one) - len(words)), len(one)) for one in wanted)[1]
    right = given & most
    counts = [
        sum(number for gram, number in which.items() if len(gram) == size)
        for size in range(1, LONGEST + 1)
        for which in (right, given)
    ]
    return [len(words), near, *counts]


def _bleu_value(sums: Floats, longest: int) -> float:
    product = 1.0
    for size in range(longest):
        right, given = sums[2 + 2 * size : 4 + 2 * size]
        product *= (right + _TINY) / (given + _SMALL)
    share = (sums[0] + _TINY) / (sums[1] + _SMALL)
    return float(100 * product ** (1 / longest) * (exp(1 - 1 / share) if share < 1 else 1.0))


bleu1, bleu2, bleu3, bleu4 = (_bleu(longest) for longest in range(1, LONGEST + 1))


@metric("ROUGE-L (captions)", "higher")
def caption_rouge(hypotheses: Sequence[str], references: References) -> Counted:
    """F of the longest common sequence of words, with the best precision and the best recall over
    all references.

    >>> print(caption_rouge(["the cat sat down"], ["the dog sat"]))
    ROUGE-L (captions) 58.65
    """
    rows = []
    for line, several in zip(hypotheses, alternatives(hypotheses, references), strict=True):
        words, wanted = tokens(line), [tokens(one) for one in several]
        common = [common_length(one, words) for one in wanted]
        precision = max(common) / max(len(words), 1)
        recall = max(n / max(len(one), 1) for n, one in zip(common, wanted, strict=True))
        below = recall + BETA**2 * precision
        rows.append([(1 + BETA**2) * precision * recall / below if below else 0.0, 1.0])
    return Counted(len(rows), ratio(np.array(rows)))
