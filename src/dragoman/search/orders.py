"""Rules for answers that are orders of positions: only valid ones can be written.

The symbols of such an answer are the four specials and then positions of the source. Where a path
has been rides in its state, so that beams reorder it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.core import EOS, SPECIALS, Pair, State, Step, leaf
from dragoman.search.rules import forbid

FIRST = len(SPECIALS)  # the symbol of the first position
TRIANGLE = 3  # a polygon has at least as many corners


class Way(NamedTuple):
    """Where the paths have been: N rows, S positions."""

    counts: Tensor  # (N,) how many positions each item has
    seen: Tensor  # (N, S)
    begun: Tensor  # (N,) the first position written; -1 before
    written: Tensor  # (N,) how many positions
    closed: Tensor  # (N,) whether the path has come back to where it began

    @property
    def left(self) -> Tensor:
        """The positions (N, S) that were not visited yet."""
        places = torch.arange(self.seen.size(1), device=self.seen.device)
        return (places < self.counts[:, None]) & ~self.seen

    @property
    def home(self) -> Tensor:
        """The position (N, S) at which each path began."""
        return torch.arange(self.seen.size(1), device=self.seen.device) == self.begun[:, None]


Choice = Callable[[Way], tuple[Tensor, Tensor]]  # positions (N, S) and the end (N,) that may come


def each_once(pair: Pair, counts: Tensor) -> Pair:
    """Item b writes each of its `counts[b]` positions once, then the end.

    >>> pair = lambda _, s: Step(torch.zeros(1, 6), s, None), torch.zeros(1)
    >>> step, state = each_once(pair, torch.tensor([2]))
    >>> step(torch.tensor([5]), step(torch.tensor([1]), state).state).log_probs
    tensor([[-inf, -inf, -inf, -inf, 0., -inf]])
    """
    return _choosing(pair, counts, lambda way: (way.left, ~way.left.any(1)))


def tour(pair: Pair, counts: Tensor) -> Pair:
    """Item b begins at its first position, visits each of its `counts[b]` once and returns.

    >>> pair = lambda _, s: Step(torch.zeros(1, 6), s, None), torch.zeros(1)
    >>> step, state = tour(pair, torch.tensor([2]))
    >>> step(torch.tensor([1]), state).log_probs
    tensor([[-inf, -inf, -inf, -inf, 0., -inf]])
    """

    def choose(way: Way) -> tuple[Tensor, Tensor]:
        left, done = way.left, way.closed | (way.counts == 0)
        start = torch.arange(left.size(1), device=left.device) == 0
        onward = torch.where(left.any(1, keepdim=True), left, way.home)
        onward = torch.where((way.written == 0)[:, None], start, onward)
        return onward & ~done[:, None], done

    return _choosing(pair, counts, choose)


def ring(pair: Pair, counts: Tensor) -> Pair:
    """Item b writes a closed polygon: no position twice but the first, which comes again as the
    last, after three or more (all, where there are fewer).

    >>> pair = lambda _, s: Step(torch.zeros(1, 6), s, None), torch.zeros(1)
    >>> step, state = ring(pair, torch.tensor([2]))
    >>> step(torch.tensor([5]), step(torch.tensor([1]), state).state).log_probs
    tensor([[-inf, -inf, -inf, -inf, 0., -inf]])
    """

    def choose(way: Way) -> tuple[Tensor, Tensor]:
        done = way.closed | (way.counts == 0)
        enough = way.written >= way.counts.clamp(max=TRIANGLE)
        return (way.left | (way.home & enough[:, None])) & ~done[:, None], done

    return _choosing(pair, counts, choose)


def _choosing(pair: Pair, counts: Tensor, choose: Choice) -> Pair:
    """A rule that says by where a path has been which positions may come, and whether the end."""
    step, state = pair
    counts = counts.to(leaf(state).device)
    none = torch.zeros_like(counts)
    seen = torch.zeros(len(counts), int(counts.max()), dtype=torch.bool, device=counts.device)

    def ruled(tokens: Tensor, both: State) -> Step:
        inner, way = both
        out, way = step(tokens, inner), _onward(way, tokens)
        positions, end = choose(way)
        banned = torch.ones_like(out.log_probs, dtype=torch.bool)
        banned[:, FIRST : FIRST + positions.size(1)] = ~positions
        banned[:, EOS] = ~end
        return Step(forbid(out.log_probs, banned), (out.state, way), out.weights)

    return ruled, (state, Way(counts, seen, none - 1, none, none > 0))


def _onward(way: Way, tokens: Tensor) -> Way:
    """The paths after the symbols (N,) that they have just written."""
    place = tokens - FIRST
    real = place >= 0
    here = torch.arange(way.seen.size(1), device=place.device) == place[:, None]
    closed = way.closed | (real & (place == way.begun))
    begun = torch.where(real & (way.begun < 0), place, way.begun)
    return Way(way.counts, way.seen | here, begun, way.written + real, closed)


VALID: dict[str, Callable[[Pair, Tensor], Pair]] = {
    "each-once": each_once,
    "tour": tour,
    "hull": ring,
}
