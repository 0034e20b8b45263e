"""What is wrong with a request, in words: which field, and what was perhaps meant."""

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from dragoman.errors import did_you_mean
from dragoman.explain import plain
from dragoman.serve.schema import PredictRequest, Wish

KINDS = {"string_type": "a text", "list_type": "a list", "model_type": "an object"}


def mistake(error: ValidationError, more: Sequence[str] = ()) -> tuple[str, str]:
    """The first thing that is wrong with a request, and the name of its field; `more` names are
    known where the request was read.

    >>> try:
    ...     PredictRequest.model_validate({"inputs": "a", "baem": 5})
    ... except ValidationError as error:
    ...     mistake(error)
    ("unknown field 'baem' (did you mean 'beam'?)", 'baem')
    """
    problems = error.errors(include_input=False, include_url=False)
    worst = max(problems, key=_telling)
    path = _path(worst)
    field = ".".join(path)
    if worst["type"] == "extra_forbidden":
        *where, name = path
        known = [*(Wish if where else PredictRequest).model_fields, *more]
        inside = f" in {'.'.join(where)}" if where else ""
        return f"unknown field '{name}'{inside}{did_you_mean(name, known)}", field
    kinds = [KINDS[p["type"]] for p in problems if _path(p) == path and p["type"] in KINDS]
    if worst["type"] in KINDS:  # none of the things that may stand there
        return f"{field or 'the body'}: must be {' or '.join(dict.fromkeys(kinds))}", field
    return f"{field or 'the body'}: {plain(worst['msg'])}", field


def _telling(problem: Any) -> tuple[bool, int, bool]:
    """Of several ways to read a request, the one that went farthest tells most."""
    kind = problem["type"]
    return kind == "extra_forbidden", len(_path(problem)), kind not in KINDS


def _path(problem: Any) -> list[str]:
    """Where it is, without the kinds of things that were tried there."""
    kinds = ("constrained-str", "list[", "Wish")
    return [str(part) for part in problem["loc"] if not str(part).startswith(kinds)]
