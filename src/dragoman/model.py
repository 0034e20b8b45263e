"""The model: read, then step. Everything that searches sees only what `begin` returns."""

import typing
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from dragoman.attention import AttentionSpec
from dragoman.core import BOS, Encoded, Padded, Pair, Source, State, Step, StepFn, tree_map
from dragoman.decoders import (
    Decoder,
    DecoderSpec,
    RecurrentSpec,
    StillSpec,
    Written,
    make_decoder,
)
from dragoman.encoders import Encoder, EncoderSpec, NothingSpec, TextSpec, make_encoder
from dragoman.errors import UserError
from dragoman.heads import Head, HeadSpec, VocabularySpec, make_head
from dragoman.kernels.packed import suited
from dragoman.kernels.reading import reading
from dragoman.objectives import Aims, Drawn, Loss, coverage, doubly_stochastic, reinforce
from dragoman.quick import Course, Kept, Precision, Quick, Rails, fits
from dragoman.spec import Spec


class ModelSpec(Spec):
    """The parts of a model and their options."""

    encoder: EncoderSpec = TextSpec()
    attention: AttentionSpec | None = None  # the defaults, where the decoder attends
    decoder: DecoderSpec = RecurrentSpec()
    head: HeadSpec = VocabularySpec()
    init: Annotated[float, Field(gt=0, le=1000)] | None = (
        None  # all weights from U(-init, init); else each part's own rule
    )

    @model_validator(mode="before")
    @classmethod
    def _usual_kinds(cls, tree: Any) -> Any:
        """A part that does not say its kind is of the usual one."""
        if not isinstance(tree, dict):
            return tree
        usual = {"decoder": "recurrent", "head": "vocabulary"}
        named = {
            part: {"kind": kind} | tree[part]
            for part, kind in usual.items()
            if isinstance(tree.get(part), dict)
        }
        return tree | named


class Known(NamedTuple):
    """What is known of the source while an answer is written: read-only, one row per item."""

    enc: Encoded
    ready: State  # the decoder's
    alphabet: State  # the head's


class Standing(NamedTuple):
    """Where writing stands, one row per hypothesis."""

    decoder: State
    head: State  # (); heads that look for themselves remember where they are


class Carried(NamedTuple):
    """Where a running text stopped: the next piece goes on from here (truncated BPTT)."""

    state: State
    last: Tensor  # (B,) the last symbol read


