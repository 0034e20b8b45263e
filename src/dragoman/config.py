"""The config: one strict tree of specs. A config is data; it names no class and imports nothing."""

import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from dragoman.data.fields import TextSpec
from dragoman.data.rows import BadLines, Format
from dragoman.data.senses import FieldSpec
from dragoman.errors import UserError
from dragoman.explain import explain
from dragoman.kernels.choice import Kernel
from dragoman.model import ModelSpec
from dragoman.recipes import Tree, merge, read_yaml, recipe, recipe_names
from dragoman.spec import (
    Count,
    Length,
    Natural,
    NonNegative,
    Positive,
    Rate,
    Seed,
    Size,
    Spec,
)

ColumnName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,30}$")]


class CorpusSpec(Spec):
    """Further rows to train on. A weight of 2 shows each of them twice an epoch; 0.1 shows a tenth
    of them, another tenth each time.
    """

    files: tuple[str, ...]
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0


class DataSpec(Spec):
    """Where pairs come from and how their columns are read."""

    train: tuple[str, ...] = ()
    also: tuple[CorpusSpec, ...] = ()  # mixed in; dev rows are never cut off them
    dev: tuple[str, ...] = ()
    format: Format = "auto"
    columns: tuple[int | str, ...] | None = None  # numbers from 1, or names
    on_bad_line: BadLines = "error"
    dev_rows: Natural | None = None  # cut off when `dev` is not given; a tenth, at most 1000
    source: FieldSpec = TextSpec()
    more: dict[ColumnName, FieldSpec] = Field(default_factory=dict)  # further source columns
    target: FieldSpec = TextSpec()  # what is written: symbols
    store: str | None = None  # a folder for rows encoded once, where memory is too small for them
    shared: bool | Literal["sources"] = False  # one alphabet for all columns, or all sources

    @model_validator(mode="after")
    def _names_differ(self) -> typing.Self:
        if self.more.keys() & {"source", "target"}:
            raise ValueError("source and target have places of their own; choose other names")
        return self

    @model_validator(mode="after")
    def _writes_symbols(self) -> typing.Self:
        if not isinstance(self.target, TextSpec):
            raise ValueError(f"a column of kind {self.target.kind} is read, not written")
        return self


class TrainSpec(Spec):
    """How a model is trained."""

    seed: Seed = 1
    epochs: Positive | None = 100
    max_steps: Natural | None = None
    batch_tokens: Natural | None = None  # padding included; by the data when not given ...
    batch_size: Natural | None = None  # ... or in rows, or streams of running text
    accumulate: Annotated[int, Field(ge=1, le=4096)] = 1  # batches per step
    together: bool = False  # rows of one picture or clip in one batch, where it is seen once
    auto_batch: bool = False  # where memory runs out, read batches in halves, quarters, ...
    bptt: Size = 128  # running text: symbols per step
    optimizer: Literal["sgd", "adam", "adamw", "adadelta", "adagrad"] = "adam"
    lr: Positive = 1e-3
    momentum: Rate = 0.0
    weight_decay: NonNegative = 0.0
    eps: Positive | None = None
    clip: Positive | None = 1.0  # of the gradient's norm
    schedule: Literal["constant", "halve", "plateau", "inverse-sqrt", "cosine"] = "constant"
    warmup: Count = 0  # steps of linear growth, before any schedule
    halve_after: NonNegative = 5.0  # halve: epochs at full rate
    halve_every: Positive = 0.5  # halve: epochs
    plateau: Natural = 2  # plateau: evaluations without progress before halving
    label_smoothing: Rate = 0.0
    coverage: NonNegative = 0.0  # weight of the coverage loss (See et al. 2017)
    doubly_stochastic: NonNegative = 0.0  # weight of looking everywhere once (Xu et al. 2015)
    reward: NonNegative = 0.1  # hard attention: weight of the REINFORCE term ...
    entropy: NonNegative = 0.01  # ... and of the entropy of where it looks
    sampling: Annotated[float, Field(ge=0, le=1)] = (
        0.0  # share of the history the model writes itself
    )
    ema: Rate = 0.0  # of the weights: what is judged and kept is their moving average
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 on a GPU that has it
    device: str = "auto"
    kernel: Kernel = "auto"  # auto: the fastest that covers the model on its device
    evaluate_every: Natural | None = None  # steps; about an epoch when not given
    checkpoint_every: Natural | None = None  # steps; at each evaluation when not given
    keep: Natural = 2  # checkpoints, the newest; the best one stays in any case
    metric: str = "auto"  # what early stopping watches
    patience: Natural | None = 10  # evaluations without progress before the end
    tensorboard: bool = False


