"""What rules promise, for every model, under every strategy, alone and together."""

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman import search
from dragoman.core import BOS, EOS, PAD, Hypotheses, Pair, State, Step, move
from dragoman.model import ModelSpec
from models import FEW, TARGET, make, rows_of, source

STEPS = 7
few = pytest.mark.parametrize("spec", FEW.values(), ids=FEW)
fewer = pytest.mark.parametrize("spec", list(FEW.values())[::4], ids=list(FEW)[::4])
Strategy = Callable[[Pair], Hypotheses]


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


def noise(rows: int, count: int, steps: int) -> Tensor:
    return torch.rand(rows, count, steps, generator=torch.Generator().manual_seed(1)).double()


STRATEGIES: dict[str, Strategy] = {
    "greedy": lambda pair: search.greedy(*pair, STEPS),
    "beam": lambda pair: search.beam(*pair, STEPS, width=4, n_best=4, normalize=1.0),
    "diverse": lambda pair: search.beam(
        *pair, STEPS, width=4, n_best=4, taste=search.Taste(groups=2, diversity=0.7)
    ),
    "sample": lambda pair: search.sample(*pair, noise(3, 3, STEPS)),
}


def begin(spec: ModelSpec) -> Pair:
    return search.never(make(spec).begin(source(spec)), [PAD, BOS])


def paths(found: Hypotheses) -> list[list[list[int]]]:
    """The living paths of each item, without their padding."""
    return [
        [
            [i for i in path if i != PAD]
            for path, score in zip(item, scores, strict=True)
            if score > search.NEVER
        ]
        for item, scores in zip(found.tokens.tolist(), found.scores.tolist(), strict=True)
    ]


def holds(phrase: list[int], path: list[int]) -> bool:
    return any(path[i : i + len(phrase)] == phrase for i in range(len(path)))


def cost_the_same(pair: Pair, found: Hypotheses) -> None:
    """A rule that only restricts leaves what is written at the model's own price."""
    for rank in range(found.tokens.size(1)):
        alive = found.scores[:, rank] > search.NEVER
        forced = search.force(*pair, found.tokens[:, rank]).scores[:, 0]
        assert torch.allclose(forced[alive].float(), found.scores[alive, rank].float(), atol=1e-5)


@few
def test_banned_phrases_are_not_written(spec: ModelSpec) -> None:
    pair = begin(spec)
    favourites = paths(search.greedy(*pair, STEPS))
    bans = [[4], [5, 6], [6, 6, 3], *(path[:2] for item in favourites for path in item)]
    bans = [[i for i in ban if i != EOS] for ban in bans]
    for strategy in STRATEGIES.values():
        found = strategy(search.never_phrases(pair, [bans]))
        for path in (path for item in paths(found) for path in item):
            assert not any(holds(ban, path) for ban in bans if ban)
        cost_the_same(pair, found)


@few
def test_no_ngram_is_written_twice(spec: ModelSpec) -> None:
    pair = begin(spec)
    for n, strategy in zip((1, 2, 3, 2), STRATEGIES.values(), strict=True):
        found = strategy(search.no_repeat_ngrams(pair, n))
        for path in (path for item in paths(found) for path in item):
            grams = [tuple(path[i : i + n]) for i in range(len(path) - n + 1)]
            assert len(set(grams)) == len(grams)
        cost_the_same(pair, found)


WANTED = [[[[4, 5, 4]], [[6]]], [[[3, 3], [5]]], []]  # two phrases, two spellings, nothing


def required(pair: Pair, items: list[list[list[list[int]]]], most: Tensor) -> Pair:
    return search.require(search.within(pair, 0, most), search.Phrases(items), most)


def check_required(found: Hypotheses, items: list[list[list[list[int]]]]) -> None:
    for item, answers in zip(items, paths(found), strict=True):
        assert answers
        for path in answers:
            assert path[-1] == EOS
            for phrase in item:
                assert any(holds(spelling, path) for spelling in phrase), (phrase, path)


@few
def test_required_phrases_are_written(spec: ModelSpec) -> None:
    pair, most = begin(spec), torch.tensor([5, 4, 6])
    for strategy in STRATEGIES.values():
        found = strategy(required(pair, WANTED, most))
        check_required(found, WANTED)
        assert ((found.tokens != PAD).sum(-1) <= most[:, None] + 1).all()
        cost_the_same(pair, found)
    free = search.greedy(*search.within(pair, 0, most), STEPS)
    bound = search.greedy(*required(pair, WANTED, most), STEPS)
    same = min(free.tokens.size(-1), bound.tokens.size(-1))
    assert torch.equal(free.tokens[2, :, :same], bound.tokens[2, :, :same])


