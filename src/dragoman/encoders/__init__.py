"""One file per sense, each returning `Encoded`. A new sense is one file, and one line here."""

from dragoman.encoders.base import (
    ENCODERS,
    Encoder,
    EncoderSpec,
    Layout,
    Sizes,
    make_encoder,
)
from dragoman.encoders.image import Image, ImageSpec
from dragoman.encoders.match import Match, MatchSpec
from dragoman.encoders.nothing import Nothing, NothingSpec
from dragoman.encoders.points import Points, PointsSpec
from dragoman.encoders.several import Several, SeveralSpec
from dragoman.encoders.text import Text, TextSpec

ENCODERS |= {
    "text": Text,
    "nothing": Nothing,
    "several": Several,
    "match": Match,
    "points": Points,
    "image": Image,
}

__all__ = [
    "ENCODERS",
    "Encoder",
    "EncoderSpec",
    "ImageSpec",
    "Layout",
    "MatchSpec",
    "NothingSpec",
    "PointsSpec",
    "SeveralSpec",
    "Sizes",
    "TextSpec",
    "make_encoder",
]
