"""Routines in C are torch's operations, to rounding, and are left out where they cannot be had."""

import logging
import math
from collections.abc import Iterator
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dragoman import objectives
from dragoman.cells import StackSpec, make_cell
from dragoman.core import BOS, EOS, PAD
from dragoman.kernels import entropy, native, products, sequence
from dragoman.kernels.choice import Gaps, settle, using
from dragoman.kernels.lanes import KINDS, Lanes, Still, Tiles, ways
from dragoman.kernels.packed import Precision
from dragoman.kernels.products import Dense
from dragoman.kernels.reading import Shelf, reading
from test_recurrence import OPTIONS, learned, outcome, plainly, problem

compiled = pytest.mark.skipif(native.routines() is None, reason=native.lack())
COVERED = {name: o for name, o in OPTIONS.items() if o[2] != "cover"}


@compiled
@pytest.mark.parametrize("size", [3, 64, 70, 1000])
def test_picks_are_the_best_and_sums_are_whole(size: int) -> None:
    torch.manual_seed(0)
    scores, rule = torch.randn(40, size + 7)[:, :size] * 4, torch.arange(40).to(torch.uint8) % 3
    values, places = native.pick(scores, rule, 5)
    ruled = scores.log_softmax(-1)
    ruled[:, [PAD, BOS]] = -math.inf
    ruled[rule == 1, EOS] = -math.inf
    ruled[rule == 2, EOS + 1 :] = -math.inf
    best = ruled.topk(min(5, size))
    alive = best.values > -math.inf
    assert torch.equal(values > -math.inf, alive)
    assert torch.equal(places[alive], best.indices[alive])
    assert torch.allclose(values[alive], best.values[alive], atol=1e-5)


def laid(way: type[Still], weight: Tensor, bias: Tensor | None, precision: Precision) -> Still:
    """A product by lanes or tiles, where this processor has them."""
    bits = torch.zeros(1, dtype=torch.long)
    native.call("lanes", bits)
    if not int(bits) >> (way.first + KINDS[precision]) & 1:
        pytest.skip(f"a processor without {way.__name__.lower()} for {precision}")
    return way(weight, bias, precision)


@compiled
@pytest.mark.parametrize("rows", [0, 1, 7, 40, 200, 700])
@pytest.mark.parametrize(("size", "results"), [(8, 64), (13, 70), (30, 1000), (1, 3), (130, 65)])
@pytest.mark.parametrize(("precision", "error"), [("fp32", 1e-5), ("bf16", 0.02), ("int8", 0.05)])
@pytest.mark.parametrize("way", [Lanes, Tiles])
def test_laid_out_products_are_products(
    way: type[Still], precision: Precision, error: float, size: int, results: int, rows: int
) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(results, size), torch.randn(results)
    x = torch.randn(rows, size + 3)[:, :size]
    product = laid(way, weight, bias, precision)
    wanted, made = functional.linear(x, weight, bias), product(x)
    assert made.shape == wanted.shape
    assert (made - wanted).norm() <= error * (1 + wanted.norm())
    alone = [product(row[None]) for row in x]  # what becomes of a row is its own affair
    assert all(torch.equal(a[0], b) for a, b in zip(alone, made, strict=True))
    plain = way(weight, None, precision)(x.t().contiguous().t())
    assert torch.allclose(plain, made - bias, atol=1e-5)


@compiled
@pytest.mark.parametrize("spread", [0.0, 1.0, 2.0])  # by how much some numbers are larger
def test_whole_numbers_are_as_exact_as_single_precision(spread: float) -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(300, 512), torch.randn(200, 512)
    weight, x = weight * (spread * torch.randn(512)).exp(), x * (spread * torch.randn(512)).exp()
    product = laid(Tiles, weight, None, "fp32")
    exact = x.double() @ weight.double().t()
    whole, single = (y - exact for y in (product(x), functional.linear(x, weight)))
    sizes = x.double().norm(dim=1)[:, None] * weight.double().norm(dim=1)
    assert (whole.abs() <= 2**-18 * sizes).all()
    assert spread or whole.norm() <= 2 * single.norm()


