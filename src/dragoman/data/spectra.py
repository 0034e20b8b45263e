"""Samples to pictures of sound: how strong each band of pitch is, a hundred times a second."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float32]

FLOOR = 1e-8  # of the power in a band: what is quieter is silence
BREAK, STEP = 1000.0, 200 / 3  # Hz: up to here pitch goes in equal steps of this size ...
GROWTH = np.log(6.4) / 27  # ... and in equal ratios above (Slaney 1998)


def log_mel(samples: Floats, rate: int, bands: int, window: float, hop: float) -> Floats:
    """The logarithm of the power in bands of equal width to the ear: (1 + n // hop, bands).

    Windows (Hann) are centred at multiples of `hop` seconds; beyond its ends a sound is silent.

    >>> log_mel(np.zeros(16000, np.float32), 16000, 40, 0.025, 0.010).shape
    (101, 40)
    """
    wide, step = max(1, round(window * rate)), max(1, round(hop * rate))
    points = max(512, 1 << (wide - 1).bit_length())
    spectrum = torch.stft(
        torch.from_numpy(samples),
        points,
        step,
        wide,
        torch.hann_window(wide),
        center=True,
        pad_mode="constant",
        return_complex=True,
    )
    power = _filters(rate, points, bands) @ spectrum.abs().square()
    return np.ascontiguousarray(power.clamp(min=FLOOR).log().T.numpy())


@lru_cache(maxsize=8)
def _filters(rate: int, points: int, bands: int) -> Tensor:
    """Triangles of equal area (bands, points // 2 + 1) that overlap by half, from 0 Hz to the
    Nyquist frequency.
    """
    edges = hertz(np.linspace(0, mels(np.array([rate / 2]))[0], bands + 2))
    pitch = np.arange(points // 2 + 1) * rate / points
    low, middle, high = (edges[i : bands + i, None] for i in range(3))
    rise, fall = (pitch - low) / (middle - low), (high - pitch) / (high - middle)
    triangles = np.clip(np.minimum(rise, fall), 0, None) * 2 / (high - low)
    return torch.from_numpy(triangles.astype(np.float32))


def mels(pitch: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Hertz to mels, by Slaney's scale.

    >>> mels(np.array([0.0, 1000.0, 6400.0])).round(6).tolist()
    [0.0, 15.0, 42.0]
    """
    high = BREAK / STEP + np.log(np.maximum(pitch, BREAK) / BREAK) / GROWTH
    return np.where(pitch < BREAK, pitch / STEP, high)


def hertz(steps: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mels to hertz.

    >>> hertz(np.array([0.0, 15.0, 42.0])).round(6).tolist()
    [0.0, 1000.0, 6400.0]
    """
    high = BREAK * np.exp(GROWTH * (np.maximum(steps, BREAK / STEP) - BREAK / STEP))
    return np.where(steps < BREAK / STEP, steps * STEP, high)
