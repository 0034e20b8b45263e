"""Clips and pairs of columns over HTTP and on the page: what a model sees of a file is shown."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dragoman
import made
from conftest import Ran
from dragoman.data.seen import Seen, png

httpx = pytest.importorskip("httpx")
Image = pytest.importorskip("PIL.Image")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from served import Running, serving  # noqa: E402
from test_serve import events  # noqa: E402
from test_served_senses import picture, send  # noqa: E402

SMALL: dict[str, Any] = {"attention": {"size": 8}, "decoder": {"hidden": 16, "dropout": 0.0}}
WATCHER: dict[str, Any] = {
    "data": {
        "dev_rows": 2,
        "source": {"kind": "video", "height": 8, "width": 8, "frames": 3},
        "target": {"units": "word", "min_count": 1},
    },
    "model": {
        "encoder": {"kind": "video", "hidden": 8, "frame": {"kind": "image", "widths": [4]}},
        "head": {"embedding": 8},
        **SMALL,
        "decoder": {"hidden": 16, "readout_size": 8},
    },
    "train": {"max_steps": 40, "batch_size": 8, "lr": 0.02},
}
READER: dict[str, Any] = {
    "data": {"source": {"height": 8, "width": 8}, "dev_rows": 4},
    "model": {
        "encoder": {
            "size": 16,
            "parts": [
                {"kind": "image", "widths": [8], "dense": 8},
                {"embedding": 8, "hidden": 8},
            ],
        },
        **SMALL,
    },
    "train": {"max_steps": 10, "batch_size": 8},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clips, pictures, and two models: one has watched, one answers questions."""
    place = tmp_path_factory.mktemp("films")
    clips = [(str(place / made.write_clip(place, n, 6)), "stripes move") for n in range(12)]
    dragoman.train(clips, place / "watcher", config=WATCHER, quiet=True)
    lines = []
    for number in range(16):
        colour = ["red", "blue"][number % 2]
        (place / f"{number}.png").write_bytes(picture(colour))
        lines.append(f"{number}.png\twhat colour is it ?\t{colour}\n")
    (place / "rows.tsv").write_text("".join(lines))
    rows = str(place / "rows.tsv")
    dragoman.train(rows, place / "reader", recipe="vqa-attend", config=READER, quiet=True)
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    with serving(folder / "watcher", folder / "reader") as running:
        yield running


