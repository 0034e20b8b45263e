"""The same on a GPU: these skip, visibly, where there is none."""

from pathlib import Path

import pytest
import torch

from dragoman import load, search, train
from dragoman.cells import StackSpec, make_cell
from dragoman.core import BOS, PAD, move
from dragoman.device import pick_device
from dragoman.kernels import sequence
from dragoman.model import ModelSpec
from models import FEW, make, source

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("reverse", [True, False])
def test_cudnn_equals_the_plain_loop(name: str, reverse: bool) -> None:
    pick_device("cuda")  # turns cuDNN's coarse products off
    torch.manual_seed(0)
    cell = make_cell(StackSpec(cell=name, hidden=32), 16).cuda()
    xs = torch.randn(5, 9, 16, device="cuda", requires_grad=True)
    mask = torch.arange(9, device="cuda") < torch.tensor([[9], [1], [4], [0], [7]], device="cuda")
    state = cell.start(torch.randn(5, 32, device="cuda"))
    gradients = []
    for way in (sequence.run, sequence.reference):
        hs, final = way(cell, xs, state, mask, reverse)
        total = hs.square().sum() + sum(t.sin().sum() for t in final)
        gradients.append((total, *torch.autograd.grad(total, [xs, *cell.parameters()])))
    for fast, plain in zip(*gradients, strict=True):
        assert torch.allclose(fast, plain, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("spec", FEW.values(), ids=FEW)
def test_a_beam_finds_the_same_on_both(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    here = search.beam(*search.never(model.begin(given), [PAD, BOS]), 6, width=4, n_best=4)
    model, given = model.cuda(), move(given, torch.device("cuda"))
    there = search.beam(*search.never(model.begin(given), [PAD, BOS]), 6, width=4, n_best=4)
    assert torch.equal(here.tokens, there.tokens.cpu())
    assert torch.allclose(here.scores, there.scores.cpu(), atol=1e-6)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_training_learns_on_a_gpu_and_answers_on_a_cpu(precision: str, tmp_path: Path) -> None:
    words = [f"{a}{b}{c}" for a in "abcd" for b in "efgh" for c in "ijkl"]
    rows = [(word, word[::-1]) for word in words]
    settings = {
        "max_steps": 400,
        "device": "cuda",
        "precision": precision,
        "evaluate_every": 100,
        "lr": 0.003,
    }
    train(rows, tmp_path / "m", config={"train": settings, "data": {"dev_rows": 8}}, quiet=True)
    there, here = load(tmp_path / "m", "cuda"), load(tmp_path / "m")
    answers = [[p.text for p in model.predict(words, batch_size=7)] for model in (there, here)]
    assert answers[0] == answers[1]
    assert sum(a == w[::-1] for a, w in zip(answers[0], words, strict=True)) > 0.9 * len(words)
