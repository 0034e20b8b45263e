"""Searches whose steps are calls made again: what they find is what the others find, also where
weights are broken, threads are many, and a table is made in the midst of them.
"""

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from dragoman import search
from dragoman.core import Padded
from dragoman.kernels import lanes, native, products
from dragoman.kernels.lanes import DEEPEST, KINDS, still, ways
from dragoman.model import Model
from dragoman.search import course_beams, courses, replayed
from dragoman.search.replayed import Walk
from models import FEW, make, source

pytestmark = pytest.mark.skipif(native.routines() is None, reason=native.lack())
NAMES = ["gru-after-before-bilinear-zero-tanh", "lstm-after-after-mlp-dense-tanh"]
LIMITS = search.Limits(torch.tensor([0, 2, 1]), torch.tensor([6, 3, 4]))


@pytest.fixture
def many() -> Iterator[None]:
    """More threads than a small alphabet has blocks."""
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


def model_of(name: str) -> Model:
    model = make(FEW[name]).float()
    if model.quick() is None:
        with torch.no_grad():
            quick = model.quick()
        if quick is None or quick.still is None:
            pytest.skip("a processor without lanes")
    return model


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("precision", KINDS)
@pytest.mark.parametrize("size", [60, 100, 400])
def test_threads_without_a_block_do_no_harm(size: int, precision: lanes.Precision) -> None:
    torch.manual_seed(0)
    product = still(torch.randn(size, 96), torch.randn(size), precision)
    if precision not in ways():
        pytest.skip(f"a processor without lanes for {precision}")
    x, rule = torch.randn(700, 96), torch.zeros(700, dtype=torch.uint8)
    found, wanted = product.best(x, rule, 3), native.pick(product(x), rule, 3)
    assert torch.allclose(found[0], wanted[0], atol=1e-5)
    assert torch.equal(found[1], wanted[1])


@pytest.mark.parametrize("precision", KINDS)
def test_what_is_no_number_is_seen_in_the_sum(precision: lanes.Precision) -> None:
    if precision not in ways():
        pytest.skip(f"a processor without lanes for {precision}")
    weight, bias = torch.randn(200, 8), torch.zeros(200)
    bias[150] = math.nan
    product, rule = still(weight, bias, precision), torch.zeros(4, dtype=torch.uint8)
    assert product.best(torch.randn(4, 8), rule, 2)[0].isnan().all()
    bias[64:192] = -math.inf  # a block of no chance
    values, _ = still(weight, bias, precision).best(torch.randn(4, 8), rule, 2)
    assert values.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_words_is_made_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, walks, init = model_of(name), list[Walk](), Walk.__init__

    def watched(walk: Walk, *given: object) -> None:
        walks.append(walk)
        init(walk, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Walk, "__init__", watched)
    with torch.inference_mode():
        words = model.quick().words  # type: ignore[union-attr]
        while words.rows is None:
            search.direct_greedy(*model.course(source(FEW[name])), LIMITS)  # type: ignore[misc]
    made = [call for walk in walks for call in walk.calls.made if call.name == "multiply"]
    assert made
    table = words.words.data_ptr()
    assert all(table not in pointers(call.given) for call in made)


def pointers(given: tuple[object, ...]) -> set[int]:
    return {one.data_ptr() for one in given if isinstance(one, Tensor)}


def test_rows_of_a_table_are_those_of_torch() -> None:
    table = torch.randn(5, 7)
    for rows in (torch.tensor([0, 4, 4]), torch.tensor([3, 1], dtype=torch.int32)):
        assert torch.equal(native.gather(table, rows), table.index_select(0, rows))
    with pytest.raises(ValueError, match="follow each other"):
        native.gather(table.t().contiguous().t(), rows)
    for place in (5, -1, 10**9):
        with pytest.raises(IndexError):
            native.gather(table, torch.tensor([0, place]))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [1, 3])
def test_an_item_that_is_broken_breaks_no_other(name: str, width: int) -> None:
    model, given = model_of(name), source(FEW[name])
    assert isinstance(given, Padded)
    broken = int(given.values[1][given.mask[1]][0])
    model.encoder.table.weight.data[broken] = math.nan  # type: ignore[union-attr, operator]
    good = ~((given.values == broken) & given.mask).any(1)
    assert good.any()
    assert not good.all()
    limits = search.Limits(torch.full((3,), 4), torch.full((3,), 4))  # all end at the last step
    rank = search.Rank(1.0)
    with torch.inference_mode():
        found = replayed.beam(*model.course(given), limits, width=width, rank=rank)  # type: ignore[misc]
        wanted = course_beams.beam(*model.course(given), limits, width=width, rank=rank)  # type: ignore[misc]
    assert torch.equal(found.tokens[good], wanted.tokens[good])
    assert torch.allclose(found.scores[good], wanted.scores[good], atol=1e-5)
    assert found.scores[~good].isnan().all()
    assert wanted.scores[~good].isnan().all()


@pytest.mark.parametrize("name", NAMES)
def test_bounds_of_a_search(name: str) -> None:
    """No answer is wanted; answers are empty; there is nothing to read."""
    model, given, rank = model_of(name), source(FEW[name]), search.Rank(1.0)
    none = search.Limits(torch.zeros(3, dtype=torch.long), torch.zeros(3, dtype=torch.long))
    empty = Padded(given.values[:, :0], given.mask[:, :0])  # type: ignore[union-attr]
    with torch.inference_mode():
        found = replayed.beam(*model.course(given), LIMITS, width=3, rank=rank, n_best=0)  # type: ignore[misc]
        assert found.tokens.shape[:2] == (3, 0)
        found = replayed.beam(*model.course(given), none, width=3, rank=rank)  # type: ignore[misc]
        assert found.tokens.tolist() == [[[2]]] * 3
        ways = replayed.beam, course_beams.beam
        two = [way(*model.course(empty), LIMITS, width=3, rank=rank) for way in ways]  # type: ignore[misc]
        assert torch.equal(two[0].tokens, two[1].tokens)
        one = [way(*model.course(empty), LIMITS) for way in (replayed.greedy, courses.greedy)]  # type: ignore[misc]
        assert torch.equal(one[0].tokens, one[1].tokens)


def test_what_products_there_are_does_not_depend_on_who_asks_first() -> None:
    known = dict(ways())
    ways.cache_clear()
    with torch.autocast("cpu", torch.bfloat16):
        assert ways() == known


def test_sums_that_would_not_fit_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "ways", lambda: {"fp32": lanes.Tiles})
    assert products.tiled(torch.ones(1), DEEPEST)
    assert not products.tiled(torch.ones(1), DEEPEST + 1)
    wide = still(torch.ones(1, DEEPEST + 1), None, "int8")
    assert not isinstance(wide, lanes.Still)
    assert float(wide(torch.ones(1, DEEPEST + 1))) == pytest.approx(DEEPEST + 1, rel=0.01)


@pytest.mark.parametrize("precision", KINDS)
def test_weights_may_stand_in_columns(precision: lanes.Precision) -> None:
    weight, x = torch.randn(64, 64), torch.randn(3, 64)
    columns, rows = (
        still(weight.t(), None, precision),
        still(weight.t().contiguous(), None, precision),
    )
    assert torch.equal(columns(x), rows(x))
