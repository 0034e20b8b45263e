"""Specs: the options of a part, written beside the part. `config.py` only nests them.

A spec is data. It refuses unknown keys, wrong types and absurd sizes before anything is allocated,
and it never names a class or a module to import.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

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


class Kinds:
    """A place of a config that takes the options of any part in a table, told apart by their
    `kind`. The table is asked when a config is read: what is put into it later counts, too.

    >>> from pydantic import TypeAdapter
    >>> class Drum(Spec):
    ...     kind: str = "drum"
    >>> place = TypeAdapter(Annotated[Any, Kinds({"drum": type("Part", (), {"options": Drum})})])
    >>> place.validate_python({"kind": "drum"})
    Drum(kind='drum')
    """

    def __init__(self, table: Mapping[str, Any], usual: str | None = None) -> None:
        self.table, self.usual = table, usual  # parts by kind; the kind of what does not say it

    def options(self) -> list[type[Spec]]:
        """The specs of all parts."""
        return [part.options for part in self.table.values()]

    def pick(self, tree: Any) -> Any:
        """A spec as it is, a mapping as the spec it is meant for."""
        if isinstance(tree, Spec):
            return tree
        kind = tree.get("kind", self.usual) if isinstance(tree, dict) else None
        if not isinstance(kind, str) or kind not in self.table:
            known = ", ".join(map(repr, self.table))
            raise PydanticCustomError(
                "kind", "a part of one of these kinds: {known}", {"known": known}
            )
        return self.table[kind].options.model_validate(tree)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        def written(spec: Spec, info: core_schema.SerializationInfo) -> dict[str, Any]:
            return spec.model_dump(mode=info.mode)

        return core_schema.no_info_plain_validator_function(
            self.pick,
            serialization=core_schema.plain_serializer_function_ser_schema(written, info_arg=True),
        )
