"""Sound: read from any file, resampled, seen as bands of pitch; faults are refused, memory flat."""

import io
import os
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dragoman.data.files import UnreadableError
from dragoman.data.spectra import FLOOR, log_mel
from dragoman.data.waves import hear, resample

soundfile = pytest.importorskip("soundfile")
Floats = npt.NDArray[np.float32]


def tone(pitch: float, rate: int, seconds: float = 1.0) -> Floats:
    return np.sin(2 * np.pi * pitch * np.arange(round(rate * seconds)) / rate).astype(np.float32)


def written(
    samples: npt.NDArray[np.float32], rate: int, kind: str = "WAV", **options: str
) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, **options)
    return file.getvalue()


def read(content: bytes, rate: int = 16000, seconds: float = 30) -> Floats:
    return hear(io.BytesIO(content), rate, seconds).samples


def middle(samples: Floats) -> Floats:
    """Without the ends, where a filter sees the silence beyond."""
    return samples[len(samples) // 4 : -len(samples) // 4]


@pytest.mark.parametrize(
    ("have", "want"),
    [(8000, 16000), (44100, 16000), (192000, 16000), (22050, 8000), (44101, 16000)],
)
def test_a_tone_stays_the_same_tone_at_another_rate(have: int, want: int) -> None:
    pitch = 0.4 * min(have, want)
    found, wanted = resample(tone(pitch, have), have, want), tone(pitch, want)
    assert len(found) == want
    assert abs(middle(found) - middle(wanted)).max() < 1e-5


@pytest.mark.parametrize("have", [44100, 192000])
def test_what_is_too_high_for_the_rate_is_gone(have: int) -> None:
    assert abs(middle(resample(tone(0.55 * 16000, have), have, 16000))).max() < 1e-5


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "AIFF"])
@pytest.mark.parametrize("channels", [1, 2, 8])
@pytest.mark.fault(16)
def test_any_file_becomes_one_channel(kind: str, channels: int) -> None:
    sound = np.repeat(0.5 * tone(440, 48000)[:, None], channels, 1)
    found = read(written(sound, 48000, kind))
    assert len(found) == 16000
    assert abs(middle(found) - middle(0.5 * tone(440, 16000))).max() < 0.02


def test_channels_are_averaged() -> None:
    sound = np.stack([tone(440, 8000), np.zeros(8000, np.float32)], 1)
    assert abs(read(written(sound, 8000), 8000) - tone(440, 8000) / 2).max() < 1e-3


@pytest.mark.fault(16)
def test_192_khz_and_single_samples_are_read() -> None:
    assert len(read(written(tone(440, 192000), 192000))) == 16000
    assert len(read(written(np.ones(1, np.float32), 16000))) == 1


def chirp() -> Floats:
    n = np.arange(8000)
    sweep = 0.5 * np.sin(2 * np.pi * (100 + 0.2 * n) * n / 16000)
    return (sweep + 0.1 * np.sign(np.sin(n * 0.7))).astype(np.float32)


def test_log_mel_is_librosas() -> None:
    """melspectrogram(n_fft=512, win_length=400, hop_length=160, pad_mode="constant", n_mels=40) of
    librosa 0.11, logarithm with the same floor.
    """
    found = log_mel(chirp(), 16000, 40, 0.025, 0.010)
    golden = [
        [2.5895, -8.4425, -4.5184, -6.8706, -6.6270],
        [-3.5706, -8.4468, -6.6301, -8.0610, -7.8614],
        [-3.3905, -8.0286, -6.3905, -7.6709, -7.4616],
    ]
    assert found.shape == (51, 40)
    assert np.allclose(found[::17, ::9], golden, atol=1e-3)
    assert np.allclose([found.mean(), found.std()], [-5.61057, 3.09073], atol=1e-3)


