"""An answer while it is written: token by token, with where the model looks, then whole."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from dragoman import search
from dragoman.config import SearchSpec
from dragoman.core import EOS, PAD
from dragoman.decode import Asked, Query, ask
from dragoman.looked import layouts, looked
from dragoman.predict import EMPTY, Prediction, Predictor
from dragoman.streaming import refuse, strides


class Stroke(NamedTuple):
    """One token further."""

    token: str
    log_prob: float
    weights: list[float] | None  # attention, a number per token of the source
    text: str  # all that is written so far


def write(
    predictor: Predictor, asked: Asked | Query, options: SearchSpec, place: int = 0
) -> Iterator[Stroke | Prediction]:
    """The strokes of an answer, then the answer: the same as `predictor.predict` gives at this
    place of a stream.

    >>> import tempfile
    >>> from dragoman import train
    >>> short = {"train": {"max_steps": 2}, "search": {"beam": 1}}
    >>> model = train([("ab", "ba")] * 20, tempfile.mkdtemp(), config=short, quiet=True)
    >>> *strokes, answer = write(model, Asked(("ab",)), model.options())
    >>> answer.text == model("ab").text, len(strokes) == len(answer.tokens)
    (True, True)
    """
    refuse(predictor.team, options)
    if isinstance(asked, Asked) and predictor.fields.sources and predictor.blank(asked):
        return iter([EMPTY])
    return _write(predictor, asked, options, place)


@torch.inference_mode()
def _write(
    predictor: Predictor, asked: Asked | Query, options: SearchSpec, place: int
) -> Iterator[Stroke | Prediction]:
    query = asked if isinstance(asked, Query) else ask(predictor.team.first, asked)
    writer = predictor.fields.target
    path: list[int] = []
    walked: list[search.Stride] = []
    for stride in strides(predictor.team, query, options, place):
        walked.append(stride)
        symbol = int(stride.tokens)
        if symbol in (EOS, PAD):
            break
        path.append(symbol)
        seen = None
        if stride.weights is not None:
            own = layouts(predictor.team.first, [query])
            row = stride.weights.float().cpu().numpy()
            seen = looked(predictor.team.first, own, row, own).weights[0].tolist()
        token, text = writer.symbol(symbol, query.copied), writer.decode(path, query.copied)
        yield Stroke(token, float(stride.log_probs), seen, text)
    (answer,) = predictor.present([query], search.collect(walked), options)
    yield answer
