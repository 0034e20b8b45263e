"""What a recorded step stands on, as far as it can be seen without a GPU."""

import gc
from contextlib import suppress

import pytest
import torch

from again import course, reader, recorded_on_cpu
from dragoman import graphs
from dragoman.data.ahead import Ahead
from dragoman.device import recording
from dragoman.graphs import recordable
from dragoman.rounding import widened
from models import FEW, make, padded, shaped

MODELS = ["gru-after-before-mlp-copy-maxout", "lstm-after-feed-dot-zero-tanh", "copy-coverage"]


@pytest.mark.parametrize("name", MODELS)
def test_rounding_a_batch_up_changes_no_loss(name: str) -> None:
    spec, model = FEW[name], make(FEW[name])
    source = shaped(spec, torch.tensor([[4, 5, 6, 7, 2], [8, 5, 2, 0, 0], [6, 2, 0, 0, 0]]))
    target = padded(torch.tensor([[4, 5, 2], [6, 2, 0], [5, 4, 2]]))
    wide, long = widened(source), widened(target)
    assert wide.mask.shape == (8, 8)
    assert long.mask.shape == (8, 4)
    one, _ = model.loss(source, target)
    two, _ = model.loss(wide, long)
    assert int(one.tokens) == int(two.tokens)
    assert torch.allclose(one.total, two.total)
    grads = [torch.autograd.grad(loss.total, list(model.parameters())) for loss in (one, two)]
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(*grads, strict=True))


def test_nothing_is_collected_while_a_graph_is_recorded() -> None:
    assert gc.isenabled()
    with recording():
        with recording():
            assert not gc.isenabled()
        assert not gc.isenabled()  # whoever turned it off turns it on again
    assert gc.isenabled()
    with suppress(ZeroDivisionError), recording():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_what_goes_wrong_ahead_of_time_is_told_in_its_turn() -> None:
    ahead = Ahead(lambda n: 1 // (2 - n), total=4, depth=3)
    assert [ahead.get(0), ahead.get(1)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        ahead.get(2)
    assert ahead.get(3) == -1
    ahead.close()


GPU = torch.device("cuda")


def test_without_triton_only_what_can_skip_a_step_is_recorded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert not recordable("adam", torch.device("cpu"))
    monkeypatch.setattr(graphs, "has_triton", lambda *_: False)
    assert recordable("adamw", GPU)
    assert recordable("sgd", GPU)
    assert not caplog.messages
    assert not recordable("adadelta", GPU)
    assert "no CUDA graph" in caplog.messages[0]
    monkeypatch.setattr(graphs, "has_triton", lambda *_: True)
    assert recordable("adadelta", GPU)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("changes", [{}, {"ema": 0.5, "clip": 0.1}, {"optimizer": "sgd"}])
def test_running_text_takes_its_course_from_where_it_stays(
    changes: dict, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = reader("cpu", **changes)
    losses, states = course(slow, size)
    recorded_on_cpu(monkeypatch)
    fast = reader("cpu", **changes)
    found, kept = course(fast, size)
    assert fast.recorder is not None
    assert len(fast.recorder.places.known) == 2  # rows of 3 streams and of 4
    assert found == pytest.approx(losses)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(states, kept, strict=True))
    assert fast.listen() == pytest.approx(slow.listen())
    for one, two in zip(fast.model.parameters(), slow.model.parameters(), strict=True):
        assert torch.allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2])
def test_a_step_that_cannot_be_recorded_begins_where_the_text_stood(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses, states = course(reader("cpu"), size)
    recorded_on_cpu(monkeypatch)
    monkeypatch.setattr("dragoman.stepping.heal", lambda: None)
    fast = reader("cpu")
    assert fast.recorder is not None
    calls, move = iter(range(100)), fast.recorder._move

    def failing() -> None:
        if next(calls) == 3:
            raise RuntimeError("not today")
        move()

    monkeypatch.setattr(fast.recorder, "_move", failing)
    found, kept = course(fast, size)
    assert fast.recorder is None
    assert found == pytest.approx(losses)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(states, kept, strict=True))
