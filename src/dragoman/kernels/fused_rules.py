# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""What torch's optimizers do to a number, for a Triton kernel, and what they keep of it."""

import math
from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch.optim import SGD, Adadelta, Adagrad, Adam, AdamW

KINDS = {SGD: "sgd", Adam: "adam", AdamW: "adamw", Adadelta: "adadelta", Adagrad: "adagrad"}
KEPT = {  # beside the number of the step, by torch's names
    "sgd": ("momentum_buffer",),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
    "adadelta": ("square_avg", "acc_delta"),
    "adagrad": ("sum",),
}


class Pace(NamedTuple):
    """How fast is forgotten what is kept."""

    first: float  # Adam: how far the average moves; SGD: momentum; Adadelta: rho
    second: float = 0.0  # Adam: how far the squares' average moves
    log1: float = 0.0  # Adam: of the betas
    log2: float = 0.0


def pace_of(kind: str, options: dict[str, Any]) -> Pace:
    """
    >>> pace_of("sgd", {"momentum": 0.9}).first, pace_of("adadelta", {"rho": 0.95}).first
    (0.9, 0.95)
    """
    if kind in ("adam", "adamw"):
        one, two = options["betas"]
        return Pace(1 - one, 1 - two, math.log(one), math.log(two))
    return Pace(options.get("momentum", options.get("rho", 0.0)))


@triton.jit
def update(
    p, a, b, g, rate, begun, first, second, eps, decay,
    KIND: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """One step of numbers p with gradient g and what is kept of them, as torch's optimizers do."""
    if KIND == "adamw":
        p -= rate * decay * p
    else:
        g += decay * p
    if KIND == "sgd":
        if N:
            g += first * a
            a = g
        p -= rate * g
    elif KIND == "adadelta":
        a = first * a + (1 - first) * g * g
        move = tl.sqrt(b + eps) / tl.sqrt(a + eps) * g
        b = first * b + (1 - first) * move * move
        p -= rate * move
    elif KIND == "adagrad":
        a += g * g
        p -= rate * g / (tl.sqrt(a) + eps)
    else:
        a += first * (g - a)
        b += second * (g * g - b)
        p -= rate / tl.load(begun) * a / (tl.sqrt(b) / tl.load(begun + 1) + eps)
    return p, a, b