def film(number: int, name: str, codec: str) -> bytes:
    """A clip as a video file, large enough for any codec."""
    av = pytest.importorskip("av")
    file = io.BytesIO()
    with av.open(file, "w", format=name) as container:
        try:
            stream = container.add_stream(codec, rate=8)
        except (ValueError, av.FFmpegError):
            pytest.skip(f"this FFmpeg writes no {codec}")
        stream.width = stream.height = 48
        stream.pix_fmt = "yuv420p"
        for frame in made.clip(number, 6):
            large = np.ascontiguousarray(frame.repeat(4, 0).repeat(4, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(large, format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


@pytest.mark.parametrize("kind", ["application/octet-stream", "video/x-numpy"])
def test_an_array_of_frames_is_sent_as_it_is(server: Running, folder: Path, kind: str) -> None:
    alone = dragoman.load(folder / "watcher")(str(folder / "3.npy"), beam=2)
    content = (folder / "3.npy").read_bytes()
    reply = send(server, content, kind, beam=2, alignment="true", show="true")
    assert reply.status_code == 200, reply.text
    (found,) = reply.json()["predictions"]
    assert found["tokens"] == list(alone.tokens) == ["stripes", "move"]
    assert (found["attention"]["over"], found["attention"]["shape"]) == ("frames", [3])
    (seen,) = found["seen"]
    assert (seen["kind"], seen["frames"]) == ("video", 3)
    with httpx.Client() as plain:  # nothing is shown that was not asked for
        body = {"content": content, "headers": {"content-type": kind}}
        answer = plain.post(f"{server.address}/v1/predict", **body).json()["predictions"][0]
    assert "seen" not in answer


@pytest.mark.parametrize(("kind", "codec"), [("mp4", "mpeg4"), ("webm", "libvpx")])
def test_a_video_file_is_sent_as_it_is(server: Running, kind: str, codec: str) -> None:
    reply = send(server, film(3, kind, codec), f"video/{kind}", stream="true", beam=1, show="true")
    *tokens, (last, whole) = events(reply)
    assert (last, whole["tokens"]) == ("done", [one["token"] for _, one in tokens])
    assert whole["seen"][0]["picture"].startswith("data:image/png;base64,")
    assert send(server, film(3, kind, codec)[:200], f"video/{kind}").status_code == 422


def test_a_question_about_a_picture(server: Running, folder: Path) -> None:
    asked = (str(folder / "1.png"), "what colour is it ?")
    alone = dragoman.load(folder / "reader")(asked)
    given = {"model": "reader", "text": asked[1], "alignment": "true", "show": "true"}
    (found,) = send(server, picture("blue"), **given).json()["predictions"]
    assert found["tokens"] == list(alone.tokens)
    assert found["score"] == pytest.approx(alone.score, abs=1e-4)
    over = [(part["over"], part["shape"]) for part in found["attention"]["parts"]]
    assert over == [("grid", [4, 4]), ("tokens", [6])]
    assert [one["kind"] for one in found["seen"]] == ["image"]
    missing = send(server, picture("blue"), model="reader")
    assert (missing.status_code, "reads 2" in missing.json()["error"]) == (422, True)
    unknown = send(server, picture("blue"), model="reader", txet="what?")
    assert "did you mean 'text'" in unknown.json()["error"]


def test_a_clip_is_dropped_on_the_page(tab: Any, server: Running, folder: Path) -> None:
    tab.goto(server.address)
    tab.set_input_files("input[type=file]", folder / "3.npy")
    tab.wait_for_selector(".text .token.end")
    assert tab.locator(".film thead canvas").count() == 3
    assert tab.locator(".film tbody tr").count() == 2
    tab.wait_for_function("document.querySelector('.film canvas').width === 8")
    tab.locator(".text .token").nth(1).hover()
    assert tab.locator(".film tr.lit").get_attribute("data-at") == "1"
    assert "frame" in tab.locator(".film").get_attribute("aria-label")


def test_a_question_is_asked_on_the_page(tab: Any, server: Running, folder: Path) -> None:
    tab.goto(f"{server.address}/#m=reader&t=&t=what+colour+is+it+%3F")
    assert tab.locator("textarea").input_value() == "what colour is it ?"
    tab.set_input_files("input[type=file]", folder / "1.png")
    tab.wait_for_selector(".text .token.end")
    assert tab.locator(".glows canvas").count() == 1
    assert tab.locator(".words thead th").count() == 6


def test_clips_and_questions_are_drawn(
    folder: Path, verb: Callable[..., Ran], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    for model, asked in (("watcher", "3.npy"), ("reader", "1.png\twhat colour is it ?")):
        ran = verb("plot", folder / model, f"{folder}/{asked}", "-o", tmp_path / f"{model}.svg")
        assert (ran.code, ran.err.startswith("drawn")) == (0, True), ran.err
        assert (tmp_path / f"{model}.svg").read_bytes().startswith(b"<?xml")


def test_what_a_model_sees_is_a_picture() -> None:
    frames = np.zeros((2, 3, 4, 6), np.uint8)
    frames[1, 0] = 200
    opened = np.asarray(Image.open(io.BytesIO(Seen("video", frames).png())))
    assert opened.shape == (4, 12, 3)
    assert (opened[:, :6].max(), opened[:, 6:, 0].min()) == (0, 200)
    bands = np.tile(np.arange(8.0), (3000, 1))  # ever louder with pitch, for half a minute
    sound = Seen("sound", bands, 30.0)
    opened = np.asarray(Image.open(io.BytesIO(sound.png()))).astype(int)
    assert opened.shape == (8, 1000, 3)
    assert (np.diff(opened.sum(-1)[:, 0]) <= 0).all()  # high pitch above
    assert (sound.tree()["seconds"], sound.tree()["frames"]) == (30.0, 3000)
    half = np.zeros((2, 2, 4), np.uint8)
    assert Image.open(io.BytesIO(png(half))).mode == "RGBA"
    grey = Seen("image", np.full((1, 1, 500, 900), 7, np.uint8)).png()
    assert max(Image.open(io.BytesIO(grey)).size) <= 384


def test_jsonl_says_what_weights_lie_over(folder: Path, verb: Callable[..., Ran]) -> None:
    line = verb(
        "predict", folder / "watcher", "--format", "jsonl", stdin=f"{folder}/3.npy".encode()
    )
    found = json.loads(line.out)
    assert (found["attention"]["over"], "alignment" in found) == ("frames", False)
