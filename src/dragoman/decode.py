"""From search options to an answer's symbols: which rules wrap the model, in which order, and which
strategy walks through the result.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dragoman import search
from dragoman.checkpoint import Loaded
from dragoman.config import SearchSpec
from dragoman.core import BOS, PAD, UNK, Hypotheses, Pair, Source, leaf, move
from dragoman.data.batches import Examples, Ragged
from dragoman.data.copying import begin_with, copy_ids, pieces
from dragoman.data.fields import Field, TextField
from dragoman.data.text import Listed
from dragoman.errors import UserError
from dragoman.pointing import pointing
from dragoman.requiring import Wish, fulfilled, required, unwanted
from dragoman.teams import Team, spoken


class Asked(NamedTuple):
    """An input, the phrases that its own answer must contain, and how that answer begins."""

    texts: tuple[str, ...]  # one per source column
    require: tuple[str, ...] = ()
    prefix: str | tuple[str, ...] = ()  # a text, or tokens as predictions give them
    place: str = ""  # where it stands, for people: a file and its line


class Query(NamedTuple):
    """An input, encoded for one model."""

    asked: Asked
    ids: list[Any]  # per source column, as its field encodes it; a language model's prompt
    copied: tuple[str, ...]  # the first source's symbols as text, where they can be copied
    begun: list[int]  # how the answer begins

    def wish(self, room: int | None = None) -> Wish:
        """What the answer, perhaps of just `room` symbols, must contain."""
        asked = self.asked
        place, text = f"{asked.place}: " if asked.place else "", "".join(asked.texts[:1])
        return Wish(f"{place}'{text:.40}'", asked.require, self.copied, self.begun, room)


def ask(loaded: Loaded, asked: Asked) -> Query:
    """The sources of an input, or a language model's prompt, in a model's own symbols."""
    readers, writer = list(loaded.fields.sources.values()), loaded.fields.target
    if asked.prefix and writer.spec.reverse:
        raise UserError("this model writes the last symbol first: it cannot go on from a beginning")
    if not readers:
        begun = begin_with(asked.prefix or asked.texts[0], (), writer)
        return Query(asked, [begun], (), begun)
    ids = [reader.encode(text) for reader, text in zip(readers, asked.texts, strict=True)]
    first, copied = readers[0], tuple[str, ...]()
    if loaded.model.head.copies and isinstance(first, TextField):
        copied = tuple(pieces(first, asked.texts[0]))
    return Query(asked, ids, copied, begin_with(asked.prefix, copied, writer))


class Ruled(NamedTuple):
    """Models as one pair, with all the rules that the options ask for around it."""

    pair: Pair
    steps: int  # enough for the longest answer and its end
    wanted: search.Phrases | None


def ruled(models: Team, queries: list[Query], options: SearchSpec) -> Ruled:
    """What a strategy walks through. Inner rules win over outer ones: a prompt over bans, bans and
    limits over what is required.
    """
    first, ends = models.first, models.first.model.decoder.ends
    prompts = Ragged.of(query.begun for query in queries)
    begun = torch.from_numpy(prompts.lengths)
    limits = _limits(first, queries, options)
    if ends == "sign":  # whatever an answer begins with, it may have
        limits = torch.maximum(limits, begun)
    rooms = [None] * len(queries) if ends == "sign" else limits.tolist()
    wishes = [query.wish(room) for query, room in zip(queries, rooms, strict=True)]
    wanted = required(first.fields.target, wishes, options)
    if wanted and ends == "sign":
        limits = torch.maximum(limits, begun + wanted.total)
    signs = [PAD, BOS] if ends == "sign" else [PAD, BOS, UNK]  # an unknown label is no answer
    pair = search.never(mixed(models, queries, options), signs)
    if first.model.head.open or options.valid != "none":
        pair, limits = pointing(first, queries, pair, limits, options.valid)
    if begun.any():
        pair = search.prefix(pair, prompts.pad(range(len(queries))).values)
    told = [query.copied for query in queries] if first.model.head.copies else [()]
    pair = search.never_phrases(pair, unwanted(first.fields.target, told, options))
    if ends != "once":
        prompt = begun * (not first.fields.sources)
        least = prompt + options.min_length if ends == "sign" else limits
        pair = search.within(pair, least, limits)
    if wanted:
        pair = search.require(pair, wanted, limits)
    if options.no_repeat_ngram:
        pair = search.no_repeat_ngrams(pair, options.no_repeat_ngram)
    return Ruled(pair, int(limits.max()) + (ends != "once"), wanted)


def decode(
    models: Team, queries: list[Query], options: SearchSpec, places: Sequence[int]
) -> Hypotheses:
    """The answers that the options ask for: of draws so many as are wanted, of a search somewhat
    more, best first. `places` are those of the inputs in their stream: chance depends on them.
    """
    if (found := _direct(models, queries, options, places)) is not None:
        return found
    pair, steps, wanted = ruled(models, queries, options)
    if options.sample or options.samples:
        found = search.sample(*pair, chance(options, places, steps), **_draw(options))
    else:
        found = _search(pair, steps, options, wanted, _widths(models.first, options))
    return _granted(models.first, queries, options, found) if wanted else found


def _granted(
    loaded: Loaded, queries: list[Query], options: SearchSpec, found: Hypotheses
) -> Hypotheses:
    """Answers without what is required do not count."""
    scores = torch.full_like(found.scores, search.NEVER)
    for b, query in enumerate(queries):
        there = (found.scores[b] > search.NEVER).nonzero()[:, 0]
        paths = found.tokens[b, there].tolist()
        kept = there[fulfilled(loaded.fields.target, query.wish(), paths, options)]
        scores[b, kept] = found.scores[b, kept]
    return found._replace(scores=scores)


def _direct(
    models: Team, queries: list[Query], options: SearchSpec, places: Sequence[int]
) -> Hypotheses | None:
    """The same answers by a shorter way, where one model speaks under no rule but that of length
    and has a way for searches that need only the best symbols.
    """
    first = models.first
    if not _plain(models, queries, options) or first.model.decoder.ends != "sign":
        return None
    source, most = source_of(first, queries), _limits(first, queries, options)
    limits = search.Limits(torch.full_like(most, options.min_length), most)
    draws = options.sample or options.samples
    noise = chance(options, places, limits.steps) if draws else None
    found = _recorded(first, source, limits, noise, options)
    if found is not None or (way := first.model.course(source)) is None:
        return found
    limits = search.Limits(*(limit.to(leaf(way[1]).device) for limit in limits))
    if noise is not None:
        return search.direct_sample(*way, limits, noise, **_draw(options))
    width, kept = _widths(first, options)
    if width == 1:
        return search.direct_greedy(*way, limits)
    return search.direct_beam(*way, limits, width=width, rank=_rank(options), n_best=kept)


def _recorded(
    loaded: Loaded,
    source: Source,
    limits: search.Limits,
    noise: Tensor | None,
    options: SearchSpec,
) -> Hypotheses | None:
    """The same by graphs, on a GPU, once sources of this shape have come before."""
    if (rails := loaded.model.rails()) is None:
        return None
    if noise is not None:
        return search.recorded_sample(rails, source, limits, noise, **_draw(options))
    width, kept = _widths(loaded, options)
    rank = _rank(options)
    return search.recorded_beam(rails, source, limits, width=width, rank=rank, n_best=kept)


def _rank(options: SearchSpec) -> search.Rank:
    return search.Rank(options.normalize, options.length_penalty == "gnmt")


def _plain(models: Team, queries: list[Query], options: SearchSpec) -> bool:
    """Whether nothing is asked for that must be looked after at each symbol."""
    ruled = options.ban or options.require or options.no_repeat_ngram or options.coverage_penalty
    mixed = models.others or models.lm or options.repetition_penalty != 1 or options.groups > 1
    begun = any(query.begun or query.asked.require for query in queries)
    return not (ruled or mixed or begun or options.valid != "none")


def mixed(models: Team, queries: list[Query], options: SearchSpec) -> Pair:
    """All models as one pair; what changes probabilities comes before what only restricts."""
    first, size = models.first, models.first.fields.target.size
    asked = [query.asked for query in queries]
    others = [_begin(one, [ask(one, a) for a in asked]) for one in models.others]
    pair = spoken(models, [_begin(first, queries), *others], options.log_linear)
    if models.lm is not None:
        speaker = search.known(_begin(models.lm, queries), size)
        pair = search.fuse(pair, speaker, options.lm_weight)
    return search.repetition_penalty(pair, options.repetition_penalty)


def _begin(loaded: Loaded, queries: list[Query]) -> Pair:
    return loaded.model.begin(source_of(loaded, queries))


def source_of(loaded: Loaded, queries: list[Query]) -> Source:
    """Queries side by side, as the model reads them."""
    readers: list[Field] = [*loaded.fields.sources.values()] or [loaded.fields.target]
    rows = zip(*(query.ids for query in queries), strict=True)
    columns = [field.column(ids) for field, ids in zip(readers, rows, strict=True)]
    copies, none = None, Ragged.of([()] * len(queries))
    if loaded.model.head.copies:
        copies = Ragged.of(copy_ids(query.copied, loaded.fields.target) for query in queries)
    given = Examples(columns if loaded.fields.sources else [], none, copies)
    device = next(loaded.model.parameters()).device
    return move(given.source(np.arange(len(queries))), device)


def _limits(loaded: Loaded, queries: list[Query], options: SearchSpec) -> Tensor:
    """How many symbols each answer may have: a matter of its own source, not of its neighbours."""
    lengths = torch.tensor([len(query.ids[0]) for query in queries])
    ends = loaded.model.decoder.ends
    if ends == "once":
        return torch.ones_like(lengths)
    if ends == "source":
        signs = next(iter(loaded.fields.sources.values())).signs
        return lengths - signs + loaded.model.decoder.beyond
    most = loaded.fields.target.spec.max_length
    if not loaded.fields.sources:  # a prompt comes on top
        return lengths + (options.max_length or max(most, options.min_length))
    if options.max_length:
        return torch.full_like(lengths, options.max_length)
    limits = (lengths * (options.ratio or 2.0)).ceil().long().clamp(max=most - 10) + 10
    return limits.clamp(min=options.min_length)


def _widths(loaded: Loaded, options: SearchSpec) -> tuple[int, int]:
    """How many paths a search follows, and how many of them it gives."""
    several = options.n_best > 1
    spelled_once = isinstance(loaded.fields.target.units, Listed)
    spare = options.n_best if several and not spelled_once else 0  # some will be the same text
    width = max(options.beam, options.n_best + spare)
    width = -(-width // options.groups) * options.groups
    return width, width if several or options.mbr else 1


def _search(
    pair: Pair,
    steps: int,
    options: SearchSpec,
    wanted: search.Phrases | None,
    widths: tuple[int, int],
) -> Hypotheses:
    width, kept = widths
    if width == 1:
        return search.greedy(*pair, steps)
    taste = search.Taste(
        gnmt=options.length_penalty == "gnmt",
        coverage=options.coverage_penalty,
        banks=wanted.banks if wanted else None,
        groups=options.groups,
        diversity=options.diversity,
    )
    return search.beam(
        *pair, steps, width=width, normalize=options.normalize, n_best=kept, taste=taste
    )


def _draw(options: SearchSpec) -> dict[str, Any]:
    return {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p}


def chance(options: SearchSpec, places: Sequence[int], steps: int) -> Tensor:
    """Uniform numbers (B, count, steps) that depend on the seed and each input's place alone.

    >>> three = SearchSpec(n_best=3)
    >>> torch.equal(chance(three, [7, 8], 2)[1], chance(three, [8], 2)[0])
    True
    """
    count = options.samples or options.n_best
    rows = [
        np.random.default_rng([options.seed, place]).random((steps, count), np.float32).T
        for place in places
    ]
    return torch.from_numpy(np.stack(rows))
