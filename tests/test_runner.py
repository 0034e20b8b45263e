"""The runner reads sounds, clips and points as training reads them."""

import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import made
from dragoman.data.points import PointsField, PointsSpec
from dragoman.data.sound import SoundField, SoundSpec
from dragoman.data.video import VideoField, VideoSpec

pytest.importorskip("onnxruntime")

from dragoman.ship.describe import column
from dragoman.ship.runner.clips import Clips
from dragoman.ship.runner.points import Points
from dragoman.ship.runner.sounds import Sounds

HALF = 0.02  # two neighbouring numbers of half precision, as loud as sounds are


def read(field: Any, names: list[str]) -> list[Any]:
    """What the field makes of files, each by itself."""
    rows, bad = field.read(names)
    assert not bad
    return [rows.pad([row]).values[0].numpy() for row in range(len(names))]


@pytest.mark.parametrize("normalize", ["none", "utterance", "global"])
@pytest.mark.parametrize("rate", [8000, 11025, 16000])
def test_a_sound_is_heard_as_in_training(rate: int, normalize: str, tmp_path: Path) -> None:
    names = [str(tmp_path / made.write_sound(tmp_path, number)) for number in (1, 9)]
    field = SoundField.learn(SoundSpec(rate=rate, bands=20, normalize=normalize), names)
    for name, wanted in zip(names, read(field, names), strict=True):
        found = Sounds(column("source", field)).encode(name)
        np.testing.assert_allclose(found, wanted, atol=HALF)
        assert np.abs(found - wanted).mean() < 1e-3


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_plain_wavs_need_no_library(
    size: int, channels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(tmp_path / "plain.wav")
    with wave.open(name, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(size)
        file.setframerate(8000)
        file.writeframes(np.random.default_rng(1).bytes(4000 * size * channels))
    field = SoundField(SoundSpec(rate=8000))
    wanted = read(field, [name])[0]
    monkeypatch.setitem(sys.modules, "soundfile", None)
    found = Sounds(column("source", field)).encode(Path(name).read_bytes())
    np.testing.assert_allclose(found, wanted, atol=HALF)


def test_a_clip_is_seen_as_in_training(tmp_path: Path) -> None:
    """An array, one of shares, one without colours, and a folder of pictures."""
    image = pytest.importorskip("PIL.Image")
    frames = made.clip(3, frames=9)
    np.save(tmp_path / "whole.npy", frames)
    np.save(tmp_path / "shares.npy", (frames / 255).astype(np.float32))
    np.save(tmp_path / "grey.npy", frames[..., 0])
    (tmp_path / "folder").mkdir()
    for place, frame in enumerate(frames):
        image.fromarray(frame).save(tmp_path / "folder" / f"{place}.png")
    names = [str(tmp_path / one) for one in ("whole.npy", "shares.npy", "grey.npy", "folder")]
    for spec in (VideoSpec(height=8, width=10, frames=4), VideoSpec(frames=16, rate=12.0)):
        field = VideoField.learn(spec, names)
        for name, wanted in zip(names, read(field, names), strict=True):
            found = Clips(column("source", field)).encode(name)
            np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_points_are_read_as_in_training() -> None:
    texts = ["0 0.5 1 2", "[[0, 0.5], [1, 2], [3, 4]]", "[1, 2]", "1,2, 3 4", ""]
    field = PointsField.learn(PointsSpec(), texts)
    reader = Points(column("source", field))
    for text in texts:
        np.testing.assert_array_equal(reader.encode(text), field.encode(text))
    for wrong, complaint in (("1 2 3", "no points"), ("1 x", "float"), ("nan 1", "no points")):
        with pytest.raises(ValueError, match=complaint):
            reader.encode(wrong)


def test_what_is_no_clip_is_refused(tmp_path: Path) -> None:
    field = VideoField(VideoSpec(mean=(0.5,) * 3, std=(0.5,) * 3))
    np.save(tmp_path / "flat.npy", np.zeros((3, 4), np.uint8))
    (tmp_path / "film.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    (tmp_path / "empty").mkdir()
    for name, complaint in (("flat.npy", "no clip"), ("film.mp4", "frames"), ("empty", "0 frames")):
        with pytest.raises(ValueError, match=complaint):
            Clips(column("source", field)).encode(str(tmp_path / name))
