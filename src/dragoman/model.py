"""The model: read, then step. Everything that searches sees only what `begin` returns."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dragoman.attention import AttentionSpec
from dragoman.core import BOS, Encoded, Padded, Pair, State, Step, tree_map
from dragoman.decoders import DecoderSpec, Recurrent
from dragoman.encoders import Encoder, EncoderSpec, Nothing, NothingSpec, Text, TextSpec
from dragoman.errors import UserError
from dragoman.heads import Vocabulary, VocabularySpec
from dragoman.objectives import Loss
from dragoman.spec import Positive, Spec


class ModelSpec(Spec):
    """The parts of a model and their options."""

    encoder: EncoderSpec = TextSpec()
    attention: AttentionSpec | None = None  # the defaults, where decoder.context=attention
    decoder: DecoderSpec = DecoderSpec()
    head: VocabularySpec = VocabularySpec()
    init: Positive | None = (
        None  # all weights from U(-init, init); each part's own rule when not given
    )


class Carried(NamedTuple):
    """Where a running text stopped: the next piece goes on from here (truncated BPTT)."""

    state: State
    last: Tensor  # (B,) the last symbol read


class Model(nn.Module):
    """An encoder, a decoder and a head. A language model's encoder reads nothing."""

    def __init__(self, encoder: Encoder, decoder: Recurrent, head: Vocabulary) -> None:
        super().__init__()
        self.encoder, self.decoder, self.head = encoder, decoder, head

    def begin(self, source: Padded) -> Pair:
        """The pair (step, state) of a source: all that a search needs."""
        enc: Encoded = self.encoder(source)
        ready, alphabet = self.decoder.prepare(enc), self.head.prepare(enc)

        def step(tokens: Tensor, state: State) -> Step:
            x = self.head.embed(tokens, enc)
            features, state, weights = self.decoder.step(x, state, ready)
            return Step(self.head(features, alphabet), state, weights)

        return step, self.decoder.start(enc)

    def loss(
        self, source: Padded, target: Padded, smoothing: float = 0.0, carried: Carried | None = None
    ) -> tuple[Loss, Carried]:
        """−Σ log p(y_t | y_<t, x), by teacher forcing. Targets end in EOS; BOS is put in front
        here.
        """
        enc: Encoded = self.encoder(source)
        values = target.values
        state = carried.state if carried else self.decoder.start(enc)
        first = carried.last if carried else values.new_full((len(values),), BOS)
        inputs = torch.cat([first[:, None], values[:, :-1]], 1)
        xs = self.head.embed(inputs, enc)
        features, state, _ = self.decoder.unroll(xs, state, self.decoder.prepare(enc))
        loss = self.head.loss(features, target, self.head.prepare(enc), smoothing)
        return loss, Carried(tree_map(Tensor.detach, state), values[:, -1])


def build(spec: ModelSpec, source: int, target: int) -> Model:
    """A model with fresh weights, for alphabets of the given sizes (source is 0 where nothing is
    read).

    >>> model = build(ModelSpec(), source=30, target=40)
    >>> sum(p.numel() for p in model.parameters()) > 1_000_000
    True
    """
    encoder = _encoder(spec.encoder, source)
    attention = spec.attention
    if attention is None and spec.decoder.context == "attention":
        attention = AttentionSpec()
    decoder = Recurrent(spec.decoder, spec.head.embedding, encoder.sizes, attention)
    model = Model(encoder, decoder, Vocabulary(spec.head, target, decoder.size))
    if spec.init is not None:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -spec.init, spec.init)
    return model


def _encoder(spec: TextSpec | NothingSpec, source: int) -> Encoder:
    if isinstance(spec, NothingSpec):
        return Nothing()
    if not source:
        raise UserError("model.encoder reads text, but the data has no source column")
    return Text(spec, source)
