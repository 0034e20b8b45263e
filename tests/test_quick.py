"""The quick form of a decoder takes the decoder's own steps, and searches along it find what the
general searches find.
"""

import copy
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

import dragoman
from dragoman import quick, search
from dragoman.core import BOS, EOS, PAD, Hypotheses, Pair, Source, move, repeat, tree_map
from dragoman.device import pick_device
from dragoman.kernels import packed as packing
from dragoman.kernels.best import LARGE, best, total
from dragoman.kernels.packed import packed
from dragoman.model import Model, ModelSpec
from dragoman.search import graphs, recorded
from dragoman.search.recorded import STEPS
from models import ALL, FEW, make, source, widen
from small import words

LEAST, MOST = torch.tensor([0, 2, 1]), torch.tensor([6, 3, 4])
LIMITS = search.Limits(LEAST, MOST)
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
TYPES = pytest.mark.parametrize("kind", [torch.float64, torch.float32], ids=["f64", "f32"])


def known(specs: Mapping[str, ModelSpec]) -> dict[str, ModelSpec]:
    made = {name: make(spec) for name, spec in specs.items()}
    return {n: specs[n] for n, model in made.items() if quick.fits(model.decoder, model.head)}


KNOWN, EVERY = known(FEW), known(ALL)
few = pytest.mark.parametrize("spec", KNOWN.values(), ids=KNOWN)
every = pytest.mark.parametrize("spec", EVERY.values(), ids=EVERY)


def walk(model: Model, given: Source) -> tuple[Tensor, list[Tensor]]:
    """Log-probabilities, and weights if there are any, along fixed paths, two an item."""
    tokens = torch.tensor([[BOS, 4, 5, 3], [BOS, 6, 6, EOS], [BOS, 5, PAD, PAD]])
    step, state = model.begin(given)
    state, log_probs, weights = repeat(state, 2), [], []
    for column in tokens.repeat_interleave(2, 0).unbind(1):
        out = step(column, state)
        state = out.state
        log_probs.append(out.log_probs)
        weights += [] if out.weights is None else [out.weights]
    return torch.stack(log_probs), weights


@few
def test_steps_are_the_decoders_own(spec: ModelSpec) -> None:
    check_steps(spec)


@every
@pytest.mark.slow
def test_steps_of_every_decoder_are_its_own(spec: ModelSpec) -> None:
    check_steps(spec)


def check_steps(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    plain, looked = walk(model, given)
    assert model.kept.made is None  # somebody may want gradients
    with torch.no_grad():
        fast, seen = walk(model, given)
        assert model.kept.made is not None
        wide, _ = walk(model, widen(given, 300))  # too long to multiply annotations beforehand
        table = model.kept.made[1].words
        assert table.rows is not None  # more was read than there are words
    assert torch.allclose(plain, fast, atol=1e-9)
    assert torch.allclose(plain, wide, atol=1e-9)
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(looked, seen, strict=True))


def cast(given: Source, kind: torch.dtype) -> Source:
    return tree_map(lambda t: t.to(kind) if t.is_floating_point() else t, given)


def general(model: Model, given: Source) -> Pair:
    return search.within(search.never(model.begin(given), [PAD, BOS]), LEAST, MOST)


def alike(one: Hypotheses, other: Hypotheses) -> bool:
    """The same paths at the same prices, looking at the same places; dead places do not count."""
    alive = one.scores > search.NEVER
    real = (one.tokens != PAD) & alive[..., None]
    pairs = [(one.scores[alive], other.scores[alive]), (one.log_probs[real], other.log_probs[real])]
    if one.weights is not None and other.weights is not None:
        pairs.append((one.weights[real], other.weights[real]))
    same = all(torch.allclose(a, b, atol=1e-4) for a, b in pairs)
    return same and torch.equal(one.tokens[alive], other.tokens[alive])


@few
@TYPES
def test_beams_are_the_general_ones(spec: ModelSpec, kind: torch.dtype) -> None:
    model, given = make(spec).to(kind), cast(source(spec), kind)
    with torch.no_grad():
        pair, way = general(model, given), model.course(given)
        assert way is not None
        for width, normalize, gnmt in ((2, 0.0, False), (4, 0.8, False), (9, 1.0, True)):
            taste, rank = search.Taste(gnmt=gnmt), search.Rank(normalize, gnmt)
            slow = search.beam(
                *pair, 7, width=width, n_best=width, normalize=normalize, taste=taste
            )
            fast = search.direct_beam(*way, LIMITS, width=width, rank=rank, n_best=width)
            assert alike(slow, fast)


@few
@TYPES
def test_greedy_paths_and_draws_are_the_general_ones(spec: ModelSpec, kind: torch.dtype) -> None:
    model, given = make(spec).to(kind), cast(source(spec), kind)
    noise = torch.rand(3, 4, 7)
    with torch.no_grad():
        pair, way = general(model, given), model.course(given)
        assert way is not None
        assert alike(search.greedy(*pair, 7), search.direct_greedy(*way, LIMITS))
        for options in ({}, {"top_k": 3, "top_p": 0.8, "temperature": 1.5}):
            slow = search.sample(*pair, noise, **options)
            assert alike(slow, search.direct_sample(*way, LIMITS, noise, **options))


