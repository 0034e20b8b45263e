"""Batches as recorded steps like them: of few shapes, which come again, and where a device finds
them by itself. Padding changes nothing, unless a running text's state goes on from its end.
"""

from dragoman.core import Padded, tree_map
from dragoman.data.batches import Batch


def pinned(batch: Batch) -> Batch:
    """The batch in memory that a device can fetch from by itself."""
    source, target = tree_map(lambda t: t.pin_memory(), (batch.source, batch.target))
    return batch._replace(source=source, target=target)


def rounded(batch: Batch) -> Batch:
    """The batch with rows and lengths rounded up, where its columns are symbols."""
    parts = [batch.source] if isinstance(batch.source, Padded) else list(batch.source)
    if any(part.values.is_floating_point() for part in parts):
        return batch
    parts = [widened(part) for part in parts]
    source = parts[0] if isinstance(batch.source, Padded) else tuple(parts)
    return batch._replace(source=source, target=widened(batch.target))


def widened(part: Padded) -> Padded:
    rows, length = part.mask.shape
    high, wide = _up(rows, 8), _up(length, 4 if length <= 64 else 16)
    values = part.values.new_zeros(high, wide, *part.values.shape[2:])
    values[:rows, :length] = part.values
    mask = part.mask.new_zeros(high, wide)
    mask[:rows, :length] = part.mask
    return Padded(values, mask)


def _up(number: int, to: int) -> int:
    """
    >>> _up(13, 4), _up(0, 4)
    (16, 0)
    """
    return -(-number // to) * to
