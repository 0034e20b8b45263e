"""The routes."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from dragoman import __version__
from dragoman.decode import Asked, Query
from dragoman.errors import UserError
from dragoman.live import Stroke
from dragoman.serve import page, runs
from dragoman.serve.batcher import FullError, Job, LateError, Row
from dragoman.serve.counters import Counters
from dragoman.serve.guard import Guard
from dragoman.serve.models import Models, Served
from dragoman.serve.requests import RequestError, body_schema, granted, is_file, of_address, parsed
from dragoman.serve.schema import PredictRequest, PredictResponse, Trouble, answer
from dragoman.serve.settings import Settings
from dragoman.streaming import refuse

LOOK = 1.0  # seconds between looks at the folders of runs in progress
STATUSES = (400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503, 504)


def make_app(models: Models, settings: Settings, counters: Counters) -> Guard:
    """The whole application, guard included."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        watching = asyncio.create_task(_watch(models))
        yield
        watching.cancel()
        await asyncio.to_thread(models.close)

    app = FastAPI(
        title="Dragoman",
        version=__version__,
        lifespan=life,
        docs_url=None,  # they load scripts of others
        redoc_url=None,
    )
    desk = Desk(models, settings, counters)
    app.add_exception_handler(RequestError, _tell)  # type: ignore[arg-type]
    told = {status: {"model": Trouble} for status in STATUSES}
    app.add_api_route(
        "/v1/predict",
        desk.predict,
        methods=["POST"],
        response_model=PredictResponse,
        responses=told,  # type: ignore[arg-type]
        openapi_extra={"requestBody": body_schema()},
        summary="Answer one or many inputs",
    )
    app.add_api_route("/v1/models", desk.models_, summary="What is served")
    app.add_api_route(
        "/v1/models/{name}/run",
        desk.run,
        responses={404: {"model": Trouble}},
        summary="Training curves and samples",
    )
    app.add_api_route(
        "/healthz",
        desk.health,
        responses={503: {"model": Trouble}},
        summary="Whether the server is there, and all of its models",
    )
    app.add_api_route("/metrics", desk.metrics, summary="Counts, for Prometheus")
    page.add_to(app)
    return Guard(app, settings, counters)


async def _watch(models: Models) -> None:
    """Look for later checkpoints of runs in progress."""
    watched = [one for one in models.served.values() if one.watched]
    while watched:
        await asyncio.sleep(LOOK)
        for one in watched:
            await asyncio.to_thread(one.refresh)


