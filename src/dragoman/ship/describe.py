"""What a runner outside Python must know of a model beside its weights: columns and search."""

from typing import Any

from dragoman import __version__
from dragoman.checkpoint import Loaded
from dragoman.config import SearchSpec
from dragoman.data.fields import Field, TextField
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
    if loaded.model.head.points:
        raise UserError("model.head.kind=pointer cannot be exported: predict with dragoman itself")
    fields, head = loaded.fields, loaded.config.model.head.kind
    if head not in ("vocabulary", "copy"):
        raise UserError(f"model.head.kind={head} cannot be exported: only vocabulary, copy")
    return {
        "format": FORMAT,
        "writer": f"dragoman {__version__}",
        "recipe": loaded.config.recipe,
        "ends": loaded.model.decoder.ends,
        "copies": loaded.model.head.copies,
        "sources": [_column(name, field) for name, field in fields.sources.items()],
        "target": _column("target", fields.target),
        "search": {name: getattr(search, name) for name in CARRIED},
    }


def _column(name: str, field: Field) -> dict[str, Any]:
    if not isinstance(field, TextField):
        raise UserError(f"data.{name} cannot be exported: runners read text, not {field.spec.kind}")
    spec = field.spec
    about = {
        "name": name,
        "kind": "text",
        "units": spec.units,
        "lower": spec.lower,
        "normalize": spec.normalize,
        "reverse": spec.reverse,
        "max_length": spec.max_length,
        "signs": spec.signs,
        "symbols": list(field.units.symbols),
    }
    return about | ({"file": f"{name}.subword.model"} if spec.units == "subword" else {})
