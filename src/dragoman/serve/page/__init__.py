"""The page: a few files of our own, read once, served from memory, fetched from nowhere else."""

from functools import cache
from importlib.resources import files

from fastapi import FastAPI
from fastapi.responses import Response

KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@cache
def parts() -> dict[str, tuple[bytes, str]]:
    """The files by name, each with its kind."""
    found = {}
    for one in files(__name__).iterdir():
        kind = KINDS.get(one.name.rsplit(".", 1)[-1])
        if kind:
            found[one.name] = (one.read_bytes(), f"{kind}; charset=utf-8")
    return found


def add_to(app: FastAPI) -> None:
    """The page at `/`, its files beside it."""

    async def part(name: str = "index.html") -> Response:
        if name not in parts():
            return Response("there is no such page", 404, media_type="text/plain")
        body, kind = parts()[name]
        return Response(body, media_type=kind, headers={"cache-control": "no-cache"})

    async def index() -> Response:
        return await part()

    app.add_api_route("/", index, include_in_schema=False)
    app.add_api_route("/page/{name}", part, include_in_schema=False)
