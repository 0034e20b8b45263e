"""One file per sense, each returning `Encoded`. A new sense is one file, and two lines here."""

from typing import Annotated

from pydantic import Field

from dragoman.encoders.base import Encoder, Sizes
from dragoman.encoders.match import Match, MatchSpec
from dragoman.encoders.nothing import Nothing, NothingSpec
from dragoman.encoders.several import Several, SeveralSpec
from dragoman.encoders.text import Text, TextSpec
from dragoman.errors import UserError

AnySpec = TextSpec | NothingSpec | SeveralSpec | MatchSpec
EncoderSpec = Annotated[AnySpec, Field(discriminator="kind")]


def make_encoder(spec: AnySpec, vocabularies: tuple[int, ...]) -> Encoder:
    """The encoder that a spec names, for source columns with alphabets of the given sizes."""
    if isinstance(spec, NothingSpec):
        return Nothing()
    if isinstance(spec, SeveralSpec):
        return Several(spec, vocabularies)
    if isinstance(spec, MatchSpec):
        return Match(spec, vocabularies)
    if len(vocabularies) != 1:
        raise UserError(
            f"model.encoder reads one source column, the data has {len(vocabularies)}: "
            "use model.encoder.kind=several, or data.more"
        )
    return Text(spec, vocabularies[0])


__all__ = [
    "Encoder",
    "EncoderSpec",
    "MatchSpec",
    "NothingSpec",
    "SeveralSpec",
    "Sizes",
    "TextSpec",
    "make_encoder",
]
