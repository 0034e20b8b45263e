"""Weights cast all at once learn what autocast would have taught them."""

import torch

from dragoman.core import Padded
from dragoman.halves import Halves
from dragoman.model import build
from dragoman.objectives import Aims
from dragoman.stepping import Lesson
from models import FEW, SOURCE, TARGET, padded


def test_gradients_are_those_of_autocast() -> None:
    spec = FEW["gru-after-before-mlp-copy-maxout"]
    torch.manual_seed(0)
    lesson = Lesson(build(spec, (SOURCE,), TARGET))
    source = padded(torch.tensor([[4, 5, 6, 7, 2], [8, 5, 2, 0, 0]]))
    target: Padded = padded(torch.tensor([[4, 5, 2], [6, 2, 0]]))
    halves, found = Halves(lesson, torch.bfloat16), []
    for run in (lesson, halves):
        lesson.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss, _ = run(source, target, Aims(), None)
        loss.total.backward()
        if run is halves:
            halves.bring_home()
        found.append({n: p.grad.clone() for n, p in lesson.named_parameters()})
    plain, together = found
    assert plain.keys() == together.keys()
    for name, grad in plain.items():
        assert together[name].dtype == torch.float
        assert (together[name] - grad).norm() <= 0.03 * grad.norm() + 1e-4, name
    with torch.no_grad():
        lesson.model.head.bias += 1
    assert not torch.equal(halves.copies()[lesson.model.head.bias].float(), lesson.model.head.bias)
    halves.refresh()  # torch has counted the change
    assert torch.equal(
        halves.copies()[lesson.model.head.bias].float(), lesson.model.head.bias.bfloat16().float()
    )
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = halves(source, target, Aims(), None)
    loss.total.backward()
    halves.bring_home()  # a second time: gradients add up
    for name, parameter in lesson.named_parameters():
        assert torch.allclose(parameter.grad, 2 * together[name], atol=1e-4, rtol=0.02), name
