"""A model as one HTML file that runs in a browser, offline: weights, runtime and page in one."""

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.attention import AttentionSpec
from dragoman.checkpoint import Loaded, weights_of
from dragoman.data.fields import TextField
from dragoman.data.text import Subwords
from dragoman.errors import UserError
from dragoman.model import attends
from dragoman.recipes import recipe, recipe_names
from dragoman.ship.describe import describe
from dragoman.ship.rounding import Form, pack

PAGE = Path(__file__).parent / "page"
RUNTIME = (
    *("units.js", "weights.js", "numbers.js", "net.js", "write.js", "monotone.js", "search.js"),
    "worker.js",
)
OPTIONS = {  # of parts, those that the runtime heeds or that matter in training alone
    *("kind", "cell", "reset", "hidden", "layers", "dropout", "recurrent_dropout", "residual"),
    *("embedding", "bidirectional", "summary", "parts", "size", "fuse", "tied", "score", "when"),
    *("feed", "coverage", "local", "context", "start", "readout", "readout_size", "readout_word"),
    *("pool", "whole"),
}
KNOWN = {
    "encoder": ("text", "nothing", "several"),
    "decoder": ("recurrent", "still", "aligned"),
    "head": ("vocabulary", "copy", "monotone"),
}


def page(
    loaded: Loaded,
    form: Form = "int8",
    title: str | None = None,
    lead: str | None = None,
    examples: Sequence[Sequence[str]] = (),
    facts: str = "",
) -> str:
    """The file's text; `facts` stand in its footer. Parts that browsers cannot run are refused by
    name.
    """
    _check(loaded)
    weights = weights_of(loaded.model)
    packed = pack(weights, form)
    about = describe(loaded) | {
        "model": _parts(loaded),
        "weights": packed.places,
        "examples": [list(example) for example in examples],
    }
    fields = [*loaded.fields.sources.values(), loaded.fields.target]
    for column, field in zip([*about["sources"], about["target"]], fields, strict=True):
        if isinstance(field, TextField) and isinstance(field.units, Subwords):
            column["scores"] = field.units.scores()
    size = sum(tensor.numel() for tensor in weights.values())
    name, line = _words(loaded)
    return _filled(
        title=html.escape(title or name),
        lead=html.escape(lead or line),
        facts=html.escape(
            f"{size / 1e6:.2f} million parameters, {form}; {about['writer']}. {facts}".rstrip()
        ),
        style=(PAGE / "page.css").read_text("utf-8"),
        about=json.dumps(about, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        weights=base64.b64encode(packed.blob).decode("ascii"),
        runtime="\n".join((PAGE / part).read_text("utf-8") for part in RUNTIME),
        script=(PAGE / "page.js").read_text("utf-8"),
    )


def _check(loaded: Loaded) -> None:
    spec = loaded.config.model
    for part, kinds in KNOWN.items():
        _known(f"model.{part}.kind", getattr(spec, part).kind, kinds)
    parts = getattr(spec.encoder, "parts", ())
    for place, inner in enumerate(parts):
        _known(f"model.encoder.parts.{place}.kind", inner.kind, ("text",))
    for part in (spec.encoder, *parts, spec.attention, spec.decoder, spec.head):
        for name, field in type(part).model_fields.items() if part is not None else ():
            if name not in OPTIONS and getattr(part, name) != field.default:
                raise UserError(
                    f"model: the option {name} of a part cannot be exported to HTML: use --to onnx"
                )
    pool = getattr(spec.decoder, "pool", "summary")
    _known("model.decoder.pool", pool, ("summary", "attention", "mean", "max"))


def _known(name: str, kind: str, kinds: Sequence[str]) -> None:
    if kind not in kinds:
        raise UserError(
            f"{name}={kind} cannot be exported to HTML (only {', '.join(kinds)}): use --to onnx"
        )


def _parts(loaded: Loaded) -> dict[str, Any]:
    spec = loaded.config.model
    usual = AttentionSpec() if attends(spec.decoder) else None
    attention = spec.attention or usual
    parts = {part: getattr(spec, part).model_dump(mode="json") for part in KNOWN}
    return parts | {"attention": attention.model_dump(mode="json") if attention else None}


def _words(loaded: Loaded) -> tuple[str, str]:
    """A title and the line below it."""
    name = loaded.config.recipe
    line = recipe(name).line if name in recipe_names() else "a recurrent encoder-decoder"
    return name, f"{line[0].upper()}{line[1:]}."


def _filled(**parts: str) -> str:
    """The page with its places filled, each once and in turn: what is put in is not searched."""
    rest, done = (PAGE / "page.html").read_text("utf-8"), []
    while "{{" in rest:
        before, _, rest = rest.partition("{{")
        name, _, rest = rest.partition("}}")
        done += [before, parts[name]]
    return "".join([*done, rest])
