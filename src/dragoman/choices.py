"""What else a model could have written: at each place of an answer, its likeliest symbols."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from dragoman import search
from dragoman.config import SearchSpec
from dragoman.core import BOS, EOS, PAD, leaf
from dragoman.data.batches import Ragged
from dragoman.data.copying import begin_with
from dragoman.decode import Asked, Query, ask, mixed
from dragoman.teams import Team


class Choice(NamedTuple):
    """A symbol that could have come next."""

    token: str
    log_prob: float


def choices(
    models: Team,
    written: Sequence[tuple[Asked | Query, Sequence[str]]],
    options: SearchSpec,
    count: int,
) -> list[list[list[Choice]]]:
    """The `count` likeliest symbols at each place of each answer, the place of its end included.
    Answers are given by their tokens. What the options forbid is shown all the same: it is what the
    model itself holds likely.
    """
    queries = [one if isinstance(one, Query) else ask(models.first, one) for one, _ in written]
    paths = [
        _path(models, query, tokens) for query, (_, tokens) in zip(queries, written, strict=True)
    ]
    with torch.inference_mode():
        tops = _tops(models, queries, paths, options, count)
    return [
        _named(models, query, [row[b] for row in tops[: len(path)]])
        for b, (query, path) in enumerate(zip(queries, paths, strict=True))
    ]


def _path(models: Team, query: Query, tokens: Sequence[str]) -> list[int]:
    """An answer's symbols in the order in which they are written, the end last if there is one."""
    writer = models.first.fields.target
    ids = begin_with(tuple(tokens), query.copied, writer)
    ids = ids[::-1] if writer.spec.reverse else ids
    return ids if models.first.model.decoder.ends == "once" else [*ids, EOS]


def _tops(
    models: Team, queries: list[Query], paths: list[list[int]], options: SearchSpec, count: int
) -> list[list[list[tuple[int, float]]]]:
    """For each step and each query, symbols and their log-probabilities, the likeliest first."""
    pair = search.never(mixed(models, queries, options), [PAD, BOS])
    if models.first.model.head.copies:
        own = torch.tensor([len(query.copied) for query in queries])
        pair = search.below(pair, models.first.fields.target.size + own)
    step, state = pair
    device = leaf(state).device
    wanted = Ragged.of(paths).pad(range(len(paths))).values.to(device)
    tokens, tops = torch.full((len(paths),), BOS, device=device), []
    for following in wanted.unbind(1):
        out = step(tokens, state)
        state, tokens = out.state, following
        best = out.log_probs.topk(min(count, out.log_probs.size(1)))
        rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        tops.append([list(zip(ids, values, strict=True)) for ids, values in rows])
    return tops


def _named(models: Team, query: Query, places: list[list[tuple[int, float]]]) -> list[list[Choice]]:
    writer = models.first.fields.target
    found = [
        [
            Choice(writer.symbol(i, query.copied), value)
            for i, value in place
            if value > search.NEVER
        ]
        for place in places
    ]
    if writer.spec.reverse:  # the order of the text; its end stays last
        return [*found[-2::-1], *found[-1:]]
    return found
