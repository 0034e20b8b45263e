"""Sizes widened inside: the results, the gradients and the course of a training stay the same."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dragoman.attention import AttentionSpec
from dragoman.config import TrainSpec
from dragoman.data.batches import Examples, Ragged
from dragoman.decoders import RecurrentSpec
from dragoman.encoders import TextSpec
from dragoman.heads import VocabularySpec
from dragoman.kernels import entropy, products, recurrence, widths
from dragoman.kernels.contract import Given, Plan
from dragoman.kernels.widened import Widths
from dragoman.model import ModelSpec, build
from dragoman.stepping import Stepper
from models import make
from test_recurrence import ATTENDED, OPTIONS, learned, outcome, plainly, problem, unrolled


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_wider_recurrence_is_the_same(options: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def watched(plan: Plan, given: Given) -> object:
        ran.append(Widths.of(given))
        return real(plan, given)

    real = recurrence._run
    monkeypatch.setattr(recurrence, "_run", watched)
    plan, given = problem(*options)
    with widths.multiples(of=8):
        fast = outcome(plan, given)
    assert ran[0].states == 8
    assert all(size in (0, 8) for size in ran[0])
    slow = plainly(plan, given)
    for a, b in zip(fast, slow, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
    for a, b in zip(learned(fast, given), learned(slow, given), strict=True):
        assert torch.allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("spec", ATTENDED.values(), ids=ATTENDED)
def test_a_decoder_says_the_same_at_other_widths(spec: ModelSpec) -> None:
    model = make(spec)
    with widths.multiples(of=64):
        wide = unrolled(model, spec, "torch")
    pairs = zip(wide, unrolled(model, spec, "reference"), strict=True)
    assert all(a.shape == b.shape and torch.allclose(a, b, atol=1e-9) for a, b in pairs)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", [(20, 5, 7), (20, 8, 7), (20, 5, 8)])
def test_a_wider_product_is_the_same(shape: tuple[int, int, int], biased: bool) -> None:
    torch.manual_seed(0)
    rows, size, out = shape
    x = torch.randn(4, rows, size, dtype=torch.double, requires_grad=True)
    weight = torch.randn(out, size, dtype=torch.double, requires_grad=True)
    bias = torch.randn(out, dtype=torch.double, requires_grad=True) if biased else None
    leaves = [t for t in (x, weight, bias) if t is not None]

    def all_of(y: Tensor) -> list[Tensor]:
        return [y, *torch.autograd.grad(y.sin().sum(), leaves)]

    with widths.multiples(of=8):
        wide = all_of(products.linear(x, weight, bias))
    for a, b in zip(wide, all_of(functional.linear(x, weight, bias)), strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def test_a_wider_output_layer_has_the_same_loss() -> None:
    torch.manual_seed(0)
    shapes = [(11, 5), (70, 5), (70,)]
    given = [torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in shapes]
    targets, found = torch.randint(0, 70, (11,)), []
    for step in (1, 8):
        with widths.multiples(of=step):
            total, nll = entropy.cross_entropy(*given, targets, 0.1)
        found.append([total, nll, *torch.autograd.grad(total, given)])
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(*found, strict=True))


def course(step: int, precision: str) -> list[float]:
    """Losses of a training with dropout, at sizes that suit no GPU."""
    torch.manual_seed(0)
    spec = ModelSpec(
        encoder=TextSpec(cell="lstm", embedding=9, hidden=13, dropout=0.3),
        attention=AttentionSpec(size=11),
        decoder=RecurrentSpec(cell="gru", hidden=21, layers=2, dropout=0.3, readout_size=15),
        head=VocabularySpec(embedding=9),
    )
    cpu, chance = torch.device("cpu"), np.random.default_rng(0)
    settings = TrainSpec(precision=precision, lr=0.01)
    stepper = Stepper(build(spec, (50,), 50).to(cpu).train(), settings, cpu, carries=False)
    sides = [
        Ragged.of([[*chance.integers(4, 50, 2 + (i + j) % 5), 2] for i in range(20)])
        for j in range(2)
    ]
    batch = Examples([sides[0]], sides[1]).batch(np.arange(20))
    with widths.multiples(of=step):
        return [float(stepper.step([batch], n, 0.01).nll) for n in range(1, 13)]


@pytest.mark.parametrize(("precision", "error"), [("fp32", 1e-4), ("bf16", 0.02)])
def test_a_training_takes_the_same_course(precision: str, error: float) -> None:
    plain, wide = course(1, precision), course(64, precision)
    assert wide == pytest.approx(plain, rel=error)
    assert plain[-1] < 0.9 * plain[0]


def test_only_a_gpu_and_only_half_precision_want_other_sizes() -> None:
    assert widths.wide(620, torch.empty(1)) == 620
    assert widths.wide(620, torch.empty(1, dtype=torch.bfloat16)) == 620
    assert widths.fitting(620, itemsize=4) == 620
    for size in range(1, 2000):
        fits = widths.fitting(size, itemsize=2)
        assert fits >= size
        assert fits % 8 == 0
        assert fits == size or size % 8
        assert widths.fitting(fits, itemsize=2) == fits
        assert fits % 64 == 0 or fits - size < 8
