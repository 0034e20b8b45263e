"""Positions of the source as symbols: an alphabet as long as what is pointed at."""

import re
from collections.abc import Callable, Iterable, Sequence

from dragoman.core import SPECIALS, UNK
from dragoman.data.text import FIRST, Listed


class Positions(Listed):
    """Numbers from 1, with blanks between them. What is none is <unk>.

    >>> units = Positions()
    >>> units.encode("1 3 x"), units.decode([4, 6, 5])
    ([4, 6, 3], '1 3 2')
    """

    kind = "position"

    def __init__(self) -> None:
        super().__init__([])

    @classmethod
    def learn(cls, lines: Iterable[str], size: int, min_count: int) -> "Positions":
        return cls()

    @classmethod
    def load(cls, read: Callable[[str], bytes]) -> "Positions":
        return cls()

    @staticmethod
    def cut(text: str) -> Sequence[str]:
        return text.split()

    @staticmethod
    def join(symbols: Sequence[str]) -> str:
        return " ".join(symbols)

    def find(self, symbol: str) -> int:
        return FIRST + int(symbol) - 1 if re.fullmatch("[1-9][0-9]{0,8}", symbol) else UNK

    def encode(self, text: str) -> list[int]:
        return [self.find(symbol) for symbol in text.split()]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [SPECIALS[i] if i < FIRST else str(i - FIRST + 1) for i in ids]

    def files(self) -> dict[str, bytes]:
        return {}
