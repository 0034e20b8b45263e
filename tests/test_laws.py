"""The laws, for every encoder × decoder × head × cell."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from dragoman import search
from dragoman.core import BOS, EOS, PAD, Pair, Source, Step, repeat, select, tree_map
from dragoman.decoders import AlignedSpec
from dragoman.encoders import SoundSpec
from dragoman.heads import Monotone, VocabularySpec
from dragoman.model import Model, ModelSpec
from dragoman.objectives import Aims
from models import ALL, FEW, LABELS, TARGET, answers, make, padded, rows_of, shaped, source, widen

STEPS = 6
few = pytest.mark.parametrize("spec", FEW.values(), ids=FEW)
every = pytest.mark.parametrize("spec", ALL.values(), ids=ALL)
LOOKING = {n: s for n, s in FEW.items() if s.attention or s.head.kind == "monotone"}
attentive = pytest.mark.parametrize("spec", LOOKING.values(), ids=LOOKING)


def begin(model: Model, given: Source) -> Pair:
    return search.never(model.begin(given), [PAD, BOS])


def same(a: Tensor, b: Tensor, within: float = 1e-6) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, atol=within)


@few
def test_a_beam_of_one_is_greedy(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    greedy = search.greedy(*begin(model, given), STEPS)
    beam = search.beam(*begin(model, given), STEPS, width=1, normalize=0.7)
    assert torch.equal(greedy.tokens, beam.tokens)
    assert same(greedy.scores, beam.scores)
    assert same(greedy.log_probs, beam.log_probs)
    assert greedy.weights is None or same(greedy.weights, beam.weights)


def trap(tokens: Tensor, state: Tensor) -> Step:
    """Step 1: 4 is likelier than 5. Step 2: 4 goes on in ten ways, 5 in two, which both look
    better. Step 3: after 4 the path ends for sure; after 5 it goes on in twenty ways.
    """
    rows = torch.zeros(len(state), 24)
    for row, token, (time, first) in zip(rows, tokens.tolist(), state.tolist(), strict=True):
        if time == 0:
            row[4:6] = torch.tensor([0.55, 0.45])
        elif time == 1:
            row[4 : 14 if token == 4 else 6] = 0.1 if token == 4 else 0.5
        else:
            row[EOS if first == 4 else slice(4, 24)] = 1.0 if first == 4 else 0.05
    begun = torch.where(state[:, :1] == 1, tokens[:, None], state[:, 1:])
    return Step(rows.log(), torch.cat([state[:, :1] + 1, begun], 1), None)


def test_the_greedy_path_is_not_pushed_out() -> None:
    state = torch.zeros(1, 2, dtype=torch.long)
    assert search.greedy(trap, state, 3).scores.exp().item() == pytest.approx(0.055)
    found = search.beam(trap, state, 3, width=2, n_best=2)
    assert found.scores[0, 0].exp().item() == pytest.approx(0.055)
    assert found.tokens[0, 0].tolist() == [4, 4, EOS]


@few
@pytest.mark.parametrize("width", [2, 5])
def test_no_beam_is_worse_than_greedy(spec: ModelSpec, width: int) -> None:
    model, given = make(spec), source(spec)
    greedy = search.greedy(*begin(model, given), STEPS).scores
    beam = search.beam(*begin(model, given), STEPS, width=width).scores
    assert (beam >= greedy - 1e-6).all()


@few
@pytest.mark.parametrize("normalize", [0.0, 1.0])
def test_a_beam_as_wide_as_the_space_is_exhaustive(spec: ModelSpec, normalize: float) -> None:
    model, given = make(spec), source(spec)
    pair = begin(model, given)
    steps, size = 3, TARGET
    if spec.head.kind in ("copy", "pointer"):  # the alphabet is wider: shorter paths
        steps, size = 2, (TARGET if spec.head.kind == "copy" else 4) + given.values.size(1)
    wide = search.beam(*pair, steps, width=5**3, normalize=normalize)
    best = torch.full((3,), -math.inf)
    for path in itertools.product(range(EOS, size), repeat=steps):
        cut = path.index(EOS) + 1 if EOS in path else steps
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
    targets = answers(spec)
    with torch.no_grad():
        forced = search.force(*model.begin(given), targets)
        loss, _ = model.loss(given, padded(targets))
        features, whole = unroll(model, given, targets)
        if model.head.points:  # where it looks is where it points
            fixed = model.head.prepare(model.encoder(given), given)
            rows = model.head(features.flatten(0, 1), fixed, None)
            whole = model.head.looked(rows, None).unflatten(0, features.shape[:2])
        if isinstance(model.head, Monotone):
            fixed = model.head.prepare(model.encoder(given), given)
            whole = model.head.along(features, targets, fixed)[1].exp()
    assert same(forced.scores.sum(), -loss.nll)
    assert int(loss.tokens) == 9
    assert forced.weights is None or same(forced.weights[:, 0], whole)


def unroll(model: Model, given: Source, targets: Tensor) -> tuple[Tensor, Tensor | None]:
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
    real = model.encoder(given).mask[:, None, None]
    assert not weights.masked_select(~real.expand_as(weights)).any()


@few
def test_gradients_reach_every_weight(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    loss, _ = model.loss(given, padded(answers(spec)), Aims(smoothing=0.1, doubly=0.1))
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
    found = search.greedy(*begin(model, shaped(spec, ids)), STEPS)
    wide = search.greedy(*begin(model, widen(shaped(spec, ids), 3)), STEPS)
    assert found.scores.isfinite().all()
    assert same(found.scores, wide.scores)


labels = pytest.mark.parametrize("spec", LABELS.values(), ids=LABELS)


def ended(model: Model, given: Source) -> Pair:
    """A search that ends as the decoder does: with the source, or after one symbol."""
    pair = begin(model, given)
    if model.decoder.ends == "once":
        return pair
    lengths = given.mask.sum(1) - 1
    return search.within(pair, lengths, lengths)


@labels
def test_labels_obey_the_laws_too(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    steps = 1 if model.decoder.ends == "once" else 5
    targets = torch.tensor([[4, 5, 6, 3, 2], [6, 6, 2, 0, 0], [5, 2, 0, 0, 0]])[:, :steps]
    with torch.no_grad():
        forced = search.force(*model.begin(given), targets)
        loss, _ = model.loss(given, padded(targets))
        wide, _ = model.loss(widen(given, 3), padded(targets))
        greedy = search.greedy(*ended(model, given), steps)
        beam = search.beam(*ended(model, given), steps, width=3, n_best=3)
        alone = search.greedy(*ended(model, rows_of(given, [1])), steps)
    assert same(forced.scores.sum(), -loss.nll)
    assert same(loss.nll, wide.nll)
    assert same(alone.scores[0], greedy.scores[1])
    assert same(beam.log_probs.sum(-1), beam.scores)
    assert torch.equal(search.beam(*ended(model, given), steps, width=1).tokens, greedy.tokens)
    assert torch.equal(
        beam.tokens[:, 0], greedy.tokens[:, 0]
    )  # positions do not depend on each other


@labels
def test_gradients_reach_every_weight_of_labels(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    steps = 1 if model.decoder.ends == "once" else 5
    targets = torch.tensor([[4, 5, 6, 3, 2], [6, 6, 2, 0, 0], [5, 2, 0, 0, 0]])[:, :steps]
    targets = torch.cat([targets[:, :1]] * model.decoder.beyond + [targets], 1)
    loss, _ = model.loss(given, padded(targets))
    loss.total.backward()
    still = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0}
    assert still <= {"head.table.weight"}  # nothing is read of what was written before


def test_frames_have_labels_though_no_frame_is_an_end_sign() -> None:
    sound = SoundSpec(hidden=3, layers=1, halvings=0)
    spec = ModelSpec(encoder=sound, decoder=AlignedSpec(), head=VocabularySpec(embedding=5))
    model, given = make(spec), source(spec)
    targets = torch.tensor([[4, 5, 6, 3, 4, 2], [6, 6, 5, 2, 0, 0], [5, 4, 2, 0, 0, 0]])
    lengths = given.mask.sum(1)
    with torch.no_grad():
        forced = search.force(*model.begin(given), targets)
        wide = search.force(*model.begin(widen(given, 3)), targets)
        alone = search.force(*model.begin(rows_of(given, [1])), targets[1:2])
        loss, _ = model.loss(given, padded(targets))
        found = search.greedy(*search.within(begin(model, given), lengths, lengths), 6)
    assert same(forced.scores, wide.scores)
    assert same(forced.scores[1], alone.scores[0])
    assert same(forced.scores.sum(), -loss.nll)
    assert (found.tokens[:, 0] > EOS).sum(1).tolist() == lengths.tolist()


def test_the_probabilities_of_labels_sum_to_one() -> None:
    spec = LABELS["still-summary"]
    step, state = make(spec).begin(source(spec))
    out = step(torch.full((3,), BOS), state)
    assert same(out.log_probs[:, 3:].exp().sum(1), torch.ones(3).double())


def test_a_word_in_no_vocabulary_can_be_copied() -> None:
    spec = ALL["copy-coverage"]
    model, given = make(spec), source(spec)
    with torch.no_grad():
        model.head.switch.bias.fill_(-50)  # never generate
        model.head.switch.weight.zero_()
        found = search.greedy(*begin(model, given), 1)
    step, state = begin(model, given)
    out = step(torch.full((3,), BOS), state)
    assert out.weights is not None
    looked = out.weights.argmax(1)
    assert torch.equal(found.tokens[:, 0, 0], given.values[torch.arange(3), looked, 1])
    assert out.log_probs.size(1) == TARGET + given.values.size(1)


def test_coverage_costs_what_is_attended_to_twice() -> None:
    spec = ALL["coverage"]
    model, given = make(spec), source(spec)
    targets = torch.tensor([[4, 5, 2], [6, 2, 0], [5, 5, 2]])
    plain, _ = model.loss(given, padded(targets))
    more, _ = model.loss(given, padded(targets), Aims(coverage=1.0))
    assert more.total > plain.total
    assert same(more.nll, plain.nll)


@pytest.mark.parametrize("name", [next(iter(ALL)), "monotone"])
def test_a_sampled_history_is_the_models_own(name: str) -> None:
    spec = ALL[name]
    model, given = make(spec).train(), source(spec)
    targets = torch.tensor([[4, 5, 6, 3, 2], [6, 6, 2, 0, 0], [5, 2, 0, 0, 0]])
    torch.manual_seed(0)
    gold, _ = model.loss(given, padded(targets), Aims(sampling=0.0))
    own, _ = model.loss(given, padded(targets), Aims(sampling=1.0))
    assert not same(gold.nll, own.nll)
    assert not same(own.nll, model.eval().loss(given, padded(targets), Aims(sampling=1.0))[0].nll)
    assert same(gold.nll, model.loss(given, padded(targets), Aims(sampling=1.0))[0].nll)


def test_all_ways_from_left_to_right_are_summed() -> None:
    """What the monotone head computes step by step, by counting every way there is."""
    model, given = make(FEW["monotone"]), source(FEW["monotone"])
    targets = torch.tensor([[4, 5, 2]] * 3)
    with torch.no_grad():
        forced = search.force(*model.begin(given), targets).scores[:, 0]
        features, _ = unroll(model, given, targets)
        assert isinstance(model.head, Monotone)
        fixed = model.head.prepare(model.encoder(given), given)
        energies = model.head.attention.energies(features, fixed.keys, None)
        mixed = model.head.state(features)[:, :, None] + fixed.seen[:, None]
        symbols = model.head(torch.tanh(mixed), (), None)
    for row, places in enumerate(fixed.mask.sum(1).tolist()):
        total = 0.0
        for way in itertools.combinations_with_replacement(range(places), 3):
            chance, last = 1.0, 0
            for step, place in enumerate(way):
                ahead = energies[row, step, last:places].softmax(0)
                chance *= float(ahead[place - last])
                chance *= float(symbols[row, step, place, targets[row, step]].exp())
                last = place
            total += chance
        assert math.isclose(math.log(total), float(forced[row]), rel_tol=1e-9)


def test_a_row_without_a_place_is_read_alike_alone_and_beside_others() -> None:
    model = make(FEW["monotone"])
    ids = torch.tensor([[4, 5, 6], [0, 0, 0], [0, 5, 0]])  # nothing, and a first place not real
    targets = torch.tensor([[4, 5, 2]] * 3)
    with torch.no_grad():
        forced = search.force(*model.begin(padded(ids)), targets).scores
        loss, _ = model.loss(padded(ids), padded(targets))
        alone = search.force(*model.begin(padded(ids[1:2, :0])), targets[1:2]).scores
    assert same(forced[1], alone[0])
    assert same(forced.sum(), -loss.nll)
    assert (forced > -1e3).all()
