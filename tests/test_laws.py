"""The laws, for every encoder × decoder × head × cell."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from dragoman import search
from dragoman.core import BOS, EOS, PAD, Padded, Pair, repeat, select, tree_map
from dragoman.model import Model, ModelSpec
from models import ALL, FEW, TARGET, make, rows_of, source, widen

STEPS = 6
few = pytest.mark.parametrize("spec", FEW.values(), ids=FEW)
every = pytest.mark.parametrize("spec", ALL.values(), ids=ALL)
attentive = pytest.mark.parametrize(
    "spec", [s for s in FEW.values() if s.attention], ids=[n for n, s in FEW.items() if s.attention]
)


def begin(model: Model, given: Padded) -> Pair:
    return search.never(model.begin(given), [PAD, BOS])


def same(a: Tensor, b: Tensor, within: float = 1e-6) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, atol=within)


def padded(tokens: Tensor) -> Padded:
    return Padded(tokens, tokens != PAD)


@few
def test_a_beam_of_one_is_greedy(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    greedy = search.greedy(*begin(model, given), STEPS)
    beam = search.beam(*begin(model, given), STEPS, width=1, normalize=0.7)
    assert torch.equal(greedy.tokens, beam.tokens)
    assert same(greedy.scores, beam.scores)
    assert same(greedy.log_probs, beam.log_probs)
    assert greedy.weights is None or same(greedy.weights, beam.weights)


@few
@pytest.mark.parametrize("normalize", [0.0, 1.0])
def test_a_beam_as_wide_as_the_space_is_exhaustive(spec: ModelSpec, normalize: float) -> None:
    model, given = make(spec), source(spec)
    pair = begin(model, given)
    wide = search.beam(*pair, 3, width=5**3, normalize=normalize)
    best = torch.full((3,), -math.inf)
    for path in itertools.product(range(EOS, TARGET), repeat=3):
        cut = path.index(EOS) + 1 if EOS in path else 3
        if any(symbol != EOS for symbol in path[cut:]):
            continue
        targets = torch.tensor([list(path[:cut])] * 3)
        score = search.force(*pair, targets).scores[:, 0] / cut**normalize
        best = torch.maximum(best, score.float())
    lengths = (wide.tokens[:, 0] != PAD).sum(1)
    assert same(wide.scores[:, 0].float() / lengths**normalize, best, 1e-5)


@every
def test_stepping_is_unrolling_is_teacher_forcing(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    targets = torch.tensor([[4, 5, 6, 3, 2], [6, 6, 2, 0, 0], [2, 0, 0, 0, 0]])
    with torch.no_grad():
        forced = search.force(*model.begin(given), targets)
        loss, _ = model.loss(given, padded(targets))
        _, whole = unroll(model, given, targets)
    assert same(forced.scores.sum(), -loss.nll)
    assert int(loss.tokens) == 9
    assert forced.weights is None or same(forced.weights[:, 0], whole)


def unroll(model: Model, given: Padded, targets: Tensor) -> tuple[Tensor, Tensor | None]:
    encoded = model.encoder(given)
    inputs = torch.cat([torch.full((3, 1), BOS), targets[:, :-1]], 1)
    xs = model.head.embed(inputs, encoded)
    written = model.decoder.unroll(xs, model.decoder.start(encoded), model.decoder.prepare(encoded))
    return written.features, written.weights


@every
def test_padding_changes_nothing(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    targets = torch.tensor([[4, 5, 2], [6, 2, 0], [2, 0, 0]])
    with torch.no_grad():
        plain = search.force(*model.begin(given), targets)
        wide = search.force(*model.begin(widen(given, 4)), targets)
        loss, _ = model.loss(given, padded(targets))
        more, _ = model.loss(widen(given, 4), widen(padded(targets), 3))
        assert same(plain.scores, wide.scores)
        assert same(loss.nll, more.nll)
        for row in range(3):
            alone = search.force(*model.begin(rows_of(given, [row])), targets[row : row + 1])
            assert same(alone.scores[0], plain.scores[row])


@few
@pytest.mark.parametrize("width", [1, 4])
def test_batch_size_and_order_change_nothing(spec: ModelSpec, width: int) -> None:
    model, given = make(spec), source(spec)
    together = search.beam(*begin(model, given), STEPS, width=width, n_best=width)
    shuffled = search.beam(
        *begin(model, rows_of(given, [2, 0, 1])), STEPS, width=width, n_best=width
    )
    assert torch.equal(together.tokens[[2, 0, 1]], shuffled.tokens)
    assert same(together.scores[[2, 0, 1]], shuffled.scores)
    for row in range(3):
        alone = search.beam(*begin(model, rows_of(given, [row])), STEPS, width=width, n_best=width)
        shared = together.tokens[row][:, : alone.tokens.size(-1)]
        assert torch.equal(alone.tokens[0], shared)
        assert same(alone.scores[0], together.scores[row])


@few
def test_a_search_scores_its_paths_as_the_model_does(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    found = search.beam(*begin(model, given), STEPS, width=4, n_best=4)
    assert same(found.log_probs.sum(-1), found.scores)
    for rank in range(4):
        forced = search.force(*begin(model, given), found.tokens[:, rank])
        assert same(forced.scores[:, 0], found.scores[:, rank])
        assert same(forced.log_probs[:, 0], found.log_probs[:, rank])
        if found.weights is not None:
            real = (found.tokens[:, rank] != PAD)[..., None]
            assert same(forced.weights[:, 0] * real, found.weights[:, rank] * real)


@few
def test_permuted_beams_give_permuted_results(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    step, state = model.begin(given)
    state = tree_map(lambda t: t + 0.1 * torch.randn_like(t), repeat(state, 4))
    tokens = torch.randint(EOS, TARGET, (12,))
    order = torch.cat([torch.randperm(4) + 4 * item for item in range(3)])
    straight, permuted = step(tokens, state), step(tokens[order], select(state, order))
    assert same(straight.log_probs[order], permuted.log_probs)


@few
def test_an_ensemble_of_a_model_with_itself_is_the_model(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    one = search.beam(*begin(model, given), STEPS, width=3)
    twice = search.beam(*search.ensemble(begin(model, given), begin(model, given)), STEPS, width=3)
    assert torch.equal(one.tokens, twice.tokens)
    assert same(one.scores, twice.scores, 1e-5)


@few
def test_paths_of_a_beam_differ(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    found = search.beam(*begin(model, given), STEPS, width=6, n_best=6)
    for item in found.tokens.tolist():
        assert len({tuple(path) for path in item}) == 6
    assert (found.scores.diff(dim=1) <= 1e-9).all()


@attentive
def test_attention_is_a_distribution_over_the_real_source(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    weights = search.greedy(*begin(model, given), STEPS).weights
    assert weights is not None
    assert same(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert not weights.masked_select(~given.mask[:, None, None].expand_as(weights)).any()


@few
def test_gradients_reach_every_weight(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    targets = torch.tensor([[4, 5, 6, 3, 2], [6, 6, 2, 0, 0], [2, 0, 0, 0, 0]])
    loss, _ = model.loss(given, padded(targets), smoothing=0.1)
    loss.total.backward()
    still = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]
    assert not still


@few
def test_a_source_of_nothing_is_read(spec: ModelSpec) -> None:
    model = make(spec)
    ids = torch.tensor([[0, 0], [5, 2]])
    found = search.greedy(*begin(model, padded(ids)), STEPS)
    wide = search.greedy(*begin(model, widen(padded(ids), 3)), STEPS)
    assert found.scores.isfinite().all()
    assert same(found.scores, wide.scores)