def test_log_mel_is_the_plain_formula() -> None:
    """The same by a plain Fourier sum, window by window."""
    sound, rate, bands = chirp()[:1600], 16000, 20
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
    padded = np.pad(sound, 256)
    waves = np.exp(-2j * np.pi * np.outer(np.arange(257), np.arange(512)) / 512)
    frames = [padded[i * 160 : i * 160 + 512] * np.pad(window, 56) for i in range(11)]
    power = abs(np.array(frames) @ waves.T) ** 2
    top = 15 + 27 * np.log(8000 / 1000) / np.log(6.4)
    steps = np.linspace(0, top, bands + 2)
    edges = np.where(steps < 15, steps * 200 / 3, 1000 * 6.4 ** ((np.maximum(steps, 15) - 15) / 27))
    hertz = np.arange(257) * rate / 512
    found = np.zeros((11, bands))
    for band in range(bands):
        low, peak, high = edges[band : band + 3]
        for bin_, pitch in enumerate(hertz):
            rise, fall = (pitch - low) / (peak - low), (high - pitch) / (high - peak)
            found[:, band] += max(0, min(rise, fall)) * 2 / (high - low) * power[:, bin_]
    wanted = np.log(np.maximum(found, FLOOR))
    assert np.allclose(log_mel(sound, rate, bands, 0.025, 0.010), wanted, atol=1e-3)


def flac_that_says(count: int) -> bytes:
    content = bytearray(written(0.5 * tone(440, 8000), 8000, "FLAC"))
    content[21] = content[21] & 0xF0 | count >> 32
    content[22:26] = struct.pack(">I", count & 0xFFFFFFFF)
    return bytes(content)


def wav_that_says(size: int) -> bytes:
    content = bytearray(written(0.5 * tone(440, 8000), 8000))
    at = content.find(b"data")
    content[at + 4 : at + 8] = struct.pack("<I", size)
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [flac_that_says(n) for n in (0, 100, 8000 * 3600, (1 << 36) - 1)]
    + [wav_that_says(n) for n in (0, 200, 10**9, 0x7FFFF000, 0xFFFFFFFF)],
)
@pytest.mark.fault(16)
def test_a_header_that_lies_is_read_to_the_real_end(content: bytes) -> None:
    found = read(content, 8000)
    assert len(found) == 8000
    assert abs(middle(found) - middle(0.5 * tone(440, 8000))).max() < 1e-3


def test_a_wav_with_chunks_after_its_data_ends_where_its_data_end() -> None:
    content = written(0.5 * tone(440, 8000), 8000)
    assert len(read(content + b"LIST" + struct.pack("<I", 4) + b"info", 8000)) == 8000


def hour(kind: str = "FLAC") -> bytes:
    return written(np.zeros(8000 * 3600, np.int16), 8000, kind)


@pytest.mark.fault(16)
def test_an_hour_is_capped_and_memory_stays_flat() -> None:
    content = hour()
    assert len(content) < 200_000
    tracemalloc.start()
    found = hear(io.BytesIO(content), 16000, seconds=5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.longer
    assert len(found.samples) == 5 * 16000
    assert peak < 10_000_000  # an hour of samples would be 115 MB


BROKEN: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "not a sound": lambda: b"hello, world\n" * 100,
    "half a FLAC": lambda: written(chirp(), 8000, "FLAC")[:5000],
    "a FLAC with a hole": lambda: _holed(written(chirp(), 8000, "FLAC")),
    "half an Ogg": lambda: written(chirp(), 8000, "OGG")[:1500],
    "a header alone": lambda: written(chirp(), 8000, "FLAC")[:20],
    "0 samples": lambda: written(np.zeros(0, np.float32), 8000),
    "not numbers": lambda: written(np.full(80, np.nan, np.float32), 8000, "WAV", subtype="FLOAT"),
}


def _holed(content: bytes) -> bytes:
    return content[:6000] + bytes(100) + content[6100:]


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
@pytest.mark.fault(16)
def test_what_is_no_sound_is_refused(content: Callable[[], bytes]) -> None:
    with pytest.raises(UnreadableError, match="sound"):
        read(content())


WORKED = """
import sys, torch
from dragoman.data import media
from dragoman.data.sound import SoundField, SoundSpec

media.WORTH = 2
torch.set_num_threads(2)
torch.rand(2_000_000).exp().sum()  # from here on there are threads that a forked process lacks
column, bad = SoundField(SoundSpec()).read(sys.argv[1:])
assert not bad and len(column) == 4
"""


def test_sounds_are_read_by_processes_of_one_that_has_worked(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{number}.wav") for number in range(4)]
    for name in names:
        Path(name).write_bytes(written(tone(300, 16000, 20), 16000))
    env = os.environ | {"DRAGOMAN_CACHE": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", WORKED, *names], check=True, timeout=120, env=env)
