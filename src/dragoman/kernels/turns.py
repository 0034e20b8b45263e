"""Where the paths of a beam search on a CPU stand, in memory that stays where it is, and how they
go on: by a routine in C (`beams.c`), which scores them, too.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dragoman.core import BOS
from dragoman.kernels import native
from dragoman.kernels.lanes import Still


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
        self.alive = torch.arange(self.items)
        self.tokens = torch.full((rows,), BOS)
        self.lengths, self.rows = torch.zeros_like(self.tokens), torch.zeros_like(self.tokens)
        self.lead, self.last = torch.zeros_like(self.alive), torch.zeros_like(self.alive)
        self.scores, self.done = torch.zeros(rows), torch.zeros(rows, dtype=torch.bool)
        self.parents = torch.empty(log, dtype=torch.int32)
        self.written, self.gains = torch.empty_like(self.parents), torch.empty(log)
        self.final, self.final_lengths = torch.zeros(rows), torch.zeros_like(self.tokens)
        self.left = torch.zeros(2, dtype=torch.long)
        self.laid: tuple[int, Tensor] | None = None
        self._make_room(rows)

    def _make_room(self, rows: int) -> None:
        """For what a step finds before it is set against each other."""
        output, self.threads = self.output, torch.get_num_threads()
        self.ways = min(self.width, output.results)
        self.some, self.rule = torch.empty(rows, output.size), torch.empty(rows, dtype=torch.uint8)
        self.values = torch.empty(self.threads, rows, self.ways)
        self.symbols = torch.empty(self.values.shape, dtype=torch.long)
        self.sums, self.going = torch.empty(self.threads, rows, 2), torch.empty_like(self.tokens)

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

    def _lay(self, features: Tensor) -> Tensor:
        """As `beams.c` reads it."""
        output = self.output
        given: list[Tensor | int | None] = [output.weights, output.bias]
        given += [output.scales, output.offsets]
        given += [output.kind, output.size, output.words, output.results]
        given += [features, features.stride(0), self.items, self.count, self.ways, self.width]
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
        tokens = torch.empty(items, count, steps, dtype=torch.long)
        rows, gains = tokens.new_empty(steps, items, count), torch.empty(tokens.shape)
        scores = torch.empty(items, count)
        assert self.laid is not None
        native.call("trace", self.laid[1], steps, count, tokens, gains, rows, scores)
        return Traced(tokens, gains, rows, scores)
