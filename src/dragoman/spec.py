"""Specs: the options of a part, written beside the part. `config.py` only nests them.

A spec is data. It refuses unknown keys, wrong types and absurd sizes before anything is allocated,
and it never names a class or a module to import.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Size = Annotated[int, Field(ge=1, le=65_536)]
Count = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=1 << 63)]
Natural = Annotated[int, Field(ge=1)]
Length = Annotated[int, Field(ge=0, le=100_000)]  # symbols of an answer
Layers = Annotated[int, Field(ge=1, le=64)]
Rate = Annotated[float, Field(ge=0, lt=1)]  # a probability of dropping or smoothing
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Spec(BaseModel):
    """The options of one part: immutable, and strict about names and types."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
