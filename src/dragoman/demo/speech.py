"""Spoken numbers, digit by digit, in many synthetic voices; where no synthesiser is installed,
melodies, with a letter for each tone.
"""

import io
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.data.files import UnreadableError
from dragoman.data.waves import hear
from dragoman.demo.media import Pair, zipped_sounds
from dragoman.errors import DragomanError

Samples = npt.NDArray[np.float32]

RATE, SYNTHESISER = 16_000, "espeak-ng"
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
ACCENTS = ("en-us", "en-gb", "en-gb-scotland", "en-gb-x-rp")
TIMBRES = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4")
LETTERS = dict(
    zip("cdefgabh", (0, 2, 4, 5, 7, 9, 10, 11), strict=True)
)  # half tones above middle c
MIDDLE, LONGEST = 261.6, 3  # Hz; digits or tones


def can_speak() -> bool:
    """Whether there is a synthesiser."""
    return shutil.which(SYNTHESISER) is not None


def write(folder: Path, count: int, seed: int) -> list[Pair]:
    """Sounds in a zip of the folder, as pairs of their names and what is heard."""
    chance = random.Random(seed)
    if can_speak():
        said = [" ".join(_drawn(DIGITS, chance)) for _ in range(count)]
        sounds: Iterator[Samples] = (speak(text, chance.randrange(1 << 30)) for text in said)
    else:
        said = [" ".join(_drawn(list(LETTERS), chance)) for _ in range(count)]
        sounds = (play(text.split(), chance.randrange(1 << 30)) for text in said)
    names = zipped_sounds(folder / "sounds.zip", sounds, RATE)
    return list(zip(names, said, strict=True))


def _drawn(symbols: list[str], chance: random.Random) -> list[str]:
    return chance.choices(symbols, k=chance.randint(1, LONGEST))


def speak(text: str, seed: int) -> Samples:
    """A text in one of some forty voices, at some speed and pitch."""
    chance = random.Random(seed)
    voice = f"{chance.choice(ACCENTS)}+{chance.choice(TIMBRES)}"
    speed, pitch = str(chance.randint(130, 190)), str(chance.randint(30, 70))
    command = [SYNTHESISER, "-v", voice, "-s", speed, "-p", pitch, "--stdout", text]
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
        return hear(io.BytesIO(done.stdout), RATE, seconds=20).samples
    except (OSError, subprocess.SubprocessError, UnreadableError) as error:
        raise DragomanError(f"{SYNTHESISER} does not speak: {error}") from None


def play(letters: list[str], seed: int) -> Samples:
    """A melody, one tone for each letter, on an instrument that is never quite the same.

    >>> 3000 < len(play(["c", "e"], seed=1)) < 16000
    True
    """
    chance = np.random.default_rng(seed)
    overtones, tuning = chance.random(4) * 0.5, 2 ** (chance.normal(0, 0.1) / 12)
    parts = []
    for letter in letters:
        count = int(RATE * chance.uniform(0.12, 0.25))
        turns = np.arange(count) / RATE * MIDDLE * tuning * 2 ** (LETTERS[letter] / 12)
        tone = np.sin(2 * np.pi * turns)
        for number, strength in enumerate(overtones, 2):
            tone += strength / number * np.sin(2 * np.pi * number * turns)
        swell = np.minimum(np.arange(count), np.arange(count)[::-1]) / (0.02 * RATE)
        parts += [
            0.2 * tone * np.minimum(swell, 1),
            np.zeros(int(RATE * chance.uniform(0.02, 0.1))),
        ]
    sound = np.concatenate(parts)
    return (sound + chance.normal(0, 0.003, len(sound))).astype(np.float32)
