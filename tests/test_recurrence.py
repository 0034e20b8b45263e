"""The decoder's recurrence: every kernel equals the plain loop, forward and backward."""

import logging
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from dragoman.attention import AttentionSpec
from dragoman.core import leaves
from dragoman.decoders import Recurrent, RecurrentSpec
from dragoman.decoders.unrolled import gaps
from dragoman.encoders import TextSpec
from dragoman.heads import VocabularySpec
from dragoman.kernels import choice, native, recurrence
from dragoman.kernels.choice import Gaps, settle, tell, using
from dragoman.kernels.contract import Given, Layer, Plan
from dragoman.model import Model, ModelSpec
from models import FEW, make, source

ATTENDED = {name: spec for name, spec in FEW.items() if spec.attention is not None}
B, S, T, H, A, R = 3, 5, 4, 4, 3, 2
GATES = {"rnn": 1, "gru": 3, "gru-before": 3, "lstm": 4}
OPTIONS = {
    f"{cell}-{way}-{score}-{layers}": (cell, way, score, layers)
    for cell, way, score, layers in product(
        GATES, ("before", "fed"), ("mlp", "dot", "cover"), (1, 2)
    )
} | {
    f"{cell}-gated-{score}-{layers}": (cell, "gated", score, layers)
    for cell, score, layers in product(GATES, ("mlp", "dot", "cover"), (1, 2))
}


def random(*shape: int, kind: torch.dtype = torch.double) -> Tensor:
    return torch.randn(*shape, dtype=kind).mul_(0.7).requires_grad_()


def chances(*shape: int, kind: torch.dtype = torch.double) -> Tensor:
    return torch.randint(0, 2, shape).to(kind).mul_(1.5)


def problem(
    cell: str, way: str, score: str, layers: int, drops: bool = True, kind=torch.double
) -> tuple[Plan, Given]:
    """A recurrence with every option of its kind in use."""
    torch.manual_seed(0)
    gates, fed, mlp = GATES[cell] * H, way == "fed", score != "dot"
    inside = 2 * H if cell == "gru-before" else gates
    asked, gated = A if mlp else H, way == "gated"

    def layer(level: int) -> Layer:
        rows = inside + (A * mlp + R * fed if level == layers - 1 else 0)
        before = cell == "gru-before"
        return Layer(
            random(rows, H, kind=kind),
            random(rows, kind=kind),
            random(gates, H, kind=kind) if level else None,
            random(gates, kind=kind) if level else None,
            random(H, H, kind=kind) if before else None,
            random(H, kind=kind) if before else None,
            random(B, H, kind=kind),
            random(B, H, kind=kind) if cell == "lstm" else None,
            chances(B, H, kind=kind) if drops else None,
            chances(T, B, H, kind=kind) if drops and level else None,
        )

    real = torch.arange(S) < torch.tensor([[5], [2], [0]])
    real[0, 1] = False  # what is masked need not stand at the end
    given = Given(
        random(T, B, gates, kind=kind),
        random(B, S, asked, kind=kind),
        random(B, S, R if fed else gates, kind=kind),
        real,
        random(A, kind=kind) if mlp else None,
        random(A, kind=kind) if score == "cover" else None,
        random(B, S, kind=kind) if score == "cover" else None,
        random(H, kind=kind) if gated else None,
        random(1, kind=kind) if gated else None,
        random(T, B, R, kind=kind) if fed else None,
        random(B, R, kind=kind) if fed else None,
        random(gates, R, kind=kind) if fed else None,
        chances(T, B, R, kind=kind) if fed and drops else None,
        tuple(layer(level) for level in range(layers)),
    )
    residual = layers > 1 and not fed and not gated
    return Plan(cell, not fed, residual), given  # type: ignore[arg-type]


