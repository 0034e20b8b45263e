"""Pictures and points over HTTP, on the page and in plots: files come whole, never as names."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

import dragoman
from browser import DESKTOP, PHONE
from conftest import Ran
from dragoman.predict import Predictor

httpx = pytest.importorskip("httpx")
Image = pytest.importorskip("PIL.Image")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from served import Running, serving  # noqa: E402
from test_serve import events  # noqa: E402

LOOKER: dict[str, Any] = {
    "data": {
        "dev_rows": 4,
        "source": {"kind": "image", "height": 16, "width": 16},
        "target": {"units": "word", "min_count": 1},
    },
    "model": {
        "encoder": {"kind": "image", "net": "compact", "widths": [4, 8], "blocks": 1},
        "attention": {"size": 8},
        "decoder": {"hidden": 16, "readout_size": 8},
        "head": {"embedding": 8},
    },
    "train": {"max_steps": 3, "batch_size": 8},
}
LISTENER: dict[str, Any] = {
    "data": {"dev_rows": 3, "source": {"rate": 8000}},
    "model": {
        "encoder": {"hidden": 8, "front": 4},
        "attention": {"size": 8},
        "decoder": {"hidden": 8},
        "head": {"embedding": 4},
    },
    "train": {"max_steps": 2, "batch_size": 4},
}
POINTER: dict[str, Any] = {
    "data": {"dev_rows": 4},
    "model": {
        "encoder": {"embedding": 8, "hidden": 8},
        "decoder": {"hidden": 16},
        "head": {"embedding": 8, "size": 8},
    },
    "train": {"max_steps": 3, "batch_size": 8},
}


def picture(colour: str) -> bytes:
    file = io.BytesIO()
    image = Image.new("RGB", (20, 24), "white")
    image.paste(colour, (0, 0, 20, 12))
    image.save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of pictures, a table that names them, and a model that has seen them."""
    folder = tmp_path_factory.mktemp("gallery")
    colours = ["red", "blue", "green"]
    for number in range(24):
        (folder / f"{number}.png").write_bytes(picture(colours[number % 3]))
    rows = (f"{number}.png\tit is {colours[number % 3]}\n" for number in range(24))
    (folder / "train.tsv").write_text("".join(rows))
    table, model = str(folder / "train.tsv"), folder / "looker"
    dragoman.train(table, model, recipe="show-attend-tell", config=LOOKER, quiet=True)
    return folder


@pytest.fixture(scope="module")
def pointer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has seen a few tours."""
    rng = np.random.default_rng(0)
    rows = [(" ".join(f"{n:.2f}" for n in rng.random(8)), "1 2 3 4") for _ in range(24)]
    folder = tmp_path_factory.mktemp("tours") / "pointer"
    dragoman.train(rows, folder, recipe="ptr-net-small", config=POINTER, quiet=True)
    return folder


@pytest.fixture(scope="module")
def server(gallery: Path, pointer: Path) -> Iterator[Running]:
    with serving(gallery / "looker", pointer) as running:
        yield running


@pytest.fixture(scope="module")
def looker(gallery: Path) -> Predictor:
    return dragoman.load(gallery / "looker")


def send(server: Running, content: bytes, kind: str = "image/png", **given: Any) -> Any:
    url = f"{server.address}/v1/predict"
    return httpx.post(url, content=content, params=given, headers={"content-type": kind})


def test_a_picture_is_sent_as_it_is(server: Running, gallery: Path, looker: Predictor) -> None:
    alone = looker(str(gallery / "1.png"), beam=3, n_best=2)
    reply = send(server, picture("blue"), beam=3, n_best=2, alignment="true", choices=2)
    assert reply.status_code == 200, reply.text
    (found,) = reply.json()["predictions"]
    assert found["tokens"] == list(alone.tokens)
    assert found["score"] == pytest.approx(alone.score, abs=1e-4)
    assert found["attention"]["over"] == "grid"
    assert len(found["choices"]) == len(found["tokens"]) + 1
    assert [one["tokens"] for one in found["alternatives"]] == [
        list(one.tokens) for one in alone.alternatives
    ]


def test_its_answer_is_streamed(server: Running, gallery: Path, looker: Predictor) -> None:
    reply = send(server, picture("red"), stream="true", beam=1)
    *tokens, (last, whole) = events(reply)
    assert (last, whole["text"]) == ("done", str(looker(str(gallery / "0.png"), beam=1)))
    assert [one["token"] for _, one in tokens] == whole["tokens"]


@pytest.mark.fault(21)
def test_names_of_files_are_not_taken(server: Running, gallery: Path) -> None:
    body = {"inputs": str(gallery / "0.png")}
    reply = httpx.post(f"{server.address}/v1/predict", json=body)
    assert (reply.status_code, "as the body" in reply.json()["error"]) == (422, True)


@pytest.mark.parametrize(
    ("content", "given", "told"),
    [
        (b"nonsense", {}, "not a JPEG"),
        (b"", {}, "empty"),
        (picture("red")[:60], {}, "broken"),
        (picture("red"), {"beam": "x"}, "beam"),
        (picture("red"), {"bean": "1"}, "bean"),
        (picture("red"), {"text": "what?"}, "reads 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(
    server: Running, content: bytes, given: dict[str, str], told: str
) -> None:
    reply = send(server, content, **given)
    assert (reply.status_code, told in reply.json()["error"]) == (422, True), reply.text


def test_a_model_of_texts_takes_no_file(server: Running) -> None:
    reply = send(server, picture("red"), model="pointer")
    assert (reply.status_code, "reads 0" in reply.json()["error"]) == (422, True)


def test_pictures_do_not_tell_where_they_were(server: Running) -> None:
    run = httpx.get(f"{server.address}/v1/models/looker/run").json()
    assert all("/" not in text for one in run["samples"] for text in one["source"])


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sounds a little longer than 0.4 seconds, and a model that has heard them."""
    soundfile = pytest.importorskip("soundfile")
    folder, rng = tmp_path_factory.mktemp("sounds"), np.random.default_rng(0)
    for number in range(12):
        wave = np.sin(np.arange(3240) * (0.1 + 0.1 * (number % 3))) + 0.01 * rng.normal(size=3240)
        soundfile.write(folder / f"{number}.flac", wave * 0.5, 8000)
    rows = (f"{number}.flac\t{'abc'[number % 3]}\n" for number in range(12))
    (folder / "train.tsv").write_text("".join(rows))
    table, model = str(folder / "train.tsv"), folder / "listener"
    dragoman.train(table, model, recipe="las-small", config=LISTENER, quiet=True)
    return folder


