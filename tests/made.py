"""Sounds and clips made on the spot, for tests: each number gives another one."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

RATE = 8000


def sound(number: int, seconds: float = 0.16) -> npt.NDArray[np.float32]:
    """Two tones, one after the other; which, the number tells."""
    at = np.arange(round(RATE * seconds / 2)) / RATE
    tones = [200 * 1.25 ** (number % 7), 200 * 1.25 ** (number // 7 % 7)]
    both = np.concatenate([np.sin(2 * np.pi * tone * at) for tone in tones])
    noise = np.random.default_rng(number).normal(0, 0.01, len(both))
    return (0.3 * both + noise).astype(np.float32)


def write_sound(folder: Path, number: int, seconds: float = 0.16) -> str:
    """The name of a file with a sound."""
    import soundfile

    soundfile.write(folder / f"{number}.wav", sound(number, seconds), RATE)
    return f"{number}.wav"


def clip(number: int, frames: int = 4, side: int = 12) -> npt.NDArray[np.uint8]:
    """A pattern of stripes that moves; both, the number tells."""
    chance = np.random.default_rng(number)
    stripes = chance.integers(0, 256, (side, 3)).repeat(side, 0).reshape(side, side, 3)
    step = int(chance.integers(1, 4))
    return np.stack([np.roll(stripes, step * t, t % 2) for t in range(frames)]).astype(np.uint8)


def write_clip(folder: Path, number: int, frames: int = 4) -> str:
    """The name of a file with a clip."""
    np.save(folder / f"{number}.npy", clip(number, frames))
    return f"{number}.npy"
