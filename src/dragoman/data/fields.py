"""Fields: a column of a table, how its values become what an encoder reads and, where they are
symbols, how they come back.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field as Bound

from dragoman.core import BOS, EOS, PAD
from dragoman.data.batches import Ragged
from dragoman.data.columns import Column
from dragoman.data.positions import Positions
from dragoman.data.seen import Seen
from dragoman.data.strings import some
from dragoman.data.text import FIRST, UNITS, Listed, UnitName, Units
from dragoman.errors import UserError
from dragoman.spec import Spec

FORMS: dict[str, Literal["NFC", "NFD", "NFKC"]] = {
    "auto": "NFC", "nfc": "NFC", "nfd": "NFD", "nfkc": "NFKC"
}  # fmt: skip
LOOK = 20_000  # how many values are looked at to choose units, drawn from all
CLOSED = 256  # a column of no more different words than this is an inventory (phones, tags)
ALL_UNITS: dict[str, Any] = UNITS | {"position": Positions}
PROMPT = 100_000  # symbols of a beginning; none is longer than any answer may be
SHORT = 40  # characters: on average no longer than this is spelled, not cut into subwords


class Field:
    """A column of any sense. A value is what stands in the table: a text, or the name of a file."""

    options: ClassVar[type[Spec]]
    names_files: ClassVar[bool] = False  # whether values are names of files
    signs: ClassVar[int] = 0  # how many places of a row only say that it ends
    spec: Any  # the options
    size: int  # what the encoder needs to know: symbols of an alphabet, channels, dimensions
    hop: float | None = None  # seconds between two places of a row, where they lie in time

    @classmethod
    def learn(cls, spec: Any, values: Iterable[str]) -> Self:
        """The field of a new model, from the values of its training rows."""
        raise NotImplementedError

    @classmethod
    def load(cls, spec: Any, read: Callable[[str], bytes]) -> Self:
        """The field of a model folder."""
        raise NotImplementedError

    def files(self) -> dict[str, bytes]:
        """What a model folder must hold beside the options."""
        return {}

    def encode(self, value: str) -> Any:
        """One value as a row of the column: symbols, or an array (S, ...)."""
        raise NotImplementedError

    def column(self, rows: Iterable[Any]) -> Column:
        """Encoded values as a column."""
        raise NotImplementedError

    def read(self, values: Sequence[str]) -> tuple[Column, dict[int, str]]:
        """All values of a table as a column, and what is wrong with those that cannot be read."""
        return self.column(map(self.encode, values)), {}

    def blank(self, value: str) -> bool:
        """Whether there is nothing to answer to."""
        return not value.strip()

    def longer(self, value: str) -> bool:
        """Whether a value is cut when it is encoded."""
        return False

    def describe(self) -> str:
        """What is read, for people."""
        return str(self.spec.kind)

    def seen(self, row: Any) -> Seen | None:
        """A row of the column as something to look at; nothing where it is read as text."""
        return None


class TextSpec(Spec):
    """How a column of text becomes symbols."""

    kind: Literal["text"] = "text"
    units: Literal["auto"] | UnitName = "auto"
    vectors: str | None = None  # a text file of word vectors to begin the embedding with
    size: Annotated[int, Bound(ge=FIRST + 1, le=1_000_000)] | None = (
        None  # of the alphabet, specials included
    )
    min_count: Annotated[int, Bound(ge=1)] = 1  # char and word: rarer symbols become <unk>
    lower: bool = False
    # nfd: letters apart from their accents, syllables of Hangul as their letters; answers are put
    # together again. auto: nfd for Hangul that is read by character, else nfc
    normalize: Literal["auto", "none", "nfc", "nfd", "nfkc"] = "auto"
    reverse: bool = False  # last symbol first (Sutskever et al. 2014)
    max_length: Annotated[int, Bound(ge=1, le=100_000)] = 500  # symbols
    signs: Literal["end", "none", "both"] = "end"  # around a source's symbols; a target has an end


class TextField(Field):
    """A column of text with its units.

    >>> field = TextField.learn(TextSpec(units="char", lower=True), ["Abc"])
    >>> field.encode("cab"), field.decode([6, 4, 5, 2])
    ([6, 4, 5, 2], 'cab')
    """

    options = TextSpec

    spec: TextSpec

    def __init__(self, spec: TextSpec, units: Units) -> None:
        self.spec, self.units = spec, units

    @property
    def signs(self) -> int:  # type: ignore[override]
        return {"none": 0, "end": 1, "both": 2}[self.spec.signs]

    @classmethod
    def learn(cls, spec: TextSpec, values: Iterable[str]) -> Self:
        """Learn the alphabet from training values. `auto` units must have been settled before."""
        if "auto" in (spec.units, spec.normalize):
            values = list(values)
            spec = settle(spec, values)
        lines = (clean(value, spec) for value in values)
        return cls(spec, ALL_UNITS[spec.units].learn(lines, default_size(spec), spec.min_count))

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.units.size

    def encode(self, value: str) -> list[int]:
        """Symbols, cut to the maximum length, with the end sign last; a label has no end."""
        ids = self._symbols(value, self.spec.max_length)
        if self.spec.signs == "none" or self.spec.units == "label":
            return ids
        return [BOS, *ids, EOS] if self.spec.signs == "both" else [*ids, EOS]

    def _symbols(self, value: str, most: int) -> list[int]:
        ids = self.units.encode(clean(value, self.spec))[:most]
        return ids[::-1] if self.spec.reverse and self.spec.units != "label" else ids

    def inner(self, count: int) -> slice:
        """Which of so many places of an encoded value are symbols of its text, not signs."""
        return slice(int(self.spec.signs == "both"), count - int(self.spec.signs != "none"))

    def column(self, rows: Iterable[Sequence[int]]) -> Ragged:
        return Ragged.of(rows)

    def prompt(self, value: str) -> list[int]:
        """Symbols of the beginning of a text, without an end. It is read to its own: what is
        written goes on from there.
        """
        return self._symbols(value, PROMPT)

    def line(self, value: str) -> list[int]:
        """Symbols of a line of running text. It ends in a line break, a symbol like any other;
        words and subwords have none, there the end sign serves.
        """
        if self.ends_lines:
            return [*self.units.encode(clean(value, self.spec)), EOS]
        return self.units.encode(clean(value, self.spec) + "\n")

    @property
    def ends_lines(self) -> bool:
        """Whether the end sign is what breaks lines in running text."""
        return self.spec.units not in ("char", "bytes")

    def longer(self, value: str) -> bool:
        return len(self.units.encode(clean(value, self.spec))) > self.spec.max_length

    def decode(self, ids: Sequence[int], copied: Sequence[str] = ()) -> str:
        """Text of a path, which ends where its end sign or padding begins. Ids beyond the alphabet
        are places in `copied`.
        """
        return self.written(ids, copied)[0]

    def written(self, ids: Sequence[int], copied: Sequence[str] = ()) -> tuple[str, list[str]]:
        """Text of a path, and its symbols as people see them."""
        path, units = self.path(ids), self.units
        tokens = self._tokens(path, copied)
        text = units.join(tokens) if isinstance(units, Listed) else units.decode(path)
        return self.joined(text), tokens

    def joined(self, text: str) -> str:
        """A text as people write it, where it was read with letters taken apart."""
        return unicodedata.normalize("NFC", text) if self.spec.normalize == "nfd" else text

    def tokens(self, ids: Sequence[int], copied: Sequence[str] = ()) -> list[str]:
        """The symbols of a path as people see them."""
        return self._tokens(self.path(ids), copied)

    def _tokens(self, path: list[int], copied: Sequence[str]) -> list[str]:
        beyond = copied and any(i >= self.size for i in path)
        return [self.symbol(i, copied) for i in path] if beyond else self.units.tokens(path)

    def symbol(self, i: int, copied: Sequence[str] = ()) -> str:
        """One symbol as people see it."""
        beyond = copied and i >= self.size
        return copied[i - self.size] if beyond else self.units.tokens([i])[0]

    def path(self, ids: Sequence[int]) -> list[int]:
        """The symbols before the end, in the order of the text."""
        end = next((place for place, i in enumerate(ids) if i in (EOS, PAD)), len(ids))
        path = [int(i) for i in ids[:end]]
        return path[::-1] if self.spec.reverse else path

    def files(self) -> dict[str, bytes]:
        return self.units.files()

    def describe(self) -> str:
        if self.spec.units == "position":
            return "positions of the source"
        return (
            f"text by {self.spec.units} units, an alphabet of {self.size:,}"
            + (", lower-cased" if self.spec.lower else "")
            + (", reversed" if self.spec.reverse else "")
        )

    @classmethod
    def load(cls, spec: TextSpec, read: Callable[[str], bytes]) -> Self:
        if spec.units == "auto":
            raise UserError(
                "the model's config does not say its units: it was not written by train"
            )
        return cls(spec, ALL_UNITS[spec.units].load(read))


def clean(value: str, spec: TextSpec) -> str:
    """Normalisation that is part of the model: the same in training and at use.

    >>> clean("ÀB", TextSpec(lower=True))
    'àb'
    """
    if spec.normalize != "none":
        value = unicodedata.normalize(FORMS[spec.normalize], value)
    return value.lower() if spec.lower else value


def default_size(spec: TextSpec) -> int:
    """How large an alphabet may grow when nobody says."""
    sizes = {"char": 8_000, "subword": 8_000, "bytes": FIRST + 256}
    return spec.size or sizes.get(spec.units, 32_000)


def settle(spec: TextSpec, values: Iterable[str]) -> TextSpec:
    """`auto` units replaced by what suits the values: an inventory of few words (phones, tags) is
    read by word, short strings by character, everything longer by subword.

    >>> settle(TextSpec(), ["mardi 5 novembre", "2024"]).units
    'char'
    >>> settle(TextSpec(), ["AH B AW T", "K AE T"] * 60).units
    'word'
    >>> settle(TextSpec(), ["한국어"]).normalize
    'nfd'
    """
    if "auto" not in (spec.units, spec.normalize):
        return spec
    seen = some(values, LOOK)
    units = _units(seen) if spec.units == "auto" else spec.units
    form = spec.normalize
    if form == "auto":
        form = "nfd" if units == "char" and _hangul(seen) else "nfc"
    return spec.model_copy(update={"units": units, "normalize": form})


def _hangul(seen: list[str]) -> bool:
    """Whether most letters are syllables of Hangul: few of thousands are in a small set, and each
    is made of two or three of some sixty.
    """
    letters = [letter for value in seen for letter in value if letter.isalpha()]
    return 2 * sum("가" <= letter <= "힣" for letter in letters) > len(letters)


def _units(seen: list[str]) -> UnitName:
    words = [word for value in seen for word in value.split()]
    kinds, count = len(set(words)), max(len(seen), 1)
    units: UnitName = "subword"
    if kinds <= CLOSED and len(words) >= 2 * count and len(words) >= 20 * kinds:
        units = "word"
    elif sum(map(len, seen)) / count <= SHORT:
        units = "char"
    return units
