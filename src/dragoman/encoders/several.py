"""Several sources read side by side: a word and its features, a question and a picture."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from dragoman.core import Encoded, Source
from dragoman.encoders.base import Encoder, EncoderSpec, Layout, Sizes, make_encoder
from dragoman.encoders.text import TextSpec
from dragoman.errors import UserError
from dragoman.spec import Size, Spec


class SeveralSpec(Spec):
    """One encoder per source column, in the order of the columns."""

    kind: Literal["several"] = "several"
    parts: tuple[EncoderSpec, ...] = (TextSpec(), TextSpec())
    size: Size | None = None  # common width of the annotations; the widest part's when not given
    fuse: Literal["concat", "product", "gate", "compare"] = "concat"  # how summaries become one
    tied: bool = False  # one encoder reads them all (the first part's); needs data.shared


class Several(Encoder):
    """Memories side by side, summaries fused; the first part's last states are the final ones."""

    options = SeveralSpec
    columns = None

    def __init__(self, spec: SeveralSpec, columns: tuple[int, ...]) -> None:
        super().__init__()
        if len(spec.parts) != len(columns):
            raise UserError(
                f"model.encoder has {len(spec.parts)} parts for {len(columns)} source columns"
            )
        self.fuse = spec.fuse
        if spec.tied and len(set(columns)) > 1:
            raise UserError("model.encoder.tied needs one alphabet: set data.shared=sources")
        parts = [make_encoder(part, (n,)) for part, n in zip(spec.parts, columns, strict=True)]
        self.parts = nn.ModuleList([parts[0]] * len(parts) if spec.tied else parts)
        sizes = [part.sizes for part in self._parts()]
        width = spec.size or max(size.memory for size in sizes)
        self.even = nn.ModuleList(
            nn.Identity() if size.memory == width else nn.Linear(size.memory, width)
            for size in sizes
        )
        if self.fuse == "compare" and len(sizes) != 2:
            raise UserError("model.encoder.fuse=compare takes two parts")
        alike = len({size.summary for size in sizes}) == 1
        self.seen = self.fuse in ("product", "gate") or (self.fuse == "compare" and not alike)
        summary = sum(size.summary for size in sizes)
        if self.seen:  # first brought to one width
            summary = width
            self.views = nn.ModuleList(nn.Linear(size.summary, width) for size in sizes)
        if self.fuse == "compare":
            summary = 4 * (width if self.seen else sizes[0].summary)
        if self.fuse == "gate":
            self.gates = nn.Linear(width * len(sizes), width * len(sizes))
        self.sizes = Sizes(width, summary, sizes[0].finals)

    def forward(self, source: Source) -> Encoded:
        read = [part(one) for part, one in zip(self._parts(), source, strict=True)]
        memory = torch.cat([even(r.memory) for even, r in zip(self.even, read, strict=True)], 1)
        mask = torch.cat([r.mask for r in read], 1)
        return Encoded(memory, mask, self._fuse([r.summary for r in read]), read[0].finals)

    def _fuse(self, summaries: list[Tensor]) -> Tensor:
        if self.fuse == "concat":
            return torch.cat(summaries, -1)
        views = summaries
        if self.seen:
            views = [torch.tanh(v(s)) for v, s in zip(self.views, summaries, strict=True)]
        if self.fuse == "compare":  # what is common and what differs (Mou et al. 2016)
            a, b = views
            return torch.cat([a, b, (a - b).abs(), a * b], -1)
        if self.fuse == "product":
            return torch.stack(views).prod(0)
        gates = torch.sigmoid(self.gates(torch.cat(views, -1))).chunk(len(views), -1)
        return torch.stack([g * v for g, v in zip(gates, views, strict=True)]).sum(0)

    def layouts(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Layout, ...]:
        both = zip(self._parts(), shapes, strict=True)
        return tuple(part.layouts([shape])[0] for part, shape in both)

    def _parts(self) -> list[Encoder]:
        return [part for part in self.parts if isinstance(part, Encoder)]  # a tied one repeatedly
