"""Sounds: files become bands of pitch, a hundred times a second, as in training."""

import io
import math
import wave
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
ZEROS, KEPT, BETA = 32, 0.95, 12.0  # of the filter that resamples
FLOOR, QUIET = 1e-8, 1e-3  # of the power in a band, and of how much it varies
BREAK, STEP, GROWTH = 1000.0, 200 / 3, math.log(6.4) / 27  # Slaney's scale of pitch


class Sounds:
    """A column of sounds: a value is the name of a file, or its content."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about

    def encode(self, value: str | bytes) -> Floats:
        """One sound as numbers around 0: (S, bands)."""
        about = self.about
        content = value if isinstance(value, bytes) else Path(value).read_bytes()
        samples, rate = _samples(content)
        samples = samples[: math.ceil(about["max_seconds"] * rate)]
        if not len(samples) or not np.isfinite(samples).all():
            raise ValueError("a sound of 0 samples, or of samples that are not numbers")
        bands = log_mel(resample(samples, rate, about["rate"]), about)
        bands = bands.astype(np.float16).astype(np.float32)
        mean, spread = np.zeros(1, np.float32), np.ones(1, np.float32)
        if about["normalize"] == "utterance":
            mean, spread = bands.mean(0), np.maximum(bands.std(0), np.float32(QUIET))
        elif about["normalize"] == "global":
            mean, spread = (np.array(about[name], np.float32) for name in ("mean", "std"))
        return (bands - mean) / spread


def _samples(content: bytes) -> tuple[Floats, int]:
    """All samples as one channel, and how many there are in a second."""
    try:
        import soundfile
    except (ImportError, OSError):
        return _wave(content)
    samples, rate = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    return samples.mean(1), int(rate)


def _wave(content: bytes) -> tuple[Floats, int]:
    """The same for a plain WAV, by what every Python has."""
    try:
        with wave.open(io.BytesIO(content)) as file:
            size, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
    except (wave.Error, EOFError) as error:
        raise ValueError(f"not a plain WAV ({error}); for others: pip install soundfile") from None
    wide = np.zeros((len(raw) // size, 4), np.uint8)  # the highest bytes, the lowest first
    wide[:, 4 - size :] = raw[: len(wide) * size].reshape(-1, size)
    whole = wide.view("<i4")[:, 0]
    whole = whole ^ np.int32(-(2**31)) if size == 1 else whole  # bytes have no sign
    samples = (whole / 2.0**31).astype(np.float32)
    return samples[: len(samples) // channels * channels].reshape(-1, channels).mean(1), rate


def log_mel(samples: Floats, about: dict[str, Any]) -> Floats:
    """The logarithm of the power in bands of equal width to the ear: (1 + n // hop, bands)."""
    rate = about["rate"]
    wide, step = max(1, round(about["window"] * rate)), max(1, round(about["hop"] * rate))
    points = max(512, 1 << (wide - 1).bit_length())
    left = (points - wide) // 2
    window = np.zeros(points)
    window[left : left + wide] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(wide) / wide)
    padded = np.pad(samples, points // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, points)[::step]
    filters = _triangles(rate, points, about["bands"])
    power = [np.abs(np.fft.rfft(frame * window)) ** 2 @ filters.T for frame in frames]
    logs: Floats = np.log(np.maximum(power, FLOOR)).astype(np.float32)
    return logs


@lru_cache(maxsize=8)
def _triangles(rate: int, points: int, bands: int) -> npt.NDArray[np.float64]:
    """Triangles of equal area (bands, points // 2 + 1) that overlap by half."""
    most = BREAK / STEP + math.log(max(rate / 2, BREAK) / BREAK) / GROWTH
    steps = np.linspace(0, rate / 2 / STEP if rate / 2 < BREAK else most, bands + 2)
    high = BREAK * np.exp(GROWTH * (np.maximum(steps, BREAK / STEP) - BREAK / STEP))
    edges = np.where(steps < BREAK / STEP, steps * STEP, high)
    pitch = np.arange(points // 2 + 1) * rate / points
    low, middle, top = (edges[i : bands + i, None] for i in range(3))
    rise, fall = (pitch - low) / (middle - low), (top - pitch) / (top - middle)
    found: npt.NDArray[np.float64] = np.clip(np.minimum(rise, fall), 0, None) * 2 / (top - low)
    return found


def resample(samples: Floats, have: int, want: int) -> Floats:
    """Sound at another rate, by a sinc under a Kaiser window."""
    if have == want:
        return samples
    common = math.gcd(have, want)
    up, down = want // common, have // common
    band = min(1.0, want / have) * KEPT
    half = math.ceil(ZEROS / band)
    count = -(-len(samples) * up // down)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(samples, half), 2 * half)
    result = np.empty(count, np.float32)
    step = max(1, (1 << 20) // (2 * half))
    for begin in range(0, count, step):
        places = np.arange(begin, min(begin + step, count), dtype=np.int64) * down
        whole, phase = places // up, places % up
        filters = _filters(phase / up, band, half)
        result[begin : begin + len(places)] = np.einsum("nt,nt->n", windows[whole + 1], filters)
    return result


def _filters(phases: npt.NDArray[np.float64], band: float, half: int) -> Floats:
    """The filter (P, 2 * half) that reads the sound a share of a sample after the middle."""
    places = np.arange(1 - half, half + 1) - phases[:, None]
    window = np.i0(BETA * np.sqrt(np.clip(1 - (places / half) ** 2, 0, None))) / np.i0(BETA)
    return (band * np.sinc(band * places) * window).astype(np.float32)
