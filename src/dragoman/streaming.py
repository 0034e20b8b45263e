"""A text while it is written."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise, takewhile

import numpy as np
import torch
from torch import Tensor

from dragoman import search
from dragoman.config import SearchSpec
from dragoman.core import EOS, PAD, leaf
from dragoman.data.fields import TextField
from dragoman.data.increments import increments
from dragoman.decode import Asked, Query, Ruled, ask, ruled
from dragoman.errors import UserError
from dragoman.requiring import fulfilled
from dragoman.teams import Team


def generate(models: Team, asked: Asked, options: SearchSpec, place: int = 0) -> Iterator[str]:
    """What `decode` would write at this place of a stream, piece by piece: joined it is the same
    text, the prompt included. The state is carried and no history is kept, but by rules that must
    remember: bans, repeats and required phrases. Running text goes on behind the end of a line,
    where `decode` has its answer.

    >>> import tempfile
    >>> from dragoman import train
    >>> folder = tempfile.mkdtemp()
    >>> lines, short = [("to be or not to be",)] * 20, {"train": {"max_steps": 2}}
    >>> model = train(lines, folder, recipe="lstm-lm", config=short, quiet=True)
    >>> "".join(generate(model.team, Asked(("to",)), model.options())) == model("to").text
    True
    """
    refuse(models, options)  # now, not when the first piece is asked for
    query = ask(models.first, asked)
    symbols = _symbols(models, query, options, place)
    return _lines(models.first.fields.target, symbols, query.copied)


def _lines(field: TextField, ids: Iterator[int], copied: Sequence[str]) -> Iterator[str]:
    """The text of symbols among which end signs are line breaks.

    >>> from dragoman.data.fields import TextSpec
    >>> field = TextField.learn(TextSpec(units="word"), ["a b"])
    >>> "".join(_lines(field, iter([4, 5, EOS, EOS, 5, EOS]), ()))
    'a b\\n\\nb\\n'
    """
    for broken, line in groupby(ids, EOS.__eq__):
        if broken:
            yield from ("\n" for _ in line)
        else:
            yield from increments(field, line, copied)


def refuse(models: Team, options: SearchSpec) -> None:
    """Tell people when there is no text to stream: what is written must be known to stay.

    >>> from dragoman.checkpoint import Fields, Loaded
    >>> from dragoman.data.fields import TextField, TextSpec
    >>> field = TextField.learn(TextSpec(units="char"), ["abc"])
    >>> speller = Team(Loaded(None, Fields({"source": field}, field), None))
    >>> refuse(speller, SearchSpec(beam=3))
    Traceback (most recent call last):
    dragoman.errors.UserError: a beam knows its text only at the end: stream with beam=1, or sample
    """
    if models.first.fields.target.spec.reverse:
        raise UserError("this model writes the last symbol first: its text cannot be streamed")
    if options.replace_unknown:
        raise UserError("replace_unknown is for answers that are whole: leave it out to stream")
    if options.n_best > 1 or options.mbr:
        raise UserError("one text is streamed: several (n_best, mbr) are known only at their end")
    if not options.sample and max(options.beam, options.groups) > 1:
        raise UserError("a beam knows its text only at the end: stream with beam=1, or sample")


@torch.inference_mode()
def _symbols(models: Team, query: Query, options: SearchSpec, place: int) -> Iterator[int]:
    """The symbols of a text before its end; of running text, with those that end its lines."""
    config, fields = models.first.config, models.first.fields
    endless = config.data.format == "running" and fields.target.ends_lines
    found = (int(stride.tokens) for stride in strides(models, query, options, place, endless))
    if not endless:
        yield from takewhile(lambda symbol: symbol not in (EOS, PAD), found)
    else:
        yield from (symbol for symbol, _ in pairwise(found))  # the last one ends the text itself


def strides(
    models: Team, query: Query, options: SearchSpec, place: int, endless: bool = False
) -> Iterator[search.Stride]:
    """The one path that the options ask for, symbol by symbol, its end included."""
    found = ruled(models, [query], options)
    walked = search.walk(*found.pair, found.steps, _pick(found, options, place), endless)
    return _granted(models, query, options, walked, endless) if found.wanted else walked


def _granted(
    models: Team,
    query: Query,
    options: SearchSpec,
    walked: Iterator[search.Stride],
    endless: bool,
) -> Iterator[search.Stride]:
    """The same path; where it lacks what is required, an error comes instead of its end."""
    path, wish = list[int](), query.wish()
    for stride in walked:
        path.append(int(stride.tokens))
        if path[-1] in (EOS, PAD) and not endless:
            fulfilled(models.first.fields.target, wish, [path], options)
        yield stride
    fulfilled(models.first.fields.target, wish, [path], options)


def _pick(found: Ruled, options: SearchSpec, place: int) -> search.Pick:
    if not options.sample:
        return search.likeliest
    return search.by_chance(
        _noise(options.seed, place, leaf(found.pair[1]).device),
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
    )


def _noise(seed: int, place: int, device: torch.device) -> Iterator[Tensor]:
    """The numbers of `decode.chance`, one at a time."""
    source = np.random.default_rng([seed, place])
    while True:
        yield torch.from_numpy(source.random(1, np.float32)).to(device)
