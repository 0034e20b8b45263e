"""Where searches that are recorded keep their paths: buffers that stay where they are.

A board is told of scores and says how paths go on. Chosen by Triton where it runs, else by torch's
operations; nothing here asks the device for anything.
"""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from dragoman.core import BOS, EOS, PAD
from dragoman.kernels.beams import Found, Front, Record
from dragoman.kernels.best import total
from dragoman.kernels.choice import has_triton
from dragoman.search.course_beams import Paths, Rank, choose
from dragoman.search.courses import Few, Limits
from dragoman.search.rules import NEVER
from dragoman.search.strategies import by_chance


class Room(NamedTuple):
    """How large a search is."""

    items: int  # B
    width: int  # K: paths of each item
    symbols: int  # V
    steps: int  # T: as many may be taken
    looks: Tensor | None  # (T, P, N, S) where the weights of all steps will be
    like: Tensor  # of the type of scores, on the device


class Board(Protocol):
    """The paths of a search, K for each of B items."""

    front: Front
    bounds: Tensor  # (2, B) int32: how many symbols an answer must and may have before its end
    found: Found

    def begin(self) -> None: ...
    def take(self, scores: Tensor, time: Tensor) -> None: ...
    def adopt(self, other: Any, items: Tensor, rows: Tensor, steps: int) -> None: ...
    def finish(self, looks: Tensor | None, time: Tensor) -> None: ...


def _front(room: Room) -> Front:
    kinds = torch.long, torch.long, room.like.dtype, torch.int32, torch.int8, torch.int32
    rows = [room.items * room.width] * 5 + [room.items]
    device = room.like.device
    sizes = zip(rows, kinds, strict=True)
    return Front(*(torch.zeros(many, dtype=kind, device=device) for many, kind in sizes))


def _bounds(room: Room) -> Tensor:
    return torch.zeros(2, room.items, dtype=torch.int32, device=room.like.device)


def _reset(front: Front, alone: bool) -> None:
    """All paths begin where they are; of those that an item shares, only the first lives."""
    front.tokens.fill_(BOS)
    torch.arange(len(front.parents), out=front.parents)
    front.scores.zero_()
    if not alone:
        front.scores.view(len(front.lead), -1)[:, 1:] = NEVER
    for part in front[3:]:
        part.zero_()


def _adopt(mine: "Board", other: "Board", items: Tensor, rows: Tensor) -> None:
    """Ends and bounds of paths as they stand in another board, for these of its items and paths."""
    shift = torch.arange(len(rows), device=rows.device) - rows
    for part, theirs in zip(mine.front[:5], other.front[:5], strict=True):
        part.copy_(theirs[rows])
    mine.front.parents.add_(shift)  # a path's parent is of the same item
    mine.front.lead.copy_(other.front.lead[items])
    mine.bounds.copy_(other.bounds[:, items])


def _found(room: Room, count: int) -> Found:
    shape, looks = (room.steps, room.items, count), room.looks
    gains = room.like.new_zeros(shape)
    seen = None if looks is None else looks.new_zeros(*shape, looks.size(-1))
    return Found(gains[0].clone(), torch.zeros_like(gains, dtype=torch.int32), gains, seen)


