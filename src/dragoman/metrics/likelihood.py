"""How well a model foresees a text, whatever it would write by itself."""

import math
from collections.abc import Sequence

import numpy as np

from dragoman.errors import UserError
from dragoman.metrics.tally import Floats, Score, Tally, ratio


def perplexity(total_log_prob: float, tokens: int) -> Score:
    """How many equally likely tokens the model hesitates between; `total_log_prob` is in nats.

    >>> print(perplexity(3 * math.log(1 / 8), tokens=3))
    perplexity 8.00
    """
    return perplexities([total_log_prob], [tokens]).score()


def bits_per_character(total_log_prob: float, characters: int) -> Score:
    """Unlike perplexity comparable between units: characters are the same whatever the tokens are.

    >>> print(bits_per_character(4 * math.log(1 / 2), characters=4))
    bits per character 1.00
    """
    return bits([total_log_prob], [characters]).score()


def perplexities(log_probs: Sequence[float], tokens: Sequence[int]) -> Tally:
    """The perplexity of many texts together, ready for intervals.

    >>> print(perplexities([math.log(1 / 2), math.log(1 / 32)], [1, 1]).score())
    perplexity 8.00
    """
    nats = ratio(_surprise(log_probs, tokens, "tokens"), 1.0)

    def values(weights: Floats) -> Floats:
        with np.errstate(over="ignore"):  # a model this lost is as good as infinitely lost
            return np.asarray(np.exp(nats(weights)))

    return Tally("perplexity", "lower", len(tokens), values)


def bits(log_probs: Sequence[float], characters: Sequence[int]) -> Tally:
    """Bits per character of many texts together, ready for intervals.

    >>> print(bits([4 * math.log(1 / 2), 0.0], [4, 4]).score())
    bits per character 0.50
    """
    rows = _surprise(log_probs, characters, "characters")
    return Tally("bits per character", "lower", len(rows), ratio(rows, 1 / math.log(2)))


def _surprise(log_probs: Sequence[float], counts: Sequence[int], what: str) -> Floats:
    if sum(counts) <= 0:
        raise UserError(f"nothing to measure: {sum(counts)} {what}")
    return np.array([[-nats, count] for nats, count in zip(log_probs, counts, strict=True)], float)