@fewer
def test_a_beam_with_banks_keeps_the_promise_and_its_price(spec: ModelSpec) -> None:
    pair, most = begin(spec), torch.tensor([6, 6, 6])
    wanted = search.Phrases(WANTED)
    ruled = search.require(search.within(pair, 0, most), wanted, most)
    taste = search.Taste(banks=wanted.banks)
    banked = search.beam(*ruled, STEPS, width=8, n_best=8, taste=taste)
    check_required(banked, WANTED)
    cost_the_same(pair, banked)
    plain = search.beam(*search.within(pair, 0, most), STEPS, width=8)
    assert torch.equal(  # who requires nothing gets what a plain beam gives
        plain.tokens[2, 0], banked.tokens[2, 0, : plain.tokens.size(-1)]
    )


def chain(table: Tensor, rows: int) -> Pair:
    """A Markov chain: the next symbol depends on the last alone."""

    def step(tokens: Tensor, state: State) -> Step:
        return Step(table[tokens], state, None)

    return step, (torch.zeros(rows, 1),)


spelling = st.lists(st.integers(EOS + 1, TARGET - 1), min_size=1, max_size=4)
phrase = st.lists(spelling, min_size=1, max_size=2)
batch = st.lists(st.lists(phrase, max_size=3), min_size=1, max_size=3)


@settings(max_examples=80)
@given(items=batch, seed=st.integers(0, 99), slack=st.integers(0, 3), bank=st.booleans())
def test_any_phrases_that_fit_are_written(
    items: list[list[list[list[int]]]], seed: int, slack: int, bank: bool
) -> None:
    table = torch.randn(TARGET, TARGET, generator=torch.Generator().manual_seed(seed)) * 3
    pair = search.never(chain(table.log_softmax(-1), len(items)), [PAD, BOS])
    wanted = search.Phrases(items)
    most = wanted.total + slack
    ruled = search.require(search.within(pair, 0, most), wanted, most)
    steps = int(most.max()) + 1
    taste = search.Taste(banks=wanted.banks if bank else None)
    for found in (
        search.greedy(*ruled, steps),
        search.beam(*ruled, steps, width=3, n_best=3, normalize=1.0, taste=taste),
        search.sample(*ruled, noise(len(items), 2, steps)),
    ):
        check_required(found, items)
        cost_the_same(pair, found)


def test_banks_find_what_a_plain_beam_overlooks() -> None:
    """A phrase whose first symbol is dear: a narrow beam drops it until the limit forces it."""
    table = torch.full((8, 8), 1e-9)
    table[:, 4], table[:, 7], table[:, 5], table[:, EOS] = 0.5, 0.4, 0.04, 0.05
    table[5:7] = 1e-9
    table[5, 6] = table[6, EOS] = 1.0
    pair = search.never(chain((table / table.sum(1, keepdim=True)).log(), 1), [PAD, BOS])
    wanted, most = search.Phrases([[[[5, 6]]]]), torch.tensor([9])
    ruled = search.require(search.within(pair, 0, most), wanted, most)
    plain = search.beam(*ruled, 10, width=3)
    banked = search.beam(*ruled, 10, width=3, taste=search.Taste(banks=wanted.banks))
    assert banked.tokens[0, 0].tolist()[:3] == [5, 6, EOS]
    assert banked.scores[0, 0] > plain.scores[0, 0]


def test_phrases_of_no_rule_are_refused() -> None:
    wanted = search.Phrases([[[[5]]]])
    with pytest.raises(ValueError, match="not required"):
        wanted.banks((torch.zeros(1),), TARGET)


def test_where_rules_contradict_each_other_the_inner_one_wins_and_there_is_an_answer() -> None:
    pair = search.never(chain(torch.zeros(TARGET, TARGET).log_softmax(-1), 1), [PAD, BOS])
    most = torch.tensor([4])
    banned = search.never_phrases(pair, [[[5]]])
    both = search.require(search.within(banned, 0, most), search.Phrases([[[[5]]]]), most)
    ((path,),) = paths(search.greedy(*both, 5))
    assert 5 not in path
    assert path[-1] == EOS
    long = search.no_repeat_ngrams(search.within(pair, 9, torch.tensor([9])), 1)
    assert len(paths(search.greedy(*long, 10))[0][0]) == 10


