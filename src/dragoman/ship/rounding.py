"""Weights rounded to few bytes, and what remains of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from dragoman.checkpoint import Loaded, restore, weights_of
from dragoman.model import build

Form = Literal["fp32", "fp16", "int8"]


class Packed(NamedTuple):
    """Tensors one after the other: where each lies, of what shape, in which form."""

    places: dict[str, dict[str, Any]]
    blob: bytes


def rounded(tensor: Tensor, form: Form) -> Tensor:
    """What is left of a tensor after rounding. Vectors are few and keep all their digits.

    >>> rounded(torch.tensor([[1.27, 0.004]]), "int8")
    tensor([[1.2700, 0.0000]])
    """
    if tensor.dim() < 2 or form == "fp32":
        return tensor.float()
    if form == "fp16":
        return tensor.half().float()
    small, scale = to_int8(tensor)
    return small * scale


def to_int8(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers from -127 to 127, and a scale for each row (the last dimension).

    >>> small, scale = to_int8(torch.tensor([[2.0, -1.0], [0.0, 0.0]]))
    >>> small.tolist()
    [[127, -64], [0, 0]]
    """
    largest = tensor.float().abs().amax(-1, keepdim=True)
    scale = torch.where(largest > 0, largest / 127, 1.0)
    return (tensor.float() / scale).round().clamp(-127, 127).to(torch.int8), scale


def round_model(loaded: Loaded, form: Form) -> Loaded:
    """The model with rounded weights: what a page computes with, here to compare."""
    config, fields, model = loaded
    copy = build(config.model, fields.source_sizes, fields.target.size)
    weights = {name: rounded(tensor, form) for name, tensor in weights_of(model).items()}
    restore(copy, weights, Path("rounded weights"))
    return Loaded(config, fields, copy.eval())


def pack(weights: Mapping[str, Tensor], form: Form) -> Packed:
    """All tensors in one blob; each begins at a multiple of four bytes."""
    places: dict[str, dict[str, Any]] = {}
    parts: list[bytes] = []
    at = 0
    for name, tensor in weights.items():
        kept: Form = form if tensor.dim() > 1 else "fp32"
        body = _body(tensor, kept)
        body += bytes(-len(body) % 4)
        places[name] = {"shape": list(tensor.shape), "at": at, "form": kept}
        parts.append(body)
        at += len(body)
    return Packed(places, b"".join(parts))


def _body(tensor: Tensor, form: Form) -> bytes:
    if form == "int8":
        small, scale = to_int8(tensor)
        return scale.numpy().tobytes() + small.numpy().tobytes()
    return (tensor.half() if form == "fp16" else tensor.float()).numpy().tobytes()
