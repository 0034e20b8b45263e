"""Rules and strategies, on a toy step whose probabilities are known."""

import pytest
import torch
from torch import Tensor

import dragoman
from dragoman import search
from dragoman.core import BOS, EOS, PAD, Pair, State, Step
from dragoman.model import ModelSpec
from models import FEW, TARGET, make, source

few = pytest.mark.parametrize("spec", list(FEW.values())[::5], ids=list(FEW)[::5])


def chain(table: Tensor, rows: int) -> Pair:
    """A Markov chain: the next symbol depends on the last alone."""

    def step(tokens: Tensor, state: State) -> Step:
        return Step(table[tokens], state, None)

    return step, (torch.zeros(rows, 1),)


def uniform(rows: int) -> Pair:
    return chain(torch.full((TARGET, TARGET), 1 / TARGET).log(), rows)


def begin(spec: ModelSpec) -> Pair:
    return search.never(make(spec).begin(source(spec)), [PAD, BOS])


@few
def test_what_is_banned_is_not_written(spec: ModelSpec) -> None:
    found = search.beam(*search.never(begin(spec), [4, 5]), 6, width=4, n_best=4)
    alive = found.tokens[found.scores.isfinite()]
    assert not ((alive == 4) | (alive == 5)).any()


@few
def test_lengths_stay_within_their_limits(spec: ModelSpec) -> None:
    most = torch.tensor([3, 4, 5])
    found = search.beam(*search.within(begin(spec), 2, most), 9, width=3, n_best=3)
    written = (found.tokens != PAD).sum(-1)
    assert (written >= 3).all()  # two symbols and the end
    assert (written <= most[:, None] + 1).all()
    ends = found.tokens.gather(-1, written[..., None] - 1)
    assert (ends == EOS).all()


@few
def test_a_prefix_is_forced_at_the_models_price(spec: ModelSpec) -> None:
    begun = torch.tensor([[4, 5, 6], [6, 0, 0], [0, 0, 0]])
    pair = begin(spec)
    found = search.beam(*search.prefix(pair, begun), 6, width=3, n_best=3)
    assert (found.tokens[0, :, :3] == begun[0]).all()
    assert (found.tokens[1, :, 0] == 6).all()
    free = search.beam(*pair, 6, width=3)
    assert torch.equal(found.tokens[2, 0][: free.tokens.size(-1)], free.tokens[2, 0])
    forced = search.force(*pair, found.tokens[:, 0])
    assert torch.allclose(forced.scores[:, 0], found.scores[:, 0], atol=1e-6)


def test_a_whole_target_as_prefix_is_forcing() -> None:
    spec = next(iter(FEW.values()))
    targets = torch.tensor([[4, 5, 2], [6, 2, 0], [5, 5, 2]])
    forced = search.force(*begin(spec), targets)
    found = search.greedy(*search.prefix(begin(spec), targets), 5)
    assert torch.equal(found.tokens[:, 0], targets)
    assert torch.allclose(found.scores, forced.scores)


def test_normalisation_prefers_longer_paths() -> None:
    table = torch.full((TARGET, TARGET), 1e-9)
    table[BOS, EOS], table[BOS, 4] = 0.5, 0.5
    table[4, 5] = table[5, 6] = table[6, EOS] = 0.8
    pair = chain((table / table.sum(1, keepdim=True).clamp(min=1e-6)).log(), 1)
    assert search.beam(*pair, 6, width=4).tokens[0, 0].tolist()[0] == EOS
    assert search.beam(*pair, 6, width=4, normalize=1.0).tokens[0, 0].tolist()[:4] == [4, 5, 6, EOS]


def noise(rows: int, count: int, steps: int) -> Tensor:
    return torch.rand(rows, count, steps, generator=torch.Generator().manual_seed(1))


def test_sampling_follows_the_distribution() -> None:
    table = torch.tensor([0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.0]).log().repeat(TARGET, 1)
    found = search.sample(*chain(table, 1), noise(1, 20_000, 1))
    shares = torch.bincount(found.tokens.flatten(), minlength=TARGET) / 20_000
    assert torch.allclose(shares, table[0].exp(), atol=0.015)
    assert not shares[[0, 1, 6]].any()


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"top_k": 2}, {4, 5}),
        ({"top_p": 0.65}, {4, 5}),
        ({"temperature": 0.0}, {5}),
        ({"temperature": 0.01}, {5}),
        ({}, {2, 3, 4, 5}),
    ],
)
def test_sampling_can_be_narrowed(options: dict[str, float], kept: set[int]) -> None:
    table = torch.tensor([0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.0]).log().repeat(TARGET, 1)
    found = search.sample(*chain(table, 1), noise(1, 500, 1), **options)
    assert set(found.tokens.flatten().tolist()) == kept


@few
def test_samples_are_scored_as_the_model_does(spec: ModelSpec) -> None:
    found = search.sample(*begin(spec), noise(3, 2, 6).double())
    for path in range(2):
        forced = search.force(*begin(spec), found.tokens[:, path])
        assert torch.allclose(forced.scores[:, 0], found.scores[:, path], atol=1e-6)


def test_an_ensemble_is_the_mean_of_probabilities() -> None:
    a, b = uniform(1), chain(torch.tensor([0.0, 0.0, 1.0, 0, 0, 0, 0]).log().repeat(TARGET, 1), 1)
    step, state = search.ensemble(a, b)
    out = step(torch.tensor([BOS]), state)
    assert out.log_probs.exp()[0, EOS].item() == pytest.approx((1 / TARGET + 1) / 2)


def test_scoring_nothing_costs_nothing() -> None:
    found = search.force(*uniform(2), torch.zeros(2, 0, dtype=torch.long))
    assert found.scores.tolist() == [[0.0], [0.0]]


def test_a_beam_wider_than_the_space_leaves_empty_places_last() -> None:
    found = search.beam(*search.never(uniform(1), [PAD, BOS, 3, 4, 5, 6]), 3, width=4, n_best=4)
    assert found.scores[0, 0].isfinite()
    assert found.scores[0, 1:].isinf().all()


def test_a_price_of_length_beyond_all_numbers_still_gives_an_answer(
    tiny: dragoman.Predictor,
) -> None:
    long = {"min_length": 20, "max_length": 24, "beam": 4}
    for normalize in (32.0, 200.0):
        assert tiny("ab", normalize=normalize, **long).text
        assert tiny("ab", normalize=normalize, no_repeat_ngram=9, **long).text