@fewer
def test_a_penalty_of_one_is_none_and_more_repeats_less(spec: ModelSpec) -> None:
    pair = make(spec).begin(source(spec))
    assert search.repetition_penalty(pair, 1.0) is pair
    step, state = search.repetition_penalty(pair, 4.0)
    first = step(torch.full((3,), BOS), state)
    assert torch.allclose(first.log_probs.exp().sum(-1), torch.ones(3).double())
    before = pair[0](torch.full((3,), 4), pair[0](torch.full((3,), BOS), pair[1]).state)
    after = step(torch.full((3,), 4), first.state)
    odds = [out.log_probs[:, 4] - out.log_probs[:, 5] for out in (before, after)]
    assert torch.allclose(odds[1], odds[0] + 3 * before.log_probs[:, 4])
    for strategy in STRATEGIES.values():
        assert strategy(search.never((step, state), [PAD, BOS])).scores[:, 0].isfinite().all()


@fewer
@pytest.mark.parametrize("log_linear", [False, True])
def test_an_ensemble_of_copies_is_the_model(spec: ModelSpec, log_linear: bool) -> None:
    pair = search.known(make(spec).begin(source(spec)), 99)
    for copies, weights in ((1, None), (3, None), (2, [3.0, 1.0])):
        mixed = search.ensemble(*[pair] * copies, weights=weights, log_linear=log_linear)
        for strategy in STRATEGIES.values():
            one, many = (strategy(search.never(p, [PAD, BOS])) for p in (pair, mixed))
            assert torch.equal(one.tokens, many.tokens)
            assert torch.allclose(one.scores, many.scores, atol=1e-4)


def test_an_ensemble_wants_a_weight_for_each() -> None:
    pair = chain(torch.zeros(5, 5), 1)
    for weights in ([1.0], [1.0, 0.0]):
        with pytest.raises(ValueError, match="one weight above 0"):
            search.ensemble(pair, pair, weights=weights)


def test_models_with_and_without_copied_symbols_speak_together() -> None:
    plain = chain(torch.full((5, 5), 0.2).log(), 1)
    copies = chain(torch.full((7, 7), 1 / 7).log(), 1)
    mixed = search.ensemble(copies, search.known(plain, 5))
    fused = search.fuse(copies, search.known(plain, 5), 1.0)
    for token in (4, 6):
        for step, state in (mixed, fused):
            assert step(torch.tensor([token]), state).log_probs.shape == (1, 7)
    step, state = mixed
    shares = step(torch.tensor([6]), state).log_probs.exp()
    assert shares.sum().item() == pytest.approx(1)
    assert shares[0, 6].item() == pytest.approx(1 / 14)
    step, state = fused
    assert step(torch.tensor([6]), state).log_probs[0, 6].exp().item() == pytest.approx(1 / 35)


@fewer
def test_fusion_without_weight_is_nothing_and_with_weight_the_sum(spec: ModelSpec) -> None:
    pair, lm = begin(spec), make(FEW["gru-after-lm"], seed=5).begin(source(FEW["gru-after-lm"]))
    lm = search.known(lm, TARGET)
    for strategy in STRATEGIES.values():
        assert torch.equal(strategy(pair).tokens, strategy(search.fuse(pair, lm, 0.0)).tokens)
        found = strategy(search.fuse(pair, lm, 0.5))
        for rank in range(found.tokens.size(1)):
            path = found.tokens[:, rank]
            alive = found.scores[:, rank] > search.NEVER
            if (path >= TARGET).any():
                continue  # a copied symbol, which the language model prices as <unk>
            both = [search.force(*p, path).scores[:, 0] for p in (pair, lm)]
            score = (both[0] + 0.5 * both[1])[alive].float()
            assert torch.allclose(score, found.scores[alive, rank].float(), atol=1e-5)


@fewer
def test_one_group_is_a_beam(spec: ModelSpec) -> None:
    pair = begin(spec)
    plain = search.beam(*pair, STEPS, width=4, n_best=4, normalize=1.0)
    for taste in (search.Taste(diversity=0.0), search.Taste(diversity=2.0)):
        found = search.beam(*pair, STEPS, width=4, n_best=4, normalize=1.0, taste=taste)
        assert torch.equal(plain.tokens, found.tokens)
    halves = search.beam(*pair, STEPS, width=4, n_best=4, taste=search.Taste(groups=2))
    half = search.beam(*pair, STEPS, width=2, n_best=2)
    assert torch.equal(halves.tokens[:, ::2, : half.tokens.size(-1)], half.tokens)
    with pytest.raises(ValueError, match="cannot be shared"):
        search.beam(*pair, STEPS, width=4, taste=search.Taste(groups=3))