@compiled
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("way", [Lanes, Tiles])
def test_what_is_no_number_stays_none(way: type[Still], precision: Precision) -> None:
    weight, x = torch.randn(70, 30), torch.randn(5, 30)
    x[1, 3], x[3, 7] = math.nan, math.inf
    made = laid(way, weight, None, precision)(x)
    assert made[[0, 2, 4]].isfinite().all()
    assert not made[[1, 3]].isfinite().any()
    weight[2, 2] = math.nan
    made = laid(way, weight, None, precision)(x[:1])
    assert made.isfinite().sum() == 69
    assert not made[0, 2].isfinite()
    nothing = laid(way, weight, None, precision)(torch.zeros(1, 30))
    assert (nothing[0, 3:] == 0).all()


@compiled
def test_int8_is_the_same_in_lanes_and_tiles() -> None:
    torch.manual_seed(0)
    weight, bias, x = torch.randn(100, 77), torch.randn(100), torch.randn(50, 77)
    x[3] = x[3].round() / 2  # numbers half-way between two steps
    both = [laid(way, weight, bias, "int8")(x) for way in (Lanes, Tiles)]
    assert torch.equal(*both)


@compiled
def test_a_kind_of_product_that_is_wrong_here_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    before = ways()
    if "fp32" not in before:
        pytest.skip("a processor without lanes")
    right = Still.__call__
    wrong = before["fp32"]
    monkeypatch.setattr(wrong, "__call__", lambda self, x: 2 * right(self, x))
    ways.cache_clear()
    try:
        assert ways().get("fp32") is not wrong
    finally:
        monkeypatch.undo()
        ways.cache_clear()


@compiled
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [0, 1, 7, 200, 700])
@pytest.mark.parametrize("results", [3, 64, 70, 1000])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("way", [Lanes, Tiles])
def test_the_best_of_a_product_are_picked_from_it(
    way: type[Still], precision: Precision, results: int, rows: int, threads: int
) -> None:
    torch.manual_seed(0)
    weight, bias, x = torch.randn(results, 30) * 2, torch.randn(results), torch.randn(rows, 30)
    rule, product = torch.arange(rows).to(torch.uint8) % 3, laid(way, weight, bias, precision)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        values, places = product.best(x, rule, 5)
        many = product(x)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(many, product(x))
    wanted = native.pick(product(x), rule, 5)
    assert torch.equal(places, wanted[1])
    assert torch.allclose(values, wanted[0], atol=1e-5)


@compiled
@pytest.mark.parametrize(("each", "width"), [(2, 4), (1, 64), (3, 70), (4, 130), (5, 64), (12, 65)])
@pytest.mark.parametrize("mlp", [True, False])
def test_a_look_is_softmax_and_sum(mlp: bool, each: int, width: int) -> None:
    torch.manual_seed(0)
    keys, values, base = (
        torch.randn(3, 6, 5),
        torch.randn(3, 6, width),
        torch.randn(3 * each, width),
    )
    query, score = torch.randn(3 * each, 9)[:, :5], torch.randn(5) if mlp else None
    real = torch.arange(6) < torch.tensor([[6], [3], [0]])
    weights = torch.empty(3 * each, 6)
    memory = native.Seen(keys, native.powers(keys, 2.0) if mlp else None, values, real)
    out = native.look(memory, score, 2.0, query, base, weights)
    pairs = 2 * (query.view(3, each, 1, 5) + keys[:, None])
    asked = query.view(3, each, 5) @ keys.transpose(1, 2)
    energies = asked if score is None else pairs.sigmoid() @ score
    wanted = energies.masked_fill(~real[:, None], -1e30).softmax(-1) * real[:, None]
    assert torch.allclose(weights, wanted.flatten(0, 1), atol=1e-6)
    assert torch.allclose(out, base + (wanted @ values).flatten(0, 1), atol=1e-6)
    half = values.bfloat16()
    out = native.look(memory._replace(values=half), score, 2.0, query, base, weights)
    assert torch.allclose(out, base + (wanted @ half.float()).flatten(0, 1), atol=1e-6)