def plainly(plan: Plan, given: Given) -> list[Tensor]:
    """The contract, word for word."""
    states = [[layer.h, layer.c] for layer in given.layers]
    fed, seen, tops, weights, features = given.fed, given.seen, [], [], []
    asks, reads = given.queries, given.readouts

    def look(h: Tensor) -> tuple[Tensor, Tensor]:
        top = given.layers[-1]
        query = linear(h, top.weight[:asks], top.bias[:asks]) if asks else h
        if given.score is None:
            energies = (given.keys * query[:, None]).sum(-1)
        else:
            pairs = query[:, None] + given.keys
            if given.cover is not None:
                pairs = pairs + seen[:, :, None] * given.cover
            energies = torch.tanh(pairs) @ given.score
        low = energies.masked_fill(~given.real, -1e30)
        found = low.softmax(-1) * given.real
        return found, (found[:, :, None] * given.values).sum(1)

    for t in range(len(given.gates)):
        if plan.before:
            found, mixed = look(states[-1][0])
            if given.valve is not None:
                mixed = mixed * (states[-1][0] @ given.valve + given.valve_bias).sigmoid()[:, None]
        x = given.gates[t] + (mixed if plan.before else linear(fed, given.inject))
        out = x
        for level, layer in enumerate(given.layers):
            if level:
                read = out if layer.drop is None else out * layer.drop[t]
                x = linear(read, layer.inward, layer.inward_bias)
            states[level] = advance(plan, given, level, x, states[level])
            h = states[level][0]
            out = h + out if plan.residual and level else h
        if not plan.before:
            found, mixed = look(out)
            top = given.layers[-1]
            rows = slice(asks, asks + reads)
            word = 0 if given.word is None else given.word[t]
            fed = torch.tanh(mixed + word + linear(out, top.weight[rows], top.bias[rows]))
            fed = fed if given.keep is None else fed * given.keep[t]
            features.append(fed)
        seen = None if seen is None else seen + found
        tops.append(out)
        weights.append(found)
    ends = [tensor for state in states for tensor in state if tensor is not None]
    more = [torch.stack(features)] if features else []
    return [
        torch.stack(tops),
        torch.stack(weights),
        *more,
        *([] if seen is None else [seen]),
        *ends,
    ]


def advance(plan: Plan, given: Given, level: int, x: Tensor, state: list) -> list:
    layer, rows = given.layers[level], given.gate_rows(level)
    h, c = state
    h = h if layer.mask is None else h * layer.mask
    gates = linear(h, layer.weight[-rows:], layer.bias[-rows:])
    if plan.cell == "rnn":
        return [torch.tanh(x + gates), None]
    if plan.cell == "lstm":
        enter, forget, new, leave = (x + gates).chunk(4, -1)
        c = forget.sigmoid() * c + enter.sigmoid() * new.tanh()
        return [leave.sigmoid() * c.tanh(), c]
    reset, update = (x[:, : 2 * H] + gates[:, : 2 * H]).sigmoid().chunk(2, -1)
    if plan.cell == "gru":
        inner = reset * gates[:, 2 * H :]
    else:
        inner = linear(reset * h, layer.inner, layer.inner_bias)
    new = torch.tanh(x[:, 2 * H :] + inner)
    return [new + update * (h - new), None]


def outcome(plan: Plan, given: Given) -> list[Tensor]:
    found = recurrence.run(plan, given)
    flat = [found.tops, found.weights, found.features, found.seen]
    return [t for t in flat if t is not None] + [t for state in found.states for t in state]


