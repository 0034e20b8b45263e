"""Several models that speak as one."""

from collections.abc import Sequence
from typing import NamedTuple

from dragoman import search
from dragoman.checkpoint import Loaded
from dragoman.core import Pair
from dragoman.errors import UserError


class Team(NamedTuple):
    """The model, and those that speak with it."""

    first: Loaded
    others: tuple[Loaded, ...] = ()  # an ensemble's further members
    lm: Loaded | None = None  # a language model of the answers


def team(first: Loaded, others: Sequence[Loaded] = (), lm: Loaded | None = None) -> Team:
    """Models that can speak as one; those that cannot are refused."""
    for other in [*others, *([lm] if lm else [])]:
        mine, theirs = first.fields.target, other.fields.target
        same = (mine.units.kind, mine.spec.reverse, list(mine.units.symbols))
        if same != (theirs.units.kind, theirs.spec.reverse, list(theirs.units.symbols)):
            raise UserError(
                f"models that write together need the same target alphabet: one of {mine.size} "
                f"{mine.units.kind} symbols and one of {theirs.size} {theirs.units.kind} symbols "
                "differ; train them with the same target units, on the same targets"
            )
    for other in others:
        if len(other.fields.sources) != len(first.fields.sources):
            raise UserError("the models of an ensemble must read the same number of columns")
        ours, another = first.model.decoder, other.model.decoder
        if (ours.ends, ours.beyond) != (another.ends, another.beyond):
            raise UserError("the models of an ensemble must write the same kind of answer")
        if other.model.head.copies and not _copies_alike(first, other):
            raise UserError("a model that copies needs a first model that copies the same symbols")
    if lm is not None and lm.fields.sources:
        raise UserError(
            "the language model reads a source: give one that was trained on text alone"
        )
    return Team(first, tuple(others), lm)


def _copies_alike(first: Loaded, other: Loaded) -> bool:
    mine, theirs = first.fields.source, other.fields.source
    return bool(first.model.head.copies and mine and theirs and mine.spec == theirs.spec)


def spoken(models: Team, pairs: Sequence[Pair], log_linear: bool = False) -> Pair:
    """The pairs of all members as one; a language model is none of them."""
    if len(pairs) == 1:
        return pairs[0]
    size = models.first.fields.target.size
    members = zip([models.first, *models.others], pairs, strict=True)
    known = [p if one.model.head.open else search.known(p, size) for one, p in members]
    return search.ensemble(*known, log_linear=log_linear)
