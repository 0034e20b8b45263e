"""How a phrase can be spelled in a field's symbols."""

from collections.abc import Sequence
from itertools import chain

from dragoman.core import EOS, UNK
from dragoman.data.copying import copy_target
from dragoman.data.fields import TextField, clean

BLANK = "\u2581"  # how subword units write the blank before a word


def spellings(field: TextField, phrase: str, copied: Sequence[str] = ()) -> list[list[int]]:
    """The ways a phrase can stand in an answer. A phrase of subwords has two: as a word of its own
    and, in texts without blanks or inside a word, joined to what stands before it.

    >>> from dragoman.data.fields import TextSpec
    >>> spellings(TextField.learn(TextSpec(units="char"), ["abc"]), "cab")
    [[6, 4, 5]]
    """
    if copied:
        ids = [i for i in copy_target(phrase, copied, field) if i != EOS]
        return [ids] if ids else []
    ids = field.units.encode(clean(phrase, field.spec))
    found = [ids] if ids else []
    if ids and field.units.kind == "subword":
        piece = field.units.tokens(ids[:1])[0].removeprefix(BLANK)
        joined = [i for i, symbol in enumerate(field.units.symbols, UNK + 1) if symbol == piece]
        rest = joined[:1] + ids[1:] if piece else ids[1:]
        if rest and rest != ids and (joined or not piece):
            found.append(rest)
    return [one[::-1] if field.spec.reverse else one for one in found]


def banned(field: TextField, phrases: Sequence[str], copied: Sequence[str] = ()) -> list[list[int]]:
    """All spellings of phrases; what the alphabet cannot spell cannot be written anyway.

    >>> from dragoman.data.fields import TextSpec
    >>> banned(TextField.learn(TextSpec(units="char"), ["abc"]), ["ab", "xy"])
    [[4, 5]]
    """
    every = chain.from_iterable(spellings(field, phrase, copied) for phrase in phrases)
    return [one for one in every if UNK not in one]
