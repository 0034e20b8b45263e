"""The same on a GPU: these skip, visibly, where there is none."""

import gc
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import again
from dragoman import load, quick, search, train
from dragoman.attention import AttentionSpec
from dragoman.cells import StackSpec, make_cell
from dragoman.config import TrainSpec
from dragoman.core import BOS, PAD, Hypotheses, Padded, leaves, move, tree_map
from dragoman.data.batches import Batch, Examples, Ragged
from dragoman.decoders import RecurrentSpec
from dragoman.device import pick_device
from dragoman.encoders import TextSpec
from dragoman.errors import DragomanError
from dragoman.heads import VocabularySpec
from dragoman.kernels import sequence
from dragoman.kernels.widths import multiples
from dragoman.model import ModelSpec, build
from dragoman.optimizers import optimizer_tensors, restore_optimizer
from dragoman.stepping import Stepper
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


# --- training steps as graphs


def stepper(sizes: tuple[int, int, int] = (16, 16, 32), **changes: object) -> Stepper:
    torch.manual_seed(0)
    embedding, read, written = sizes
    spec = ModelSpec(
        encoder=TextSpec(cell="gru", embedding=embedding, hidden=read, dropout=0.0),
        attention=AttentionSpec(size=read),
        decoder=RecurrentSpec(cell="gru", hidden=written, dropout=0.0, readout_size=read),
        head=VocabularySpec(embedding=embedding),
    )
    device = pick_device("cuda")
    settings = TrainSpec(**({"precision": "fp32", "lr": 0.01} | changes))
    return Stepper(build(spec, (50,), 50).to(device), settings, device, carries=False)


def batches(count: int, rows: int = 7) -> list[Batch]:
    chance = np.random.default_rng(0)
    texts = [
        Ragged.of([[*chance.integers(4, 50, 2 + (i + j) % 5), 2] for i in range(rows * count)])
        for j in range(2)
    ]
    examples = Examples([texts[0]], texts[1])
    return [examples.batch(np.arange(i * rows, (i + 1) * rows)) for i in range(count)]


def course(run: Stepper, groups: list[list[Batch]]) -> list[float]:
    run.model.train()
    found = []
    for number, group in enumerate(groups, 1):
        given = [run.prepare(batch) for batch in group]
        found.append(float(run.step(given, number, run.spec.lr).nll))
    return found


KINDS = [
    {"ema": 0.5},
    {"weight_decay": 0.01},
    {"optimizer": "adamw", "weight_decay": 0.1},
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9, "kernel": "torch"},
    {"optimizer": "sgd", "momentum": 0.9, "clip": 0.1},
    {"optimizer": "adadelta", "lr": 1.0},
    {"optimizer": "adagrad", "precision": "bf16", "lr": 0.05},
]


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("changes", KINDS)
def test_recorded_steps_are_the_steps(changes: dict, size: int) -> None:
    every = 4 // size
    groups = [batches(4)[i : i + size] for i in range(0, 4, size)] * 5
    fast, slow = stepper(**changes), stepper(**changes)
    slow.recorder = None
    a, b = course(fast, groups), course(slow, groups)
    assert fast.recorder is not None
    assert fast.recorder.tapes
    assert np.allclose(a, b, rtol=0.03 if fast.halves else 2e-3)
    assert b[-1] < b[every - 1]  # of the same rows
    for one, two in zip(fast.model.parameters(), slow.model.parameters(), strict=True):
        assert (one - two).abs().max() < 0.02
    if fast.average and slow.average:
        for name, tensor in fast.average.tensors.items():
            assert (tensor - slow.average.tensors[name]).abs().max() < 0.02
    kept, wanted = optimizer_tensors(fast.optimizer), optimizer_tensors(slow.optimizer)
    assert {name: t.shape for name, t in kept.items()} == {n: t.shape for n, t in wanted.items()}
    assert all(kept[name] == t for name, t in wanted.items() if name.endswith("step"))
    assert fast.listen() == pytest.approx(slow.listen(), rel=0.03 if fast.halves else 2e-3)


def test_an_old_graph_that_becomes_garbage_spoils_no_new_one() -> None:
    groups, often = [[batch] for batch in batches(2)] * 3, gc.get_threshold()
    old = stepper()
    course(old, groups)
    old.crew = old  # type: ignore[assignment]  # only a collection finds that nobody needs it
    gc.disable()
    del old
    run = stepper()
    course(run, groups[:2])  # each shape for the first time
    gc.set_threshold(1, 1, 1)
    gc.enable()
    try:
        course(run, groups)
    finally:
        gc.set_threshold(*often)
    assert run.recorder is not None
    assert run.recorder.tapes