class Model(nn.Module):
    """An encoder, a decoder and a head. A language model's encoder reads nothing."""

    def __init__(self, encoder: Encoder, decoder: Decoder, head: Head) -> None:
        super().__init__()
        self.encoder, self.decoder, self.head = encoder, decoder, head
        self.precision: Precision = "fp32"  # of searches, where there is a quick form
        self.kept = Kept()

    def begin(self, source: Source) -> Pair:
        """The pair (step, state) of a source: all that a search needs."""
        if (way := self.course(source)) is not None:
            return self._hurry(way[0]), way[1]
        enc: Encoded = self.encoder(source)
        known = self.known(enc, source)
        return lambda tokens, state: self.advance(tokens, state, known), self.start(enc)

    def known(self, enc: Encoded, source: Source) -> Known:
        """What a step knows of the source."""
        return Known(enc, self.decoder.prepare(enc), self.head.prepare(enc, source))

    def start(self, enc: Encoded) -> Standing:
        """Where writing begins: one row per item."""
        return Standing(self.decoder.start(enc), self.head.start(enc))

    def advance(self, tokens: Tensor, state: Standing, known: Known) -> Step:
        """One symbol further: tokens (N,)."""
        x = self.head.embed(tokens, known.enc)
        features, writer, weights = self.decoder.step(x, state.decoder, known.ready)
        said = self.head.write(tokens, features, known.alphabet, weights, state.head)
        return said._replace(state=Standing(writer, said.state))

    def train(self, mode: bool = True) -> typing.Self:
        """Learning may change weights behind everybody's back (fused optimizers and CUDA graphs
        leave no mark on them): what was made of them is made anew.
        """
        if mode or self.training:
            self.kept.forget()
        return super().train(mode)

    def quick(self) -> Quick | None:
        """The form of decoder and head for searches, where there is one and nobody learns."""
        return None if self.training else self.kept(self.decoder, self.head, self.precision)

    def search_in(self, precision: Precision) -> None:
        """Searches multiply in this precision; on a CPU int8 is the fastest, fp32 the default."""
        if precision != "fp32" and not fits(self.decoder, self.head):
            raise UserError(
                f"precision={precision} is for models that write word by word from a vocabulary, "
                "without coverage, local, hard or monotone attention, copying or residual layers: "
                "leave it at fp32"
            )
        self.precision = suited(precision, next(self.parameters()).device)

    def course(self, source: Source) -> tuple[Course, State] | None:
        """For strategies that need no more than the best few symbols of each step."""
        if (quick := self.quick()) is None:
            return None
        with reading(self.kept.shelf, self.precision):
            enc: Encoded = self.encoder(source)
        return quick.begin(enc), self.decoder.start(enc)

    def rails(self) -> Rails | None:
        """For the same strategies on a GPU, where whole searches are recorded as graphs."""
        quick = self.quick()
        if quick is None or not quick.words.words.is_cuda:
            return None
        return self.kept.rails(self.encoder, quick)

    def _hurry(self, course: Course) -> StepFn:
        def step(tokens: Tensor, state: State) -> Step:
            features, state, weights = course.move(tokens, state)
            scores = course.scores(features)[:, : self.head.vocabulary]
            return Step(scores.log_softmax(-1), state, weights)

        return step

    def loss(
        self,
        source: Source,
        target: Padded,
        aims: Aims | None = None,
        carried: Carried | None = None,
    ) -> tuple[Loss, Carried]:
        """−Σ log p(y_t | y_<t, x), by teacher forcing. Targets end in EOS; BOS is put in front
        here.
        """
        aims = aims or Aims()
        enc: Encoded = self.encoder(source)
        values, alphabet = target.values, self.head.prepare(enc, source)
        state = carried.state if carried else self.decoder.start(enc)
        first = carried.last if carried else values.new_full((len(values),), BOS)
        inputs = torch.cat([first[:, None], values[:, :-1]], 1)
        if aims.sampling and self.training:
            inputs = self._sampled(inputs, enc, state, alphabet, aims.sampling)
        xs = self.head.embed(inputs, enc)
        written = self.decoder.unroll(xs, state, self.decoder.prepare(enc))
        loss = self.head.loss(written.features, target, alphabet, written.weights, aims.smoothing)
        asked = self._looking(written, target, enc, alphabet, aims)
        loss = loss._replace(total=loss.total + asked)
        return loss, Carried(tree_map(Tensor.detach, written.state), values[:, -1])

    def _looking(
        self, written: Written, target: Padded, enc: Encoded, alphabet: State, aims: Aims
    ) -> Tensor:
        """What is asked of attention beside what it helps to write."""
        weights, steps = written.weights, target.mask
        places = getattr(written.state, "drawn", ())
        total = written.features.new_zeros(())
        if weights is None:
            return total
        if aims.coverage:
            total = total + aims.coverage * coverage(weights, steps)
        if aims.doubly:
            total = total + aims.doubly * doubly_stochastic(weights, steps, enc.mask)
        if isinstance(places, Tensor):
            gained = self._gained(written, target, alphabet)
            baseline: Tensor = self.decoder.baseline  # type: ignore[assignment]
            drawn = Drawn(weights, places, steps)
            total = total + reinforce(drawn, gained, baseline, aims)
            with torch.no_grad():
                baseline.lerp_(gained.mean().to(baseline.dtype), 0.1)
        return total

    @torch.no_grad()
    def _gained(self, written: Written, target: Padded, alphabet: State) -> Tensor:
        """log p of each target (B,), after what was drawn on the way."""
        log_probs = self.head.unroll(written.features, target.values, alphabet, written.weights)
        chosen = log_probs.gather(-1, target.values.unsqueeze(-1)).squeeze(-1)
        return chosen.masked_fill(~target.mask, 0).sum(1)

    @torch.no_grad()
    def _sampled(
        self, inputs: Tensor, enc: Encoded, state: State, alphabet: State, rate: float
    ) -> Tensor:
        """Scheduled sampling (Bengio et al. 2015): a share of the history is the model's own.

        What it would write is drawn in a first pass over the gold history (Mihaylova and Martins
        2019), so that the second pass, which learns, stays parallel.
        """
        xs = self.head.embed(inputs, enc)
        features, _, weights = self.decoder.unroll(xs, state, self.decoder.prepare(enc))
        gold = inputs.roll(-1, 1)  # what comes after the last step is not asked for
        log_probs = self.head.unroll(features, gold, alphabet, weights)
        drawn = torch.multinomial(log_probs.flatten(0, 1).exp(), 1).view_as(inputs)
        own = torch.cat([inputs[:, :1], drawn[:, :-1]], 1)
        return torch.where(torch.rand_like(own, dtype=torch.float) < rate, own, inputs)