@compiled
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("options", COVERED.values(), ids=COVERED)
def test_the_recurrence_is_the_plain_one(options: tuple, drops: bool) -> None:
    plan, given = problem(*options, drops=drops, kind=torch.float)
    _, exact = problem(*options, drops=drops)
    with torch.no_grad():
        for one, two in zip(exact.flat(), given.flat(), strict=True):
            if one is not None and one.is_floating_point():
                one.copy_(two)
    slow = learned(plainly(plan, exact), exact)
    for low, bound in ((False, 5e-5), (True, 0.08)):
        fast = learned(outcome(plan._replace(parts="native", low=low), given), given)
        for a, b in zip(fast, slow, strict=True):
            assert (a - b).norm() <= bound * (1 + b.norm())


@compiled
@pytest.mark.parametrize("lengths", [[6, 3, 0, 1], [6, 6, 5, 2], None])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_a_layer_is_the_plain_loop(name: str, reverse: bool, lengths: list[int] | None) -> None:
    torch.manual_seed(0)
    cell = make_cell(StackSpec(cell=name, hidden=5), 3)
    xs, state = torch.randn(4, 6, 3, requires_grad=True), cell.start(torch.randn(4, 5))
    mask = torch.arange(6) < torch.tensor(lengths or [6] * 4)[:, None]
    if lengths is None and not reverse:
        mask = None
    ways = partial(sequence._sorted, sequence._by_hand), sequence.reference
    results = [way(cell, xs, state, mask, reverse) for way in ways]
    for one, other in zip(*(_parts(*result) for result in results), strict=True):
        assert torch.allclose(one, other, atol=1e-6)
    wanted = [xs, *cell.parameters()]
    sums = [sum(part.sin().sum() for part in _parts(*result)) for result in results]
    for a, b in zip(*(torch.autograd.grad(total, wanted) for total in sums), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


@compiled
@pytest.mark.parametrize("lengths", [[6, 3, 0, 1], [6, 6, 5, 2], None])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", ["gru", "lstm"])
def test_a_layer_that_is_read_is_the_plain_loop(
    name: str, reverse: bool, lengths: list[int] | None
) -> None:
    torch.manual_seed(0)
    cell, shelf = make_cell(StackSpec(cell=name, hidden=5), 3), Shelf()
    xs, state = torch.randn(4, 6, 3), cell.start(torch.randn(4, 5))
    mask = torch.arange(6) < torch.tensor(lengths or [6] * 4)[:, None]
    if lengths is None and not reverse:
        mask = None
    for precision, error in (("fp32", 1e-6), ("bf16", 0.03), ("int8", 0.03)):
        with torch.no_grad(), reading(shelf, precision):
            one, other = (
                _parts(*way(cell, xs, state, mask, reverse))
                for way in (sequence.run, sequence.reference)
            )
            assert shelf.cells
            assert all((a - b).abs().max() <= error for a, b in zip(one, other, strict=True))
        with torch.no_grad():
            cell.across.weight *= -1  # what was laid out is laid out anew


def _parts(hs: Tensor, final: tuple[Tensor, ...]) -> list[Tensor]:
    return [hs, *final]


@compiled
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_is_the_plain_one(smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setitem(entropy.SCORES, "cpu", 4 * 70)
    given = [torch.randn(*shape, requires_grad=True) for shape in ((11, 5), (70, 5), (70,))]
    targets, real = torch.randint(0, 70, (11,)), torch.arange(11) % 4 != 1
    logs = functional.linear(*given).log_softmax(-1)
    wanted = objectives.cross_entropy(logs, targets, smoothing, real)
    total, nll = entropy.cross_entropy(*given, targets.masked_fill(~real, -1), smoothing)
    assert torch.allclose(total, wanted.total)
    assert torch.allclose(nll, wanted.nll)
    grads = (torch.autograd.grad(one, given) for one in (total, wanted.total))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*grads, strict=True))


