"""Metrics of answers that are orders of points: tours and hulls, measured on the points."""

from collections.abc import Sequence

import numpy as np

from dragoman import geometry
from dragoman.metrics.tally import Counted, Floats, References, alternatives, metric, ratio


@metric("tour", "lower")
def tour(hypotheses: Sequence[str], references: References, sources: Sequence[str]) -> Counted:
    """How long the tours are, where those of the references are 100. What is no tour is charged the
    tour through the points in the order of the file.

    >>> print(tour(["1 2 3 4 1"], ["1 3 2 4 1"], ["0 0 1 1 1 0 0 1"]))
    tour 120.71
    """
    return _lengths(hypotheses, references, sources, relative=True)


@metric("tour length", "lower")
def tour_length(
    hypotheses: Sequence[str], references: References, sources: Sequence[str]
) -> Counted:
    """The mean length of the tours, in the unit of the points.

    >>> print(tour_length(["1 3 2 4 1"], ["1 3 2 4 1"], ["0 0 1 1 1 0 0 1"]))
    tour length 4.00
    """
    return _lengths(hypotheses, references, sources, relative=False)


@metric("valid tours", "higher")
def tour_valid(
    hypotheses: Sequence[str], references: References, sources: Sequence[str]
) -> Counted:
    """How many of 100 answers visit each point once and return.

    >>> print(tour_valid(["1 2 3 1", "1 2 1"], ["1 2 3 1"] * 2, ["0 0 1 1 1 0"] * 2))
    valid tours 50.00
    """
    alternatives(hypotheses, references)
    valid = [
        [float(_is_tour(line, len(_points(source)))), 1.0]
        for line, source in zip(hypotheses, sources, strict=True)
    ]
    return Counted(len(valid), ratio(np.array(valid)))


@metric("hull", "higher")
def hull(hypotheses: Sequence[str], references: References, sources: Sequence[str]) -> Counted:
    """How many of 100 answers are the polygon of a reference, wherever it begins and whichever way
    it goes (Vinyals et al. 2015, section 4.2).

    >>> print(hull(["1 2 3 1", "1 2 3"], ["2 3 1 2"] * 2, ["0 0 1 1 1 0"] * 2))
    hull 50.00
    """
    right = []
    for line, several in zip(hypotheses, alternatives(hypotheses, references), strict=True):
        given, wanted = geometry.read_order(line), map(geometry.read_order, several)
        same = any(given and one and geometry.same_ring(given, one) for one in wanted)
        right.append([float(same), 1.0])
    return Counted(len(right), ratio(np.array(right)))


@metric("hull area", "higher")
def hull_area(hypotheses: Sequence[str], references: References, sources: Sequence[str]) -> Counted:
    """How much of 100 of the true hulls' area the answers cover; what is no polygon or crosses
    itself covers nothing.

    >>> square = "0 0 1 0 1 1 0 1"
    >>> print(hull_area(["1 2 3 1", "1 2 3 4 1"], ["1 2 3 4 1"] * 2, [square] * 2))
    hull area 75.00
    """
    alternatives(hypotheses, references)
    rows = []
    for line, source in zip(hypotheses, sources, strict=True):
        points = _points(source)
        whole = abs(geometry.turning(points[geometry.hull(points)[:-1]]))
        rows.append([_covered(line, points), whole])
    return Counted(len(rows), ratio(np.array(rows)))


def _lengths(
    hypotheses: Sequence[str], references: References, sources: Sequence[str], relative: bool
) -> Counted:
    rows = []
    several = alternatives(hypotheses, references)
    for line, wanted, source in zip(hypotheses, several, sources, strict=True):
        points = _points(source)
        best = min(_length(one, points) for one in wanted) if relative else 1.0
        rows.append([_length(line, points), best])
    return Counted(len(rows), ratio(np.array(rows), 100.0 if relative else 1.0))


def _length(line: str, points: Floats) -> float:
    """Of the tour that a line is, or of the one that is charged for it."""
    order = geometry.read_order(line)
    if order is None or not geometry.is_tour(order, len(points)):
        order = [*range(len(points)), 0]
    return geometry.length(points, order)


def _is_tour(line: str, count: int) -> bool:
    order = geometry.read_order(line)
    return order is not None and geometry.is_tour(order, count)


def _covered(line: str, points: Floats) -> float:
    order = geometry.read_order(line)
    if not order or order[0] != order[-1] or max(order) >= len(points):
        return 0.0
    ring = points[order[:-1]]
    return 0.0 if geometry.crosses_itself(ring) else abs(geometry.turning(ring))


def _points(source: str) -> Floats:
    return geometry.read_points(source)