@fewer
def test_diverse_groups_begin_differently(spec: ModelSpec) -> None:
    if spec.head.kind == "pointer":
        pytest.skip("a short source has fewer places to point at than there are groups")
    taste = search.Taste(groups=4, diversity=1e6)
    found = search.beam(*begin(spec), STEPS, width=4, n_best=4, taste=taste)
    assert all(len({path[0] for path in item}) == 4 for item in paths(found))
    cost_the_same(begin(spec), found)


def all_rules(spec: ModelSpec, rows: list[int], device: str = "cpu") -> tuple[Pair, search.Phrases]:
    def pair_of(one: ModelSpec, seed: int) -> Pair:
        data = move(rows_of(source(one), rows), torch.device(device))
        return make(one, seed).to(device).begin(data)

    lm, models = pair_of(FEW["gru-after-lm"], 5), [pair_of(spec, seed) for seed in (0, 1)]
    pair = search.fuse(search.ensemble(*models), search.known(lm, TARGET), 0.3)
    pair = search.never(search.repetition_penalty(pair, 1.3), [PAD, BOS])
    if spec.head.kind == "copy":
        own = torch.tensor([4, 2, 1])[rows]
        pair = search.below(pair, TARGET + own)
    pair = search.prefix(pair, torch.tensor([[5, 0], [0, 0], [6, 5]])[rows])
    most = torch.tensor([6, 5, 5])[rows]
    pair = search.within(search.never_phrases(pair, [[[4, 6], [3]]]), 2, most)
    items = [[[[4, 5]]], [[[6], [5, 5]]], []]
    wanted = search.Phrases([items[row] for row in rows])
    return search.no_repeat_ngrams(search.require(pair, wanted, most), 3), wanted


def ruled_answers(
    spec: ModelSpec, rows: list[int], way: str, device: str = "cpu"
) -> list[list[list[int]]]:
    pair, wanted = all_rules(spec, rows, device)
    if way == "sample":
        return paths(search.sample(*pair, noise(3, 2, STEPS)[rows]))
    if way == "greedy":
        return paths(search.greedy(*pair, STEPS))
    taste = search.Taste(True, 0.3, wanted.banks, 2, 0.4)
    return paths(search.beam(*pair, STEPS, width=6, normalize=0.8, n_best=6, taste=taste))


@few
def test_batch_size_and_order_change_nothing_with_all_rules(spec: ModelSpec) -> None:
    if spec.head.kind == "pointer":
        pytest.skip("no language model knows positions: it has no alphabet in common with pointers")
    for way in ("greedy", "beam", "sample"):
        together = ruled_answers(spec, [0, 1, 2], way)
        assert ruled_answers(spec, [2, 0, 1], way) == [together[i] for i in (2, 0, 1)]
        assert [ruled_answers(spec, [row], way)[0] for row in range(3)] == together


@fewer
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_all_rules_are_the_same_on_a_gpu(spec: ModelSpec) -> None:
    for way in ("greedy", "beam", "sample"):
        here, there = (ruled_answers(spec, [0, 1, 2], way, on) for on in ("cpu", "cuda"))
        assert here == there


def test_gnmt_lengths_and_coverage_rank_as_in_the_paper() -> None:
    """Wu et al. 2016, eq. 14, by hand, for two paths: [EOS] of 0.6 and [4, EOS] of 0.4."""
    log_probs = torch.tensor([[0, 0, 0.6, 0, 0.4], [0, 0, 1.0, 0, 0]]).log()
    looks = torch.tensor([[0.9, 0.1], [0.1, 0.9]])

    def step(tokens: Tensor, state: State) -> Step:
        place = (tokens == 4).long()
        return Step(log_probs[place], state, looks[place])

    def best(normalize: float, taste: search.Taste) -> list[int]:
        pair = step, (torch.zeros(1, 1),)
        found = search.beam(*pair, 3, width=3, normalize=normalize, taste=taste)
        return [i for i in found.tokens[0, 0].tolist() if i != PAD]

    # lp: log 0.4 / (7/6)^α beats log 0.6 / (6/6)^α from α = 3.79 on; plain lengths from 0.84 on
    assert best(3.7, search.Taste(gnmt=True)) == [EOS]
    assert best(3.9, search.Taste(gnmt=True)) == [4, EOS]
    assert best(0.8, search.PLAIN) == [EOS]
    assert best(0.9, search.PLAIN) == [4, EOS]
    # cp: the short path leaves β (log 0.9 + log 0.1) uncovered, more than log 1.5 from β = 0.168 on
    assert best(0.0, search.Taste(coverage=0.16)) == [EOS]
    assert best(0.0, search.Taste(coverage=0.18)) == [4, EOS]
