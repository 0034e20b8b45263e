"""A kernel is its plain reference, forward and backward."""

import pytest
import torch
from torch.autograd import gradcheck

from dragoman.cells import Cell, StackSpec, make_cell
from dragoman.core import leaves
from dragoman.kernels import sequence
from models import CELLS

native = pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
LENGTHS = torch.tensor([6, 3, 0, 1])


def cell_of(name: str, reset: str = "after") -> Cell:
    torch.manual_seed(0)
    return make_cell(StackSpec(cell=name, reset=reset, hidden=5), 3).double()


def inputs(cell: Cell) -> tuple[torch.Tensor, tuple[torch.Tensor, ...], torch.Tensor]:
    xs = torch.randn(4, 6, 3, dtype=torch.double, requires_grad=True)
    state = tuple(
        torch.randn(4, 5, dtype=torch.double, requires_grad=True) for _ in range(cell.slots)
    )
    return xs, state, torch.arange(6) < LENGTHS[:, None]


@native
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_torchs_routines_equal_the_plain_loop(name: str, masked: bool, reverse: bool) -> None:
    cell = cell_of(name)
    xs, state, mask = inputs(cell)
    given = mask if masked else (torch.ones_like(mask) if reverse else None)
    results = [way(cell, xs, state, given, reverse) for way in (sequence.run, sequence.reference)]
    sums, gradients = [], []
    wanted = [xs, *state, *cell.parameters()]
    for hs, final in results:
        total = hs.square().sum() + sum(t.sin().sum() for t in leaves(final))
        sums.append(total.item())
        gradients.append(torch.autograd.grad(total, wanted))
    assert torch.allclose(results[0][0], results[1][0])
    assert all(torch.allclose(a, b) for a, b in zip(results[0][1], results[1][1], strict=True))
    assert sums[0] == pytest.approx(sums[1])
    assert all(torch.allclose(a, b) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize(("name", "reset"), CELLS)
def test_gradients_are_right(name: str, reset: str) -> None:
    cell = cell_of(name, reset)
    xs, state, mask = inputs(cell)

    def run(xs: torch.Tensor, *state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hs, final = sequence.run(cell, xs, state, mask)
        return hs, *final

    assert gradcheck(run, (xs, *state))


@pytest.mark.parametrize(("name", "reset"), CELLS)
def test_one_call_is_project_then_advance(name: str, reset: str) -> None:
    cell = cell_of(name, reset)
    xs, state, _ = inputs(cell)
    h, new = cell(xs[:, 0], state)
    hs, final = sequence.reference(cell, xs[:, :1], state)
    assert torch.allclose(h, hs[:, 0])
    assert all(torch.allclose(a, b) for a, b in zip(new, final, strict=True))


def test_the_papers_reset_differs_from_cudnns_only_in_the_candidate() -> None:
    after, before = cell_of("gru", "after"), cell_of("gru", "before")
    before.load_state_dict(after.state_dict())
    xs, state, _ = inputs(after)
    assert not torch.allclose(after(xs[:, 0], state)[0], before(xs[:, 0], state)[0])
    with torch.no_grad():
        for cell in (after, before):
            cell.across.weight[:5] = 0  # the reset gate open whatever the state is ...
            cell.inward.weight[:5] = 0
            cell.inward.bias[:5] = 50
    assert torch.allclose(after(xs[:, 0], state)[0], before(xs[:, 0], state)[0])


def test_recurrent_dropout_takes_one_mask_for_all_steps() -> None:
    cell = cell_of("lstm")
    xs, state, _ = inputs(cell)
    none = torch.zeros(4, 5, dtype=torch.double)
    hs, _ = sequence.run(cell, xs, state, dropped=none)
    alone, _ = cell(xs[:, 0], (none, state[1]))
    assert torch.allclose(hs[:, 0], alone)
    full, _ = sequence.run(cell, xs, state, dropped=torch.ones_like(none))
    assert torch.allclose(full, sequence.reference(cell, xs, state)[0])