@few
def test_recorded_searches_are_the_general_ones(spec: ModelSpec) -> None:
    check_recorded(make(spec), source(spec))


def check_recorded(model: Model, given: Source) -> None:
    """What a GPU records and replays is done again each time where there is none."""
    noise = torch.rand(3, 4, 7)
    draw = {"top_k": 3, "top_p": 0.8, "temperature": 1.5}
    with torch.inference_mode():
        pair, form = general(model, given), model.quick()
        assert form is not None
        rails = quick.Rails(model.encoder, form)
        for width in (1, 4):
            slow = search.beam(*pair, 7, width=width, n_best=width, normalize=0.8)
            ask = {"width": width, "n_best": width, "rank": search.Rank(0.8)}
            assert search.recorded_beam(rails, given, LIMITS, **ask) is None  # not seen before
            for _ in range(2):  # buffers are used again
                found = search.recorded_beam(rails, given, LIMITS, **ask)
                assert alike(slow, shortened(found, slow))
        drawn = [search.recorded_sample(rails, given, LIMITS, noise, **draw) for _ in range(3)]
        slow = search.sample(*pair, noise, **draw)
        assert all(alike(slow, shortened(one, slow)) for one in drawn[1:])


@few
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
def test_items_that_go_on_alone_find_what_they_would_have(
    spec: ModelSpec, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded searches leave behind what is done, and again, and again."""
    monkeypatch.setattr(graphs, "FEWEST", 8)
    monkeypatch.setattr(graphs, "MANY", 1)
    taken = []
    take_over = recorded.Recorded._take_over

    def watched(self: recorded.Recorded, *given: object) -> Hypotheses:
        taken.append(len(self.ended))
        return take_over(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(recorded.Recorded, "_take_over", watched)
    pick_device(device)  # turns cuDNN's coarse products off
    model = make(spec) if device == "cpu" else make(spec).float().cuda()
    given = tree_map(lambda t: t.repeat_interleave(14, 0)[:40], source(spec))
    given = move(given if device == "cpu" else cast(given, torch.float), torch.device(device))
    most = torch.randperm(40, generator=torch.Generator().manual_seed(0)) * 35 // 40
    limits, noise = search.Limits(most // 2, most), torch.rand(40, 2, 36)
    with torch.inference_mode():
        bounds = (most // 2).to(device), most.to(device)
        pair = search.within(search.never(model.begin(given), [PAD, BOS]), *bounds)
        rails = quick.Rails(model.encoder, model.quick())  # type: ignore[arg-type]
        slow = home(search.beam(*pair, 36, width=3, n_best=2, normalize=0.8))
        drawn = home(search.sample(*pair, noise))
        ask = {"width": 3, "n_best": 2, "rank": search.Rank(0.8)}
        for turn in range(4):
            one = search.recorded_beam(rails, given, limits, **ask)
            two = search.recorded_sample(rails, given, limits, noise)
            if turn:
                assert alike(slow, shortened(one, slow))
                assert alike(drawn, shortened(two, drawn))
    assert min(taken) == 8


def test_nobody_looks_before_the_last_searches_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = next(iter(KNOWN.values()))
    model, given, looks = make(spec), source(spec), []
    with torch.no_grad():
        model.head.bias[EOS] = 50  # answers end as soon as they may
    going = recorded.Recorded._going
    monkeypatch.setattr(recorded.Recorded, "_going", lambda self: (looks.append(1), going(self))[1])
    twenty = torch.full((3,), 20)
    long, short = (search.Limits(least, twenty) for least in (twenty, torch.full((3,), 3)))
    seen = []
    with torch.inference_mode():
        rails = quick.Rails(model.encoder, model.quick())  # type: ignore[arg-type]
        ask = {"width": 2, "rank": search.Rank(1.0)}
        assert search.recorded_beam(rails, given, long, **ask) is None
        wanted = {
            id(limits): search.direct_beam(*model.course(given), limits, **ask)  # type: ignore[misc]
            for limits in (long, short)
        }
        for limits in [*[long] * 9, *[short] * 9]:
            found, slow = search.recorded_beam(rails, given, limits, **ask), wanted[id(limits)]
            steps = slow.tokens.size(2)
            assert found is not None
            assert torch.equal(found.tokens[..., :steps], slow.tokens)
            assert not found.tokens[..., steps:].any()
            assert torch.allclose(found.scores, slow.scores)
            seen.append((len(looks), found.tokens.size(2)))
            looks.clear()
    assert seen[:9] == [(2, 24)] * 8 + [(0, 24)]
    assert seen[9:] == [(0, 24)] * 6 + [(1, 8)] * 3  # every eighth is looked at all along


def home(found: Hypotheses) -> Hypotheses:
    return Hypotheses(*(None if part is None else part.cpu() for part in found))


def shortened(found: Hypotheses | None, like: Hypotheses) -> Hypotheses:
    """Without the steps and places that rounding up has added."""
    assert found is not None
    steps = like.tokens.size(2)
    assert found.tokens.size(2) == -(-steps // STEPS) * STEPS
    assert not found.tokens[..., steps:].any()
    weights = None
    if found.weights is not None and like.weights is not None:
        weights = found.weights[:, :, :steps, : like.weights.size(3)]
    tokens, log_probs = found.tokens[..., :steps], found.log_probs[..., :steps]
    return Hypotheses(tokens, found.scores, log_probs, weights)


@pytest.mark.parametrize(
    "way",
    [{"beam": 1}, {"beam": 4}, {"beam": 3, "n_best": 3}, {"sample": True}, {"max_length": 2}],
    ids=str,
)
def test_rules_that_change_nothing_change_nothing(tiny: dragoman.Predictor, way: dict) -> None:
    """A rule sends a search the general way."""
    inputs = words(40, seed=5, longest=9)
    fast, slow = tiny(inputs, **way), tiny(inputs, ban=["never written"], **way)
    for one, other in zip(fast, slow, strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert [a.text for a in one.alternatives] == [a.text for a in other.alternatives]


def test_changed_weights_are_noticed_and_copies_begin_anew() -> None:
    spec = next(iter(KNOWN.values()))
    model, given = make(spec), source(spec)
    with torch.no_grad():
        before, _ = walk(model, given)
        again = copy.deepcopy(model)
        assert again.kept.made is None
        model.head.bias.add_(torch.linspace(0, 3, len(model.head.bias)))
        after, _ = walk(model, given)
        assert torch.equal(walk(again, given)[0], before)
    assert not torch.allclose(before, after)
    assert torch.allclose(after, walk(model, given)[0], atol=1e-9)


def test_weights_and_parts_that_are_replaced_are_noticed() -> None:
    spec = next(iter(KNOWN.values()))
    model, other, given = make(spec), make(spec), source(spec)
    with torch.no_grad():
        before, _ = walk(model, given)
        model.head.bias = nn.Parameter(model.head.bias + torch.linspace(0, 3, len(before[0, 0])))
        after, _ = walk(model, given)
        for weight in other.decoder.parameters():
            weight.mul_(0.5)
        model.decoder = other.decoder
        last, _ = walk(model, given)
        model.quick = lambda: None  # type: ignore[method-assign]
        assert torch.allclose(last, walk(model, given)[0], atol=1e-9)
    assert not torch.allclose(before, after)
    assert not torch.allclose(after, last)


@pytest.mark.parametrize("size", [7, LARGE, 1000])
@pytest.mark.parametrize("count", [1, 5, 8])
def test_the_best_few_are_the_best(size: int, count: int) -> None:
    scores = torch.randn(33, size)
    values, places = best(scores, count)
    found = scores.topk(min(count, size))
    assert torch.equal(values, found.values)
    assert torch.equal(places, found.indices)
    assert torch.allclose(total(scores)[:, 0], scores.logsumexp(1), atol=1e-5)


@pytest.mark.parametrize(("precision", "error"), [("fp32", 1e-6), ("bf16", 0.02), ("int8", 0.03)])
@pytest.mark.parametrize("rows", [0, 1, 5, 100])
def test_packed_products_are_products(precision: quick.Precision, error: float, rows: int) -> None:
    torch.manual_seed(1)
    layer, x = nn.Linear(64, 96), torch.rand(rows, 64) * 2 - 1
    with torch.no_grad():
        made, wanted = packed(layer.weight, layer.bias, precision)(x), layer(x)
    assert made.shape == wanted.shape
    assert made.dtype == torch.float32
    assert not rows or (made - wanted).abs().max() < error


@few
def test_what_learning_changed_is_searched(spec: ModelSpec) -> None:
    """Fused optimizers change weights without raising their version."""
    model, given = make(spec).float(), cast(source(spec), torch.float32)
    with torch.no_grad():
        before, _ = walk(model.eval(), given)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    model.eval()
    with torch.no_grad():
        after, _ = walk(model, given)
        fresh, _ = walk(copy.deepcopy(model), given)
    assert not torch.allclose(before, after)
    assert torch.equal(after, fresh)


@pytest.mark.parametrize("has", [True, False])
def test_less_precision_is_taken_where_it_is_faster(
    has: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(packing, "has_bf16", lambda: has)
    model = make(next(iter(KNOWN.values()))).float()
    model.search_in("bf16")
    assert model.precision == ("bf16" if has else "fp32")
    assert ("this processor has no bf16" in caplog.text) is not has
    model.search_in("int8")
    assert model.precision == "int8"
