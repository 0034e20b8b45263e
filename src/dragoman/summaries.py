"""The one vector that sums up an input, as an encoder makes it."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from dragoman.decode import ask, source_of
from dragoman.errors import UserError
from dragoman.predict import Input, Predictor


def summaries(
    predictor: Predictor, inputs: Sequence[Input], batch_size: int = 32
) -> npt.NDArray[np.float32]:
    """A row (N, D) for each input: what the decoder starts from.

    >>> import tempfile
    >>> from dragoman import train
    >>> short = {"train": {"max_steps": 1}}
    >>> model = train([("ab", "ba")] * 20, tempfile.mkdtemp(), config=short, quiet=True)
    >>> len(summaries(model, ["ab", "b"]))
    2
    """
    if not predictor.fields.sources:
        raise UserError("a language model reads no source that it could sum up")
    first = predictor.team.first
    queries = [ask(first, predictor.asked(one)) for one in inputs]
    rows = []
    with torch.inference_mode():
        for begin in range(0, len(queries), batch_size):
            source = source_of(first, queries[begin : begin + batch_size])
            rows.append(predictor.model.encoder(source).summary.float().cpu().numpy())
    return np.concatenate(rows)
