"""The output layer with its cross-entropy is what log-probabilities and their loss would be."""

import pytest
import torch
from torch.nn.functional import linear

from dragoman import objectives
from dragoman.kernels import entropy

ROWS, SIZE, V = 11, 5, 70


def problem(kind: torch.dtype = torch.double) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shapes = [(ROWS, SIZE), (V, SIZE), (V,)]
    return [torch.randn(*shape, dtype=kind, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("rows", [3, 100])
def test_it_is_the_plain_loss(
    smoothing: float, padded: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(entropy.SCORES, "cpu", rows * V)
    given, targets = problem(), torch.randint(0, V, (ROWS,))
    real = torch.arange(ROWS) % 4 != 1 if padded else torch.ones(ROWS, dtype=torch.bool)
    wanted = objectives.cross_entropy(
        linear(*given).log_softmax(-1), targets, smoothing, real if padded else None
    )
    total, nll = entropy.cross_entropy(*given, targets.masked_fill(~real, -1), smoothing)
    assert torch.allclose(total, wanted.total)
    assert torch.allclose(nll, wanted.nll)
    assert int(wanted.tokens) == int(real.sum())
    found = torch.autograd.grad(total * 0.7, given)
    slow = torch.autograd.grad(wanted.total * 0.7, given)
    assert all(torch.allclose(a, b) for a, b in zip(found, slow, strict=True))


def test_half_precision_is_that_of_autocast() -> None:
    given, targets = problem(torch.float), torch.randint(0, V, (ROWS,))
    with torch.autocast("cpu", torch.bfloat16):
        wanted = linear(*given).float().log_softmax(-1).gather(1, targets[:, None]).sum()
        total, nll = entropy.cross_entropy(*given, targets)
    assert nll.dtype == torch.float
    assert float(nll) == pytest.approx(-wanted.item(), rel=1e-3)
    for a, b in zip(
        torch.autograd.grad(total, given), torch.autograd.grad(-wanted, given), strict=True
    ):
        assert a.dtype == torch.float
        assert (a - b).norm() < 0.02 * b.norm()


def test_nothing_is_learned_where_nobody_asks() -> None:
    given, targets = problem(), torch.randint(0, V, (ROWS,))
    with torch.inference_mode():
        total, _ = entropy.cross_entropy(*given, targets)
    assert not total.requires_grad
