"""Tasks whose answer is an order of the input: sorting, convex hulls and tours of cities.

Labels are exact (tours of up to twelve cities by dynamic programming), answers canonical: a tour
begins at the first city, a hull at its corner of lowest place, and both run counter-clockwise.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman import geometry
from dragoman.errors import UserError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Pair = tuple[str, str]  # (numbers, places), as they stand in a file
EXACT = 12  # cities: beyond, a tour is improved by exchanges until none helps
SOLVED = 16_384  # tours times cities solved together
DIGITS = 4  # of coordinates; of numbers to sort there are two, and no number comes twice
NUMBERS = 100


class Sizes(NamedTuple):
    """How many points an instance has."""

    least: int
    most: int

    @classmethod
    def of(cls, text: str) -> "Sizes":
        """A number, or two with a dash between them.

        >>> Sizes.of("10"), Sizes.of("5-10")
        (Sizes(least=10, most=10), Sizes(least=5, most=10))
        """
        low, _, high = text.partition("-")
        try:
            sizes = cls(int(low), int(high or low))
        except ValueError:
            raise UserError(f"'{text}': write a size as 10, or as 5-10") from None
        if not 1 <= sizes.least <= sizes.most:
            raise UserError(f"'{text}': sizes go from 1 up")
        return sizes


def pairs(task: str, count: int, sizes: Sizes, seed: int) -> Iterator[Pair]:
    """Instances of a task with their answers, as many of each size.

    >>> numbers, order = next(pairs("sort", 1, Sizes(3, 3), seed=1))
    >>> numbers, order
    ('0.93 0.61 0.75', '2 3 1')
    """
    chance = np.random.default_rng(seed)
    for begin in range(0, count, SOLVED):
        drawn = chance.integers(sizes.least, sizes.most + 1, min(SOLVED, count - begin))
        answers: list[Pair] = [("", "")] * len(drawn)
        for size in np.unique(drawn).tolist():
            rows = np.flatnonzero(drawn == size)
            for row, pair in zip(rows, TASKS[task](len(rows), size, chance), strict=True):
                answers[row] = pair
        yield from answers


def sorting(count: int, size: int, chance: np.random.Generator) -> Iterator[Pair]:
    """Different numbers of two digits, and the places of the least, the next, ..."""
    if size > NUMBERS:
        raise UserError(f"there are {NUMBERS} different numbers to sort, not {size}")
    drawn = chance.random((count, NUMBERS)).argsort(1)[:, :size]
    for numbers, order in zip(drawn / NUMBERS, drawn.argsort(1).tolist(), strict=True):
        yield geometry.write_points(numbers, 2), geometry.write_order(order)


def hulls(count: int, size: int, chance: np.random.Generator) -> Iterator[Pair]:
    """Points of the unit square and their convex hull."""
    for points in chance.random((count, size, 2)).round(DIGITS):
        yield geometry.write_points(points, DIGITS), geometry.write_order(geometry.hull(points))


def tours(count: int, size: int, chance: np.random.Generator) -> Iterator[Pair]:
    """Cities of the unit square and the shortest tour."""
    cities = chance.random((count, size, 2)).round(DIGITS)
    for points, order in zip(cities, shortest(cities).tolist(), strict=True):
        yield geometry.write_points(points, DIGITS), geometry.write_order([*order, order[0]])


def shortest(cities: Floats) -> Ints:
    """Orders (N, n) of cities (N, n, 2): the shortest tours up to `EXACT` cities, beyond it tours
    that no exchange shortens.

    >>> shortest(np.array([[[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]])).tolist()
    [[0, 2, 1, 3]]
    """
    size = cities.shape[1]
    if size > EXACT:
        orders = np.array([improved(points) for points in cities])
    elif size > 3:
        share = max(1, SOLVED // size)
        starts = range(0, len(cities), share)
        orders = np.concatenate([held_karp(cities[at : at + share]) for at in starts])
    else:
        orders = np.arange(size)[None].repeat(len(cities), 0)
    return _counter_clockwise(cities, orders)


def _counter_clockwise(cities: Floats, orders: Ints) -> Ints:
    """The same tours, all in the same direction, from the first city."""
    x, y = np.take_along_axis(cities, orders[..., None], 1).transpose(2, 0, 1)
    area = (x * np.roll(y, -1, 1) - y * np.roll(x, -1, 1)).sum(1)
    back = np.roll(orders[:, ::-1], 1, 1)
    return np.where(area[:, None] < 0, back, orders)


def held_karp(cities: Floats) -> Ints:
    """The shortest tours (N, n) by dynamic programming over sets of cities (Held and Karp 1962),
    for N instances at once.
    """
    count, size, _ = cities.shape
    apart = np.sqrt(((cities[:, :, None] - cities[:, None]) ** 2).sum(-1)).transpose(1, 2, 0)
    apart = np.ascontiguousarray(apart, np.float32)  # (n, n, N)
    others = size - 1  # city 0 is where all tours begin
    best = np.full((1 << others, others, count), np.inf, np.float32)
    for last in range(others):
        best[1 << last, last] = apart[0, last + 1]
    for visited in range(1, 1 << others):
        inside = [city for city in range(others) if visited >> city & 1]
        for last in inside if len(inside) > 1 else ():
            before = best[visited ^ (1 << last)]  # inf at cities that were not visited
            np.min(before + apart[1:, last + 1], 0, out=best[visited, last])
    return _traced(best, apart)


def _traced(best: npt.NDArray[np.float32], apart: npt.NDArray[np.float32]) -> Ints:
    """The tours, followed back from their ends: who was best before is found again."""
    others, count = best.shape[1:]
    rows = np.arange(count)
    last, visited = np.full(count, -1), np.full(count, (1 << others) - 1)
    orders = np.zeros((count, others + 1), np.int64)
    for place in range(others, 0, -1):
        ways = best[visited, :, rows] + apart[1:, last + 1, rows].T  # (N, n - 1)
        last = ways.argmin(1)
        orders[:, place] = last + 1
        visited = visited ^ (1 << last)
    return orders


def improved(points: Floats) -> Ints:
    """A tour (n,) that neither turning a stretch around (2-opt) nor moving one of up to three
    cities (or-opt) makes shorter.
    """
    apart = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    order = _nearest(apart)
    while True:
        better = _turned(order, apart)
        if better is None:
            better = _moved(order, apart)
        if better is None:
            return np.roll(order, -int(np.flatnonzero(order == 0)[0]))
        order = better


def _nearest(apart: Floats) -> Ints:
    """From the first city always to the nearest that is left."""
    order, free = [0], np.ones(len(apart), bool)
    for _ in range(len(apart) - 1):
        free[order[-1]] = False
        order.append(int(np.where(free, apart[order[-1]], np.inf).argmin()))
    return np.array(order)


def _turned(order: Ints, apart: Floats) -> Ints | None:
    """The best exchange of two sides for two others."""
    after = np.roll(order, -1)
    sides = apart[order, after]
    gain = sides[:, None] + sides[None] - apart[np.ix_(order, order)] - apart[np.ix_(after, after)]
    gain = np.triu(gain, 1)
    i, j = np.unravel_index(int(gain.argmax()), gain.shape)
    if gain[i, j] < 1e-9:
        return None
    return np.concatenate([order[: i + 1], order[i + 1 : j + 1][::-1], order[j + 1 :]])


def _moved(order: Ints, apart: Floats) -> Ints | None:
    """The best move of up to three neighbours to another place, either way around."""
    found, most = None, 1e-9
    for begin in range(len(order)):
        turned = np.roll(order, -begin)
        for taken in range(1, 4):
            piece, rest = turned[:taken], turned[taken:]
            ahead = np.roll(rest, -1)
            freed = apart[rest[-1], piece[0]] + apart[piece[-1], rest[0]] - apart[rest[-1], rest[0]]
            for way in (piece, piece[::-1]):
                gain = freed + apart[rest, ahead] - apart[rest, way[0]] - apart[way[-1], ahead]
                at = int(gain[:-1].argmax())
                if gain[at] > most:
                    most = gain[at]
                    found = np.concatenate([rest[: at + 1], way, rest[at + 1 :]])
    return found


TASKS = {"sort": sorting, "hull": hulls, "tsp": tours}