@compiled
@pytest.mark.parametrize("low", [False, True])
def test_products_are_torchs(low: bool) -> None:
    torch.manual_seed(0)
    layer, xs = Dense(7, 5), torch.randn(9, 4, 7, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        fast = layer(xs)
    slow = functional.linear(xs, layer.weight, layer.bias)
    assert fast.grad_fn.name() == "_LinearBackward"
    assert fast.dtype == torch.float
    bound = 0.02 if low else 1e-6
    wanted = [xs, *layer.parameters()]
    grads = (torch.autograd.grad(out.sin().sum(), wanted) for out in (fast, slow))
    for a, b in [(fast, slow), *zip(*grads, strict=True)]:
        assert (a - b).norm() <= bound * b.norm()
    with using("torch"):
        assert torch.equal(layer(xs), slow)


@pytest.fixture
def anew() -> Iterator[None]:
    """Routines are looked for again, and after the test once more."""
    native._found.cache_clear()
    yield
    native._found.cache_clear()


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [("DRAGOMAN_NATIVE", "0", "DRAGOMAN_NATIVE=0"), ("CC", "false", "false failed")],
)
def test_without_routines_torch_does_it(
    name: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path, caplog
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with caplog.at_level(logging.INFO, "dragoman"):
        assert [native.routines(), native.routines()] == [None, None]
    assert len(caplog.messages) == 1
    assert reason in caplog.messages[0]
    choice = settle(Gaps(), torch.device("cpu"))
    assert choice.name == "torch"
    assert reason in choice.reason
    assert products.linear(torch.ones(1, 2), torch.ones(1, 2)).item() == 2


@compiled
@pytest.mark.usefixtures("anew")
def test_routines_are_compiled_once_and_checked(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert native.routines()
    (made,) = tmp_path.glob("dragoman/native/*")
    before = made.stat().st_mtime_ns
    native._found.cache_clear()
    assert native.routines()
    assert made.stat().st_mtime_ns == before
    native._found.cache_clear()
    monkeypatch.setattr(native, "_agrees", lambda library: False)
    assert native.routines() is None
    assert "does not compute" in native.lack()


@compiled
def test_arrays_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match="bfloat16"):
        native.tanh_sum([torch.zeros(2, 3, dtype=torch.bfloat16)])


@compiled
def test_products_see_no_weights_with_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN multiplies by a slice of a matrix a thousand times slower than by a copy of it."""
    plain, seen = products.times, []

    def watched(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        seen.append(weight.is_contiguous() or weight.t().is_contiguous())
        return plain(x, weight, bias)

    monkeypatch.setattr(products, "times", watched)
    x, whole = torch.randn(32, 5, requires_grad=True), torch.randn(7, 9)
    for weight in (whole[:, 2:7], whole[:, 2:7].contiguous()):
        out = products.linear(x, weight)
        (slope,) = torch.autograd.grad(out.sum(), x)
        assert torch.allclose(out, functional.linear(x, weight), atol=1e-5)
        assert torch.allclose(slope, weight.sum(0).expand(32, -1), atol=1e-5)
    assert seen
    assert all(seen)


@compiled
@pytest.mark.parametrize(("rows", "outs", "size"), [(1, 3, 2), (200, 5, 7), (150, 300, 260)])
def test_slopes_of_weights_are_torchs(rows: int, outs: int, size: int) -> None:
    torch.manual_seed(0)
    grads, inputs = torch.randn(rows, outs + 4), torch.randn(rows, size + 3)
    wanted = grads.double()[:, 2:-2].t() @ inputs.double()[:, 3:]
    with_gaps = products.outer(grads[:, 2:-2], inputs[:, 3:])
    without = products.outer(grads[:, 2:-2].contiguous(), inputs[:, 3:].contiguous())
    for found in (with_gaps, without):
        assert (found - wanted).norm() <= 1e-6 * wanted.norm()
    assert not products.outer(grads[:0], inputs[:0]).any()


@compiled
def test_gradients_of_gradients_are_refused() -> None:
    x, layer = torch.randn(20, 7, requires_grad=True), Dense(7, 30)
    total, _ = entropy.cross_entropy(x, layer.weight, layer.bias, torch.zeros(20, dtype=torch.long))
    for out in (layer(x).sin().sum(), total):
        (slope,) = torch.autograd.grad(out, layer.weight, create_graph=True)
        with pytest.raises(RuntimeError, match=r"twice|not have been used|does not require grad"):
            torch.autograd.grad(slope.square().sum(), layer.weight)
