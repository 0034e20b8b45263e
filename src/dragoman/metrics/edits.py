"""How many edits make one sequence another, and how much two have in common, in a few operations a
symbol: a column of either table is held in the bits of an integer.
"""

from collections.abc import Hashable, Sequence


def edit_distance(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Fewest insertions, deletions and substitutions between two sequences (Levenshtein).

    The bit-parallel recurrence of Myers 1999 in the form of Hyyrö 2003: one column of the table is
    two integers, its steps up and its steps down, so it costs a few operations and not a loop.

    >>> edit_distance("kitten", "sitting"), edit_distance(["a", "b"], ["b"])
    (3, 1)
    """
    if not a:
        return len(b)
    places = _places(a)
    full, last = (1 << len(a)) - 1, 1 << (len(a) - 1)
    up, down, distance = full, 0, len(a)
    for symbol in b:
        same = places.get(symbol, 0)
        level = (((same & up) + up) ^ up) | same | down
        right_up, right_down = down | (full & ~(level | up)), up & level
        if right_up & last:
            distance += 1
        elif right_down & last:
            distance -= 1
        right_up = right_up << 1 | 1  # the top row counts insertions: it always steps up
        up = full & (right_down << 1 | ~(level | right_up))
        down = full & right_up & level
    return distance


def common_length(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence, by the bit-parallel recurrence of Hyyrö 2004.

    >>> common_length("abcde", "badce"), common_length("abc", "")
    (3, 0)
    """
    places, full = _places(a), (1 << len(a)) - 1
    steps = full
    for symbol in b:
        same = steps & places.get(symbol, 0)
        steps = (steps + same | steps - same) & full
    return len(a) - steps.bit_count()  # a bit falls to 0 where the common part grows


def _places(sequence: Sequence[Hashable]) -> dict[Hashable, int]:
    """Where each symbol stands, as bits."""
    places: dict[Hashable, int] = {}
    for i, symbol in enumerate(sequence):
        places[symbol] = places.get(symbol, 0) | 1 << i
    return places
