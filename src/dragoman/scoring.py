"""How likely models hold given answers."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from dragoman import search
from dragoman.checkpoint import Loaded
from dragoman.core import Hypotheses, move
from dragoman.data.batches import Examples, Ragged
from dragoman.data.columns import Ints
from dragoman.decode import Asked, ask
from dragoman.examples import encode
from dragoman.prediction import NOT_READ, Scored
from dragoman.teams import Team, spoken

Tell = Callable[[str], None]


def score(
    models: Team, rows: Sequence[Sequence[str]], batch_size: int, on_bad: Tell | None
) -> list[Scored]:
    """How likely the members of a team hold each row's last text, given those before it. A row
    whose files cannot be read has no symbols, where somebody is told of it; else it is refused.
    """
    if not rows:
        return []
    bad: dict[int, str] = {}
    members = [models.first, *models.others]
    read = [_examples(one, rows, bad if on_bad else None) for one in members]
    order = np.argsort(read[0].lengths, kind="stable")
    results = [NOT_READ] * len(rows)
    for begin in range(0, len(order), batch_size):
        part = order[begin : begin + batch_size]
        found = _forced(models, read, part)
        for row, log_probs in zip(part, found.log_probs[:, 0].cpu().tolist(), strict=True):
            if int(row) not in bad:
                results[row] = _scored(models.first, rows[row], read[0], int(row), log_probs)
    if on_bad:
        for _, why in sorted(bad.items()):
            on_bad(why)
    return results


def _forced(models: Team, read: list[Examples], part: Ints) -> Hypotheses:
    """Some rows, read and written by all members."""
    pairs, members = [], [models.first, *models.others]
    device = next(models.first.model.parameters()).device
    with torch.inference_mode():
        for one, examples in zip(members, read, strict=True):
            pairs.append(one.model.begin(move(examples.batch(part).source, device)))
        wanted = read[0].batch(part).target.values.to(device)
        return search.force(*spoken(models, pairs), wanted)


def _examples(
    loaded: Loaded, rows: Sequence[Sequence[str]], bad: dict[int, str] | None
) -> Examples:
    """Rows as symbols; a language model has no sources, whatever stands before its text."""
    if loaded.config.data.format == "running":
        return Examples([], Ragged.of(loaded.fields.target.line(row[-1]) for row in rows))
    width = len(loaded.fields.sources)
    columns = zip(*((*row[:width], row[-1]) for row in rows), strict=True)
    return encode(loaded.config, loaded.fields, list(columns), bad)


def _scored(
    loaded: Loaded, texts: Sequence[str], read: Examples, row: int, log_probs: list[float]
) -> Scored:
    ids = read.target[row].tolist()
    kept = tuple(log_probs[: len(ids)])
    copied = ask(loaded, Asked(tuple(texts[:-1]))).copied if read.copies else ()
    tokens = (loaded.fields.target.symbol(i, copied) for i in ids)
    return Scored(sum(kept), kept, tuple(tokens))
