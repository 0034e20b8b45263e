"""What is wrong with a config, in words: which key, where, and what was perhaps meant."""

import reprlib
import types
import typing
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from dragoman.errors import did_you_mean
from dragoman.spec import Kinds, Spec

KINDS = {
    "recurrent",
    "still",
    "aligned",
    "vocabulary",
    "copy",
    "monotone",
    "pointer",
}


def explain(error: ValidationError, root: type[Spec]) -> str:
    """The first thing that is wrong with a config, in one line."""
    problem = error.errors()[0]
    path = [str(part) for part in problem["loc"] if str(part) not in KINDS]
    if problem["type"] == "extra_forbidden":
        where = path[:-1]
        known = _keys(where, root)
        other = " (parts of another kind have it)" if path[-1] in known else ""
        hint = other or _meant(path[-1], where, root) or did_you_mean(path[-1], known)
        return f"unknown key '{path[-1]}' in {'.'.join(where) or 'the config'}{hint}"
    value = problem.get("input")
    shown = f" (got {reprlib.repr(value)})" if not isinstance(value, dict | Spec) else ""
    return f"{'.'.join(path) or 'the config'}: {plain(problem['msg'])}{shown}"


PLAIN = {  # what the checker says, and what people say
    "input should be": "must be",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "a text",
    "a valid boolean": "true or false",
    "a valid tuple": "a list",
    "less than or equal to": "at most",
    "greater than or equal to": "at least",
    "value error, ": "",
}


def plain(said: str) -> str:
    """What pydantic says of a value, as people say it.

    >>> plain("Input should be a valid integer, unable to parse string as an integer")
    'must be a whole number'
    """
    said = said.lower().split(", unable to")[0].split(", got a number with")[0]
    if "valid dictionary" in said:
        return "must be a mapping of names to values"
    for theirs, ours in PLAIN.items():
        said = said.replace(theirs, ours)
    return said


PLACES = ["train", "data", "data.source", "data.target", "model", "model.encoder", "model.decoder"]
PLACES += ["model.attention", "model.head", "search"]
SYNONYMS = {  # what settings are called elsewhere, and here; with dots, the one place for it
    "learning_rate": "train.lr",
    "batch": "train.batch_size, train.batch_tokens",
    "num_epochs max_epochs n_epochs": "train.epochs",
    "steps num_steps train_steps": "train.max_steps",
    "warmup_steps num_warmup_steps": "train.warmup",
    "early_stopping": "train.patience",
    "scheduler lr_scheduler": "train.schedule",
    "optim": "train.optimizer",
    "grad_clip clip_norm max_grad_norm clip_grad_norm": "train.clip",
    "update_freq accum_count gradient_accumulation_steps": "train.accumulate",
    "random_seed": "train.seed",
    "gpu": "train.device",
    "fp16 bf16 amp": "train.precision",
    "eval_every valid_steps eval_steps": "train.evaluate_every",
    "save_every save_steps": "train.checkpoint_every",
    "beam_size beam_width num_beams": "search.beam",
    "nbest": "search.n_best",
    "vocab_size vocabulary_size max_vocab": "data.source.size, data.target.size",
    "min_freq": "data.source.min_count, data.target.min_count",
    "lowercase": "lower",
    "tokenizer tokenization": "units",
    "max_len": "max_length",
    "num_layers n_layers": "layers",
    "hidden_size hidden_dim rnn_size": "hidden",
    "embedding_size embedding_dim embed_dim emb_size word_vec_size": "embedding",
    "rnn rnn_type cell_type": "cell",
    "attention_size attention_dim": "model.attention.size",
}
MEANT = {theirs: ours for names, ours in SYNONYMS.items() for theirs in names.split()}


def homes(name: str, root: type[Spec], where: Sequence[str] = ()) -> list[str]:
    """The full names of what a setting may be, by its own name or by what others call it: at the
    place where it was looked for or, when it is not there, wherever it is.

    >>> from dragoman.config import Config
    >>> homes("learning_rate", Config), homes("num_layers", Config, ["model", "decoder"])
    (['train.lr'], ['model.decoder.layers'])
    """
    ours = MEANT.get(name, name)
    if "." in ours:
        return ours.split(", ")
    if ours in _keys(where, root):
        return [".".join([*where, ours])]
    return [f"{place}.{ours}" for place in PLACES if ours in _keys(place.split("."), root)]


def _meant(name: str, where: Sequence[str], root: type[Spec]) -> str:
    """A hint for a key that goes by another name, or belongs elsewhere."""
    found = homes(name, root, where)[:3]
    told = "' or '".join(found)
    return f" (did you mean '{told}'?)" if found else ""


def _keys(path: Sequence[str], root: type[Spec]) -> list[str]:
    """The names that are known at a place of the config."""
    specs: list[type[Spec]] = [root]
    for key in path:
        specs = [
            inner
            for spec in specs
            if key in spec.model_fields
            for inner in _inside(spec.model_fields[key])
        ]
    return sorted({name for spec in specs for name in spec.model_fields})


def _inside(place: FieldInfo) -> list[type[Spec]]:
    """The specs that can stand at a place."""
    tables = [known for known in place.metadata if isinstance(known, Kinds)]
    return [spec for table in tables for spec in table.options()] or _specs(place.annotation)


def _specs(annotation: Any) -> list[type[Spec]]:
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return [annotation]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) in (
        typing.Union,
        Annotated,
    ):
        return [spec for part in typing.get_args(annotation) for spec in _specs(part)]
    return []
