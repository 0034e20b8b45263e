"""Rules for orders of positions: whatever a model says, what is written is valid."""

import itertools

import pytest
import torch
from torch import Tensor

from dragoman import search
from dragoman.core import BOS, EOS, PAD, Pair, repeat
from dragoman.geometry import is_tour
from models import FEW, make, rows_of, source

COUNTS = [5, 3, 2]  # positions of the three sources
NAMES = ["pointer-row", "pointer-cloud", "pointer-alone"]
models = pytest.mark.parametrize("name", NAMES)
rules = pytest.mark.parametrize("valid", search.VALID)


def begin(name: str, valid: str, seed: int = 0) -> tuple[Pair, Pair]:
    """A model's pair without the rule and with it."""
    model = make(FEW[name], seed)
    pair = search.never(model.begin(source(FEW[name])), [PAD, BOS])
    return pair, search.VALID[valid](pair, torch.tensor(COUNTS))


def is_valid(order: list[int], count: int, valid: str) -> bool:
    if valid == "each-once":
        return sorted(order) == list(range(count))
    if valid == "tour":
        return order[0] == 0 and is_tour(order, count)
    once = len(set(order[:-1])) == len(order) - 1
    return once and order[0] == order[-1] and len(order) > min(count, 3)


def every(count: int, valid: str) -> list[list[int]]:
    """All valid orders of so many positions."""
    lengths = range(1, count + 2)
    paths = (p for n in lengths for p in itertools.product(range(count), repeat=n))
    return [list(path) for path in paths if is_valid(list(path), count, valid)]


def written(path: Tensor) -> list[int]:
    ids: list[int] = path.tolist()
    assert EOS in ids
    return [i - 4 for i in ids[: ids.index(EOS)]]


@models
@rules
def test_every_answer_is_valid(name: str, valid: str) -> None:
    for seed in range(5):
        _, pair = begin(name, valid, seed)
        noise = torch.rand(3, 6, 8, generator=torch.Generator().manual_seed(seed))
        found = [
            search.greedy(*pair, 8),
            search.beam(*pair, 8, width=4, n_best=2),
            search.sample(*pair, noise),
        ]
        for one in found:
            for count, paths, scores in zip(COUNTS, one.tokens, one.scores, strict=True):
                for path, score in zip(paths, scores, strict=True):
                    if score > search.NEVER:  # there may be fewer valid answers than were asked for
                        assert is_valid(written(path), count, valid)


@models
@rules
def test_a_wide_beam_is_exhaustive_over_valid_answers(name: str, valid: str) -> None:
    best = search.beam(*begin(name, valid)[1], 8, width=400).scores[:, 0]
    for item, count in enumerate(COUNTS):
        step, state = make(FEW[name]).begin(rows_of(source(FEW[name]), [item]))
        orders = sorted(every(count, valid), key=len)
        scores = [
            search.force(step, repeat(state, len(ids)), torch.tensor(ids)).scores.max()
            for _, alike in itertools.groupby(orders, key=len)
            for ids in [[[*(place + 4 for place in order), EOS] for order in alike]]
        ]
        assert torch.isclose(max(scores), best[item], atol=1e-6)


@models
@rules
def test_an_answer_keeps_the_models_price(name: str, valid: str) -> None:
    plain, ruled = begin(name, valid)
    found = search.beam(*ruled, 8, width=4)
    forced = search.force(*plain, found.tokens[:, 0])
    assert torch.allclose(forced.scores, found.scores)


@models
@rules
def test_neighbours_in_a_batch_change_nothing(name: str, valid: str) -> None:
    spec = FEW[name]
    together = search.beam(*begin(name, valid)[1], 8, width=3)
    for row, count in enumerate(COUNTS):
        alone = search.never(make(spec).begin(rows_of(source(spec), [row])), [PAD, BOS])
        found = search.beam(*search.VALID[valid](alone, torch.tensor([count])), 8, width=3)
        assert written(found.tokens[0, 0]) == written(together.tokens[row, 0])


@pytest.mark.parametrize("name", ["pointer-cloud", "pointer-alone", "points-words"])
def test_a_set_has_no_order(name: str) -> None:
    """Points permuted permute the annotations, and leave summary, last state and answers alone."""
    encoder, given = make(FEW[name]).encoder, source(FEW[name])
    order = torch.tensor([3, 0, 4, 2, 1])
    first = rows_of(given, [0])
    plain = encoder(first)
    turned = encoder(type(given)(first.values[:, order], first.mask))
    assert torch.allclose(turned.memory, plain.memory[:, order])
    assert torch.allclose(turned.summary, plain.summary)
    assert torch.allclose(turned.finals[0][0], plain.finals[0][0])


def test_a_sequence_has_an_order() -> None:
    encoder, given = make(FEW["pointer-row"]).encoder, source(FEW["pointer-row"])
    first = rows_of(given, [0])
    turned = encoder(type(given)(first.values.flip(1), first.mask))
    assert not torch.allclose(turned.summary, encoder(first).summary)
