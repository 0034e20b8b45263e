"""Points: a set of vectors, read without regard to their order, or as a sequence."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.cells import CELLS, Reader, StackSpec, make_cell
from dragoman.core import Encoded, Padded, Source
from dragoman.encoders.base import Encoder, Layout, Sizes
from dragoman.errors import UserError
from dragoman.spec import Count, Natural, Size


class PointsSpec(StackSpec):
    """Options of the points encoder."""

    kind: Literal["points"] = "points"
    form: Literal["sequence", "set"] = "sequence"
    embedding: Size = 256
    bidirectional: bool = False  # sequence: `hidden` is the size of each direction
    rounds: Count = 2  # set: how often each point looks at all others
    heads: Natural = 8  # set: at how many of them it can look at once
    process: Natural = 3  # set: looks at the whole set that make the summary


class Points(Encoder):
    """One annotation per point. Numbers are embedded in full precision: near points differ in
    digits that half of it does not hold.
    """

    options = PointsSpec

    def __init__(self, spec: PointsSpec, dimensions: int) -> None:
        super().__init__()
        self.embed = nn.Linear(dimensions, spec.embedding)
        self.body = Ordered(spec) if spec.form == "sequence" else Unordered(spec)
        self.sizes = self.body.sizes

    def forward(self, source: Source) -> Encoded:
        values, mask = source
        with torch.autocast(values.device.type, enabled=False):
            xs = self.embed(values.to(self.embed.weight.dtype))
        return self.body(Padded(xs, mask))  # type: ignore[no-any-return]

    def layouts(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Layout, ...]:
        return (Layout("points", shapes[0][:1]),)


class Ordered(nn.Module):
    """Recurrent layers over the points in the order they come (Vinyals et al. 2015)."""

    def __init__(self, spec: PointsSpec) -> None:
        super().__init__()
        self.reader = Reader(spec, spec.embedding, spec.bidirectional)
        self.dropout = nn.Dropout(spec.dropout)
        width = self.reader.width
        self.sizes = Sizes(width, width, ((width,) * CELLS[spec.cell].slots,) * spec.layers)

    def forward(self, source: Padded) -> Encoded:
        memory, finals = self.reader(source)
        return Encoded(self.dropout(memory), source.mask, finals[-1][0], finals)


class Unordered(nn.Module):
    """A set (Vinyals, Bengio and Kudlur 2016): points permuted permute the annotations and leave
    the summary as it is. Each point is read alone, then looks at the others for some rounds; the
    summary is what a cell gathers that looks at the set again and again.
    """

    def __init__(self, spec: PointsSpec) -> None:
        super().__init__()
        if spec.hidden % spec.heads:
            raise UserError(
                f"model.encoder.hidden={spec.hidden} is no multiple of "
                f"model.encoder.heads={spec.heads}"
            )
        self.read = nn.Sequential(nn.ReLU(), nn.Linear(spec.embedding, spec.hidden))
        self.rounds = nn.ModuleList(Round(spec) for _ in range(spec.rounds))
        self.norm = nn.LayerNorm(spec.hidden)
        self.cell, self.process = make_cell(spec, 2 * spec.hidden), spec.process
        self.sizes = Sizes(spec.hidden, 2 * spec.hidden, ((spec.hidden,) * self.cell.slots,))

    def forward(self, source: Padded) -> Encoded:
        xs, mask = source
        memory = self.read(xs)
        for one in self.rounds:
            memory = one(memory, mask)
        memory = self.norm(memory) * mask.unsqueeze(-1)
        state = self.cell.start(memory.new_zeros(len(memory), memory.size(-1)))
        gathered = memory.new_zeros(len(memory), 2 * memory.size(-1))
        for _ in range(self.process):  # eq. 3 to 7
            query, state = self.cell(gathered, state)
            energies = (memory @ query.unsqueeze(-1)).squeeze(-1)
            weights = masked_softmax(energies, mask)
            gathered = torch.cat([query, (weights.unsqueeze(1) @ memory).squeeze(1)], -1)
        return Encoded(memory, mask, gathered, (state,))


class Round(nn.Module):
    """Each point looks at all points, then thinks it over (Vaswani et al. 2017, norms first)."""

    def __init__(self, spec: PointsSpec) -> None:
        super().__init__()
        size, self.heads = spec.hidden, spec.heads
        self.before, self.between = nn.LayerNorm(size), nn.LayerNorm(size)
        self.look = nn.Linear(size, 3 * size)
        self.mix = nn.Linear(size, size)
        self.think = nn.Sequential(
            nn.Linear(size, 2 * size),
            nn.ReLU(),
            nn.Linear(2 * size, size),
            nn.Dropout(spec.dropout),
        )

    def forward(self, xs: Tensor, mask: Tensor) -> Tensor:
        parts = self.look(self.before(xs)).unflatten(-1, (3, self.heads, -1))
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)  # (B, heads, S, size / heads) each
        energies = queries @ keys.transpose(-1, -2) * queries.size(-1) ** -0.5
        seen = masked_softmax(energies, mask[:, None, None]) @ values
        xs = xs + self.mix(seen.transpose(1, 2).flatten(2))
        return xs + self.think(self.between(xs))  # type: ignore[no-any-return]


def masked_softmax(energies: Tensor, mask: Tensor) -> Tensor:
    """Weights over what is real; zero where nothing is.

    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [False, False]]))
    tensor([[1., 0.],
            [0., 0.]])
    """
    low = torch.finfo(energies.dtype).min
    return energies.masked_fill(~mask, low).softmax(-1) * mask
