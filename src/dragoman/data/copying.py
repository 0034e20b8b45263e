"""Copying: symbols that are in no vocabulary, written as positions of the source.

Ids run over the target's vocabulary and then over source positions: `vocabulary + 3` is the word at
position 3. A word that stands several times is known by its first position.
"""

from collections.abc import Sequence

from dragoman.core import EOS, UNK
from dragoman.data.fields import TextField, clean
from dragoman.data.text import Listed
from dragoman.errors import UserError


def pieces(field: TextField, value: str) -> list[str]:
    """The symbols of a source as text, in the order in which they are encoded."""
    found = list(listed(field).cut(clean(value, field.spec)))[: field.spec.max_length]
    return found[::-1] if field.spec.reverse else found


def listed(field: TextField) -> Listed:
    """The field's units; only units with a list of symbols have something to copy."""
    if not isinstance(field.units, Listed):
        raise UserError(
            f"model.head.kind=copy needs word or char units, not {field.spec.units}: "
            "subwords and bytes can spell every word already"
        )
    return field.units


def copy_ids(found: Sequence[str], target: TextField) -> list[int]:
    """What copying each symbol of a source would write, the source's end sign last.

    >>> from dragoman.data.fields import TextSpec
    >>> words = TextField.learn(TextSpec(units="word"), ["the cat"])
    >>> copy_ids(["the", "zorgon", "saw", "zorgon"], words)
    [5, 7, 8, 7, 2]
    """
    units = listed(target)
    ids = [units.find(piece) for piece in found]
    first = {piece: place for place, piece in reversed(list(enumerate(found)))}
    known = [i if i != UNK else units.size + first[p] for i, p in zip(ids, found, strict=True)]
    return [*known, EOS]


def copy_target(value: str, found: Sequence[str], target: TextField) -> list[int]:
    """A target whose unknown symbols are positions of the source where it has them.

    >>> from dragoman.data.fields import TextSpec
    >>> words = TextField.learn(TextSpec(units="word"), ["the cat"])
    >>> copy_target("the zorgon slept", ["see", "zorgon"], words)
    [5, 7, 3, 2]
    """
    ids, symbols = target.encode(value), [*pieces(target, value), ""]
    first = {piece: place for place, piece in reversed(list(enumerate(found)))}
    return [
        target.size + first[symbol] if i == UNK and symbol in first else i
        for i, symbol in zip(ids, symbols, strict=True)
    ]


def begin_with(begun: str | Sequence[str], found: Sequence[str], target: TextField) -> list[int]:
    """The symbols of an answer's beginning: of a text, or of tokens as predictions give them. A
    token that the alphabet lacks is a position of the source, if it has it.

    >>> from dragoman.data.fields import TextSpec
    >>> words = TextField.learn(TextSpec(units="word"), ["the cat"])
    >>> begin_with("the cat", (), words), begin_with(["the", "zorgon"], ["see", "zorgon"], words)
    ([5, 4], [5, 7])
    """
    if isinstance(begun, str):
        return copy_target(begun, found, target)[:-1] if found else target.prompt(begun)
    first = {piece: place for place, piece in reversed(list(enumerate(found)))}
    ids = ((target.units.find(token), token) for token in begun)
    return [target.size + first[t] if i == UNK and t in first else i for i, t in ids]