class Beam:
    """Beam search."""

    def __init__(self, room: Room, rank: Rank, n_best: int) -> None:
        self.width, self.symbols, self.rank = room.width, room.symbols, rank
        self.front, self.bounds, self.found = _front(room), _bounds(room), _found(room, n_best)
        steps, like = room.steps, room.like
        gains = like.new_zeros(steps, room.items, room.width)
        none = torch.zeros_like(gains, dtype=torch.int32)
        self.record = Record(none, none.clone(), gains)
        lengths = torch.arange(steps + 1, dtype=like.dtype, device=like.device)
        self.fused = None
        if has_triton(like.device, like.dtype):
            from dragoman.kernels.fused_choice import Choice, parts

            if parts(room.symbols, room.width):
                self.fused = Choice(self.front, room.symbols, rank.divisors(lengths))

    def begin(self) -> None:
        _reset(self.front, alone=False)

    def take(self, scores: Tensor, time: Tensor) -> None:
        """One step, from the scores of all symbols (N, V or more), which may be overwritten."""
        if self.fused is not None:
            self.fused.take(scores, self.front, self.bounds, self.record, time)
            return
        front, items = self.front, len(self.front.lead)
        paths = Paths(
            front.tokens.view(items, -1),
            front.scores.view(items, -1),
            front.lengths.view(items, -1).to(front.scores.dtype),
            front.done.view(items, -1) != 0,
            front.lead[:, None].long(),
        )
        gains, symbols = self._extend(scores, paths, time)
        parent, gain, paths = choose(paths, gains, symbols, self.width, self.rank)
        first = torch.arange(items, device=parent.device)[:, None] * self.width
        for buffer, value in zip(
            front, (paths.tokens, parent + first, *paths[1:4], paths.lead), strict=True
        ):
            buffer.copy_(value.flatten())
        for log, value in zip(self.record, (parent, paths.tokens, gain), strict=True):
            log.index_copy_(0, time, value[None].to(log.dtype))

    def _extend(self, scores: Tensor, paths: Paths, time: Tensor) -> tuple[Tensor, Tensor]:
        """The best symbols of each path and what they add (B, K, k)."""
        scores = scores[:, : self.symbols].to(self.front.scores.dtype)
        limits = Limits(*self.bounds.repeat_interleave(self.width, 1))
        every = slice(0, len(scores))
        gains, symbols = Few(self.width)(scores, limits, time, every)
        wait = pad(torch.zeros_like(gains[:, :1]), (0, gains.size(1) - 1), value=NEVER)
        done = paths.done.view(-1, 1)
        gains, symbols = torch.where(done, wait, gains), symbols.masked_fill(done, PAD)
        shape = *paths.done.shape, gains.size(1)
        return gains.view(shape), symbols.view(shape)

    def adopt(self, other: "Beam", items: Tensor, rows: Tensor, steps: int) -> None:
        """Go on where another beam stands after so many steps, with these of its items."""
        _adopt(self, other, items, rows)
        for mine, theirs in zip(self.record, other.record, strict=True):
            mine[:steps] = theirs[:steps, items]

    def finish(self, looks: Tensor | None, time: Tensor) -> None:
        """Follow the best paths to the start."""
        if self.fused is not None:
            self.fused.trace(self.front, self.record, looks, self.found, time)
            return
        front, found, items = self.front, self.found, len(self.front.lead)
        scores = front.scores.view(items, -1)
        ranks = self.rank(scores, front.lengths.view(items, -1).to(scores.dtype))
        slots = ranks.sort(dim=1, descending=True, stable=True).indices[:, : found.scores.size(1)]
        found.scores.copy_(scores.gather(1, slots))
        for t in reversed(range(len(found.tokens))):  # steps not taken lead nowhere
            taken = t < time
            tokens = self.record.tokens[t].gather(1, slots)
            found.tokens[t] = tokens
            found.gains[t] = self.record.gains[t].gather(1, slots).masked_fill(tokens == PAD, 0)
            before = self.record.parents[t].long().gather(1, slots)
            slots = torch.where(taken, before, slots)
            if found.looks is not None and looks is not None:
                rows = torch.arange(items, device=slots.device)[:, None] * self.width + slots
                found.looks[t] = looks[t, 0][rows]


class Draw:
    """Paths drawn by chance, which know nothing of each other."""

    def __init__(self, room: Room, options: dict[str, float]) -> None:
        self.width, self.symbols, self.options = room.width, room.symbols, options
        self.front, self.bounds, self.found = _front(room), _bounds(room), _found(room, room.width)
        self.noise = room.like.new_zeros(room.items * room.width, room.steps)

    def begin(self) -> None:
        _reset(self.front, alone=True)

    def take(self, scores: Tensor, time: Tensor) -> None:
        """One step, from the scores of all symbols (N, V or more), which may be overwritten."""
        front, done = self.front, self.front.done != 0
        scores = scores[:, : self.symbols].to(front.scores.dtype)
        whole = total(scores)
        limits = Limits(*self.bounds.repeat_interleave(self.width, 1))
        log_probs = limits.apply(scores, time) - whole
        noise = self.noise.index_select(1, time)[:, 0]
        tokens = by_chance([noise], **self.options)(log_probs)  # type: ignore[arg-type]
        gains = log_probs.gather(1, tokens[:, None])[:, 0].masked_fill(done, 0)
        tokens = tokens.masked_fill(done, PAD)
        front.tokens.copy_(tokens)
        front.scores.add_(gains)
        front.done.copy_(done | (tokens == EOS))
        shape = self.found.scores.shape
        self.found.tokens.index_copy_(0, time, tokens.to(torch.int32).view(1, *shape))
        self.found.gains.index_copy_(0, time, gains.view(1, *shape))

    def adopt(self, other: "Draw", items: Tensor, rows: Tensor, steps: int) -> None:
        """Go on where others stand after so many steps, with these of their items."""
        _adopt(self, other, items, rows)
        self.noise.copy_(other.noise[rows])
        self.found.tokens[:steps] = other.found.tokens[:steps, items]
        self.found.gains[:steps] = other.found.gains[:steps, items]

    def finish(self, looks: Tensor | None, time: Tensor) -> None:
        self.found.scores.copy_(self.front.scores.view_as(self.found.scores))
        if self.found.looks is not None and looks is not None:
            self.found.looks.copy_(looks[:, 0].view_as(self.found.looks))