class SearchSpec(Spec):
    """How a model is decoded, unless a command says otherwise."""

    beam: Annotated[int, Field(ge=1, le=1024)] = 5  # 1 is greedy
    n_best: Annotated[int, Field(ge=1, le=1024)] = 1
    normalize: NonNegative = 1.0  # paths compare by log p / length^normalize
    length_penalty: Literal["power", "gnmt"] = "power"  # gnmt: ((5 + length) / 6)^normalize
    coverage_penalty: NonNegative = 0.0  # for source symbols that attention left out
    groups: Annotated[int, Field(ge=1, le=1024)] = 1  # beams that avoid each other's symbols ...
    diversity: NonNegative = 0.5  # ... at this price each
    ban: tuple[str, ...] = ()  # phrases that no answer contains
    require: tuple[str, ...] = ()  # phrases that every answer contains
    no_repeat_ngram: Count = 0  # no so many symbols in a row twice; 0: no matter
    repetition_penalty: Positive = 1.0  # p^penalty for symbols already written
    lm_weight: NonNegative = 0.2  # of a language model, where one is given
    log_linear: bool = False  # an ensemble is the mean of log-probabilities, not of probabilities
    mbr: Literal["chrf", "bleu", "edit"] | None = None  # the answer most like the other answers ...
    samples: Annotated[int, Field(ge=1, le=65_536)] | None = None  # ... of so many drawn at random
    replace_unknown: bool = False  # an <unk> by the source token it looked at
    min_length: Length = 0
    max_length: Annotated[int, Field(ge=1, le=100_000)] | None = None
    ratio: Positive | None = (
        None  # without max_length: at most ratio * source + 10 symbols; learned from the data
    )
    valid: Literal["none", "each-once", "tour", "hull"] = "none"  # orders of positions: which ones
    sample: bool = False
    temperature: NonNegative = 1.0
    top_k: Count = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Seed = 1

    @model_validator(mode="after")
    def _lengths_agree(self) -> typing.Self:
        if self.max_length is not None and self.max_length < self.min_length:
            raise ValueError(f"max_length {self.max_length} < min_length {self.min_length}")
        return self

    @model_validator(mode="after")
    def _samples_are_chosen_from(self) -> typing.Self:
        if self.samples is not None and self.mbr is None:
            raise ValueError("samples are drawn for mbr to choose from: say by which metric")
        if self.samples is not None and self.samples < self.n_best:
            raise ValueError(f"samples {self.samples} < n_best {self.n_best}")
        return self


class Config(Spec):
    """All that a run needs to know."""

    recipe: str = "transduce"
    data: DataSpec = DataSpec()
    model: ModelSpec = ModelSpec()
    train: TrainSpec = TrainSpec()
    search: SearchSpec = SearchSpec()

    @model_validator(mode="after")
    def _positions_are_pointed_at(self) -> typing.Self:
        points, units = self.model.head.kind == "pointer", self.data.target.units
        if points != (units == "position"):
            raise ValueError("model.head.kind=pointer and data.target.units=position go together")
        if points and getattr(self.data.source, "reverse", False):
            raise ValueError("positions are those of the text: set data.source.reverse=false")
        return self

    @model_validator(mode="after")
    def _a_whole_has_an_end(self) -> typing.Self:
        if self.beyond and getattr(self.data.source, "signs", "none") != "end":
            raise ValueError(
                "model.decoder.whole is read where a text ends: it needs data.source.signs=end"
            )
        return self

    @property
    def beyond(self) -> int:
        """How many symbols a tagger writes on top of one for each place of the source."""
        return int(getattr(self.model.decoder, "whole", False))

    @property
    def reads_source(self) -> bool:
        return bool(self.model.encoder.kind != "nothing")

    @property
    def source_specs(self) -> dict[str, Any]:
        """The source columns by name, in order."""
        return {"source": self.data.source} | self.data.more if self.reads_source else {}


def assign(tree: Tree, setting: str) -> Tree:
    """The tree with one `path.to.key=value` applied; values are YAML.

    >>> assign({}, "model.encoder.layers=2")
    {'model': {'encoder': {'layers': 2}}}
    """
    path, equals, text = setting.partition("=")
    if not equals or not all(path.split(".")):
        raise UserError(f"'{setting}': write a setting as path.to.key=value")
    try:
        value: Any = parse_value(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"'{setting[:80]}': the value is not valid YAML") from None
    for key in reversed(path.split(".")):
        value = {key: value}
    return merge(tree, value)


def parse_value(text: str) -> Any:
    """A YAML scalar or list; YAML takes 1e-3 for a word, people mean a number.

    >>> parse_value("1e-3"), parse_value("dot"), parse_value("null")
    (0.001, 'dot', None)
    """
    value = yaml.safe_load(text)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def resolve(
    name: str | None = None,
    file: Path | None = None,
    settings: Sequence[str] = (),
    tree: Tree | None = None,
) -> Config:
    """A config from a recipe, a file above it, a tree above that, and single settings on top.

    >>> resolve("bahdanau2015", settings=["model.attention.score=dot"]).model.attention.score
    'dot'
    """
    given = read_yaml(file) if file else {}
    named = name or given.get("recipe") or "transduce"
    result = (
        merge(recipe(str(named)).tree, given) if str(named) in recipe_names() or not file else given
    )
    result = merge(result, tree or {})
    for setting in settings:
        result = assign(result, setting)
    return validate(result)


def validate(tree: Any) -> Config:
    """A checked config, or one clear line for people.

    >>> validate({"model": {"encoder": {"kind": "text", "hiden": 3}}})
    Traceback (most recent call last):
    dragoman.errors.UserError: unknown key 'hiden' in model.encoder (did you mean 'hidden'?)
    """
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise UserError(explain(error, Config)) from None


def resolve_search(base: SearchSpec, changes: Tree) -> SearchSpec:
    """Search options with some changed, checked like any config.

    >>> resolve_search(SearchSpec(), {"beam": 3}).beam
    3
    """
    return validate({"search": base.model_dump() | changes}).search


def dump(config: Config) -> str:
    """A config as YAML that reads back as itself.

    >>> validate(yaml.safe_load(dump(Config()))) == Config()
    True
    """
    tree = config.model_dump(mode="json")
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=100)
