"""What ONNX calls our recurrences, and one of torch's sums."""

from collections.abc import Callable
from typing import Any

import torch
from onnxscript import BOOL, FLOAT, opset18, script

op: Any = opset18

# torch keeps a cell's gates in one order, ONNX in another: (slices of ours) in the order of theirs
ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "GRUBefore": (1, 0, 2), "LSTM": (0, 3, 1, 2)}
INT32 = 6  # onnx.TensorProto.INT32


def recurrence(  # noqa: PLR0913, PLR0917 -- as the operator is declared
    xs: Any,
    lengths: Any,
    h: Any,
    c: Any,
    inward: Any,
    across: Any,
    inward_bias: Any,
    across_bias: Any,
    kind: str,
    reverse: bool,
) -> tuple[Any, Any, Any]:
    """A layer over a sequence: ONNX has it, lengths and direction included."""
    first = op.Constant(value_ints=[0])
    hidden = int(across.shape[1])
    weights = [op.Unsqueeze(_ordered(w, kind, hidden), first) for w in (inward, across)]
    biases = [_ordered(b, kind, hidden) for b in (inward_bias, across_bias)]
    bias = op.Unsqueeze(op.Concat(*biases, axis=0), first)
    given = (op.Transpose(xs, perm=[1, 0, 2]), *weights, bias, op.Cast(lengths, to=INT32))
    options = {"hidden_size": hidden, "direction": "reverse" if reverse else "forward"}
    if kind == "LSTM":
        ys, last, memory = op.LSTM(
            *given, op.Unsqueeze(h, first), op.Unsqueeze(c, first), **options
        )
        after = op.Squeeze(memory, first)
    else:
        if kind != "RNN":
            options["linear_before_reset"] = int(kind == "GRU")
        routine = op.RNN if kind == "RNN" else op.GRU
        ys, last = routine(*given, op.Unsqueeze(h, first), **options)
        after = op.Identity(c)
    hs = op.Transpose(op.Squeeze(ys, op.Constant(value_ints=[1])), perm=[1, 0, 2])
    return hs, op.Squeeze(last, first), after


def _ordered(weight: Any, kind: str, hidden: int) -> Any:
    order = ORDER[kind]
    if order == tuple(range(len(order))):
        return weight
    rows = [hidden * gate + row for gate in order for row in range(hidden)]
    return op.Gather(weight, op.Constant(value_ints=rows), axis=0)


@script(default_opset=op)
def look(  # noqa: PLR0913, PLR0917
    queries: FLOAT,
    steps: BOOL,
    keys: FLOAT,
    memory: FLOAT,
    mask: BOOL,
    past: FLOAT,
    score: FLOAT,
    carry: FLOAT,
) -> FLOAT:
    """Word-by-word attention: the loop of `encoders.match`, as ONNX writes loops."""
    real_keys = op.Unsqueeze(mask, [1])  # (B, 1, S)
    low = op.Constant(value_float=-3.4028234e38)
    size = op.Shape(queries, start=2, end=3)
    items = op.Shape(queries, start=0, end=1)
    r = op.Expand(op.Constant(value_float=0.0), op.Concat(items, size, axis=0))
    count = op.Squeeze(op.Shape(queries, start=1, end=2))
    for t in range(count):
        query = op.Gather(queries, t, axis=1)  # (B, D)
        real = op.Unsqueeze(op.Gather(steps, t, axis=1), [1])
        moved = op.Unsqueeze(query + op.MatMul(r, op.Transpose(past, perm=[1, 0])), [1])
        mixed = op.Tanh(keys + moved)
        energies = op.MatMul(mixed, op.Transpose(score, perm=[1, 0]))  # (B, S, 1)
        masked = op.Where(real_keys, op.Transpose(energies, perm=[0, 2, 1]), low)
        weights = op.Softmax(masked, axis=-1)
        seen = op.Squeeze(op.MatMul(weights, memory), [1])
        new = seen + op.Tanh(op.MatMul(r, op.Transpose(carry, perm=[1, 0])))
        r = op.Where(real, new, r)
    return r  # type: ignore[no-any-return]


def logcumsumexp(xs: Any, dim: int) -> Any:
    """log Σ_{i ≤ j} e^x_i along the last axis, each sum with a maximum of its own: one for all of
    them would lose what is far below it.
    """
    size = op.Squeeze(op.Shape(xs, start=-1))
    places = op.Range(op.Constant(value_int=0), size, op.Constant(value_int=1))
    last, first = op.Constant(value_ints=[-1]), op.Constant(value_ints=[0])
    before = op.LessOrEqual(op.Unsqueeze(places, first), op.Unsqueeze(places, last))  # (S, S)
    low = op.Constant(value_float=-3.4028234e38)
    each = op.Where(before, op.Unsqueeze(xs, op.Constant(value_ints=[-2])), low)
    top = op.ReduceMax(each, last, keepdims=1)
    total = op.Log(op.ReduceSum(op.Exp(op.Sub(each, top)), last, keepdims=0))
    return op.Add(total, op.Squeeze(top, last))


def table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Our operators and their translations, as the exporter wants them."""
    ours = torch.ops.dragoman
    return {
        ours.recurrence.default: recurrence,
        ours.look.default: look,
        torch.ops.aten.logcumsumexp.default: logcumsumexp,
    }
