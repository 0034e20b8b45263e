"""The few best of a large alphabet, and what all of it sums to, without sorting or writing it."""

import torch
from torch import Tensor

BLOCK = 64  # alphabets that are searched block by block have a multiple of this size
NEAR = 2**19  # scores that a CPU has at hand
LARGE = 8 * BLOCK  # below this a plain search is as fast


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row (N, V), largest first, and where they stand.

    Exact: the k largest stand in the k blocks with the largest maxima, so that only those blocks
    are searched.

    >>> best(torch.tensor([[0.1, 0.7, 0.2]]), 2)
    (tensor([[0.7000, 0.2000]]), tensor([[1, 2]]))
    """
    rows, size = scores.shape
    count = min(count, size)
    if size < LARGE or size % BLOCK or count * BLOCK * 2 > size:
        found = scores.topk(count)
        return found.values, found.indices
    blocks = scores.view(rows, size // BLOCK, BLOCK)
    chosen = blocks.amax(-1).topk(count, sorted=False).indices  # (N, count)
    first = torch.arange(rows, device=scores.device)[:, None] * (size // BLOCK)
    part = blocks.flatten(0, 1).index_select(0, (chosen + first).flatten())
    values, places = part.view(rows, count * BLOCK).topk(count)
    block = chosen.gather(1, places // BLOCK)
    return values, block * BLOCK + places % BLOCK


def total(scores: Tensor) -> Tensor:
    """log Σ exp of each row (N, V) -> (N, 1). The first score of a row must be finite.

    >>> total(torch.tensor([[0.25, 0.75]]).log()).exp()
    tensor([[1.]])
    """
    if scores.device.type != "cpu":
        return scores.logsumexp(-1, keepdim=True)
    rows = max(1, NEAR // scores.size(1))  # what is not kept stays in the cache
    parts = (scores[first : first + rows] for first in range(0, len(scores), rows))
    wholes = [part[:, :1] - part.log_softmax(-1)[:, :1] for part in parts]  # one pass, not three
    return wholes[0] if len(wholes) == 1 else torch.cat([scores[:0, :1], *wholes])


def fill(size: int) -> int:
    """How many symbols an alphabet lacks to be searched block by block.

    >>> fill(60), fill(1000)
    (0, 24)
    """
    return -size % BLOCK if size >= LARGE else 0