@pytest.mark.parametrize("optimizer", ["adam", "adadelta", "adagrad", "sgd"])
def test_a_checkpoint_goes_on_recorded_or_not(optimizer: str) -> None:
    groups, ends = [[batch] for batch in batches(2)] * 4, []
    for turns in product((True, False), repeat=2):
        runs = [stepper(optimizer=optimizer, momentum=0.9) for _ in turns]
        for run, recorded in zip(runs, turns, strict=True):
            if not recorded:
                run.recorder = None
        course(runs[0], groups)
        runs[1].model.load_state_dict(runs[0].model.state_dict())
        restore_optimizer(runs[1].optimizer, optimizer_tensors(runs[0].optimizer), Path())
        ends.append(course(runs[1], groups))
    assert all(np.allclose(end, ends[0], rtol=2e-3) for end in ends)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_running_text_takes_the_same_course_recorded(precision: str, size: int) -> None:
    changes = {"precision": precision, "optimizer": "adam" if precision == "fp32" else "sgd"}
    fast, slow = (again.reader("cuda", **changes) for _ in range(2))
    slow.recorder = None
    found, kept = again.course(fast, size)
    losses, states = again.course(slow, size)
    assert fast.recorder is not None
    assert any(tape.carried for tape in fast.recorder.tapes.values())
    near = 2e-3 if precision == "fp32" else 0.05
    assert np.allclose(found, losses, rtol=near)
    assert len(set(found)) == len(found)
    for one, two in zip(kept, states, strict=True):
        assert one.shape == two.shape
        assert one.is_floating_point() == two.is_floating_point()
        assert torch.allclose(one.double(), two.double(), atol=near)


def test_running_text_begins_anew_with_an_epoch() -> None:
    run = again.reader("cuda", optimizer="sgd")
    stream = again.epochs()[0]
    first = []
    for number in range(1, 13):  # nothing is learned: all epochs are alike
        if number % 3 == 1:
            run.carried = None
        run.step([run.prepare(stream.batch((number - 1) % 3))], number, 0.0)
        assert run.carried is not None
        first.append([tensor.clone() for tensor in leaves(run.carried)])
    assert run.recorder is not None
    assert run.recorder.tapes
    for place, found in enumerate(first[3:], 3):
        for one, two in zip(found, first[place % 3], strict=True):
            assert torch.allclose(one, two, atol=1e-5)


def test_running_text_that_cannot_be_recorded_goes_on_where_it_stood() -> None:
    fast, slow = again.reader("cuda"), again.reader("cuda")
    slow.recorder = None
    plain = fast.model.loss

    def asking(source: Padded, target: Padded, *rest: object) -> object:
        loss, carried = plain(source, target, *rest)
        if target.mask.size(1) == 2 and torch.cuda.is_current_stream_capturing():
            float(loss.nll.detach())  # waits for the device: a graph cannot
        return loss, carried

    fast.model.loss = asking
    found, kept = again.course(fast, 2)
    losses, states = again.course(slow, 2)
    assert fast.recorder is None
    assert np.allclose(found, losses, rtol=2e-3)
    for one, two in zip(kept, states, strict=True):
        assert torch.allclose(one.double(), two.double(), atol=2e-3)


def test_sizes_that_do_not_suit_a_gpu_are_widened_in_recorded_steps() -> None:
    groups, courses = [[batch] for batch in batches(4)] * 5, []
    for step in (None, 1):
        run = stepper(precision="bf16", sizes=(18, 30, 44))
        with nullcontext() if step is None else multiples(of=step):
            courses.append(course(run, groups))
        assert run.recorder is not None
        assert run.recorder.tapes
    assert np.allclose(*courses, rtol=0.03)
    assert courses[0][-1] < courses[0][0]


def test_chance_is_drawn_anew_for_each_recorded_step() -> None:
    groups = [[batch] for batch in batches(1)] * 6
    losses = []
    for _ in range(2):
        run = stepper(lr=1e-12)
        run.model.decoder.dropout.p = run.model.encoder.dropout.p = 0.5
        run.model.train()
        mine = [float(run.step([run.prepare(g[0])], n, 1e-12).nll) for n, g in enumerate(groups, 1)]
        losses.append(mine)
    assert len(set(losses[0])) == 6  # a replay is no repetition
    assert np.allclose(losses[0], losses[1], rtol=1e-4)  # but the seed decides


def test_a_poisoned_step_is_skipped_and_named() -> None:
    run, groups = stepper(), [[batch] for batch in batches(1)] * 9
    course(run, groups[:4])
    with torch.no_grad():
        run.model.head.bias[5] = float("nan")
    kept = run.model.encoder.reader.bottom.across.weight.clone()
    run.step([run.prepare(groups[0][0])], 5, 0.01)
    run.step([run.prepare(groups[0][0])], 6, 0.01)
    with pytest.raises(DragomanError, match=r"at step 5 \(training rows \[0, 1, 2, 3"):
        run.listen()
    assert torch.equal(kept, run.model.encoder.reader.bottom.across.weight)


