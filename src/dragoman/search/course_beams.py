"""Beam search over a `Course`: see `courses`."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from dragoman.core import BOS, EOS, PAD, Hypotheses, State, group, leaf, repeat, select
from dragoman.search.courses import WORTH, Course, Few, Limits, look
from dragoman.search.rules import LARGEST, NEVER
from dragoman.search.stops import times


class Rank(NamedTuple):
    """What paths compare by: log p / length^normalize, or GNMT's ((5 + length) / 6)^normalize."""

    normalize: float = 0.0
    gnmt: bool = False

    def __call__(self, scores: Tensor, lengths: Tensor) -> Tensor:
        return scores / self.divisors(lengths)

    def divisors(self, lengths: Tensor) -> Tensor:
        """What scores of paths of such lengths are divided by."""
        lengths = (5 + lengths) / 6 if self.gnmt else lengths.clamp(min=1)
        return lengths.pow(self.normalize).clamp(max=LARGEST)


class Paths(NamedTuple):
    """The paths of each item, K of them: one at first, then as many as the beam is wide."""

    tokens: Tensor  # (B, K) the last symbol of each
    scores: Tensor  # (B, K)
    lengths: Tensor  # (B, K)
    done: Tensor  # (B, K)
    lead: Tensor  # (B, 1) which of them is the greedy one: it is never pushed out


def beam(
    course: Course, state: State, limits: Limits, *, width: int, rank: Rank, n_best: int = 1
) -> Hypotheses:
    """As `search.beam`."""
    items, like = len(leaf(state)), leaf(state)
    alive, paths = torch.arange(items, device=like.device), begin(items, like.device)
    trail, final = Trail(), None
    for time in times(limits.steps):
        features, after, weights = course.move(paths.tokens.flatten(), state)
        going = None if not paths.done.any() else (~paths.done).flatten().nonzero()[:, 0]
        gains, symbols = extend(course, features, paths, limits.of(alive), time, width, going)
        parent, gain, paths = choose(paths, gains, symbols, width, rank)
        trail.append(Turn(alive, parent, paths.tokens, gain, weights))
        final = _settle(final, alive, paths)
        over = paths.done.all(1)
        if bool(over.all()):
            break
        rows = parent + torch.arange(len(alive), device=like.device)[:, None] * gains.size(1)
        if int(over.sum()) * WORTH >= len(alive):
            kept = (~over).nonzero()[:, 0]
            course, alive, rows = course.keep(kept), alive[kept], rows[kept]
            paths = Paths(*(part[kept] for part in paths))
        state = select(after, rows.flatten())
    assert final is not None
    return trail.trace(*final, rank, n_best)


def begin(items: int, device: torch.device) -> Paths:
    """One path per item, before its first symbol."""
    none = torch.zeros(items, 1, device=device)
    first = torch.full_like(none, BOS, dtype=torch.long)
    return Paths(first, none, none, none > 0, torch.zeros_like(first))


def extend(
    course: Course,
    features: Tensor,
    paths: Paths,
    limits: Limits,
    time: int | Tensor,
    width: int,
    going: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The best symbols to go on with and what they add (B, K, k). Paths that are done wait for
    free (PAD); where it is known which rows are `going`, the others are not scored.
    """
    items, count = paths.done.shape
    limits = Limits(*(repeat(limit, count) for limit in limits))
    if going is not None:
        features, limits = features[going], limits.of(going)
    gains, symbols = look(course, features, limits, time, Few(width))
    wait = torch.full_like(gains[:1], NEVER)
    wait[:, 0] = 0
    if going is None:
        done = paths.done.view(-1, 1)
        gains, symbols = torch.where(done, wait, gains), symbols.masked_fill(done, PAD)
    else:
        rows = items * count
        gains = wait.repeat(rows, 1).index_copy(0, going, gains)
        symbols = symbols.new_full(gains.shape, PAD).index_copy(0, going, symbols)
    return group(gains, items), group(symbols, items)


def choose(
    paths: Paths, gains: Tensor, symbols: Tensor, width: int, rank: Rank
) -> tuple[Tensor, Tensor, Paths]:
    """Of all ways to go on (B, K, k) the best `width`: parents, what was added, the new paths."""
    count, ways = gains.shape[1:]
    lengths = paths.lengths + ~paths.done
    scores = paths.scores[..., None] + gains
    ranks = rank(scores, lengths[..., None]).flatten(1)
    scores, gains, symbols = scores.flatten(1), gains.flatten(1), symbols.flatten(1)
    if (more := width - ranks.size(1)) > 0:  # a small alphabet: places that nobody takes
        ranks, scores, gains = (pad(t, (0, more), value=NEVER) for t in (ranks, scores, gains))
        symbols = pad(symbols, (0, more), value=PAD)
    chosen, lead = _keep(ranks.topk(width).indices, paths.lead * ways)
    parent = (chosen // ways).clamp(max=count - 1)
    token, score = symbols.gather(1, chosen), scores.gather(1, chosen)
    done = paths.done.gather(1, parent) | (token == EOS) | score.isinf()
    longer = Paths(token, score, lengths.gather(1, parent), done, lead)
    return parent, gains.gather(1, chosen), longer


def _keep(chosen: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The chosen candidates (B, K) with the greedy path's (B, 1) among them, and its place."""
    missing = (chosen != wanted).all(1, keepdim=True)
    chosen = torch.cat([chosen[:, :-1], torch.where(missing, wanted, chosen[:, -1:])], 1)
    return chosen, (chosen == wanted).to(torch.uint8).argmax(1, keepdim=True)


def _settle(
    final: tuple[Tensor, Tensor] | None, alive: Tensor, paths: Paths
) -> tuple[Tensor, Tensor]:
    """Scores and lengths (B, K) of all items, those of the given ones brought up to date."""
    if final is None or len(alive) == len(final[0]):
        return paths.scores, paths.lengths
    return final[0].index_copy(0, alive, paths.scores), final[1].index_copy(0, alive, paths.lengths)


class Turn(NamedTuple):
    """What happened at one step to the items that were still looked after."""

    items: Tensor  # (b,)
    parents: Tensor  # (b, K)
    tokens: Tensor  # (b, K)
    gains: Tensor  # (b, K)
    weights: Tensor | None  # (b * K before, S)


class Trail(list[Turn]):
    """All steps, traced back once at the end."""

    def trace(self, scores: Tensor, lengths: Tensor, rank: Rank, n_best: int) -> Hypotheses:
        """The `n_best` best paths by their scores and lengths (B, K), followed to the start."""
        order = rank(scores, lengths).sort(dim=1, descending=True, stable=True).indices
        order = order[:, :n_best]
        items, slots = len(scores), order.clone()
        path = slots.new_full((*slots.shape, len(self)), PAD)
        gains = scores.new_zeros(path.shape)
        seen = self[0].weights
        looks = None if seen is None else seen.new_zeros(*path.shape, seen.size(1))
        for time, turn in reversed(list(enumerate(self))):
            whole = len(turn.items) == items
            mine = slots if whole else slots[turn.items]
            path[turn.items, :, time] = turn.tokens.gather(1, mine)
            gains[turn.items, :, time] = turn.gains.gather(1, mine)
            before = turn.parents.gather(1, mine)
            slots = before if whole else slots.index_copy(0, turn.items, before)
            if looks is not None and turn.weights is not None:
                some = torch.arange(len(before), device=before.device)[:, None]
                looks[turn.items, :, time] = group(turn.weights, len(before))[some, before]
        return Hypotheses(path, scores.gather(1, order), gains.masked_fill(path == PAD, 0), looks)
