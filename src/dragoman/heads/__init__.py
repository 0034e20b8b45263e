"""Heads: the output alphabet, read (embedded) and written (log-probabilities)."""

from typing import Annotated

from pydantic import Field

from dragoman.heads.base import Head
from dragoman.heads.monotone import Monotone, MonotoneSpec
from dragoman.heads.pointer import Pointer, PointerSpec
from dragoman.heads.vocabulary import Copy, CopySpec, Vocabulary, VocabularySpec

AnyHead = VocabularySpec | CopySpec | PointerSpec | MonotoneSpec
HeadSpec = Annotated[AnyHead, Field(discriminator="kind")]


def make_head(
    spec: AnyHead, vocabulary: int, features: int, memory: int, labels: bool = False
) -> Head:
    """The head that a spec names, for features and annotations of the given sizes.

    >>> type(make_head(CopySpec(), 10, 4, 4)).__name__
    'Copy'
    """
    if isinstance(spec, PointerSpec):
        return Pointer(spec, features, memory)
    if isinstance(spec, MonotoneSpec):
        return Monotone(spec, vocabulary, features, memory)
    if isinstance(spec, CopySpec):
        return Copy(spec, vocabulary, features)
    return Vocabulary(spec, vocabulary, features, labels)


__all__ = [
    "AnyHead",
    "Copy",
    "CopySpec",
    "Head",
    "HeadSpec",
    "Monotone",
    "MonotoneSpec",
    "Pointer",
    "PointerSpec",
    "Vocabulary",
    "VocabularySpec",
    "make_head",
]