def test_a_sound_is_sent_as_it_is(listener: Path) -> None:
    alone = dragoman.load(listener / "listener")(str(listener / "1.flac"), beam=2)
    with serving(listener / "listener") as server:
        content = (listener / "1.flac").read_bytes()
        reply = send(server, content, "audio/flac", beam=2, alignment="true")
        (found,) = reply.json()["predictions"]
        assert found["tokens"] == list(alone.tokens)
        assert found["attention"] is None or found["attention"]["over"] == "times"
        assert send(server, b"RIFFnoise", "audio/wav").status_code == 422


def test_a_sound_is_dropped_on_the_page(open_tab: Any, listener: Path) -> None:
    begun = urlencode({"p": '["a"]'})  # whatever it goes on with, there is a token to look at
    with serving(listener / "listener") as server:
        for size in (DESKTOP, PHONE):
            tab = open_tab(viewport=size)
            tab.goto(f"{server.address}/#{begun}")
            assert "once there is a sound" in tab.locator(".text.empty").inner_text()
            tab.set_input_files("input[type=file]", listener / "1.flac")
            _hear(tab)


def _hear(tab: Any) -> None:
    """The spectrogram and all that is written below it lie inside their card."""
    tab.wait_for_selector(".text .token.end")
    tab.locator(".text .token").first.hover()
    assert tab.locator(".bar-row.lit").get_attribute("data-at") == "0"
    assert tab.locator(".spectrum").evaluate("node => node.complete && node.naturalWidth > 0")
    cut = tab.evaluate(
        "(() => { const right = document.querySelector('.spectrum').getBoundingClientRect().right;"
        " return [...document.querySelectorAll('.ticks span')]"
        ".filter(node => node.getBoundingClientRect().right > right + 1).length; })()"
    )
    assert (cut, tab.locator(".ticks span").count()) == (0, 4)


def test_a_picture_is_dropped_on_the_page(tab: Any, server: Running, gallery: Path) -> None:
    tab.goto(server.address)
    tab.set_input_files("input[type=file]", gallery / "0.png")
    tab.wait_for_selector(".text .token.end")
    count = tab.locator(".text .token:not(.end)").count()
    assert tab.locator(".glows canvas").count() == count
    if count:
        tab.locator(".text .token").first.hover()
        assert tab.locator(".glows figure.lit").get_attribute("data-at") == "0"


def test_points_are_clicked_on_the_page(tab: Any, pointer: Path) -> None:
    with serving(pointer) as server:
        tab.goto(f"{server.address}/#valid=tour")
        _click(tab)


def _click(tab: Any) -> None:
    plane = tab.locator(".plane")
    for x, y in ((30, 40), (200, 60), (120, 200), (60, 180)):
        plane.click(position={"x": x, "y": y})
    tab.wait_for_selector(".plane .way")
    assert tab.locator(".plane .dot").count() == 4
    assert len(tab.locator(".points textarea").input_value().split()) == 8
    tab.locator(".plane .dot").first.click()
    assert tab.locator(".plane .dot").count() == 3


def test_a_tour_is_drawn(pointer: Path, verb: Callable[..., Ran], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ran = verb("plot", pointer, "0.1 0.1 0.9 0.2 0.5 0.8 0.1 0.7", "-o", tmp_path / "b.png")
    assert (ran.code, (tmp_path / "b.png").exists()) == (0, True), ran.err


def test_a_picture_is_drawn(gallery: Path, verb: Callable[..., Ran], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    shown = tmp_path / "a.png"
    ran = verb("plot", gallery / "looker", gallery / "0.png", "-o", shown, "--beam", 1)
    empty = "nothing to draw: the answer is empty" in ran.err
    assert empty or (ran.code, shown.exists()) == (0, True), ran.err
