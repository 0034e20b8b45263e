"""The quick form of a decoder takes the same steps as the decoder itself."""

import copy

import pytest
import torch
from torch import Tensor

from dragoman import quick
from dragoman.core import BOS, EOS, PAD, Source
from dragoman.model import Model, ModelSpec
from models import ALL, FEW, TARGET, make, source, widen


def fast_ones(specs: dict[str, ModelSpec]) -> dict[str, ModelSpec]:
    made = {name: make(spec) for name, spec in specs.items()}
    return {n: specs[n] for n, model in made.items() if quick.fits(model.decoder, model.head)}


QUICK, EVERY = fast_ones(FEW), fast_ones(ALL)
few = pytest.mark.parametrize("spec", QUICK.values(), ids=QUICK)
every = pytest.mark.parametrize("spec", EVERY.values(), ids=EVERY)


def walk(model: Model, given: Source, tokens: Tensor) -> list[Tensor]:
    """Log-probabilities and weights along fixed tokens (B, T), with each row twice."""
    step, state = model.begin(given)
    state = quick_repeat(state)
    found = []
    for column in tokens.unbind(1):
        out = step(column.repeat_interleave(2), state)
        state = out.state
        found += [out.log_probs, *([] if out.weights is None else [out.weights])]
    return found


def quick_repeat(state: object) -> object:
    from dragoman.core import repeat

    return repeat(state, 2)


@every
def test_steps_are_the_decoders_own(spec: ModelSpec) -> None:
    model, given = make(spec), source(spec)
    tokens = torch.tensor([[BOS, 4, 5, 3], [BOS, 6, 6, EOS], [BOS, 5, PAD, PAD]])
    plain = walk(model, given, tokens)
    with torch.no_grad():
        fast = walk(model, given, tokens)
        wide = walk(model, widen(given, 300), tokens)  # too long to multiply annotations
    assert model.kept.made is not None
    assert all(torch.allclose(a, b, atol=1e-9) for a, b in zip(plain, fast, strict=True))
    if plain[0].shape == plain[1].shape:
        return
    assert all(
        torch.allclose(a, b[:, : a.size(1)], atol=1e-9) for a, b in zip(plain, wide, strict=True)
    )
