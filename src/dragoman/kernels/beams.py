"""What a beam search keeps in buffers that stay where they are, so that a graph can hold them."""

from typing import NamedTuple

from torch import Tensor


class Front(NamedTuple):
    """The ends of all paths, K of them for each item, side by side: N = B*K rows."""

    tokens: Tensor  # (N,) long: the last symbol of each
    parents: Tensor  # (N,) long: the row that each came from at the last step
    scores: Tensor  # (N,)
    lengths: Tensor  # (N,) int32
    done: Tensor  # (N,) int8
    lead: Tensor  # (B,) int32: which path of an item is the greedy one, which is never pushed out


class Record(NamedTuple):
    """What happened at each step, to follow paths back in the end."""

    parents: Tensor  # (T, B, K) int32: places of an item's beam
    tokens: Tensor  # (T, B, K) int32
    gains: Tensor  # (T, B, K)


class Found(NamedTuple):
    """The best n paths of each item, best first. Past the last step, anything."""

    scores: Tensor  # (B, n)
    tokens: Tensor  # (T, B, n) int32
    gains: Tensor  # (T, B, n)
    looks: Tensor | None  # (T, B, n, S)
