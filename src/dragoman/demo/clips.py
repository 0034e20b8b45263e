"""Clips of shapes that move, each with a sentence that says how: a task checked at a glance."""

import random
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.demo.media import Pair, zipped_arrays

SIDE, LENGTH, RADIUS, SPEED = 32, 16, 5, 1.2  # pixels, frames, pixels, pixels a frame
COLOURS = {
    "red": (230, 60, 50),
    "green": (50, 200, 80),
    "blue": (70, 100, 240),
    "yellow": (240, 220, 60),
}
SHAPES = ("square", "circle", "triangle")
WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}

Clip = npt.NDArray[np.uint8]  # (frames, height, width, 3)
Script = tuple[str, str, tuple[str, ...]]  # a colour, a shape, and one way or two


def sentence(colour: str, shape: str, ways: tuple[str, ...]) -> str:
    """What happens in a clip.

    >>> sentence("red", "square", ("left", "up"))
    'the red square moves left, then up'
    """
    return f"the {colour} {shape} moves {', then '.join(ways)}"


def draw(colour: str, shape: str, ways: tuple[str, ...], seed: int) -> Clip:
    """A clip of one shape that goes one way, or one way and then another.

    >>> draw("red", "square", ("left", "up"), seed=1).shape
    (16, 32, 32, 3)
    """
    chance = np.random.default_rng(seed)
    steps = np.array([WAYS[ways[t * len(ways) // LENGTH]] for t in range(LENGTH)]) * SPEED
    path = np.cumsum(steps, 0)
    low, high = RADIUS - path.min(0), SIDE - RADIUS - path.max(0)
    path = path + low + chance.random(2) * np.maximum(high - low, 0)
    ground = chance.integers(0, 40) + chance.normal(0, 6, (LENGTH, SIDE, SIDE, 1))
    frames = np.repeat(ground, 3, 3)
    for frame, (x, y) in zip(frames, path, strict=True):
        frame[_inside(shape, x, y)] = COLOURS[colour]
    return np.clip(frames, 0, 255).astype(np.uint8)


def _inside(shape: str, x: float, y: float) -> npt.NDArray[np.bool_]:
    """The pixels of a shape around a place."""
    down, right = np.mgrid[:SIDE, :SIDE] + 0.5
    right, down = right - x, down - y
    if shape == "square":
        inside = np.maximum(abs(right), abs(down)) < RADIUS * 0.85
    elif shape == "circle":
        inside = right**2 + down**2 < RADIUS**2
    else:
        inside = (abs(down) < RADIUS * 0.9) & (abs(right) < (down + RADIUS) / 2)
    return np.asarray(inside)


def scripts(count: int, seed: int) -> list[Script]:
    """What is to be drawn: every colour, shape and way alike, half of the clips with a turn.

    >>> scripts(3, seed=1) == scripts(5, seed=1)[:3]
    True
    """
    chance = random.Random(seed)
    found: list[Script] = []
    for _ in range(count):
        first = chance.choice(list(WAYS))
        second = chance.choice([way for way in WAYS if way != first])
        ways = (first,) if chance.random() < 0.5 else (first, second)
        found.append((chance.choice(list(COLOURS)), chance.choice(SHAPES), ways))
    return found


def write(folder: Path, count: int, seed: int) -> list[Pair]:
    """Clips in a zip of the folder, as pairs of their names and their sentences."""
    drawn = scripts(count, seed)
    clips = (draw(*script, seed=seed * 1_000_003 + i) for i, script in enumerate(drawn))
    names = zipped_arrays(folder / "clips.zip", clips)
    return [(name, sentence(*script)) for name, script in zip(names, drawn, strict=True)]
