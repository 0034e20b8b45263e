"""What is done with answers once they are found: no text twice, the safest first, no <unk>."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.config import SearchSpec
from dragoman.core import SPECIALS, UNK
from dragoman.errors import UserError
from dragoman.metrics import edit_distance

Utility = Callable[[str, str], float]  # (answer, reference) -> how good the answer would be


def arrange(texts: Sequence[str], scores: Sequence[float], options: SearchSpec) -> list[int]:
    """Which of the answers found to give, best first. Random draws stand as they were drawn; of
    answers that a search ranked, those that repeat a better one's text are left out.

    >>> arrange(["a", "b", "a", "c"], [-1.0, -2.0, -3.0, -4.0], SearchSpec(n_best=3))
    [0, 1, 3]
    """
    drawn = options.sample or options.samples is not None
    if options.mbr is not None:
        weights = np.ones(len(texts)) if drawn else np.exp(np.array(scores) - max(scores))
        order = least_risk(texts, weights, UTILITIES[options.mbr]())
    elif drawn:
        order = list(range(len(texts)))
    else:
        order = distinct(texts)
    return order[: options.n_best]


def distinct(texts: Sequence[str]) -> list[int]:
    """The places of texts that no earlier one equals.

    >>> distinct(["a", "b", "a"])
    [0, 1]
    """
    first: dict[str, int] = {}
    for place, text in enumerate(texts):
        first.setdefault(text, place)
    return list(first.values())


def least_risk(
    texts: Sequence[str], weights: npt.NDArray[np.float64], utility: Utility
) -> list[int]:
    """Different texts by the utility they can expect if one of the texts, with a chance in
    proportion to its weight, is right: minimum Bayes risk (Kumar and Byrne 2004; over samples,
    Eikema and Aziz 2020).

    >>> least_risk(["xyz", "abcd", "abce"], np.ones(3), UTILITIES["edit"]())
    [1, 2, 0]
    """
    places = distinct(texts)
    found = {texts[place]: column for column, place in enumerate(places)}
    mass = np.zeros(len(places))
    np.add.at(mass, [found[text] for text in texts], weights)
    gains = [
        sum(share * utility(texts[place], other) for share, other in zip(mass, found, strict=True))
        for place in places
    ]
    return [places[i] for i in np.argsort(-np.array(gains), kind="stable")]


def _chrf() -> Utility:
    from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    return lambda answer, reference: metric.sentence_score(answer, [reference]).score


def _bleu() -> Utility:
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(effective_order=True)  # one sentence may be too short for 4-grams
    return lambda answer, reference: metric.sentence_score(answer, [reference]).score


def _edit() -> Utility:
    return lambda a, b: 1 - edit_distance(a, b) / max(len(a), len(b), 1)


UTILITIES: dict[str, Callable[[], Utility]] = {"chrf": _chrf, "bleu": _bleu, "edit": _edit}


def replace_unknown(
    tokens: Sequence[str],
    looked: npt.NDArray[np.float32] | None,
    source: Sequence[str],
    dictionary: Mapping[str, str] | None = None,
) -> list[str]:
    """Each <unk> becomes the translation of the source token it looked at most, or that token
    itself (Luong et al. 2015b, section 3.3). Attention `looked` (T, S) has a column per source
    token; without it the tokens stay.

    >>> looked = np.array([[0.9, 0.1], [0.2, 0.8]], np.float32)
    >>> replace_unknown(["the", "<unk>"], looked, ["der", "Zorgon"], {})
    ['the', 'Zorgon']
    """
    real = [place for place, token in enumerate(source) if token not in SPECIALS]
    if looked is None or not real:
        return list(tokens)
    best = [source[real[i]] for i in looked[:, real].argmax(1)]
    known = dictionary or {}
    return [
        known.get(seen, seen) if token == SPECIALS[UNK] else token
        for token, seen in zip(tokens, best, strict=True)
    ]


@lru_cache(maxsize=8)
def read_dictionary(path: Path) -> Mapping[str, str]:
    """Pairs of words from a file of two columns; the first translation of a word counts.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "words.tsv"
    >>> _ = path.write_text("Hund\\tdog\\nHund\\thound\\n")
    >>> read_dictionary(path)
    {'Hund': 'dog'}
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    pairs: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        word, tab, translation = line.partition("\t")
        if not tab:
            raise UserError(f"{path}:{number}: write a word, a tab and its translation")
        pairs.setdefault(word, translation)
    return pairs
