"""What is wrong with a config, in words: which key, where, and what was perhaps meant."""

import reprlib
import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from dragoman.errors import did_you_mean
from dragoman.spec import Kinds, Spec

KINDS = {
    "recurrent",
    "still",
    "aligned",
    "vocabulary",
    "copy",
    "pointer",
}


def explain(error: ValidationError, root: type[Spec]) -> str:
    """The first thing that is wrong with a config, in one line."""
    problem = error.errors()[0]
    path = [str(part) for part in problem["loc"] if str(part) not in KINDS]
    if problem["type"] == "extra_forbidden":
        where = path[:-1]
        known = _keys(where, root)
        other = " (parts of another kind have it)" if path[-1] in known else ""
        hint = other or _elsewhere(path, root) or did_you_mean(path[-1], known)
        return f"unknown key '{path[-1]}' in {'.'.join(where) or 'the config'}{hint}"
    value = problem.get("input")
    shown = f" (got {reprlib.repr(value)})" if not isinstance(value, dict | Spec) else ""
    return f"{'.'.join(path) or 'the config'}: {plain(problem['msg'])}{shown}"


PLAIN = {  # what the checker says, and what people say
    "input should be": "must be",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "a text",
    "a valid boolean": "true or false",
    "a valid tuple": "a list",
    "less than or equal to": "at most",
    "greater than or equal to": "at least",
    "value error, ": "",
}


def plain(said: str) -> str:
    """What pydantic says of a value, as people say it.

    >>> plain("Input should be a valid integer, unable to parse string as an integer")
    'must be a whole number'
    """
    said = said.lower().split(", unable to")[0].split(", got a number with")[0]
    if "valid dictionary" in said:
        return "must be a mapping of names to values"
    for theirs, ours in PLAIN.items():
        said = said.replace(theirs, ours)
    return said


def _elsewhere(path: Sequence[str], root: type[Spec]) -> str:
    """A hint for a key that belongs one level deeper: max_steps is train.max_steps."""
    if len(path) > 1:
        return ""
    homes = [name for name in root.model_fields if path[0] in _keys([name], root)]
    return f" (did you mean '{homes[0]}.{path[0]}'?)" if homes else ""


def _keys(path: Sequence[str], root: type[Spec]) -> list[str]:
    """The names that are known at a place of the config."""
    specs: list[type[Spec]] = [root]
    for key in path:
        specs = [
            inner
            for spec in specs
            if key in spec.model_fields
            for inner in _inside(spec.model_fields[key])
        ]
    return sorted({name for spec in specs for name in spec.model_fields})


def _inside(place: FieldInfo) -> list[type[Spec]]:
    """The specs that can stand at a place."""
    tables = [known for known in place.metadata if isinstance(known, Kinds)]
    return [spec for table in tables for spec in table.options()] or _specs(place.annotation)


def _specs(annotation: Any) -> list[type[Spec]]:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return [annotation]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) in (
        typing.Union,
        Annotated,
    ):
        return [spec for part in typing.get_args(annotation) for spec in _specs(part)]
    return []
