"""From raw inputs to predictions: the only door for the command line, evaluation and services."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dragoman import search
from dragoman.checkpoint import Fields, load_model
from dragoman.config import Config, SearchSpec, resolve_search
from dragoman.core import BOS, EOS, PAD, Hypotheses, Padded
from dragoman.data.batches import Examples, Ragged
from dragoman.model import Model

Floats = npt.NDArray[np.float32]
CHUNK = 16  # batches read ahead, so that rows of like length can be decoded together


@dataclass(frozen=True)
class Prediction:
    """One answer. `str()` of it is its text."""

    text: str
    tokens: tuple[str, ...]
    score: float  # log-probability of the whole answer, its end included
    log_probs: tuple[float, ...]  # the same, token by token, the end last
    source: tuple[str, ...] = ()  # the input's tokens, the end sign last
    alignment: Floats | None = field(default=None, repr=False)  # (tokens, source): attention
    alternatives: tuple["Prediction", ...] = field(default=(), repr=False)  # the next best

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Scored:
    """How likely the model holds a given target."""

    score: float  # log-probability, the end included
    log_probs: tuple[float, ...]
    tokens: tuple[str, ...]

    @property
    def perplexity(self) -> float:
        return float(np.exp(-self.score / max(len(self.log_probs), 1)))


class Predictor:
    """A model with its fields, ready for raw text."""

    def __init__(self, config: Config, fields: Fields, model: Model) -> None:
        self.config, self.fields, self.model = config, fields, model

    def __call__(
        self, inputs: str | Sequence[str], **options: object
    ) -> "Prediction | list[Prediction]":
        """A text in, a prediction out; a list in, a list out. Options are those of `search`."""
        several = [inputs] if isinstance(inputs, str) else list(inputs)
        results = self.predict(several, self.options(**options))
        return results[0] if isinstance(inputs, str) else results

    def options(self, **changes: object) -> SearchSpec:
        """The model's own search options with some changed; unknown names are refused."""
        return resolve_search(
            self.config.search, {k: v for k, v in changes.items() if v is not None}
        )

    def predict(
        self,
        inputs: Sequence[str],
        options: SearchSpec | None = None,
        batch_size: int = 32,
        first: int = 0,
    ) -> list[Prediction]:
        """As many predictions as inputs, in their order. An input of blanks gives an empty answer.

        `first` is the place of the first input in a longer stream; sampling depends on it.
        """
        options = options or self.config.search
        results = [EMPTY] * len(inputs)
        busy = [i for i, text in enumerate(inputs) if text.strip() or not self.fields.source]
        ids = [self._encode(inputs[i]) for i in busy]
        order = sorted(range(len(busy)), key=lambda k: len(ids[k]))
        for begin in range(0, len(order), batch_size):
            part = order[begin : begin + batch_size]
            places = [busy[k] for k in part]
            found = self._decode([ids[k] for k in part], options, [first + i for i in places])
            for place, prediction in zip(places, found, strict=True):
                results[place] = prediction
        return results

    def stream(
        self, inputs: Iterable[str], options: SearchSpec | None = None, batch_size: int = 32
    ) -> Iterator[Prediction]:
        """Predictions one by one, in order and in bounded memory, however long the input is.

        A batch size of 1 answers each input before it asks for the next.
        """
        rest, first = iter(inputs), 0
        ahead = batch_size * CHUNK if batch_size > 1 else 1
        while chunk := list(islice(rest, ahead)):
            yield from self.predict(chunk, options, batch_size, first)
            first += len(chunk)

    def score(self, pairs: Sequence[tuple[str, str]], batch_size: int = 32) -> list[Scored]:
        """How likely each target is, given its source (a language model ignores the source)."""
        reader, writer = self.fields
        encode = writer.line if self.config.data.format == "running" else writer.encode
        targets = Ragged.of(encode(target) for _, target in pairs)
        sources = Ragged.of(reader.encode(source) for source, _ in pairs) if reader else None
        examples = Examples(sources, targets)
        order = np.argsort(examples.lengths, kind="stable")
        results: list[Scored | None] = [None] * len(pairs)
        for begin in range(0, len(order), batch_size):
            rows = order[begin : begin + batch_size]
            batch = examples.batch(rows)
            with torch.inference_mode():
                pair = self.model.begin(batch.source.to(self.device))
                found = search.force(*pair, batch.target.values.to(self.device))
            for row, log_probs in zip(rows, found.log_probs[:, 0].cpu().tolist(), strict=True):
                ids = targets[int(row)].tolist()
                kept = tuple(log_probs[: len(ids)])
                results[row] = Scored(sum(kept), kept, tuple(writer.units.tokens(ids)))
        return [result for result in results if result is not None]

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def _encode(self, text: str) -> list[int]:
        """A source, or a language model's prompt."""
        reader = self.fields.source
        return reader.encode(text) if reader else self.fields.target.prompt(text)

    def _decode(
        self, ids: list[list[int]], options: SearchSpec, places: list[int]
    ) -> list[Prediction]:
        rows = Ragged.of(ids)
        given = rows.pad(range(len(ids))).to(self.device)
        limits = self._limits(rows, options)
        with torch.inference_mode():
            found = self._search(given, limits, options, places)
        return self._present(ids, found)

    def _search(
        self, given: Padded, limits: Tensor, options: SearchSpec, places: list[int]
    ) -> Hypotheses:
        source = given if self.fields.source else Padded(given.values[:, :0], given.mask[:, :0])
        pair = search.never(self.model.begin(source), [PAD, BOS])
        prompts = 0 if self.fields.source else given.mask.sum(1)  # written, too, but not counted
        pair = search.within(pair, prompts + options.min_length, limits)
        if not self.fields.source:
            pair = search.prefix(pair, given.values)
        steps = int(limits.max()) + 1
        if options.sample:
            noise = chance(options.seed, places, options.n_best, steps)
            return search.sample(
                *pair,
                noise,
                temperature=options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
            )
        if options.beam == 1 and options.n_best == 1:
            return search.greedy(*pair, steps)
        width = max(options.beam, options.n_best)
        return search.beam(
            *pair, steps, width=width, normalize=options.normalize, n_best=options.n_best
        )

    def _limits(self, rows: Ragged, options: SearchSpec) -> Tensor:
        """How many symbols each answer may have: a matter of its own source, never of its
        neighbours.
        """
        lengths = torch.from_numpy(rows.lengths)
        most = self.fields.target.spec.max_length
        if not self.fields.source:  # a prompt comes on top
            return lengths + (options.max_length or max(most, options.min_length))
        if options.max_length:
            return torch.full_like(lengths, options.max_length)
        limits = (lengths * (options.ratio or 2.0)).ceil().long().clamp(max=most - 10) + 10
        return limits.clamp(min=options.min_length)

    def _present(self, ids: list[list[int]], found: Hypotheses) -> list[Prediction]:
        tokens, scores = found.tokens.cpu().tolist(), found.scores.cpu().tolist()
        log_probs = found.log_probs.cpu().tolist()
        weights = None if found.weights is None else found.weights.float().cpu().numpy()
        results = []
        for b, given in enumerate(ids):
            ranked = [
                self._one(
                    given, tokens[b][k], log_probs[b][k], None if weights is None else weights[b, k]
                )
                for k in range(len(scores[b]))
                if scores[b][k] > search.NEVER
            ]
            best, rest = ranked[0], tuple(ranked[1:])
            results.append(replace(best, alternatives=rest))
        return results

    def _one(
        self, given: list[int], path: list[int], log_probs: list[float], weights: Floats | None
    ) -> Prediction:
        reader, writer = self.fields
        length = next((t for t, symbol in enumerate(path) if symbol in (EOS, PAD)), len(path))
        spoken = length + (length < len(path) and path[length] == EOS)
        source: tuple[str, ...] = ()
        if reader:
            source = (*reader.tokens(given), reader.units.tokens([EOS])[0])
        if weights is not None:
            weights = weights[:length, : len(given)]
            if reader and reader.spec.reverse:
                weights = np.concatenate([weights[:, -2::-1], weights[:, -1:]], 1)
            if writer.spec.reverse:
                weights = weights[::-1]
        kept = tuple(log_probs[:spoken])
        text, tokens = writer.decode(path), tuple(writer.tokens(path))
        return Prediction(text, tokens, float(sum(kept)), kept, source, weights)


EMPTY = Prediction("", (), 0.0, ())


def chance(seed: int, places: Sequence[int], count: int, steps: int) -> Tensor:
    """Uniform numbers (B, count, steps) that depend on the seed and each input's place alone.

    >>> torch.equal(chance(1, [7, 8], 2, 3)[1], chance(1, [8], 2, 3)[0])
    True
    """
    rows = [
        np.random.default_rng([seed, place]).random((steps, count), np.float32).T
        for place in places
    ]
    return torch.from_numpy(np.stack(rows))


def load(folder: str | Path, device: str = "cpu") -> Predictor:
    """A trained model, ready for use: `load("model/")("text")`."""
    return Predictor(*load_model(Path(folder), device))
