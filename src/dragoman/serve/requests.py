"""Requests: what clients may ask, read from JSON or, beside a file, from the address."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from dragoman.decode import Asked, Query
from dragoman.errors import UserError
from dragoman.serve.mistakes import mistake
from dragoman.serve.schema import PredictRequest, Wish

Read = TypeVar("Read", bound=Asked | Query)
MEDIA = ("image", "audio", "video")  # kinds of files ...
BYTES = "application/octet-stream"  # ... and one that does not say (an array of frames)


class RequestError(Exception):
    """A request that cannot be answered, and why."""

    def __init__(self, status: int, error: str, field: str | None = None, wait: int = 0) -> None:
        self.status, self.error, self.field, self.wait = status, error, field, wait


def is_file(kind: str) -> bool:
    """Whether a body of this content type is a file.

    >>> is_file("image/png"), is_file("application/octet-stream"), is_file("text/plain")
    (True, True, False)
    """
    plain = kind.split(";", maxsplit=1)[0].strip().lower()
    return plain == BYTES or plain.split("/")[0] in MEDIA


def granted(read: Callable[[Wish], Read], wanted: PredictRequest) -> list[Read]:
    """The wishes of a request as a model takes them."""
    try:
        return [read(wish) for wish in wanted.wishes()]
    except UserError as error:
        raise RequestError(422, str(error), "inputs") from None


def of_address(request: Request) -> PredictRequest:
    """What is said beside a file: the fields of a JSON request, as parameters of the address;
    `text` is a further column, and what may be a list may be repeated.
    """
    given = request.query_params
    tree: dict[str, Any] = {name: given[name] for name in given if name not in ("text", "prefix")}
    tree |= {name: given.getlist(name) for name in ("ban", "require") if name in given}
    prefix = given.getlist("prefix")
    begun = {"prefix": prefix if len(prefix) > 1 else "".join(prefix)}
    tree["inputs"] = [{"texts": given.getlist("text"), **begun}]
    return _checked(lambda: PredictRequest.model_validate(tree, strict=False), "text")


def parsed(body: bytes) -> PredictRequest:
    """A request in JSON."""
    return _checked(lambda: PredictRequest.model_validate_json(body))


def _checked(read: Callable[[], PredictRequest], *more: str) -> PredictRequest:
    """A request, or the first thing that is wrong with it, by the name of its field."""
    try:
        return read()
    except ValidationError as error:
        told, field = mistake(error, more)
        raise RequestError(422, told, field or None) from None
    except RecursionError:
        raise RequestError(422, "the body is nested too deeply") from None


def body_schema() -> dict[str, Any]:
    """What the body of a request may be, for the OpenAPI document."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {"application/json": {"schema": _schema()}}
    files = (*(f"{kind}/*" for kind in MEDIA), BYTES)
    return {"required": True, "content": content | dict.fromkeys(files, binary)}


def _schema() -> dict[str, Any]:
    """The schema of a request, its parts in place of references to them."""
    schema = PredictRequest.model_json_schema()
    parts = schema.pop("$defs", {})

    def put(tree: Any) -> Any:
        if isinstance(tree, dict):
            if "$ref" in tree:
                return put(parts[tree["$ref"].rsplit("/", 1)[-1]])
            return {key: put(value) for key, value in tree.items()}
        return [put(one) for one in tree] if isinstance(tree, list) else tree

    whole: dict[str, Any] = put(schema)
    return whole
