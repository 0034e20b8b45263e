"""All demonstrations by name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from dragoman.demo import looking, ordering, senses, show

SHOWS: dict[str, Callable[[Path, int | None], None]] = {
    "dates": show.show,
    "speech": partial(senses.show, senses.SPEECH),
    "clips": partial(senses.show, senses.CLIPS),
    "sort": partial(ordering.show, "sort"),
    "hull": partial(ordering.show, "hull"),
    "tsp": partial(ordering.show, "tsp"),
    "scenes": partial(looking.show, "scenes"),
    "vqa": partial(looking.show, "vqa"),
}
