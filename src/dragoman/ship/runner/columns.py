"""How columns of text become symbols and come back: the same as in training."""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAD, BOS, EOS, UNK, FIRST = 0, 1, 2, 3, 4
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
JOINTS = {"char": "", "word": " ", "label": " ", "features": ";", "position": " "}
ESCAPES = (("\u2582", "\u25820"), ("\u2581", "\u25821"))  # sentencepiece writes a blank as U+2581


class Column:
    """How a column of text becomes symbols and comes back."""

    def __init__(self, about: dict[str, Any], folder: Path) -> None:
        self.about, self.kind = about, about["units"]
        self.symbols: list[str] = about["symbols"]
        self.places = {symbol: FIRST + i for i, symbol in enumerate(self.symbols)}
        self.size = FIRST + len(self.symbols)
        if self.kind == "subword":
            from sentencepiece import SentencePieceProcessor

            self.pieces: Any = SentencePieceProcessor(model_file=str(folder / about["file"]))

    def clean(self, text: str) -> str:
        if self.about["normalize"] != "none":
            text = unicodedata.normalize(self.about["normalize"].upper(), text)
        return text.lower() if self.about["lower"] else text

    def cut(self, text: str) -> list[str]:
        """The symbols of a text as they stand in it, in the order in which they are read."""
        text = self.clean(text)
        if self.kind == "char":
            found = list(text)
        elif self.kind == "label":
            found = [text.strip()]
        else:
            found = text.split() if self.kind == "word" else re.findall(r"[^;,|()\s]+", text)
        found = found[: self.about["max_length"]]
        return found[::-1] if self.about["reverse"] else found

    def encode(self, text: str, end: bool = True) -> list[int]:
        if self.kind in JOINTS:
            ids = [self.places.get(symbol, UNK) for symbol in self.cut(text)]
        else:
            text = self.clean(text)
            if self.kind == "bytes":
                ids = [FIRST + byte for byte in text.encode("utf-8", "replace")]
            else:
                for sign, escaped in ESCAPES:
                    text = text.replace(sign, escaped)
                ids = self.pieces.encode(text.encode("utf-8", "replace").decode())
            ids = ids[: self.about["max_length"]]
            ids = ids[::-1] if self.about["reverse"] else ids
        if not end or self.kind == "label" or self.about["signs"] == "none":
            return ids
        return [BOS, *ids, EOS] if self.about["signs"] == "both" else [*ids, EOS]

    def decode(self, ids: Sequence[int], copied: Sequence[str]) -> tuple[str, list[str]]:
        """Text and symbols of a path."""
        text, tokens = self._decode(ids, copied)
        parted = self.about["normalize"] == "nfd"
        return (unicodedata.normalize("NFC", text) if parted else text), tokens

    def _decode(self, ids: Sequence[int], copied: Sequence[str]) -> tuple[str, list[str]]:
        ids = ids[::-1] if self.about["reverse"] else ids
        tokens = [self._symbol(i, copied) for i in ids]
        if self.kind in JOINTS:
            return JOINTS[self.kind].join(tokens), tokens
        if self.kind == "bytes":
            raw = bytes(i - FIRST for i in ids if i >= FIRST)
            return raw.decode("utf-8", "replace"), tokens
        text: str = self.pieces.decode([int(i) for i in ids])
        for sign, escaped in reversed(ESCAPES):
            text = text.replace(escaped, sign)
        return text, tokens

    def _symbol(self, i: int, copied: Sequence[str]) -> str:
        if i < FIRST:
            return SPECIALS[i]
        if self.kind == "position":
            return str(i - FIRST + 1)
        return copied[i - self.size] if i >= self.size else self.symbols[i - FIRST]
