"""Requests: what clients may ask, read from JSON or, beside a file, from the address."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError
from starlette.requests import Request

from dragoman.decode import Asked, Query
from dragoman.errors import UserError
from dragoman.serve.schema import PredictRequest, Wish

Read = TypeVar("Read", bound=Asked | Query)
MEDIA = ("image", "audio", "video")


class RequestError(Exception):
    """A request that cannot be answered, and why."""

    def __init__(self, status: int, error: str, field: str | None = None, wait: int = 0) -> None:
        self.status, self.error, self.field, self.wait = status, error, field, wait


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
    return _checked(lambda: PredictRequest.model_validate(tree, strict=False))


def parsed(body: bytes) -> PredictRequest:
    """A request in JSON."""
    return _checked(lambda: PredictRequest.model_validate_json(body))


def _checked(read: Callable[[], PredictRequest]) -> PredictRequest:
    """A request, or the first thing that is wrong with it, by the name of its field."""
    try:
        return read()
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(str(part) for part in problem["loc"])
        raise RequestError(422, f"{field or 'the body'}: {problem['msg']}", field or None) from None
    except RecursionError:
        raise RequestError(422, "the body is nested too deeply") from None


def body_schema() -> dict[str, Any]:
    """What the body of a request may be, for the OpenAPI document."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {"application/json": {"schema": _schema()}}
    return {"required": True, "content": content | {f"{kind}/*": binary for kind in MEDIA}}


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