def test_what_cannot_be_recorded_runs_without(caplog: pytest.LogCaptureFixture) -> None:
    run, groups = stepper(), [[batch] for batch in batches(1)] * 6
    plain = run.model.loss

    def asking(*args: object, **rest: object) -> object:
        loss, carried = plain(*args, **rest)
        float(loss.nll.detach())  # waits for the device: a graph cannot
        return loss, carried

    run.model.loss = asking
    found = course(run, groups)
    assert run.recorder is None
    assert sum("no CUDA graph" in message for message in caplog.messages) == 1
    assert found[-1] < found[0]


def test_compiled_kernels_equal_the_plain_code() -> None:
    import interpreted
    import interpreted_optimizers

    pick_device("cuda")
    assert not interpreted_optimizers.optimizers("cuda")
    assert not interpreted.sequences("cuda")
    assert not interpreted.entropies("cuda")
    assert not interpreted.recurrences("cuda")


def test_compiled_searches_equal_the_plain_code() -> None:
    import interpreted_search

    pick_device("cuda")
    assert not interpreted_search.products("cuda")
    assert not interpreted_search.beams("cuda")
    assert not interpreted_search.steps("cuda")


@pytest.mark.parametrize("feed", [True, False])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_searches_of_a_few_rows_are_those_of_many(
    cell: str, feed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels that begin before others end, and products of their own, in graphs."""
    from dragoman.kernels import fused_thin
    from dragoman.quick import fused

    pick_device("cuda")
    torch.manual_seed(0)
    look = {"score": "bilinear", "when": "after", "feed": True} if feed else {"size": 64}
    spec = ModelSpec(
        encoder=TextSpec(cell=cell, embedding=64, hidden=64),
        attention=AttentionSpec(**look),
        decoder=RecurrentSpec(cell=cell, hidden=64, readout_size=64),
        head=VocabularySpec(embedding=64),
    )
    model = build(spec, (90,), 90).cuda().eval()
    model.search_in("bf16")
    with torch.no_grad():
        model.head.weight.mul_(6)  # sharp choices
    given = [torch.randint(4, 90, (2, 8)) for _ in range(3)]
    sources = [move(Padded(ids, ids > 0), torch.device("cuda")) for ids in given]
    limits = search.Limits(torch.tensor([9, 15]), torch.tensor([15, 15]))
    ask = {"width": 5, "rank": search.Rank(1.0)}

    def found() -> list[Hypotheses]:
        model.kept.forget()
        with torch.inference_mode():
            rails = model.rails()
            turns = [
                search.recorded_beam(rails, sources[i], limits, **ask) for i in (0, 0, 1, 2, 0)
            ]
            graphs = rails.graphs.values()
        assert {one.start.__name__ for one in graphs} == {"replay"}
        return turns[1:]

    close = found()
    monkeypatch.setattr(fused, "suits", lambda rows, weight: False)
    monkeypatch.setattr(fused_thin, "_chains", lambda device: False)
    for one, two in zip(close, found(), strict=True):
        assert torch.allclose(one.scores, two.scores, rtol=0.05)
        assert (one.tokens == two.tokens).float().mean() > 0.5  # near-ties part ways
    assert torch.equal(close[0].tokens, close[3].tokens)
    assert not torch.equal(close[0].tokens, close[1].tokens)


@pytest.mark.parametrize("name", [name for name, spec in FEW.items() if spec.attention])
def test_recorded_searches_are_the_general_ones(name: str) -> None:
    pick_device("cuda")  # turns cuDNN's coarse products off
    spec = FEW[name]
    model = make(spec).float().cuda()
    if not quick.fits(model.decoder, model.head):
        pytest.skip("there is no quick form")
    given = move(source(spec), torch.device("cuda"))
    given = tree_map(lambda t: t.float() if t.is_floating_point() else t, given)
    most = torch.tensor([12, 3, 4])
    limits, noise = search.Limits(torch.zeros_like(most), most), torch.rand(3, 2, 13)
    with torch.inference_mode():
        pair = search.within(search.never(model.begin(given), [PAD, BOS]), 0, most.cuda())
        best = search.beam(*pair, 13, width=4, normalize=1.0)
        drawn = search.sample(*pair, noise)
        rails = model.rails()
        assert rails is not None
        for turn in range(3):  # not yet, recorded, replayed
            one = search.recorded_beam(rails, given, limits, width=4, rank=search.Rank(1.0))
            two = search.recorded_sample(rails, given, limits, noise)
            for slow, fast in ((best, one), (drawn, two)):
                assert (fast is None) == (turn == 0)
                if fast is not None:
                    steps = slow.tokens.size(2)
                    assert torch.equal(fast.tokens[..., :steps], slow.tokens.cpu())
                    assert torch.allclose(fast.scores, slow.scores.cpu(), atol=1e-4)
