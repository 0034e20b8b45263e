"""What a runner outside Python must know of a model beside its weights: columns and search."""

from typing import Any

from dragoman import __version__
from dragoman.checkpoint import Loaded
from dragoman.config import SearchSpec
from dragoman.data.fields import Field, TextField
from dragoman.data.pictures import ImageField
from dragoman.data.points import PointsField
from dragoman.data.sound import SoundField
from dragoman.errors import UserError

FORMAT = 1
CARRIED = (  # options of the search that runners know
    "beam",
    "n_best",
    "normalize",
    "length_penalty",
    "min_length",
    "max_length",
    "ratio",
    "valid",
    "no_repeat_ngram",
    "sample",
    "temperature",
    "top_k",
    "top_p",
    "seed",
)
HARMLESS = ("diversity", "lm_weight", "log_linear")  # of parts that are refused themselves


def describe(loaded: Loaded) -> dict[str, Any]:
    """A model without its weights, as JSON knows it; what runners cannot do is refused by name."""
    usual, search = SearchSpec(), loaded.config.search
    for name in SearchSpec.model_fields:
        if name not in (*CARRIED, *HARMLESS) and getattr(search, name) != getattr(usual, name):
            raise UserError(
                f"search.{name} cannot be exported: set it to {getattr(usual, name)!r} in the "
                "model's config.yaml, or predict with dragoman itself"
            )
    fields, head = loaded.fields, loaded.model.head
    if head.points and fields.source and fields.source.spec.kind not in ("text", "points"):
        kind = fields.source.spec.kind
        raise UserError(
            f"model.head.kind=pointer over {kind} cannot be exported: only text, points"
        )
    return {
        "format": FORMAT,
        "writer": f"dragoman {__version__}",
        "recipe": loaded.config.recipe,
        "ends": loaded.model.decoder.ends,
        "beyond": loaded.model.decoder.beyond,
        "copies": head.copies,
        "points": head.points,
        "sources": [column(name, field) for name, field in fields.sources.items()],
        "target": column("target", fields.target),
        "search": {name: getattr(search, name) for name in CARRIED},
    }


def column(name: str, field: Field) -> dict[str, Any]:
    """How the values of a column are read."""
    about: dict[str, Any] = {"name": name, "kind": field.spec.kind}
    if isinstance(field, TextField):
        return about | _text(name, field)
    if isinstance(field, PointsField):
        about |= {"centre": field.centre.tolist(), "spread": field.spread.tolist()}
        return about | dict(field.spec.model_dump(mode="json"))
    if isinstance(field, ImageField | SoundField):
        return about | {"size": field.size, **field.spec.model_dump(mode="json")}
    raise UserError(f"data.{name}.kind={field.spec.kind} cannot be exported: no runner reads it")


def _text(name: str, field: TextField) -> dict[str, Any]:
    spec = field.spec
    about = {
        "units": spec.units,
        "lower": spec.lower,
        "normalize": spec.normalize,
        "reverse": spec.reverse,
        "max_length": spec.max_length,
        "signs": spec.signs,
        "symbols": list(field.units.symbols),
    }
    return about | ({"file": f"{name}.subword.model"} if spec.units == "subword" else {})
