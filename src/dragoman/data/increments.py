"""Text while it is written: symbols come one by one, and text goes out as soon as it is certain."""

import codecs
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from dragoman.data.fields import TextField
from dragoman.data.text import FIRST, Listed, Subwords, Units

BYTE = re.compile("<0x([0-9A-F]{2})>")  # a subword model's sign for a byte it has no piece for
ESCAPE = "\u2582"  # begins what subword models write for their own signs


def increments(field: TextField, ids: Iterable[int], copied: Sequence[str] = ()) -> Iterator[str]:
    """Pieces of text that joined are `field.decode(ids)`; of the symbols only those are held whose
    text the next symbol can still change. The symbols are in the order of the text, without an end.

    >>> from dragoman.data.fields import TextSpec
    >>> field = TextField.learn(TextSpec(units="word"), ["the cat sat"])
    >>> list(increments(field, field.prompt("the cat")))
    ['the', ' cat']
    >>> field = TextField.learn(TextSpec(units="bytes"), [])
    >>> list(increments(field, field.prompt("né")))
    ['n', 'é']
    """
    units = field.units
    if isinstance(units, Listed):
        found = _listed(units, (field.symbol(i, copied) for i in ids))
    elif isinstance(units, Subwords):
        found = _subwords(units, ids)
    else:
        found = _bytes(ids)
    return filter(None, _composed(found) if field.spec.normalize == "nfd" else found)


def _composed(pieces: Iterable[str]) -> Iterator[str]:
    """Letters taken apart put together again: what the next piece could join is held back.

    >>> "".join(_composed(["\u1112", "\u1161", "\u11ab", "a"])), "".join(_composed(["e", "\u0301"]))
    ('한a', 'é')
    """
    held = ""
    for piece in pieces:
        held += piece
        settled = max((i for i, sign in enumerate(held) if sign not in _joining()), default=0)
        yield unicodedata.normalize("NFC", held[:settled])
        held = held[settled:]
    yield unicodedata.normalize("NFC", held)


@cache
def _joining() -> frozenset[str]:
    """All signs that can become one with a sign before them."""
    every = map(chr, range(sys.maxunicode + 1))
    marks = {sign for sign in every if unicodedata.combining(sign)}
    parts = (unicodedata.normalize("NFD", sign)[1:] for sign in map(chr, range(0x30000)))
    return frozenset(marks.union(*parts))


def _listed(units: Listed, symbols: Iterable[str]) -> Iterator[str]:
    glue = ""
    for symbol in symbols:
        yield glue + symbol
        glue = units.join(["", ""])


def _bytes(ids: Iterable[int]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for symbol in ids:
        if symbol >= FIRST:
            yield decoder.decode(bytes([symbol - FIRST]))
    yield decoder.decode(b"", final=True)


def _subwords(units: Subwords, ids: Iterable[int]) -> Iterator[str]:
    """The first piece of a text loses its blank. So what comes later is decoded behind a piece that
    has been read already, and the text of that one is cut off again.
    """
    before: list[int] = []
    held: list[int] = []
    anchor = _anchor(units)
    for symbol in ids:
        held.append(symbol)
        settled = len(held) - _open(units, held)
        text = _behind(units, before, held[:settled])
        if text:
            yield text
            before, held = anchor, held[settled:]
    yield _behind(units, before, held)


def _behind(units: Units, before: list[int], ids: list[int]) -> str:
    return units.decode([*before, *ids])[len(units.decode(before)) :]


def _anchor(units: Units) -> list[int]:
    """A piece whose text does not depend on its neighbours."""
    plain = (
        symbol
        for symbol, piece in enumerate(units.symbols, FIRST)
        if ESCAPE not in piece and not BYTE.fullmatch(piece)
    )
    return [next(plain)]


def _open(units: Units, held: list[int]) -> int:
    """How many of the last symbols the next one can change: bytes that begin a character, and the
    beginning of an escape.
    """
    pieces = units.tokens(held)
    run = bytearray()
    for piece in reversed(pieces):
        found = BYTE.fullmatch(piece)
        if not found:
            break
        run.insert(0, int(found[1], 16))
    text, read = codecs.utf_8_decode(bytes(run), "replace", False)
    if read < len(run):
        return len(run) - read
    escaping = text.endswith(ESCAPE) if run else pieces[-1].endswith(ESCAPE)
    return len(held) if escaping else 0
