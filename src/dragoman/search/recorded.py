"""A search recorded as graphs: encoder, steps and tracing over buffers that stay where they are,
replayed without the host.

Finished paths go on waiting. Which items are done is asked once in a few steps, but not before as
many were taken as the last searches all took: a device that is asked has to wait for an answer.
Where enough are done, the others go on in a smaller search.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from dragoman.core import Hypotheses, Source, leaf, leaves
from dragoman.device import recording
from dragoman.kernels.beams import Found
from dragoman.search.boards import Beam, Board, Draw, Room
from dragoman.search.course_beams import Rank
from dragoman.search.courses import Limits
from dragoman.search.stops import bounded, times

STEPS = 8  # in a graph; an even number, so that buffers that take turns end where they began
LAST = 8  # searches that are remembered; one in so many is looked at all along


class Track(Protocol):
    """A model's steps over buffers that stay where they are, for sources of one shape."""

    symbols: int  # of the alphabet
    like: Tensor  # of the type of scores
    looks: Tensor | None  # (T, P, N, S) weights of all steps; those at [:, 0] are for reading

    def begin(self, source: Source, /) -> None: ...
    def move(self, front: Any, time: Tensor, /) -> Tensor: ...
    def adopt(self, other: Any, items: Tensor, rows: Tensor, steps: int, /) -> None: ...


class Rails(Protocol):
    """What a model gives to these searches (`dragoman.quick`)."""

    graphs: OrderedDict[Hashable, Any]  # by shape

    def lay(self, source: Source, each: int, steps: int, /) -> Track: ...


class Plan(NamedTuple):
    """What is searched for: all that a graph depends on beside the shape of the source."""

    width: int  # paths of an item
    n_best: int = 1
    rank: Rank = Rank()
    draw: tuple[tuple[str, float], ...] | None = None  # options of a draw; None: a beam

    def board(self, items: int, steps: int, track: Track) -> Board:
        room = Room(items, self.width, track.symbols, steps, track.looks, track.like)
        if self.draw is not None:
            return Draw(room, dict(self.draw))
        return Beam(room, self.rank, self.n_best)


class Recorded:
    """A search over buffers that stay where they are."""

    def __init__(self, rails: Rails, source: Source, plan: Plan, steps: int) -> None:
        self.source = source
        self.track = rails.lay(source, plan.width, steps)
        device = self.track.like.device
        self.board = plan.board(len(leaf(source)), steps, self.track)
        first = torch.arange(STEPS, device=device)
        self.times = torch.stack([first, first], 1)  # how many steps were taken, step by step
        self.bounds = _host(self.board.bounds)
        self.took, self.runs = deque([0], maxlen=LAST), 0  # steps, of the last searches
        found = self.board.found
        self.ended = _host(self._over())  # items all of whose paths are done
        looks = None if found.looks is None else _host(found.looks)
        self.answer = Found(_host(found.scores), _host(found.tokens), _host(found.gains), looks)
        self.start = _record(self._start, device, mendable=True)
        self.steps, self.finish = _record(self._steps, device), _record(self._finish, device)

    def _start(self) -> None:
        self.board.bounds.copy_(self.bounds, non_blocking=True)
        self.track.begin(self.source)
        self.board.begin()
        self.times.copy_(torch.arange(STEPS, device=self.times.device)[:, None])

    def _steps(self) -> None:
        for now in self.times:
            self.board.take(self.track.move(self.board.front, now[:1]), now[:1])
        self.times += STEPS
        self.ended.copy_(self._over(), non_blocking=True)

    def _over(self) -> Tensor:
        return (self.board.front.done.view(len(self.board.front.lead), -1) != 0).all(1)

    def _finish(self) -> None:
        self.board.finish(self.track.looks, self.times[0, :1])
        for name in ("scores", "tokens", "gains"):
            getattr(self.answer, name).copy_(getattr(self.board.found, name), non_blocking=True)

    def run(
        self, source: Source, limits: Limits, noise: Tensor | None, fewer: "Fewer"
    ) -> Hypotheses:
        """A search with the graphs, over other sources of the same shape."""
        board = self.board
        for room, given in zip(leaves(self.source), leaves(source), strict=True):
            _lay(room, given)
        for bound, limit in zip(self.bounds, limits, strict=True):
            _lay(bound, limit)  # rows that nobody asked for end at once
        if noise is not None and isinstance(board, Draw):
            _lay(board.noise, noise.flatten(0, 1))
        self.start()
        return self._go_on(len(limits.most), 0, limits.steps, fewer)

    def _go_on(self, items: int, steps: int, most: int, fewer: "Fewer") -> Hypotheses:
        """The steps that are still to be taken."""
        rest: tuple[Hypotheses, Tensor] | None = None
        first = self._first_look()
        for begun in times(most - steps, STEPS):
            self.steps()
            taken = steps + begun + STEPS
            if taken >= most:
                break
            if begun + STEPS < first:
                continue
            if not len(going := self._going()):
                break
            if (other := fewer(self.source, len(going))) is not None:
                rest = other._take_over(self, going, taken, most, fewer), going
                break
        self.took.append(begun + STEPS)
        self.finish()
        found = self._read(items, taken)
        return found if rest is None else _joined(found, *rest)

    def _first_look(self) -> int:
        """After how many steps it is asked for the first time what is done. Where somebody may
        give up, the host goes along with the device.
        """
        self.runs += 1
        return min(self.took) if self.runs % LAST and not bounded() else 0

    def _going(self) -> Tensor:
        """Items that are not done."""
        _wait(self.times)
        return (~self.ended).nonzero()[:, 0]

    def _take_over(
        self, other: "Recorded", going: Tensor, steps: int, most: int, fewer: "Fewer"
    ) -> Hypotheses:
        """Go on with some items of another search; an item that is done fills what room is left."""
        spare = other.ended.nonzero()[:1, 0].expand(len(self.ended) - len(going))
        items = torch.cat([going, spare]).to(self.times.device)
        width = len(self.board.front.tokens) // len(items)
        rows = (items[:, None] * width + torch.arange(width, device=items.device)).flatten()
        self.track.adopt(other.track, items, rows, steps)
        self.board.adopt(other.board, items, rows, steps)
        self.times.copy_(other.times)
        return self._go_on(len(going), steps, most, fewer)

    def _read(self, items: int, steps: int) -> Hypotheses:
        here, there = self.answer.looks, self.board.found.looks
        if here is not None and there is not None:
            here[:steps].copy_(there[:steps], non_blocking=True)
        _wait(self.times)
        return Hypotheses(
            self.answer.tokens[:steps, :items].permute(1, 2, 0).long(),
            self.answer.scores[:items].clone(),
            self.answer.gains[:steps, :items].permute(1, 2, 0).clone(),
            None if here is None else here[:steps, :items].permute(1, 2, 0, 3).clone(),
        )


