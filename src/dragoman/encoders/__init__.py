"""One file per sense, each returning `Encoded`. A new sense is one file, one line here and one in
`model.build`.
"""

from typing import Annotated

from pydantic import Field

from dragoman.encoders.base import Encoder, Sizes
from dragoman.encoders.nothing import Nothing, NothingSpec
from dragoman.encoders.text import Text, TextSpec

EncoderSpec = Annotated[TextSpec | NothingSpec, Field(discriminator="kind")]

__all__ = ["Encoder", "EncoderSpec", "Nothing", "NothingSpec", "Sizes", "Text", "TextSpec"]
