"""One text read in the light of another: word-by-word attention (Rocktäschel et al. 2016)."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.cells import CELLS, Reader, StackSpec
from dragoman.core import PAD, Encoded, Padded, Source, masked_select_state
from dragoman.encoders.base import Encoder, Layout, Sizes
from dragoman.errors import UserError
from dragoman.kernels import portable, sequence
from dragoman.kernels.table import Table
from dragoman.spec import Size


class MatchSpec(StackSpec):
    """Options of the encoder of premise and hypothesis."""

    kind: Literal["match"] = "match"
    embedding: Size = 256
    bidirectional: bool = False  # of the premise's reader; `hidden` is the size of all together
    tied: bool = False  # one table for both texts; needs data.shared


class Match(Encoder):
    """The premise is read first; the hypothesis starts from its last state and looks back at it,
    word by word. The summary is h* of the paper's eq. 14; the memory is the hypothesis as read.
    """

    options = MatchSpec
    columns = None

    def __init__(self, spec: MatchSpec, vocabularies: tuple[int, ...]) -> None:
        super().__init__()
        if len(vocabularies) != 2:
            raise UserError("model.encoder.kind=match reads two source columns")
        if spec.layers != 1 or (spec.bidirectional and spec.hidden % 2):
            raise UserError("model.encoder.kind=match has one layer, of even size if bidirectional")
        size = spec.hidden
        each = spec.model_copy(update={"hidden": size // 2}) if spec.bidirectional else spec
        if spec.tied and len(set(vocabularies)) > 1:
            raise UserError("model.encoder.tied needs one alphabet: set data.shared=sources")
        tables = [Table(v, spec.embedding, padding_idx=PAD) for v in vocabularies]
        self.tables = nn.ModuleList([tables[0]] * 2 if spec.tied else tables)
        self.premise = Reader(each, spec.embedding, spec.bidirectional)
        self.hypothesis = Reader(spec, spec.embedding, bidirectional=False)
        self.keys = nn.Linear(size, size, bias=False)
        self.query = nn.Linear(size, size, bias=False)
        self.past = nn.Linear(size, size, bias=False)
        self.score = nn.Linear(size, 1, bias=False)
        self.carry = nn.Linear(size, size, bias=False)
        self.read, self.last = nn.Linear(size, size, bias=False), nn.Linear(size, size)
        self.dropout = nn.Dropout(spec.dropout)
        self.sizes = Sizes(size, size, ((size,) * CELLS[spec.cell].slots,))

    def forward(self, source: Source) -> Encoded:
        premise, hypothesis = (
            Padded(self.dropout(table(one.values)), one.mask)
            for table, one in zip(self.tables, source, strict=True)
        )
        annotations, finals = self.premise(premise)
        cell = self.hypothesis.bottom
        hs, final = sequence.run(cell, hypothesis.values, finals[0], hypothesis.mask)
        looked = self._look(hs, annotations, premise.mask, hypothesis.mask)
        summary = torch.tanh(self.read(looked) + self.last(final[0]))
        return Encoded(self.dropout(hs), hypothesis.mask, self.dropout(summary), (final,))

    def layouts(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Layout, ...]:
        return Layout("tokens", (0,)), Layout("tokens", shapes[1])

    def _look(self, hs: Tensor, memory: Tensor, mask: Tensor, steps: Tensor) -> Tensor:
        """r_N of eq. 12 and 13: what the premise holds for the hypothesis, word after word."""
        keys, queries = self.keys(memory), self.query(hs)
        if torch.compiler.is_exporting():
            weights = (self.past.weight, self.score.weight, self.carry.weight)
            return portable.look(queries, steps, keys, memory, mask, *weights)
        low = torch.finfo(hs.dtype).min
        r = hs.new_zeros(len(hs), hs.size(-1))
        for query, real in zip(queries.unbind(1), steps.unbind(1), strict=True):
            mixed = torch.tanh(keys + (query + self.past(r)).unsqueeze(1))
            energies = self.score(mixed).squeeze(-1).masked_fill(~mask, low)
            weights = energies.softmax(-1) * mask
            seen = (weights.unsqueeze(1) @ memory).squeeze(1)
            r = masked_select_state(real, seen + torch.tanh(self.carry(r)), r)
        return r
