"""Rules for answers that are orders of positions: only valid ones can be written."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .columns import EOS, FIRST

TRIANGLE = 3  # a polygon has at least as many corners
Array = npt.NDArray[Any]


def astray(valid: str, history: Array, counts: Array, alphabet: int) -> Array:
    """Which symbols (B, K, V) may not follow what was written (B, K, T), where item b has
    `counts[b]` positions: of orders that name each once, of tours, of polygons (hulls).
    """
    places, positions = history - FIRST, np.arange(int(counts.max()))
    real = places >= 0
    written = real.sum(-1)
    first = np.take_along_axis(places, real.argmax(-1)[..., None], -1)
    begun = np.where(written[..., None] > 0, first, -1)  # (B, K, 1)
    closed = ((places == begun) & real).sum(-1) > 1
    seen = (places[..., None] == positions).any(2)  # (B, K, S)
    left = (positions < counts[:, None])[:, None] & ~seen
    home = positions == begun
    if valid == "each-once":
        onward, done = left, ~left.any(-1)
    else:
        done = closed | (counts == 0)[:, None]
        if valid == "tour":
            onward = np.where(left.any(-1, keepdims=True), left, home)
            onward = np.where((written == 0)[..., None], positions == 0, onward)
        else:
            enough = written >= np.minimum(counts, TRIANGLE)[:, None]
            onward = left | (home & enough[..., None])
        onward = onward & ~done[..., None]
    banned = np.ones((*written.shape, alphabet), bool)
    banned[..., FIRST : FIRST + len(positions)] = ~onward
    banned[..., EOS] = ~done
    return banned


def repeated(history: Array, size: int, alphabet: int) -> Array:
    """Which symbols (B, K, V) would end a sequence of `size` symbols that was written before."""
    banned = np.zeros((*history.shape[:2], alphabet), bool)
    if history.shape[2] < size:
        return banned
    grams = np.lib.stride_tricks.sliding_window_view(history, size, axis=2)
    tail = history[:, :, None, history.shape[2] - size + 1 :]
    item, path, place = np.nonzero((grams[..., :-1] == tail).all(-1))
    banned[item, path, grams[item, path, place, -1]] = True
    return banned
