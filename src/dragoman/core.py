"""The few records that all rooms share, and the one place where states are reordered.

Shape letters, everywhere in this package:
    B items · K queries or beams · N = B*K rows · S source · T target · D size · V alphabet
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

PAD, BOS, EOS, UNK = range(4)  # the same for every alphabet; nobody passes them around
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")

State = Any  # any nesting of tuples of tensors whose first dimension is rows


class Padded(NamedTuple):
    """Sequences of unequal length, side by side."""

    values: Tensor  # (B, S, ...)
    mask: Tensor  # (B, S) True = real


Source = Any  # what an encoder reads: a Padded, or a tuple of them where it reads several columns


class Encoded(NamedTuple):
    """What an encoder makes of its source, whatever the source was."""

    memory: Tensor  # (B, S, D) annotation vectors; S may be 0
    mask: Tensor  # (B, S) True = real
    summary: Tensor  # (B, D) the one vector that sums the source up
    finals: State  # last state per layer, for decoders that begin where the encoder stopped


class Step(NamedTuple):
    """One symbol further: how likely each next symbol is, and where that leaves us."""

    log_probs: Tensor  # (N, V)
    state: State
    weights: Tensor | None  # (N, S) attention, for plots and pointers


StepFn = Callable[[Tensor, State], Step]  # (tokens (N,), state) -> Step
Pair = tuple[StepFn, State]  # all that a search ever sees of a model


class Hypotheses(NamedTuple):
    """What a search found, best first. After the end of a path its tokens are PAD."""

    tokens: Tensor  # (B, K, T)
    scores: Tensor  # (B, K) log-probability of the whole path, its end included
    log_probs: Tensor  # (B, K, T) the same, symbol by symbol
    weights: Tensor | None  # (B, K, T, S)


def tree_map(f: Callable[[Tensor], Tensor], tree: State) -> State:
    """Apply `f` to each tensor of a state.

    >>> tree_map(lambda t: t + 1, (torch.zeros(1), (torch.ones(1),)))
    (tensor([1.]), (tensor([2.]),))
    """
    if isinstance(tree, Tensor):
        return f(tree)
    parts = (tree_map(f, part) for part in tree)
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def move(tree: State, device: torch.device) -> State:
    """A state, a source or a target on another device.

    >>> move(Padded(torch.zeros(1, 2), torch.ones(1, 2)), torch.device("cpu")).values.shape
    torch.Size([1, 2])
    """
    return tree_map(lambda t: t.to(device), tree)


def leaf(tree: State) -> Tensor:
    """Some tensor of the state: it tells the number of rows, the device and the type.

    >>> leaf(((), (torch.zeros(3, 2),))).shape
    torch.Size([3, 2])
    """
    found = _first(tree)
    if found is None:
        raise ValueError("a state needs at least one tensor")
    return found


def _first(tree: State) -> Tensor | None:
    if isinstance(tree, Tensor):
        return tree
    return next((t for t in map(_first, tree) if t is not None), None)


def select(state: State, rows: Tensor) -> State:
    """The state of the given rows, in that order.

    >>> select((torch.tensor([10, 20, 30]),), torch.tensor([2, 0]))
    (tensor([30, 10]),)
    """
    return tree_map(lambda t: t.index_select(0, rows), state)


def repeat(state: State, times: int) -> State:
    """Each row `times` times, copies side by side, so that N = B*K rows stay grouped by item.

    >>> repeat((torch.tensor([1, 2]),), 2)
    (tensor([1, 1, 2, 2]),)
    """
    return tree_map(lambda t: t.repeat_interleave(times, 0), state)


def group(rows: Tensor, items: int) -> Tensor:
    """(N, ...) -> (B, K, ...): rows meet the one memory of their item without copying that memory.

    >>> group(torch.arange(6), 2)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    each = len(rows) // max(items, 1)
    return rows.view(items, each, *rows.shape[1:]) if items else rows.unsqueeze(1)


def ungroup(fixed: Tensor, rows: int) -> Tensor:
    """(B, ...) -> (N, ...): each of N rows meets a copy of what belongs to its item.

    >>> ungroup(torch.tensor([7, 8]), 4)
    tensor([7, 7, 8, 8])
    """
    every = rows // max(len(fixed), 1)
    return fixed.unsqueeze(1).expand(-1, every, *fixed.shape[1:]).flatten(0, 1)


def masked_select_state(keep: Tensor, new: State, old: State) -> State:
    """Row by row the new state where `keep` (N,) is True, the old one elsewhere.

    >>> masked_select_state(torch.tensor([True, False]), (torch.ones(2, 1),), (torch.zeros(2, 1),))
    (tensor([[1.],
            [0.]]),)
    """
    if isinstance(new, Tensor):
        return torch.where(keep.view(-1, *[1] * (new.dim() - 1)), new, old)
    return tuple(masked_select_state(keep, n, o) for n, o in zip(new, old, strict=True))


def leaves(tree: State) -> list[Tensor]:
    """All tensors of a state, in order.

    >>> leaves((torch.tensor(1), (torch.tensor(2),)))
    [tensor(1), tensor(2)]
    """
    return [tree] if isinstance(tree, Tensor) else [t for part in tree for t in leaves(part)]


def rebuild(like: State, tensors: list[Tensor]) -> State:
    """A state of the same structure as `like`, from tensors in the order of `leaves`.

    >>> rebuild((torch.tensor(0), (torch.tensor(0),)), [torch.tensor(1), torch.tensor(2)])
    (tensor(1), (tensor(2),))
    """
    rest = iter(tensors)
    return tree_map(lambda _: next(rest), like)