Fewer = Callable[[Source, int], Recorded | None]  # of a search's sources, so many are not done


def _joined(found: Hypotheses, rest: Hypotheses, items: Tensor) -> Hypotheses:
    """What was found; of the given items, what another search found, which took more steps."""
    more = rest.tokens.size(2) - found.tokens.size(2)
    looks = found.weights
    if looks is not None and rest.weights is not None:
        looks = pad(looks, (0, 0, 0, more)).index_copy(0, items, rest.weights)
    return Hypotheses(
        pad(found.tokens, (0, more)).index_copy(0, items, rest.tokens),
        found.scores.index_copy(0, items, rest.scores),
        pad(found.log_probs, (0, more)).index_copy(0, items, rest.log_probs),
        looks,
    )


def _record(
    work: Callable[[], None], device: torch.device, mendable: bool = False
) -> Callable[[], None]:
    """Work that can be done again and again: a graph of it, on a GPU. What is `mendable` goes on as
    it is where it cannot be recorded.
    """
    if device.type != "cuda":
        work()
        return work
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # what is made at first use must not be made in the graph
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(side)
    try:
        with recording(), torch.cuda.graph(graph):
            work()
    except RuntimeError:
        if not mendable:
            raise
        torch.cuda.synchronize()
        return work
    return graph.replay


def laid(room: Tensor, given: Tensor) -> Tensor:
    """A buffer, like what is given, with the same in it."""
    room = room.to(given.device)
    _lay(room, given)
    return room


def _lay(room: Tensor, given: Tensor) -> None:
    """Fill a buffer, which may be larger; the rest is zero."""
    if room.shape != given.shape:
        room.zero_()
        room = room[tuple(slice(0, size) for size in given.shape)]
    room.copy_(given.to(room.dtype), non_blocking=True)


def _host(like: Tensor) -> Tensor:
    """Room for the same in the host's memory, where a GPU can write by itself."""
    return torch.empty(like.shape, dtype=like.dtype, pin_memory=like.is_cuda)


def _wait(like: Tensor) -> None:
    if like.is_cuda:
        torch.cuda.current_stream(like.device).synchronize()