def build(spec: ModelSpec, sources: tuple[int, ...], target: int) -> Model:
    """A model with fresh weights, for columns and a target alphabet of the given sizes.

    >>> model = build(ModelSpec(), sources=(30,), target=40)
    >>> sum(p.numel() for p in model.parameters()) > 1_000_000
    True
    """
    if isinstance(spec.encoder, NothingSpec) != (not sources):
        raise UserError("model.encoder and the data do not agree on whether there is a source")
    encoder = make_encoder(spec.encoder, sources)
    attention = spec.attention or (AttentionSpec() if attends(spec.decoder) else None)
    decoder = make_decoder(spec.decoder, spec.head.embedding, encoder.sizes, attention)
    _check_head(spec, len(sources))
    labels = isinstance(spec.decoder, StillSpec)
    head = make_head(spec.head, target, decoder.size, encoder.sizes.memory, labels)
    model = Model(encoder, decoder, head)
    if spec.init is not None:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -spec.init, spec.init)
    return model


class _Undrawn(TorchFunctionMode):
    """No number is drawn where there is no memory: torch would import its compiler for that, which
    takes longer than to read a model.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func in (nn.init.normal_, Tensor.normal_):
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def sketch(spec: ModelSpec, sources: tuple[int, ...], target: int) -> Model:
    """What `build` would make, without memory for its weights.

    >>> model = sketch(ModelSpec(), sources=(10**9,), target=10**9)
    >>> next(model.parameters()).shape[0]
    1000000000
    """
    with torch.device("meta"), _Undrawn():
        return build(spec, sources, target)


def _check_head(spec: ModelSpec, columns: int) -> None:
    """Refuse a head for which the other parts are not made."""
    kind, recurrent = spec.head.kind, isinstance(spec.decoder, RecurrentSpec)
    if kind == "copy" and not (attends(spec.decoder) and spec.encoder.kind == "text"):
        raise UserError("model.head.kind=copy needs attention over a single source of text")
    if kind == "pointer" and columns != 1:  # padding between columns would shift the positions
        raise UserError("model.head.kind=pointer points into one source column")
    if kind in ("pointer", "monotone") and not recurrent:
        raise UserError(f"model.head.kind={kind} needs model.decoder.kind=recurrent")
    if kind == "monotone" and attends(spec.decoder):
        raise UserError(
            "model.head.kind=monotone looks for itself: set model.decoder.context=initial or "
            "every-step, and model.attention=null"
        )


def attends(spec: DecoderSpec) -> bool:
    """Whether a decoder of this kind looks at the annotations by attention.

    >>> attends(RecurrentSpec()), attends(StillSpec())
    (True, False)
    """
    if isinstance(spec, RecurrentSpec):
        return spec.context == "attention"
    return isinstance(spec, StillSpec) and spec.pool in ("attention", "question")
