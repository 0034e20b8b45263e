"""The metrics of machine translation, counted by sacrebleu so that they compare with papers.

Several references are treated as sacrebleu does it: BLEU clips n-grams by the reference that has
most of them, chrF takes the best reference, TER the fewest edits over the mean length; lines may
have different numbers of them.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from dragoman.metrics.tally import Counted, Floats, References, alternatives, metric

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

PERFECT = 100.0  # sacrebleu's is sometimes off by a rounding error


@metric("BLEU", "higher")
def bleu(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> Counted:
    """Corpus BLEU of Papineni et al. 2002 as sacrebleu counts it, on untokenised text.

    It counts up to 4-grams: a corpus that has none scores 0, even where every line is right.

    >>> bleu(["the cat sat on the mat"], ["the cat sat on a mat"]).value > 50
    True
    """
    from sacrebleu.metrics.bleu import BLEU

    # force: the text is what it is, do not warn of tokens
    counter = BLEU(lowercase=lowercase, force=True)
    return _counted(counter, hypotheses, references, PERFECT)


@metric("chrF", "higher")
def chrf(hypotheses: Sequence[str], references: References, lowercase: bool = False) -> Counted:
    """Character n-gram F-score of Popović 2015 (chrF2): kinder than BLEU to rich morphology.

    >>> print(chrf(["talossa"], [["talossa", "talolla"]]))
    chrF 100.00
    """
    from sacrebleu.metrics.chrf import CHRF

    return _counted(CHRF(lowercase=lowercase), hypotheses, references, PERFECT)


@metric("TER", "lower")
def ter(hypotheses: Sequence[str], references: References) -> Counted:
    """Translation edit rate of Snover et al. 2006: word edits, where moving a phrase is one.

    >>> print(ter(["on the mat the cat sat"], ["the cat sat on the mat"]))
    TER 16.67
    """
    from sacrebleu.metrics.ter import TER

    return _counted(TER(), hypotheses, references, most=np.inf)


def _counted(
    counter: "Metric", hypotheses: Sequence[str], references: References, most: float
) -> Counted:
    """sacrebleu's own significance tests go through the same two methods; they are not public, but
    a test holds their sums equal to its corpus scores.
    """
    several = alternatives(hypotheses, references)
    streams: Any = list(zip_longest(*several))  # None where a line has fewer references than others
    rows = np.array(counter._extract_corpus_statistics(hypotheses, streams), float)

    def values(weights: Floats) -> Floats:
        sums = (weights @ rows).tolist()
        found = [counter._compute_score_from_stats(row).score for row in sums]
        return np.minimum(found, most)

    return Counted(len(rows), values, str(counter.get_signature()))
