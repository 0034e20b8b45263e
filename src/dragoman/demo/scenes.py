"""Drawn scenes: shapes of a few colours, with sentences about them and questions about them."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SIDE = 48  # pixels
COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 119, 180),
    "yellow": (240, 200, 20),
}
SHAPES = ("circle", "square", "triangle")
NUMBERS = ("no", "one", "two", "three")


class Thing(NamedTuple):
    """A shape with a colour, and where its middle is."""

    colour: str
    shape: str
    x: float
    y: float

    @property
    def name(self) -> str:
        return f"{self.colour} {self.shape}"


Scene = tuple[Thing, ...]


def scene(chance: np.random.Generator) -> Scene:
    """One to three shapes that do not touch, not more than one of a kind or all of one kind.

    >>> len(scene(np.random.default_rng(1))) in (1, 2, 3)
    True
    """
    count = int(chance.integers(1, 4))
    alike = count > 1 and chance.random() < 0.4
    kinds = [(c, s) for c in COLOURS for s in SHAPES]
    picked = chance.choice(len(kinds), 1 if alike else count, replace=False)
    chosen = [kinds[int(i)] for i in np.resize(picked, count)]
    cells = chance.permutation(9)[:count]
    things = []
    for (colour, shape), cell in zip(chosen, cells.tolist(), strict=True):
        jitter = chance.uniform(-1.5, 1.5, 2)
        x, y = (cell % 3 + 0.5) * SIDE / 3 + jitter[0], (cell // 3 + 0.5) * SIDE / 3 + jitter[1]
        things.append(Thing(colour, shape, float(x), float(y)))
    return tuple(things)


def sentence(shown: Scene) -> str:
    """What is to be seen: how many, or where one is beside the other. A picture has one sentence,
    so that it can be told from the picture alone: names come in the order of the alphabet.

    >>> sentence((Thing("red", "circle", 8.0, 8.0), Thing("blue", "square", 40.0, 9.0)))
    'a blue square right of a red circle'
    >>> sentence((Thing("red", "circle", 8.0, 8.0), Thing("red", "circle", 8.0, 40.0)))
    'two red circles'
    """
    if len({thing.name for thing in shown}) == 1:
        name = shown[0].name
        return f"a {name}" if len(shown) == 1 else f"{NUMBERS[len(shown)]} {name}s"
    first, second, *third = sorted(shown, key=lambda thing: thing.name)
    if first.x > second.x + SIDE / 6 or first.x < second.x - SIDE / 6:
        relation = "left of" if first.x < second.x else "right of"
    else:
        relation = "above" if first.y < second.y else "below"
    told = f"a {first.name} {relation} a {second.name}"
    return " and a ".join([told, *(thing.name for thing in third)])


def questions(shown: Scene, chance: np.random.Generator) -> Iterator[tuple[str, str]]:
    """Questions about a scene, each with its answer: one of each type that it allows.

    >>> one = (Thing("red", "circle", 8.0, 8.0),)
    >>> dict(questions(one, np.random.default_rng(1)))["what colour is the circle ?"]
    'red'
    """
    colour, shape = str(chance.choice(list(COLOURS))), str(chance.choice(SHAPES))
    there = any(thing.colour == colour and thing.shape == shape for thing in shown)
    yield f"is there a {colour} {shape} ?", "yes" if there else "no"
    yield "how many shapes are there ?", NUMBERS[len(shown)]
    thing = shown[int(chance.integers(len(shown)))]
    if len({other.colour for other in shown if other.shape == thing.shape}) == 1:
        yield f"what colour is the {thing.shape} ?", thing.colour
    if len({other.shape for other in shown if other.colour == thing.colour}) == 1:
        yield f"what is the {thing.colour} shape ?", thing.shape
    for one, other in combinations(shown, 2):
        if one.name != other.name and abs(one.x - other.x) > SIDE / 6:
            left = "yes" if one.x < other.x else "no"
            yield f"is the {one.name} left of the {other.name} ?", left
            return


def draw(shown: Scene, chance: np.random.Generator) -> Any:
    """The picture of a scene, on a light ground that is never quite the same."""
    from PIL import Image, ImageDraw

    ground = tuple(int(shade) for shade in chance.integers(215, 256, 3))
    image = Image.new("RGB", (SIDE, SIDE), ground)
    pen = ImageDraw.Draw(image)
    for thing in shown:
        size = float(chance.uniform(5.2, 6.2))
        box = [thing.x - size, thing.y - size, thing.x + size, thing.y + size]
        ink = COLOURS[thing.colour]
        if thing.shape == "circle":
            pen.ellipse(box, fill=ink)
        elif thing.shape == "square":
            pen.rectangle(box, fill=ink)
        else:
            corners = [(box[0], box[3]), (box[2], box[3]), (thing.x, box[1])]
            pen.polygon(corners, fill=ink)
    return image


def write(folder: Path, count: int, seed: int, asked: bool = False) -> Path:
    """Pictures in a zip, and beside it a table of their sentences, or of questions and answers."""
    import io
    import zipfile

    folder.mkdir(parents=True, exist_ok=True)
    chance, lines = np.random.default_rng(seed), []
    with zipfile.ZipFile(folder / f"pictures-{seed}.zip", "w") as packed:
        for number in range(count):
            shown, file = scene(chance), io.BytesIO()
            draw(shown, chance).save(file, "PNG")
            name = f"{seed}-{number}.png"
            packed.writestr(name, file.getvalue())
            if asked:
                lines += [f"{name}\t{q}\t{a}\n" for q, a in questions(shown, chance)]
            else:
                lines.append(f"{name}\t{sentence(shown)}\n")
    table = folder / f"rows-{seed}.tsv"
    table.write_text("".join(lines), "utf-8")
    return table
