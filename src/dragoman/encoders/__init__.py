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
from dragoman.encoders.sound import Sound, SoundSpec
from dragoman.encoders.text import Text, TextSpec
from dragoman.encoders.video import Video, VideoSpec

ENCODERS |= {
    "text": Text,
    "nothing": Nothing,
    "several": Several,
    "match": Match,
    "points": Points,
    "image": Image,
    "sound": Sound,
    "video": Video,
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
    "SoundSpec",
    "TextSpec",
    "VideoSpec",
    "make_encoder",
]
