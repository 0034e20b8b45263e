"""Clips: frames of any file, spread evenly; faults are refused, memory flat."""

import io
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dragoman.data.clips import Frame, Sampling, from_array, from_video
from dragoman.data.files import UnreadableError
from dragoman.data.video import VideoField, VideoSpec

av = pytest.importorskip("av")
SIDE, FOUR = 32, Sampling(4)


def counted(count: int) -> npt.NDArray[np.uint8]:
    """Frames that get brighter, so that each tells its place."""
    bright = np.linspace(20, 235, count).astype(np.uint8)
    return np.broadcast_to(bright[:, None, None, None], (count, SIDE, SIDE, 3)).copy()


def video(count: int, kind: str = "matroska", codec: str = "mpeg4") -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=kind) as container:
        stream = container.add_stream(codec, rate=25)
        stream.width = stream.height = SIDE
        stream.pix_fmt = "yuv420p"
        for frame in counted(count):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
    return file.getvalue()


def array(values: npt.NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def same(frame: Frame) -> Frame:
    return frame


def watched(content: bytes, sampling: Sampling = FOUR) -> list[float]:
    """How bright the frames of a video are."""
    return [frame.mean() for frame in from_video(io.BytesIO(content), sampling, same)]


def loaded(content: bytes, sampling: Sampling = FOUR) -> list[Frame]:
    return from_array(io.BytesIO(content), sampling, same, fps=25)


@pytest.mark.parametrize("kind", ["mp4", "matroska", "avi"])
@pytest.mark.parametrize("count", [3, 40, 133])
def test_frames_of_a_video_are_spread_evenly(kind: str, count: int) -> None:
    found = watched(video(count, kind))
    wanted = counted(count).mean((1, 2, 3))[Sampling(4).places(count, 25)]
    assert len(found) == min(4, count)
    assert np.allclose(found, wanted, atol=6)


def test_a_rate_takes_fewer_frames_of_short_clips() -> None:
    assert len(watched(video(50), Sampling(16, rate=2))) == 4
    assert len(watched(video(50), Sampling(3, rate=2))) == 3
    assert len(watched(video(5), Sampling(16, rate=1))) == 1


@pytest.mark.parametrize(
    "values",
    [
        counted(20),
        counted(20)[..., 0],
        counted(20)[..., :1],
        counted(20).astype(np.float32) / 255,
        counted(20).astype(np.uint16),
    ],
)
def test_arrays_of_any_usual_form_are_the_same_clip(values: npt.NDArray[Any]) -> None:
    found = np.stack(loaded(array(values)))
    assert found.shape == (4, SIDE, SIDE, 3)
    assert np.abs(found.astype(int) - counted(20)[[2, 7, 12, 17]].astype(int)).max() <= 1


def said(shape: tuple[int, ...]) -> bytes:
    """An array file that promises a shape and holds next to nothing."""
    file = io.BytesIO()
    head = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, head)
    return file.getvalue() + bytes(100)


def pickled() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], object), allow_pickle=True)
    return file.getvalue()


ARRAYS: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "not an array": lambda: b"hello, world\n" * 100,
    "a pickle": pickled,
    "0 frames": lambda: array(np.zeros((0, 4, 4), np.uint8)),
    "a million frames": lambda: said((1_000_000, 8, 8, 3)),
    "cut off": lambda: array(counted(20))[:5000],
    "a header that lies": lambda: said((16, 100, 100, 3)),
    "huge frames": lambda: said((2, 100_000, 100_000, 3)),
    "no frames but a picture": lambda: array(np.zeros((8, 8), np.uint8)),
    "fortran": lambda: array(np.asfortranarray(np.zeros((3, 4, 5), np.uint8))),
}


@pytest.mark.parametrize("content", ARRAYS.values(), ids=ARRAYS)
def test_what_is_no_array_of_frames_is_refused(content: Callable[[], bytes]) -> None:
    tracemalloc.start()
    with pytest.raises(UnreadableError):
        loaded(content())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def sound() -> bytes:
    soundfile = pytest.importorskip("soundfile")
    file = io.BytesIO()
    soundfile.write(file, np.zeros(800, np.float32), 8000, format="WAV")
    return file.getvalue()


def million() -> bytes:
    """A video whose header promises 40,000 seconds of 25 frames."""
    content = bytearray(video(40))
    at = content.index(b"\x44\x89\x88") + 3  # Matroska: the duration, a double of milliseconds
    content[at : at + 8] = struct.pack(">d", 40_000_000.0)
    return bytes(content)


VIDEOS: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "not a video": lambda: b"hello, world\n" * 100,
    "half an MP4": lambda: video(60, "mp4")[: len(video(60, "mp4")) // 2],
    "half a Matroska": lambda: video(60)[: len(video(60)) // 2],
    "a million frames": million,
    "0 frames": lambda: video(0, "avi"),
    "a sound": sound,
}


@pytest.mark.parametrize("content", VIDEOS.values(), ids=VIDEOS)
@pytest.mark.fault(16)
def test_what_is_no_video_is_refused(content: Callable[[], bytes]) -> None:
    with pytest.raises(UnreadableError):
        from_video(io.BytesIO(content()), FOUR, same)


@pytest.mark.fault(16)
def test_a_clip_of_too_many_frames_is_refused_from_its_header() -> None:
    """No frame is decoded: one that were would fail here."""
    content = video(3000, "mp4")
    with pytest.raises(UnreadableError, match="3,000 frames"):
        from_video(io.BytesIO(content), Sampling(4, most=1000), lambda frame: 1 / 0)  # type: ignore[arg-type, return-value]


@pytest.mark.fault(16)
def test_a_header_that_says_nothing_does_not_open_the_door() -> None:
    """A stream of bare pictures has no header; decoding stops where the limit is."""
    content = video(600, "mpeg", "mpeg1video")
    with pytest.raises(UnreadableError, match="more than max_frames=200"):
        watched(content, Sampling(4, most=200))
    assert len(watched(content, Sampling(4))) == 4


def test_a_long_clip_is_held_in_little_memory() -> None:
    content = video(3000, "mp4")
    tracemalloc.start()
    assert len(watched(content, Sampling(4))) == 4
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # all frames would be 9 MB


def test_a_folder_of_pictures_is_a_clip(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "clip"
    folder.mkdir()
    for number, frame in enumerate(counted(20)):
        image.fromarray(frame).save(folder / f"{number:03d}.png")
    (folder / "notes.txt").write_text("not a picture")
    field = VideoField(VideoSpec(frames=4, height=SIDE, width=SIDE))
    found = field.encode(str(folder))
    assert found.shape == (4, 3, SIDE, SIDE)
    assert np.abs(found.mean((1, 2, 3)) - counted(20).mean((1, 2, 3))[[2, 7, 12, 17]]).max() <= 1
    (folder / "007.png").write_bytes(b"")
    with pytest.raises(UnreadableError, match=r"007\.png"):
        field.encode(str(folder))
    (tmp_path / "none").mkdir()
    with pytest.raises(UnreadableError, match="0 frames"):
        field.encode(str(tmp_path / "none"))