def _json(tree: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """JSON in plain ASCII: half a surrogate pair, which JSON can hold, has no UTF-8."""
    return Response(json.dumps(tree), status, headers, "application/json")


async def _tell(request: Request, wrong: RequestError) -> Response:
    tree = {"error": wrong.error} | ({"field": wrong.field} if wrong.field else {})
    return _json(tree, wrong.status, {"retry-after": str(wrong.wait)} if wrong.wait else None)


class Desk:
    """Takes requests and gives answers."""

    def __init__(self, models: Models, settings: Settings, counters: Counters) -> None:
        self.models, self.settings, self.counters = models, settings, counters
        self.reading = asyncio.Semaphore(1)

    async def health(self) -> dict[str, str]:
        if not all(one.batcher.alive for one in self.models.served.values()):
            raise RequestError(503, "a model has no thread any more: restart the server")
        return {"status": "ok"}

    async def metrics(self) -> Response:
        served = self.models.served.values()
        now = {
            "dragoman_waiting_inputs": float(sum(one.batcher.depth for one in served)),
            "dragoman_models": float(len(served)),
        }
        return Response(self.counters.text(now), media_type="text/plain; version=0.0.4")

    async def models_(self) -> Response:
        return _json({"models": [one.about() for one in self.models.served.values()]})

    async def run(self, name: str) -> Response:
        served = self._served(name)
        history, samples = await asyncio.gather(
            asyncio.to_thread(runs.curves, served.folder),
            asyncio.to_thread(runs.samples, served.folder),
        )
        finite = [{k: v for k, v in row.items() if abs(v) < float("inf")} for row in history]
        return _json({"version": served.version, "curves": finite, "samples": samples})

    async def predict(self, request: Request) -> Response:
        asking = await self._understood(request)
        job, inbox = self._job(asking)
        try:
            asking.served.batcher.submit(job)
        except FullError:
            raise RequestError(429, "the queue is full: try again", wait=1) from None
        wanted = asking.wanted
        if wanted.stream:
            events = self._events(job, inbox, wanted)
            return StreamingResponse(events, media_type="text/event-stream", headers=UNSTORED)
        rows = await self._wait(request, job, inbox)
        answers = [_answer(row, job, wanted) for row in rows]
        return _json({"model": asking.served.name, "predictions": answers})

    async def _understood(self, request: Request) -> "Asking":
        """What is asked of which model: in JSON, or by a file and its address."""
        kind = request.headers.get("content-type", "")
        if is_file(kind):
            wanted = of_address(request)
            served = self._served(wanted.model)
            return await self._read(served, wanted, await request.body())
        if kind.split(";")[0].strip().lower() == "application/json":
            wanted = parsed(await request.body())
            served = self._served(wanted.model)
            return Asking(served, wanted, granted(served.asked, wanted))
        told = "send application/json, or a picture, a sound or a clip"
        raise RequestError(415, told, "content-type")

    def _served(self, name: str | None) -> Served:
        found = self.models.find(name)
        if found is None:
            raise RequestError(404, f"there is no model '{name}' here", "model")
        return found

    async def _read(self, served: Served, wanted: PredictRequest, content: bytes) -> "Asking":
        """A file that was sent, read by one thread at a time: large pictures take memory."""

        def read() -> Asking:
            (query,) = granted(partial(served.seen, content=content), wanted)
            return Asking(served, wanted, [query], served.shown(query) if wanted.show else [])

        async with self.reading:
            return await asyncio.to_thread(read)

    def _job(self, asking: "Asking") -> tuple[Job, "asyncio.Queue[Any]"]:
        served, wanted, asked, shown = asking
        loop, inbox = asyncio.get_running_loop(), asyncio.Queue[Any]()

        def tell(news: Any) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody listens
                loop.call_soon_threadsafe(inbox.put_nowait, news)

        try:
            options = served.predictor.options(**wanted.changes())
            if wanted.stream:
                refuse(served.predictor.team, options)
        except UserError as error:
            raise RequestError(422, str(error)) from None
        if wanted.stream and len(asked) > 1:
            raise RequestError(422, "one input is streamed at a time", "inputs")
        deadline = time.monotonic() + self.settings.timeout
        more = (wanted.choices, wanted.stream, list(shown))
        return Job(list(asked), options, deadline, tell, *more), inbox

    async def _wait(self, request: Request, job: Job, inbox: "asyncio.Queue[Any]") -> Any:
        """The job's rows; if the client goes away or the time is over, the job is dropped."""
        news = asyncio.create_task(inbox.get())
        gone = asyncio.create_task(_until_gone(request))
        left = max(0.0, job.deadline - time.monotonic())
        try:
            await asyncio.wait({news, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not news.done():
                raise LateError
            return _sound(news.result())
        except LateError:
            late = f"no answer within {self.settings.timeout:g} seconds"
            raise RequestError(499 if gone.done() else 504, late) from None
        finally:
            job.gone = True
            news.cancel()
            gone.cancel()

    async def _events(
        self, job: Job, inbox: "asyncio.Queue[Any]", wanted: PredictRequest
    ) -> AsyncIterator[str]:
        """Server-sent events: a `token` for each, then `done` with the whole answer, or `error`."""
        try:
            async with asyncio.timeout_at(_clock(job)):
                while True:
                    news = await inbox.get()
                    if isinstance(news, Stroke):
                        yield _event("token", _stroke(news, wanted.alignment))
                        continue
                    (row,) = _sound(news)
                    yield _event("done", _answer(row, job, wanted))
                    return
        except (TimeoutError, LateError):
            yield _event("error", {"error": f"no answer within {self.settings.timeout:g} seconds"})
        except RequestError as wrong:
            yield _event("error", {"error": wrong.error})
        finally:
            job.gone = True


class Asking(NamedTuple):
    """A request that was understood."""

    served: Served
    wanted: PredictRequest
    asked: Sequence[Asked | Query]
    shown: Sequence[dict[str, Any]] = ()


UNSTORED = {"cache-control": "no-store", "x-accel-buffering": "no"}


def _answer(row: Row, job: Job, wanted: PredictRequest) -> dict[str, Any]:
    return answer(row.prediction, wanted.alignment, row.places, job.shown)


def _clock(job: Job) -> float:
    return asyncio.get_running_loop().time() + job.deadline - time.monotonic()


def _sound(news: Any) -> Any:
    """Rows, or the error that came in their place."""
    if isinstance(news, UserError):
        raise RequestError(422, str(news))
    if isinstance(news, LateError):
        raise news
    if isinstance(news, Exception):
        raise RequestError(500, "the model failed; the server's log says more") from news
    return news


def _stroke(stroke: Stroke, alignment: bool) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "token": stroke.token,
        "text": stroke.text,
        "log_prob": round(stroke.log_prob, 6),
    }
    if alignment:
        tree["weights"] = stroke.weights and [round(weight, 4) for weight in stroke.weights]
    return tree


def _event(name: str, tree: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(tree)}\n\n"


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
