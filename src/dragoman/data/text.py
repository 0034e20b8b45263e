"""Text units: how a line becomes symbols and symbols a line. Symbol ids begin after the four
specials.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from dragoman.core import SPECIALS, UNK
from dragoman.data.strings import some
from dragoman.errors import UserError

UnitName = Literal["char", "word", "subword", "bytes", "label", "features", "position"]
FIRST = len(SPECIALS)
SUBWORD_SENTENCES = 200_000  # as many lines, drawn from all, as a subword model is trained on


class Units:
    """One way to cut text. `files` and `load` are how it travels in a model folder."""

    kind: ClassVar[UnitName]
    symbols: Sequence[str]  # what each id stands for, from FIRST on

    @property
    def size(self) -> int:
        return FIRST + len(self.symbols)

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> str:
        raise NotImplementedError

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The symbols as people see them, one per id."""
        return [SPECIALS[i] if i < FIRST else self.symbols[i - FIRST] for i in ids]

    def find(self, symbol: str) -> int:
        """The id of a symbol as people see it; <unk> if there is none."""
        return self._places.get(symbol, UNK)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {symbol: place for place, symbol in enumerate(self.symbols, FIRST)}

    def files(self) -> dict[str, bytes]:
        raise NotImplementedError


class Listed(Units):
    """Units with a plain list of known symbols; what is not on it becomes <unk>."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = list(symbols)

    @classmethod
    def learn(cls, lines: Iterable[str], size: int, min_count: int) -> "Listed":
        """The most frequent symbols first; ties in the order of the alphabet, so that it is one
        list.
        """
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(cls.cut(line))
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        kept = [symbol for symbol, count in ranked if count >= min_count]
        return cls(kept[: max(size - FIRST, 0)])

    @classmethod
    def load(cls, read: Callable[[str], bytes]) -> "Listed":
        try:
            symbols = json.loads(read("vocabulary.json"))
        except (ValueError, RecursionError) as error:
            raise UserError(f"the vocabulary is not valid JSON: {error}") from None
        if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
            raise UserError("the vocabulary is not a list of strings")
        return cls(symbols)

    @staticmethod
    def cut(text: str) -> Sequence[str]:
        raise NotImplementedError

    @staticmethod
    def join(symbols: Sequence[str]) -> str:
        """The inverse of `cut`, as far as there is one."""
        raise NotImplementedError

    def encode(self, text: str) -> list[int]:
        return [self.find(symbol) for symbol in self.cut(text)]

    def decode(self, ids: Iterable[int]) -> str:
        return self.join(self.tokens(ids))

    def files(self) -> dict[str, bytes]:
        return {"vocabulary.json": json.dumps(self.symbols, ensure_ascii=False).encode()}


class Chars(Listed):
    """Unicode code points.

    >>> units = Chars.learn(["abba"], size=100, min_count=1)
    >>> units.encode("abx"), units.decode([4, 5, 5])
    ([4, 5, 3], 'abb')
    """

    kind = "char"

    @staticmethod
    def cut(text: str) -> Sequence[str]:
        return text

    @staticmethod
    def join(symbols: Sequence[str]) -> str:
        return "".join(symbols)


class Words(Listed):
    """What stands between blanks: words of tokenised text, phones, tags.

    >>> units = Words.learn(["AH B", "B"], size=100, min_count=1)
    >>> units.encode(" B  AH "), units.decode([4, 5])
    ([4, 5], 'B AH')
    """

    kind = "word"

    @staticmethod
    def cut(text: str) -> Sequence[str]:
        return text.split()

    @staticmethod
    def join(symbols: Sequence[str]) -> str:
        return " ".join(symbols)


class Labels(Listed):
    """The whole text is one symbol: a class, a topic, an answer of a closed set.

    >>> units = Labels.learn(["sport", "world news"], size=100, min_count=1)
    >>> units.encode(" world news ")
    [5]
    """

    kind = "label"

    @staticmethod
    def cut(text: str) -> Sequence[str]:
        return [text.strip()]

    @staticmethod
    def join(symbols: Sequence[str]) -> str:
        return " ".join(symbols)


class Features(Listed):
    """Grammatical features: what stands between `;`, `,`, `|`, brackets and blanks.

    >>> Features.cut("N;ABL(PL)")
    ['N', 'ABL', 'PL']
    """

    kind = "features"

    @staticmethod
    def cut(text: str) -> Sequence[str]:
        return re.findall(r"[^;,|()\s]+", text)

    @staticmethod
    def join(symbols: Sequence[str]) -> str:
        return ";".join(symbols)


class Bytes(Units):
    """UTF-8 bytes: 256 symbols know every script.

    >>> units = Bytes()
    >>> units.decode(units.encode("naïve"))
    'naïve'
    """

    kind = "bytes"
    symbols = tuple(
        f"{value:02x}" if value < 33 or value > 126 else chr(value) for value in range(256)
    )

    @classmethod
    def learn(cls, lines: Iterable[str], size: int, min_count: int) -> "Bytes":
        return cls()

    @classmethod
    def load(cls, read: Callable[[str], bytes]) -> "Bytes":
        return cls()

    def encode(self, text: str) -> list[int]:
        return [FIRST + byte for byte in text.encode("utf-8", "replace")]

    def decode(self, ids: Iterable[int]) -> str:
        return bytes(i - FIRST for i in ids if i >= FIRST).decode("utf-8", "replace")

    def files(self) -> dict[str, bytes]:
        return {}


class Subwords(Units):
    """Sentencepiece's unigram model with byte fallback: any text survives the way there and back.

    Sentencepiece writes a blank as U+2581. Where the text has that sign of its own it is escaped,
    so that it does not come back as a blank.
    """

    kind = "subword"
    _ESCAPES = (("\u2582", "\u25820"), ("\u2581", "\u25821"))

    def __init__(self, proto: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self.proto = proto
        try:
            self._model: Any = SentencePieceProcessor(model_proto=proto)
            pieces = [self._model.id_to_piece(i) for i in range(self._model.get_piece_size())]
        except (RuntimeError, OSError) as error:
            raise UserError(f"the subword model cannot be read: {error}") from None
        if len(pieces) < FIRST:
            raise UserError("the subword model is empty")
        self.symbols = pieces[FIRST:]

    @classmethod
    def learn(cls, lines: Iterable[str], size: int, min_count: int) -> "Subwords":
        import sentencepiece

        sentencepiece.set_min_log_level(2)
        out = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=map(cls._escape, some(lines, SUBWORD_SENTENCES)),
                model_writer=out,
                vocab_size=size,
                hard_vocab_limit=False,  # little text makes a smaller model, not an error
                byte_fallback=True,
                character_coverage=0.9999,
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                split_digits=True,
                pad_id=0,
                bos_id=1,
                eos_id=2,
                unk_id=UNK,
                shuffle_input_sentence=False,
                max_sentence_length=1 << 16,
                num_threads=2,  # fixed: the same text gives the same model on every machine
                minloglevel=2,
            )
        except (RuntimeError, OSError) as error:
            raise UserError(f"no subword model could be trained: {error}") from None
        return cls(out.getvalue())

    @classmethod
    def load(cls, read: Callable[[str], bytes]) -> "Subwords":
        return cls(read("subword.model"))

    @classmethod
    def _escape(cls, text: str) -> str:
        for sign, escaped in cls._ESCAPES:
            text = text.replace(sign, escaped)
        return text

    def encode(self, text: str) -> list[int]:
        sound = self._escape(text).encode("utf-8", "replace").decode()  # no half surrogate pairs
        return self._model.encode(sound)  # type: ignore[no-any-return]

    def decode(self, ids: Iterable[int]) -> str:
        text: str = self._model.decode([int(i) for i in ids])
        for sign, escaped in reversed(self._ESCAPES):
            text = text.replace(escaped, sign)
        return text

    def scores(self) -> list[float | None]:
        """How likely each symbol is, as the model weighs it; bytes, the last resort, have none."""
        ids = range(FIRST, self.size)
        return [None if self._model.is_byte(i) else self._model.get_score(i) for i in ids]

    def files(self) -> dict[str, bytes]:
        return {"subword.model": self.proto}


UNITS: dict[str, Any] = {
    "char": Chars,
    "word": Words,
    "subword": Subwords,
    "bytes": Bytes,
    "label": Labels,
    "features": Features,
}
