"""What an answer costs at most, so that no batch needs more memory or time than there is."""

from collections.abc import Sequence

from dragoman.config import SearchSpec
from dragoman.decode import Asked, Query
from dragoman.serve.settings import MAX_PHRASE, MAX_PHRASES

ROOM = 1 << 18  # symbols on all paths of all inputs that are decoded together
USUAL = 500  # symbols of an answer, where the model alone says how long it may be
BOTH = 2 * MAX_PHRASES  # phrases of a request, and an input's own
CELLS = 64  # of tables, which weigh as much as a symbol on a path with all that it looked at


def fitting(asked: Sequence[Asked | Query], options: SearchSpec) -> int:
    """How many such inputs may be decoded together: one may always.

    >>> fitting([Asked(("ab",))], SearchSpec(beam=5)) > 32
    True
    >>> fitting([Asked(("ab",))], SearchSpec(beam=64, max_length=500))
    8
    """
    return max(1, ROOM // max(_cost(one, options) for one in asked))


def _cost(one: Asked | Query, options: SearchSpec) -> int:
    """Symbols that are kept of all paths, and tables of what is required: which symbol leads how
    far in which phrase, from each of its places and on each path.
    """
    paths = max(options.beam, options.n_best, options.samples or 1)
    length = max(options.max_length or USUAL, options.min_length)
    own = one.asked if isinstance(one, Query) else one
    needed = sum(map(len, (*options.require, *own.require)))
    table = needed * min(needed, BOTH) * (min(needed, MAX_PHRASE) + paths)
    return paths * (length + needed) + table // CELLS
