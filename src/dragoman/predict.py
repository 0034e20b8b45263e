"""From raw inputs to predictions: the only door for the command line, evaluation and services."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from dragoman import search
from dragoman.answers import arrange, read_dictionary, replace_unknown
from dragoman.checkpoint import Fields, Loaded, load_model
from dragoman.config import Config, SearchSpec, resolve_search
from dragoman.core import EOS, PAD, Hypotheses
from dragoman.data.files import UnreadableError
from dragoman.data.seen import Seen
from dragoman.data.text import Listed
from dragoman.decode import Asked, Query, ask, decode
from dragoman.errors import DragomanError, UserError
from dragoman.kernels.packed import Precision
from dragoman.looked import Looked, labels, layouts, looked, source_words
from dragoman.model import Model
from dragoman.prediction import EMPTY, Prediction, Scored
from dragoman.requiring import UnfitError
from dragoman.scoring import score
from dragoman.streaming import generate
from dragoman.teams import team

__all__ = ["EMPTY", "Input", "Prediction", "Predictor", "Scored", "load"]
Input = str | tuple[str, ...]  # a text, or one per source column
CHUNK = 16  # batches read ahead, so that rows of like length can be decoded together


class Predictor:
    """A model with its fields, ready for raw text."""

    def __init__(
        self,
        config: Config,
        fields: Fields,
        model: Model,
        others: Sequence[Loaded] = (),
        lm: Loaded | None = None,
        dictionary: Mapping[str, str] | None = None,
    ) -> None:
        """`others` make an ensemble with the model, `lm` adds what it knows of the target language,
        `dictionary` translates source words that become <unk>.
        """
        self.config, self.fields, self.model = config, fields, model
        self.team = team(Loaded(config, fields, model), others, lm)
        self.dictionary = dictionary
        self.on_bad: Callable[[str], None] | None = None  # told of files that cannot be read

    def __call__(
        self, inputs: Input | list[Input], **options: object
    ) -> "Prediction | list[Prediction]":
        """A text in, a prediction out; a list in, a list out. Options are those of `search`.
        A model that reads several columns takes a tuple of texts for each input.
        """
        if isinstance(inputs, list):
            return self.predict(inputs, self.options(**options))
        query = self._query(inputs)
        (one,) = self.predict([query] if query else [inputs], self.options(**options))
        return replace(one, seen=self.seen(query)) if query else one

    def seen(self, query: Query) -> tuple[Seen, ...]:
        """The columns of an input that are no text, as the model sees them."""
        pairs = zip(self.fields.sources.values(), query.ids, strict=False)
        return tuple(one for field, row in pairs if (one := field.seen(row)) is not None)

    def options(self, **changes: object) -> SearchSpec:
        """The model's own search options with some changed; unknown names are refused."""
        return resolve_search(
            self.config.search, {k: v for k, v in changes.items() if v is not None}
        )

    def predict(
        self,
        inputs: Sequence[Input | Asked | Query],
        options: SearchSpec | None = None,
        batch_size: int = 32,
        first: int | Sequence[int] = 0,
    ) -> list[Prediction]:
        """As many predictions as inputs, in their order. An input of blanks gives an empty answer.
        `Asked(texts, require)` is an input with phrases that its own answer must contain, a `Query`
        one that is encoded already.

        `first` is the place of the first input in a longer stream, or the place of each: sampling
        depends on it.
        """
        options = options or self.config.search
        results = [EMPTY] * len(inputs)
        found = {i: self._query(one) for i, one in enumerate(inputs)}
        busy = [i for i, query in found.items() if query is not None]
        queries = [query for query in found.values() if query is not None]
        order = sorted(range(len(busy)), key=lambda k: len(queries[k].ids[0]))
        for begin in range(0, len(order), batch_size):
            part = order[begin : begin + batch_size]
            places = [busy[k] for k in part]
            seats = [first + i if isinstance(first, int) else first[i] for i in places]
            answers = self._decode([queries[k] for k in part], options, seats)
            for place, prediction in zip(places, answers, strict=True):
                results[place] = prediction
        return results

    def stream(
        self,
        inputs: Iterable[Input | Asked],
        options: SearchSpec | None = None,
        batch_size: int = 32,
        first: int = 0,
    ) -> Iterator[Prediction]:
        """Predictions one by one, in order and in bounded memory, however long the input is.

        A batch size of 1 answers each input before it asks for the next.
        """
        rest = iter(inputs)
        ahead = batch_size * CHUNK if batch_size > 1 else 1
        while chunk := list(islice(rest, ahead)):
            yield from self.predict(chunk, options, batch_size, first)
            first += len(chunk)

    def generate(
        self, prompt: str | Asked = "", options: SearchSpec | None = None, place: int = 0
    ) -> Iterator[str]:
        """A text while it is written: pieces of what `predict` gives for the same options (and
        place in a stream), each as soon as it can be read.
        """
        options, asked = options or self.config.search, self.asked(prompt)
        if self.fields.sources and self.blank(asked):
            return iter(())
        return generate(self.team, asked, options, place)

    def rank(self, candidates: Sequence[str], source: Input = ()) -> list[tuple[str, float]]:
        """Candidates for the answer to a source (a language model has none), the likeliest first,
        each with its log-probability.
        """
        given = (source,) if isinstance(source, str) else source
        if len(given) != len(self.fields.sources):
            raise UserError(
                f"a source of {len(given)} texts, this model reads {len(self.fields.sources)}"
            )
        scored = self.score([(*given, one) for one in candidates]) if candidates else []
        pairs = zip(candidates, (one.score for one in scored), strict=True)
        return sorted(pairs, key=lambda pair: -pair[1])

    def score(self, rows: Sequence[Sequence[str]], batch_size: int = 32) -> list[Scored]:
        """How likely each row's last text is, given those before it (the sources). A row whose
        files cannot be read has no symbols, where somebody is told of it; else it is refused.
        """
        return score(self.team, rows, batch_size, self.on_bad)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def _query(self, one: Input | Asked | Query) -> Query | None:
        """An input, encoded; None where there is nothing to answer to."""
        if isinstance(one, Query):
            return one
        asked = self.asked(one)
        if self.fields.source and self.blank(asked):
            return None
        try:
            return ask(self.team.first, asked)
        except UnreadableError as error:
            if self.on_bad is None:
                raise
            self.on_bad(str(error))
            return None

    def asked(self, one: Input | Asked) -> Asked:
        """An input with as many texts as the model reads."""
        asked = one if isinstance(one, Asked) else Asked((one,) if isinstance(one, str) else one)
        count = max(len(self.fields.sources), 1)
        if len(asked.texts) != count:
            raise UserError(f"an input of {len(asked.texts)} texts, this model reads {count}")
        return asked

    def _decode(
        self, queries: list[Query], options: SearchSpec, places: list[int]
    ) -> list[Prediction]:
        """Answers side by side; where one input does not fit its phrases, others do not suffer."""
        try:
            with torch.inference_mode():
                found = decode(self.team, queries, options, places)
            return self.present(queries, found, options)
        except UnfitError as error:
            if self.on_bad is None:
                raise
            if len(queries) == 1:
                self.on_bad(str(error))
                return [EMPTY]
        pairs = zip(queries, places, strict=True)
        return [one for query, at in pairs for one in self._decode([query], options, [at])]

    def present(
        self, queries: list[Query], found: Hypotheses, options: SearchSpec
    ) -> list[Prediction]:
        """What a search found for each query, in words."""
        tokens, scores = found.tokens.cpu().tolist(), found.scores.cpu().tolist()
        log_probs = found.log_probs.cpu().tolist()
        weights = None if found.weights is None else found.weights.float().cpu().numpy()
        padded = layouts(self.team.first, queries)
        results = []
        for b, query in enumerate(queries):
            own, ranked = layouts(self.team.first, [query]), []
            source = labels(self.team.first, query, own)
            for k in range(len(scores[b])):
                if scores[b][k] > search.NEVER:
                    seen = None
                    if weights is not None:
                        seen = looked(self.team.first, own, weights[b, k], padded)
                    said = tokens[b][k], log_probs[b][k]
                    ranked.append(self._one(query, *said, source, seen))
            if options.replace_unknown:
                ranked = [self._known(query, one) for one in ranked]
            if not ranked:
                raise DragomanError("no answer has a finite score: the model's weights are broken")
            order = arrange([one.text for one in ranked], [one.score for one in ranked], options)
            best, *rest = (ranked[i] for i in order)
            results.append(replace(best, alternatives=tuple(rest)) if rest else best)
        return results

    def blank(self, asked: Asked) -> bool:
        """Whether an input has nothing to answer to."""
        pairs = zip(self.fields.sources.values(), asked.texts, strict=True)
        return all(reader.blank(text) for reader, text in pairs)

    def _one(
        self,
        query: Query,
        path: list[int],
        log_probs: list[float],
        source: tuple[str, ...],
        seen: Looked | None,
    ) -> Prediction:
        writer = self.fields.target
        length = next((t for t, symbol in enumerate(path) if symbol in (EOS, PAD)), len(path))
        spoken = length + (length < len(path) and path[length] == EOS)
        order = -1 if writer.spec.reverse else 1  # what is given is in the order of the text
        if seen is not None:
            seen = seen.of(slice(length), order)
        kept = (*log_probs[:length][::order], *log_probs[length:spoken])
        text, tokens = writer.written(path, query.copied)
        weights = None if seen is None else seen.weights
        return Prediction(
            text, tuple(tokens), float(sum(kept)), kept, source, weights, attention=seen
        )

    def _known(self, query: Query, one: Prediction) -> Prediction:
        """The answer with words of the source for its <unk>s; subwords and bytes have none."""
        units = self.fields.target.units
        if not isinstance(units, Listed):
            return one
        source = source_words(self.team.first, query)
        tokens = replace_unknown(one.tokens, one.alignment, source, self.dictionary)
        text = self.fields.target.joined(units.join(tokens))
        return replace(one, tokens=tuple(tokens), text=text)


def load(
    folder: str | Path,
    device: str = "cpu",
    *,
    others: Sequence[str | Path] = (),
    lm: str | Path | None = None,
    dictionary: str | Path | None = None,
    precision: Precision = "fp32",
) -> Predictor:
    """A trained model, ready for use: `load("model/")("text")`. Further folders make an ensemble
    with it, or are a language model of its answers. With less precision (bf16, int8) a CPU answers
    faster, and not quite the same.
    """

    def read(path: str | Path) -> Loaded:
        loaded = load_model(Path(path), device)
        loaded.model.search_in(precision)
        return loaded

    return Predictor(
        *read(folder),
        others=[read(other) for other in others],
        lm=read(lm) if lm else None,
        dictionary=read_dictionary(Path(dictionary)) if dictionary else None,
    )