def learned(outputs: list[Tensor], given: Given) -> list[Tensor]:
    """Gradients of everything that has one, of a sum that tells all outputs apart."""
    wanted = [t for t in given.flat() if t is not None and t.requires_grad]
    torch.manual_seed(1)
    total = sum(
        (out * torch.randn(out.shape, dtype=torch.double).to(out.device)).sum() for out in outputs
    )
    return list(torch.autograd.grad(total, wanted))  # type: ignore[arg-type]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_written_gradient_is_autograds(options: tuple) -> None:
    plan, given = problem(*options)
    fast, slow = outcome(plan, given), plainly(plan, given)
    for a, b in zip(fast, slow, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
    for a, b in zip(learned(fast, given), learned(slow, given), strict=True):
        assert torch.allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("cell", GATES)
def test_single_precision_stays_close(cell: str) -> None:
    for kind, bound in ((torch.float, 1e-5), (torch.bfloat16, 0.08)):
        plan, given = problem(cell, "before", "mlp", 1, drops=False, kind=kind)
        _, exact = problem(cell, "before", "mlp", 1, drops=False)
        with torch.no_grad():
            for one, two in zip(exact.flat(), given.flat(), strict=True):
                if one is not None and one.is_floating_point():
                    one.copy_(two)
        pairs = zip(
            learned(outcome(plan, given), given), learned(plainly(plan, exact), exact), strict=True
        )
        for a, b in pairs:
            assert (a - b).norm() <= bound * (1 + b.norm())


def unrolled(model: Model, spec: ModelSpec, kernel: str) -> list[Tensor]:
    """What a decoder makes of a source and of a history, with all gradients."""
    torch.manual_seed(3)
    history = torch.tensor([[1, 4, 5, 6], [1, 6, 3, 4], [1, 5, 5, 5]])
    enc = model.encoder(source(spec))
    with using(kernel):  # type: ignore[arg-type]
        written = model.decoder.unroll(
            model.head.embed(history, enc), model.decoder.start(enc), model.decoder.prepare(enc)
        )
    outputs = [written.features, written.weights, *leaves(written.state)]
    total = sum((out * torch.randn(out.shape, dtype=out.dtype)).sum() for out in outputs)
    parameters = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(total, parameters, allow_unused=True)  # type: ignore[arg-type]
    return [*outputs, *(g for g in found if g is not None)]


@pytest.mark.parametrize("spec", ATTENDED.values(), ids=ATTENDED)
def test_a_decoder_says_the_same_with_and_without_kernels(spec: ModelSpec) -> None:
    model = make(spec)
    pairs = zip(unrolled(model, spec, "torch"), unrolled(model, spec, "reference"), strict=True)
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in pairs)


def test_recurrent_dropout_is_the_same_in_the_kernel() -> None:
    spec = _dropping()
    model = make(spec).train()
    pairs = zip(unrolled(model, spec, "torch"), unrolled(model, spec, "reference"), strict=True)
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in pairs)


def _dropping() -> ModelSpec:
    return ModelSpec(
        encoder=TextSpec(cell="gru", embedding=4, hidden=3),
        attention=AttentionSpec(size=5),
        decoder=RecurrentSpec(cell="lstm", hidden=6, layers=2, recurrent_dropout=0.5),
        head=VocabularySpec(embedding=5),
    )


def test_what_no_kernel_covers_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    spec = FEW["local"]
    decoder = make(spec).decoder
    assert isinstance(decoder, Recurrent)
    assert gaps(decoder).torch == "local attention"
    choice._told.clear()
    with caplog.at_level(logging.WARNING, "dragoman"):
        for _ in range(2):
            tell(settle(gaps(decoder), torch.device("cpu")))
    said = "kernel: reference, because no kernel covers local attention (slower, same results)"
    assert caplog.messages == [said]


def test_a_kernel_can_be_asked_for() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert settle(Gaps(), cpu).name == ("native" if native.routines() else "torch")
    assert settle(Gaps(), cpu, torch.double)[::2] == ("torch", False)
    assert settle(Gaps(native="coverage"), cpu).lesser
    assert settle(Gaps(triton="coverage"), gpu).lesser
    with using("triton"):
        assert settle(Gaps(), cpu).lesser
    with using("torch"):
        assert settle(Gaps(), gpu)[:2] == ("torch", "asked for")
    with using("reference"):
        assert settle(Gaps(), gpu).name == "reference"
