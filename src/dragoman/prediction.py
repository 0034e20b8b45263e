"""What a model gives: an answer, or how likely it holds one."""

from dataclasses import dataclass, field

import numpy as np

from dragoman.data.seen import Seen
from dragoman.looked import Floats, Looked


@dataclass(frozen=True)
class Prediction:
    """One answer. `str()` of it is its text."""

    text: str
    tokens: tuple[str, ...]
    score: float  # log-probability of the whole answer, its end included
    log_probs: tuple[float, ...]  # the same, token by token, the end last
    source: tuple[str, ...] = ()  # the input's tokens, the end sign last; other places by number
    alignment: Floats | None = field(default=None, repr=False)  # (tokens, source): attention ...
    alternatives: tuple["Prediction", ...] = field(default=(), repr=False)  # the next best
    attention: Looked | None = field(default=None, repr=False)  # ... and what it lies over
    seen: tuple[Seen, ...] = field(default=(), repr=False, compare=False)  # of one input alone

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from dragoman.notebook import as_html

        return as_html(self)


@dataclass(frozen=True)
class Scored:
    """How likely the model holds a given target."""

    score: float  # log-probability, the end included
    log_probs: tuple[float, ...]
    tokens: tuple[str, ...]

    @property
    def perplexity(self) -> float:
        return float(np.exp(-self.score / max(len(self.log_probs), 1)))


EMPTY = Prediction("", (), 0.0, ())
NOT_READ = Scored(float("nan"), (), ())  # of a row whose files cannot be read
