"""Small models of every combination of parts, for the laws."""

from itertools import product
from typing import Any

import torch

from dragoman.attention import AttentionSpec
from dragoman.core import Padded, Source
from dragoman.decoders import AlignedSpec, RecurrentSpec, StillSpec
from dragoman.encoders import (
    ImageSpec,
    MatchSpec,
    NothingSpec,
    PointsSpec,
    SeveralSpec,
    SoundSpec,
    TextSpec,
    VideoSpec,
)
from dragoman.heads import CopySpec, MonotoneSpec, PointerSpec, VocabularySpec
from dragoman.model import Model, ModelSpec, build

SOURCE, TARGET = 9, 7  # sizes of the alphabets
SEEN = ImageSpec(widths=(4,), coordinates=True)  # how a frame of a clip is seen
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
    sums = ["mean", "final", "backward" if attention else "final"]
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
    decoder = RecurrentSpec(
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
    decoder = RecurrentSpec(
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
    return specs | others()


def others() -> dict[str, ModelSpec]:
    """Parts beside the plain sequence to sequence: where attention has been, and labels."""
    attention = {
        "coverage": AttentionSpec(size=5, coverage=True),
        "coverage-after": AttentionSpec(size=5, when="after", coverage=True),
        "local": AttentionSpec(size=5, local=2),
        "local-after": AttentionSpec(score="bilinear", when="after", local=3),
    }
    text = TextSpec(cell="lstm", embedding=4, hidden=3)
    decoder = RecurrentSpec(cell="lstm", hidden=6, readout_size=5)
    head, copy = VocabularySpec(embedding=5), CopySpec(embedding=5)
    found = {
        name: ModelSpec(encoder=text, attention=a, decoder=decoder, head=head)
        for name, a in attention.items()
    }
    for name in ("coverage", "coverage-after", "local"):
        found[f"copy-{name}"] = found[name].model_copy(update={"head": copy})
    learned = decoder.model_copy(update={"start": "learned", "layers": 2})
    found["start-learned"] = ModelSpec(encoder=text, decoder=learned, head=head)
    last = text.model_copy(update={"summary": "end", "bidirectional": False})
    every = RecurrentSpec(
        cell="gru", hidden=6, context="every-step", start="learned", readout="plain"
    )
    found["summary-end"] = ModelSpec(encoder=last, decoder=every, head=head)
    wide = TextSpec(cell="gru", embedding=4, hidden=4)
    for fuse in ("concat", "product", "gate", "compare"):
        parts = SeveralSpec(parts=(text, wide), fuse=fuse)
        found[f"several-{fuse}"] = ModelSpec(encoder=parts, decoder=decoder, head=head)
    both = SeveralSpec(parts=(text, text), fuse="compare", tied=True)
    found["several-tied"] = ModelSpec(encoder=both, decoder=decoder, head=head)
    pairs = MatchSpec(cell="lstm", embedding=4, hidden=6, bidirectional=True)
    found["match"] = ModelSpec(encoder=pairs, decoder=decoder, head=head)
    return found | pointers() | monotone() | _pictures(decoder, head) | _frames(decoder, head)


def monotone() -> dict[str, ModelSpec]:
    """Symbols that are read off places, from left to right."""
    text = TextSpec(cell="lstm", embedding=4, hidden=3, bidirectional=True)
    plain = RecurrentSpec(cell="lstm", hidden=6, context="initial", readout="plain")
    every = RecurrentSpec(cell="gru", hidden=6, context="every-step", readout_size=4)
    tied = MonotoneSpec(embedding=5, tied=True, score="mlp")
    parts = SeveralSpec(parts=(text, text), fuse="concat")
    return {
        "monotone": ModelSpec(encoder=text, decoder=plain, head=MonotoneSpec(embedding=5, size=4)),
        "monotone-tied": ModelSpec(encoder=text, decoder=every, head=tied),
        "monotone-several": ModelSpec(encoder=parts, decoder=plain, head=tied),
    }


def pointers() -> dict[str, ModelSpec]:
    """Points, read in order or as a set, and answers that point at them or at words."""
    row = PointsSpec(cell="lstm", embedding=4, hidden=6)
    both = PointsSpec(cell="gru", embedding=4, hidden=3, bidirectional=True, layers=2)
    cloud = PointsSpec(form="set", cell="lstm", embedding=4, hidden=6, heads=2)
    alone = PointsSpec(form="set", cell="gru", embedding=4, hidden=6, heads=1, rounds=0)
    text = TextSpec(cell="lstm", embedding=4, hidden=3)
    copied = RecurrentSpec(cell="lstm", hidden=6, context="initial", start="copy", readout="plain")
    glimpse = RecurrentSpec(cell="gru", hidden=6, readout_size=5)
    late = AttentionSpec(score="bilinear", when="after")
    pointer, words = PointerSpec(embedding=5), VocabularySpec(embedding=5)
    made = {
        "pointer-row": (row, None, copied, pointer),
        "pointer-both": (both, late, glimpse, PointerSpec(embedding=5, score="bilinear")),
        "pointer-cloud": (cloud, late, glimpse, pointer),
        "pointer-alone": (alone, AttentionSpec(size=5), glimpse, pointer),
        "pointer-text": (text, late, glimpse, pointer),
        "points-words": (cloud, AttentionSpec(size=5), glimpse, words),
    }
    return {
        name: ModelSpec(encoder=e, attention=a, decoder=d, head=h)
        for name, (e, a, d, h) in made.items()
    }


def _pictures(decoder: RecurrentSpec, head: VocabularySpec) -> dict[str, ModelSpec]:
    """Captions: one vector; soft and hard attention over a grid; pictures and words together."""
    image = ImageSpec(widths=(4, 6), coordinates=True, hidden=6, rows=True)
    once = decoder.model_copy(update={"context": "initial"})
    both = SeveralSpec(parts=(image, TextSpec(embedding=4, hidden=3)), fuse="product")
    gate = AttentionSpec(size=5, gate=True)
    found = {
        "image-vector": ModelSpec(encoder=ImageSpec(widths=(4,), dense=5), decoder=once, head=head),
        "image-pools": ModelSpec(
            encoder=ImageSpec(widths=(4,), pool="both"), decoder=once, head=head
        ),
        "image-resnet": ModelSpec(encoder=ImageSpec(net="resnet18"), decoder=once, head=head),
        "several-image": ModelSpec(encoder=both, decoder=decoder, head=head),
    }
    for name, attention in {"soft": gate, "hard": gate.model_copy(update={"hard": True})}.items():
        found[f"image-{name}"] = ModelSpec(
            encoder=image, attention=attention, decoder=decoder, head=head
        )
    return found


def _frames(decoder: RecurrentSpec, head: VocabularySpec) -> dict[str, ModelSpec]:
    """What lies in time: sounds and clips."""
    encoders: dict[str, Any] = {
        "sound": SoundSpec(hidden=3, layers=2, halvings=1),
        "sound-front": SoundSpec(hidden=3, layers=1, halvings=0, front=2),
        "video": VideoSpec(cell="lstm", hidden=4, pool="attention", residual=True, frame=SEEN),
        "video-mean": VideoSpec(layers=0, summary="mean", frame=SEEN),
    }
    return {
        name: ModelSpec(encoder=encoder, decoder=decoder, head=head)
        for name, encoder in encoders.items()
    }


def _labels() -> dict[str, ModelSpec]:
    """Models that write one symbol, or one per position."""
    text = TextSpec(cell="gru", embedding=4, hidden=3)
    pairs = MatchSpec(cell="gru", embedding=4, hidden=6)
    head = VocabularySpec(embedding=5)
    found = {
        f"still-{pool}": ModelSpec(encoder=text, decoder=StillSpec(pool=pool), head=head)
        for pool in ("summary", "attention", "question", "mean", "max")
    }
    found["still-hidden"] = ModelSpec(encoder=text, decoder=StillSpec(hidden=5), head=head)
    found["still-match"] = ModelSpec(encoder=pairs, decoder=StillSpec(), head=head)
    sound = SoundSpec(hidden=3, layers=2, halvings=2)
    video = VideoSpec(cell="gru", hidden=3, layers=2, bidirectional=True, frame=SEEN)
    found["still-sound"] = ModelSpec(encoder=sound, decoder=StillSpec(), head=head)
    found["still-video"] = ModelSpec(encoder=video, decoder=StillSpec(pool="mean"), head=head)
    found["aligned"] = ModelSpec(encoder=text, decoder=AlignedSpec(), head=head)
    found["aligned-hidden"] = ModelSpec(encoder=text, decoder=AlignedSpec(hidden=5), head=head)
    found["aligned-whole"] = ModelSpec(encoder=text, decoder=AlignedSpec(whole=True), head=head)
    return found


def _all() -> dict[str, ModelSpec]:
    """The full product."""
    every = product(CELLS, WAYS, STARTS, READOUTS)
    return {
        f"{cell}-{reset}-{way}-{start}-{readout}": spec(cell, reset, way, start, readout, turn)
        for turn, ((cell, reset), way, start, readout) in enumerate(every)
        if not blind(way, start)
    }


FEW, ALL, LABELS = _few(), _all() | others(), _labels()


def make(model_spec: ModelSpec, seed: int = 0) -> Model:
    """A model in double precision with large weights: its choices differ from row to row."""
    torch.manual_seed(seed)
    kind = model_spec.encoder.kind
    sizes = {"nothing": (), "match": (SOURCE,) * 2, "points": (2,), "image": (1,)}
    sizes["video"] = (1,)
    if kind == "several":
        sizes[kind] = tuple(
            1 if part.kind == "image" else SOURCE for part in model_spec.encoder.parts
        )
    model = build(model_spec, sizes.get(kind, (SOURCE,)), TARGET).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".net.layer" not in name:  # a deep network would grow beyond all bounds
                parameter.mul_(3)
    return model


def padded(ids: torch.Tensor) -> Padded:
    return Padded(ids, ids != 0)


def pictures(ids: torch.Tensor) -> Padded:
    """Small pictures, one for each symbol."""
    chance = torch.Generator().manual_seed(5)
    known = torch.randn(SOURCE, 1, 5, 6, generator=chance, dtype=torch.double)
    return Padded(known[ids], ids != 0)


def source(model_spec: ModelSpec) -> Source:
    """Three sources of unequal length, or three times nothing."""
    ids = torch.tensor([[4, 5, 6, 7, 2], [8, 5, 2, 0, 0], [6, 2, 0, 0, 0]])
    return shaped(model_spec, ids)


def points(ids: torch.Tensor) -> Padded:
    """Points of the plane, one for each symbol."""
    places = torch.stack([torch.sin(ids * 1.7), torch.cos(ids * 2.3)], -1).double()
    return Padded(places * (ids != 0)[..., None], ids != 0)


def frames(ids: torch.Tensor) -> Padded:
    """Frames of a sound, one for each symbol."""
    chance = torch.Generator().manual_seed(5)
    known = torch.randn(SOURCE, SOURCE, generator=chance, dtype=torch.double)
    return Padded(known[ids], ids != 0)


# how else symbols can look
SENSES = {"points": points, "image": pictures, "video": pictures, "sound": frames}


def shaped(model_spec: ModelSpec, ids: torch.Tensor) -> Source:
    """Symbols as the model's encoder reads them."""
    encoder, other = model_spec.encoder, ids.flip(0)[:, : ids.size(1) - 1]
    if encoder.kind == "nothing":
        return padded(ids[:, :0])
    if encoder.kind == "match":
        return padded(ids), padded(other)
    if encoder.kind == "several":
        both = zip(encoder.parts, (ids, other), strict=True)
        return tuple(SENSES.get(part.kind, padded)(one) for part, one in both)
    if model_spec.head.kind == "copy":  # even symbols are in the vocabulary, odd ones beyond it
        places = TARGET + torch.arange(ids.size(1)).expand_as(ids)
        copies = torch.where(ids % 2 == 0, ids.clamp(max=TARGET - 1), places) * (ids != 0)
        return Padded(torch.stack([ids, copies], -1), ids != 0)
    return SENSES.get(encoder.kind, padded)(ids)


def answers(model_spec: ModelSpec) -> torch.Tensor:
    """Targets for the three sources; a pointer writes no <unk>."""
    ids = torch.tensor([[4, 5, 6, 3, 2], [6, 6, 2, 0, 0], [2, 0, 0, 0, 0]])
    return torch.where((ids == 3) & (model_spec.head.kind == "pointer"), 4, ids)


def rows_of(given: Source, rows: list[int]) -> Source:
    """Some rows, without padding that none of them needs."""
    if not isinstance(given, Padded):
        return tuple(rows_of(one, rows) for one in given)
    values, mask = given.values[rows], given.mask[rows]
    width = int(mask.sum(1).max())
    return Padded(values[:, :width], mask[:, :width])


def widen(given: Source, by: int) -> Source:
    """The same rows with more padding."""
    if not isinstance(given, Padded):
        return tuple(widen(one, by) for one in given)
    values = torch.nn.functional.pad(given.values, (0, 0) * (given.values.dim() - 2) + (0, by))
    return Padded(values, torch.nn.functional.pad(given.mask, (0, by)))
