"""Points in the plane and orders of them: what tasks are made of, fields read and metrics measure.

An order is a list of places, counted from 0; people and files count from 1.
"""

import json
import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def read_points(text: str, dimensions: int = 2) -> Floats:
    """Points (S, D) of a text: numbers one after the other, or JSON lists. What is wrong with a
    text is the message of a ValueError.

    >>> read_points("0 0.5 1 2").tolist(), read_points("[[0, 0.5], [1, 2]]").tolist()
    ([[0.0, 0.5], [1.0, 2.0]], [[0.0, 0.5], [1.0, 2.0]])
    >>> read_points("0 0.5 1")
    Traceback (most recent call last):
    ValueError: 3 numbers are no points of 2
    """
    plain = _unwrapped(text, dimensions) if text.lstrip().startswith("[") else text
    words = plain.replace(",", " ").split()
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        bad = next(word for word in words if not _is_number(word))
        raise ValueError(f"'{bad[:30]}' is not a number") from None
    if len(numbers) % dimensions:
        raise ValueError(f"{len(numbers)} numbers are no points of {dimensions}")
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number is not finite")
    return np.array(numbers, float).reshape(-1, dimensions)


def _unwrapped(text: str, dimensions: int) -> str:
    """The numbers of JSON lists, after a look at whether they are points."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("not valid JSON") from None
    nested = any(isinstance(point, list) for point in tree)
    if nested and not all(isinstance(p, list) and len(p) == dimensions for p in tree):
        raise ValueError(f"a point is not a list of {dimensions} numbers")
    flat = [number for point in tree for number in point] if nested else tree
    return " ".join(map(str, flat))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def write_points(points: npt.ArrayLike, digits: int = 4) -> str:
    """The inverse of `read_points`, to so many digits.

    >>> write_points([[0, 0.5], [1, 2]], digits=1)
    '0.0 0.5 1.0 2.0'
    """
    return " ".join([f"{number:.{digits}f}" for number in np.asarray(points, float).flat])


def read_order(text: str) -> list[int] | None:
    """Places counted from 0; None where a text is no list of places.

    >>> read_order("1 3 2 1"), read_order("1 x"), read_order("0")
    ([0, 2, 1, 0], None, None)
    """
    words = text.split()
    if not all(re.fullmatch("[1-9][0-9]{0,8}", word) for word in words):
        return None
    return [int(word) - 1 for word in words]


def write_order(order: Sequence[int]) -> str:
    """The inverse of `read_order`.

    >>> write_order([0, 2, 1, 0])
    '1 3 2 1'
    """
    return " ".join(str(place + 1) for place in order)


def is_tour(order: Sequence[int], count: int) -> bool:
    """Whether each of `count` places is seen once and the way ends where it began.

    >>> is_tour([0, 2, 1, 0], 3), is_tour([0, 2, 1], 3), is_tour([0, 1, 1, 0], 3)
    (True, False, False)
    """
    return order[:1] == order[-1:] and sorted(order[:-1]) == list(range(count))


def length(points: Floats, order: Sequence[int]) -> float:
    """How long the way is.

    >>> length(np.array([[0.0, 0.0], [3.0, 4.0]]), [0, 1, 0])
    10.0
    """
    way = points[list(order)]
    return float(np.sqrt((np.diff(way, axis=0) ** 2).sum(1)).sum())


def turning(points: Floats) -> float:
    """The area inside a closed way (S, 2), positive where it runs counter-clockwise.

    >>> turning(np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]))
    1.0
    """
    x, y = points.T
    return float((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)


def hull(points: Floats) -> list[int]:
    """The convex hull, counter-clockwise from the corner of lowest place, closed: Andrew's monotone
    chain (1979).

    >>> hull(np.array([[0.5, 0.4], [1.0, 0.0], [0.5, 1.0], [0.0, 0.0]]))
    [1, 2, 3, 1]
    """
    order = np.lexsort((points[:, 1], points[:, 0])).tolist()
    lower, upper = _chain(points, order), _chain(points, order[::-1])
    ring = lower[:-1] + upper[:-1] or order
    begin = ring.index(min(ring))
    return [*ring[begin:], *ring[:begin], ring[begin]]


def _chain(points: Floats, order: Sequence[int]) -> list[int]:
    """One side of a hull: turns to the right are cut off."""
    kept: list[int] = []
    xs, ys = points[:, 0].tolist(), points[:, 1].tolist()
    for c in order:
        while len(kept) > 1:
            a, b = kept[-2:]
            if (xs[b] - xs[a]) * (ys[c] - ys[a]) > (ys[b] - ys[a]) * (xs[c] - xs[a]):
                break
            kept.pop()
        kept.append(c)
    return kept


def same_ring(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two closed ways are the same polygon, wherever they begin and whichever way they go.

    >>> same_ring([0, 1, 2, 3, 0], [2, 1, 0, 3, 2]), same_ring([0, 1, 2, 3, 0], [0, 2, 1, 3, 0])
    (True, False)
    """
    return _first_form(a) == _first_form(b)


def _first_form(ring: Sequence[int]) -> tuple[tuple[int, ...], bool]:
    """One way to write a ring that all its ways share, and whether it is closed."""
    corners = tuple(ring[:-1])
    ways = [
        way[at:] + way[:at]
        for way in (corners, corners[::-1])
        for at in [way.index(min(way)) if way else 0]
    ]
    return min(ways), ring[:1] == ring[-1:] and len(ring) > 1


def crosses_itself(points: Floats) -> bool:
    """Whether two sides of a polygon (S, 2) cross.

    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> crosses_itself(square), crosses_itself(square[[0, 2, 1, 3]])
    (False, True)
    """
    a, b = points, np.roll(points, -1, 0)
    side = b - a
    # left[i, j]: on which side of the line through side i the beginning of side j lies
    away = a[None] - a[:, None]
    left = np.sign(side[:, None, 0] * away[..., 1] - side[:, None, 1] * away[..., 0])
    parted = left * np.roll(left, -1, 1) < 0  # the ends of side j lie on both sides of line i
    return bool((parted & parted.T).any())
