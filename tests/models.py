"""Small models of every combination of parts, for the laws."""

from itertools import product

import torch

from dragoman.attention import AttentionSpec
from dragoman.core import Padded
from dragoman.decoders import DecoderSpec
from dragoman.encoders import NothingSpec, TextSpec
from dragoman.heads import VocabularySpec
from dragoman.model import Model, ModelSpec, build

SOURCE, TARGET = 9, 7  # sizes of the alphabets
CELLS = [("rnn", "after"), ("gru", "after"), ("gru", "before"), ("lstm", "after")]
SCORES = ["dot", "bilinear", "mlp"]
WAYS = [
    "initial",
    "every-step",
    *(f"{when}-{score}" for when in ("before", "after", "feed") for score in SCORES),
]
STARTS = ["copy", "dense", "zero"]
READOUTS = ["plain", "tanh", "maxout"]


def spec(cell: str, reset: str, way: str, start: str, readout: str, turn: int = 0) -> ModelSpec:
    """A model of the given parts; `turn` varies the options that are not named."""
    when, _, score = way.partition("-")
    attention = None
    if when in ("before", "after", "feed"):
        attention = AttentionSpec(
            score=score, when="before" if when == "before" else "after", feed=when == "feed", size=5
        )
    layers, two_ways = 1 + turn % 2, turn % 3 != 1
    sums = ["final", "mean", "backward" if attention else "final"]
    hidden = 6
    encoder = TextSpec(
        cell=cell,
        reset=reset,
        embedding=4,
        hidden=hidden // 2 if two_ways else hidden,
        layers=layers,
        bidirectional=two_ways,
        residual=turn % 2 == 1,
        summary=sums[turn % 3] if two_ways else "final",
    )
    decoder = DecoderSpec(
        cell=cell,
        reset=reset,
        hidden=hidden,
        layers=layers,
        residual=turn % 2 == 1,
        context="attention" if attention else way,
        start=start,
        readout=readout,
        readout_size=None if readout == "plain" else 5,
        readout_word=turn % 2 == 0,
    )
    tied = readout != "plain" and turn % 2 == 1
    head = VocabularySpec(embedding=5, tied=tied)
    return ModelSpec(encoder=encoder, attention=attention, decoder=decoder, head=head)


def blind(way: str, start: str) -> bool:
    """Parts that would never see the source, which the decoder refuses."""
    return way == "initial" and start == "zero"


def language_model(cell: str, reset: str, readout: str) -> ModelSpec:
    decoder = DecoderSpec(
        cell=cell, reset=reset, hidden=6, layers=2, context="initial", start="zero", readout=readout
    )
    return ModelSpec(encoder=NothingSpec(), decoder=decoder, head=VocabularySpec(embedding=5))


def _few() -> dict[str, ModelSpec]:
    """Every cell with every way to see the source; the other options in turn."""
    specs = {}
    for turn, ((cell, reset), way) in enumerate(product(CELLS, WAYS)):
        start, readout = STARTS[turn % 3], READOUTS[(turn // 3) % 3]
        if blind(way, start):
            start = "dense"
        specs[f"{cell}-{reset}-{way}-{start}-{readout}"] = spec(
            cell, reset, way, start, readout, turn
        )
    for cell, reset in CELLS:
        specs[f"{cell}-{reset}-lm"] = language_model(cell, reset, "tanh")
    return specs


def _all() -> dict[str, ModelSpec]:
    """The full product."""
    every = product(CELLS, WAYS, STARTS, READOUTS)
    return {
        f"{cell}-{reset}-{way}-{start}-{readout}": spec(cell, reset, way, start, readout, turn)
        for turn, ((cell, reset), way, start, readout) in enumerate(every)
        if not blind(way, start)
    }


FEW, ALL = _few(), _all()


def make(model_spec: ModelSpec, seed: int = 0) -> Model:
    """A model in double precision with large weights: its choices differ from row to row."""
    torch.manual_seed(seed)
    model = build(model_spec, SOURCE, TARGET).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


def source(model_spec: ModelSpec) -> Padded:
    """Three sources of unequal length, or three times nothing."""
    ids = torch.tensor([[4, 5, 6, 7, 2], [8, 5, 2, 0, 0], [6, 2, 0, 0, 0]])
    if model_spec.encoder.kind == "nothing":
        ids = ids[:, :0]
    return Padded(ids, ids != 0)


def rows_of(padded: Padded, rows: list[int], trim: bool = True) -> Padded:
    """Some rows, without padding that none of them needs."""
    values, mask = padded.values[rows], padded.mask[rows]
    width = int(mask.sum(1).max()) if trim else values.size(1)
    return Padded(values[:, :width], mask[:, :width])


def widen(padded: Padded, by: int) -> Padded:
    """The same rows with more padding."""
    more = padded.values.new_zeros(len(padded.values), by)
    return Padded(torch.cat([padded.values, more], 1), torch.cat([padded.mask, more.bool()], 1))
