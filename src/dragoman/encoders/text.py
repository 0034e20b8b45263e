"""Text: symbols, embedded and read by recurrent layers."""

from typing import Literal

from torch import Tensor, nn

from dragoman.cells import CELLS, Reader, StackSpec
from dragoman.core import PAD, Encoded, Padded, Source, State
from dragoman.encoders.base import Encoder, Sizes
from dragoman.errors import UserError
from dragoman.kernels.table import Table
from dragoman.spec import Size


class TextSpec(StackSpec):
    """Options of the text encoder."""

    kind: Literal["text"] = "text"
    embedding: Size = 256
    bidirectional: bool = True  # `hidden` is the size of each direction
    # what sums the source up; `end`: the last symbol's annotation, by the length of the whole
    summary: Literal["final", "backward", "mean", "end"] = "final"


class Text(Encoder):
    """x_i = E w_i; h_i = φ(h_{i-1}, x_i); one annotation per symbol."""

    options = TextSpec

    def __init__(self, spec: TextSpec, vocabulary: int) -> None:
        super().__init__()
        if spec.summary == "backward" and not spec.bidirectional:
            raise UserError("encoder.summary=backward needs encoder.bidirectional=true")
        self.spec = spec
        self.table = Table(vocabulary, spec.embedding, padding_idx=PAD)
        self.reader = Reader(spec, spec.embedding, spec.bidirectional)
        self.dropout = nn.Dropout(spec.dropout)
        width, slots = self.reader.width, CELLS[spec.cell].slots
        summary = spec.hidden if spec.summary == "backward" else width
        self.sizes = Sizes(width, summary, ((width,) * slots,) * spec.layers)

    def forward(self, source: Source) -> Encoded:
        ids, mask = source
        if ids.dim() == 3:  # beside each symbol stands what copying it would write
            ids = ids[..., 0]
        xs = self.dropout(self.table(ids))
        memory, finals = self.reader(Padded(xs, mask))
        return Encoded(self.dropout(memory), mask, self._summary(memory, mask, finals), finals)

    def _summary(self, memory: Tensor, mask: Tensor, finals: State) -> Tensor:
        if self.spec.summary == "mean":
            return memory.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        if self.spec.summary == "end":
            count = mask.sum(1, keepdim=True).clamp(min=1)
            last = (count - 1).unsqueeze(-1).expand(-1, -1, memory.size(-1))
            return memory.gather(1, last).squeeze(1) / count
        top: Tensor = finals[-1][0]
        return top[:, self.spec.hidden :] if self.spec.summary == "backward" else top
