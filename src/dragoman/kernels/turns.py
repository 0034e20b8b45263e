"""Where the paths of a beam search on a CPU stand, in memory that stays where it is, and how they
go on: by a routine in C (`beams.c`), which scores them, too.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.core import BOS
from dragoman.kernels import native
from dragoman.kernels.lanes import Still

MUCH = 1 << 22  # products of two numbers for which it is worth waking other threads


class Traced(NamedTuple):
    """The best n paths of each item, best first."""

    tokens: Tensor  # (B, n, T)
    gains: Tensor  # (B, n, T)
    rows: Tensor  # (T, B, n) by which of an item's paths each came
    scores: Tensor  # (B, n)


class Turns:
    """The paths of each item: one at first, then as many as the beam is wide."""

    def __init__(
        self, output: Still, least: Tensor, most: Tensor, width: int, divisors: Tensor
    ) -> None:
        self.output, self.width, self.steps = output, width, len(divisors) - 1
        self.count, self.items, self.divisors = 1, len(least), divisors
        self.least, self.most = least.long().contiguous(), most.long().contiguous()
        rows, log = self.items * width, (self.steps, self.items, width)
        zeros, whole, empty = output.bias.new_zeros, self.least.new_zeros, output.bias.new_empty
        self.alive = self.least.new_ones(self.items).cumsum(0) - 1
        self.tokens, self.lengths, self.rows = whole(rows) + BOS, whole(rows), whole(rows)
        self.lead, self.last = whole(self.items), whole(self.items)
        self.scores, self.done = zeros(rows), zeros(rows, dtype=torch.bool)
        self.parents, self.gains = empty(log, dtype=torch.int32), empty(log)
        self.written = torch.empty_like(self.parents)
        self.final, self.final_lengths = zeros(rows), whole(rows)
        self.left = whole(2)
        self.laid: tuple[int, Tensor] | None = None
        self._make_room(rows)

    def _make_room(self, rows: int) -> None:
        """For what a step finds before it is set against each other."""
        output, empty = self.output, self.output.bias.new_empty
        much = rows * output.size * output.results >= MUCH
        self.threads = torch.get_num_threads() if much else 1
        self.ways = min(self.width, output.results)
        self.some, self.rule = empty(rows, output.size), empty(rows, dtype=torch.uint8)
        self.values, self.sums = empty(self.threads, rows, self.ways), empty(self.threads, rows, 2)
        self.symbols = torch.empty_like(self.values, dtype=torch.long)
        self.going = torch.empty_like(self.tokens)

    def take(self, features: Tensor, time: int) -> tuple[int, int]:
        """All paths go on by a symbol, from what the output layer reads (N, F). How many paths are
        not done then, and how many items are.
        """
        if self.laid is None or self.laid[0] != features.data_ptr():
            self.laid = features.data_ptr(), self._lay(features)
        native.call("turn", self.laid[1], time)
        if self.count != self.width:
            self.count, self.laid = self.width, None
        going, over = self.left.tolist()
        return going, over

    def _lay(self, features: Tensor | None) -> Tensor:
        """As `beams.c` reads it; without features, for `trace`."""
        output = self.output
        given: list[Tensor | int | None] = [output.weights, output.bias]
        given += [output.scales, output.offsets]
        given += [output.kind, output.size, output.words, output.results]
        given += [features, 0 if features is None else features.stride(0)]
        given += [self.items, self.count, self.ways, self.width]
        given += [self.alive, self.least, self.most]
        given += [self.tokens, self.lengths, self.rows, self.lead, self.scores, self.done]
        given += [self.some, self.values, self.sums, self.symbols, self.going, self.rule]
        given += [self.divisors, len(self.least), self.parents, self.written, self.gains]
        given += [self.final, self.final_lengths, self.last, self.left, self.threads]
        return torch.tensor([g.data_ptr() if isinstance(g, Tensor) else g or 0 for g in given])

    def over(self) -> Tensor:
        """Items all of whose paths are done (B,)."""
        return self.done[: self.items * self.width].view(self.items, -1).all(1)

    def keep(self, kept: Tensor) -> None:
        """Go on with some of the items; `rows` still counts those of all."""
        for name in ("tokens", "lengths", "rows", "scores", "done"):
            mine = getattr(self, name)
            some = mine[: self.items * self.width].view(self.items, -1)[kept].flatten()
            mine[: len(some)] = some
        self.alive, self.lead = self.alive[kept], self.lead[kept]
        self.items, self.laid = len(kept), None

    def trace(self, steps: int, count: int) -> Traced:
        """The best paths, followed to the start, after so many steps."""
        items, count = len(self.least), min(count, self.width)
        tokens = self.tokens.new_empty(items, count, steps)
        rows, gains = tokens.new_empty(steps, items, count), self.gains.new_empty(tokens.shape)
        scores = self.scores.new_empty(items, count)
        if count:
            laid = self._lay(None) if self.laid is None else self.laid[1]
            native.call("trace", laid, steps, count, tokens, gains, rows, scores)
        return Traced(tokens, gains, rows, scores)
