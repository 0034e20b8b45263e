"""What clients send and what they get back."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)

from dragoman.choices import Choice
from dragoman.predict import Prediction
from dragoman.serve.settings import (
    MAX_BEAM,
    MAX_INPUTS,
    MAX_LENGTH,
    MAX_PATHS,
    MAX_PHRASE,
    MAX_PHRASED,
    MAX_PHRASES,
    MAX_TEXT,
)


def _few(phrases: list[str]) -> list[str]:
    """Phrases, unless all together they are too long."""
    if (length := sum(map(len, phrases))) > MAX_PHRASED:
        raise ValueError(f"at most {MAX_PHRASED} characters in all, not {length}")
    return phrases


Text = Annotated[str, Field(max_length=MAX_TEXT)]
Phrase = Annotated[str, Field(max_length=MAX_PHRASE)]
Phrases = Annotated[list[Phrase], Field(max_length=MAX_PHRASES), AfterValidator(_few)]
Number = Annotated[float, Field(ge=0, le=1000)]
Beam = Annotated[int, Field(ge=1, le=MAX_BEAM)]
Beginning = Annotated[str, Field(max_length=MAX_LENGTH)]
Prefix = Beginning | Annotated[list[Phrase], Field(max_length=MAX_LENGTH)]


class Strict(BaseModel):
    """What is not known is refused, and nothing is guessed."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Wish(Strict):
    """An input with wishes of its own."""

    texts: Text | Annotated[list[Text], Field(max_length=16)] = Field(
        description="A text, or one per source column of the model."
    )
    prefix: Prefix = Field("", description="How the answer begins: a text, or tokens.")
    require: Phrases = Field([], description="Phrases that the answer contains.")


Input = Text | Annotated[list[Text], Field(min_length=1, max_length=16)] | Wish


class Options(Strict):
    """How to decode; what is left out is as the model was trained."""

    beam: Beam | None = None
    n_best: Beam | None = None
    normalize: Number | None = None
    max_length: Annotated[int, Field(ge=1, le=MAX_LENGTH)] | None = None
    min_length: Annotated[int, Field(ge=0, le=MAX_LENGTH)] | None = None
    sample: bool | None = None
    temperature: Number | None = None
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 31)] | None = None
    ban: Phrases | None = None
    require: Phrases | None = None
    no_repeat_ngram: Annotated[int, Field(ge=0, le=100)] | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=100)] | None = None
    coverage_penalty: Number | None = None
    replace_unknown: bool | None = None
    valid: Literal["none", "each-once", "tour", "hull"] | None = None

    @field_validator("max_length", "min_length")
    @classmethod
    def _affordable(cls, length: int | None, info: ValidationInfo) -> int | None:
        """Long answers, or many paths."""
        paths = max(info.data.get(name) or 1 for name in ("beam", "n_best"))
        if paths * (length or 0) > MAX_PATHS:
            most = MAX_PATHS // paths
            raise ValueError(f"at most {most} with {paths} paths (beam, n_best), not {length}")
        return length


class PredictRequest(Options):
    """One or many inputs for a model."""

    model: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="A name of `/v1/models`; the first model when left out."
    )
    inputs: Text | Annotated[list[Input], Field(min_length=1, max_length=MAX_INPUTS)] = Field(
        description="A text; or a list, each a text, a list of texts (one per column), or a wish."
    )
    prefix: Prefix = Field("", description="How every answer begins: a text, or tokens.")
    alignment: bool = Field(False, description="Tell where the model looked.")
    choices: Annotated[int, Field(ge=0, le=MAX_BEAM)] = Field(
        0, description="So many of the likeliest symbols at each place of the best answer."
    )
    show: bool = Field(False, description="Show what the model sees of a picture, clip or sound.")
    stream: bool = Field(
        False, description="Server-sent events: one input, token by token (beam 1, or sampling)."
    )

    def wishes(self) -> list[Wish]:
        """The inputs, each with the wishes that it has."""
        listed = [self.inputs] if isinstance(self.inputs, str) else self.inputs
        wishes = [one if isinstance(one, Wish) else Wish(texts=one) for one in listed]
        return [w if w.prefix else w.model_copy(update={"prefix": self.prefix}) for w in wishes]

    def changes(self) -> dict[str, Any]:
        """The search options that the client named."""
        named = self.model_dump(include=set(Options.model_fields), exclude_none=True)
        return {key: tuple(v) if isinstance(v, list) else v for key, v in named.items()}


class Symbol(BaseModel):
    """A symbol that could stand at a place of an answer."""

    token: str
    log_prob: float


class Attention(BaseModel):
    """Where the model looked: a row of weights for each token of the answer."""

    over: Literal["tokens", "grid", "frames", "times", "points", "several"]
    shape: list[int] = Field(description="Of what the weights of a row lie over.")
    weights: list[list[float]]
    times: list[float] = Field([], description="In seconds, the middle of each place in time.")
    parts: list["Attention"] = Field([], description="Of several columns, each by itself.")


class Sight(BaseModel):
    """What the model sees of a column that is no text."""

    kind: Literal["image", "video", "sound"]
    frames: int = Field(description="Of a clip, side by side in the picture; steps of a sound.")
    whole: bool = Field(description="Whether a picture is all there, with nothing around it.")
    seconds: float | None = Field(None, description="How long a sound is.")
    picture: str = Field(description="A PNG file as a `data:` address.")


class Answer(BaseModel):
    """One answer. `score` is its log-probability, its end included."""

    text: str
    tokens: list[str]
    score: float
    log_probs: list[float]
    source: list[str]
    attention: Attention | None = None
    choices: list[list[Symbol]] | None = None
    seen: list[Sight] | None = None
    alternatives: list["Answer"] = []


class PredictResponse(BaseModel):
    """Answers in the order of the inputs."""

    model: str
    predictions: list[Answer]


class Trouble(BaseModel):
    """What is wrong, and where."""

    error: str
    field: str | None = None


def answer(
    one: Prediction,
    alignment: bool = False,
    places: list[list[Choice]] | None = None,
    shown: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A prediction as it is sent, with what else could stand at its places and what was seen.

    >>> answer(Prediction("ba", ("b", "a"), -0.5, (-0.25, -0.25, 0.0)))["text"]
    'ba'
    """
    tree: dict[str, Any] = {
        "text": one.text,
        "tokens": list(one.tokens),
        "score": round(one.score, 6),
        "log_probs": [round(value, 6) for value in one.log_probs],
        "source": list(one.source),
    }
    if alignment:
        tree["attention"] = one.attention.tree() if one.attention else None
    if places is not None:
        tree["choices"] = [
            [{"token": c.token, "log_prob": round(c.log_prob, 6)} for c in place]
            for place in places
        ]
    if shown:
        tree["seen"] = shown
    tree["alternatives"] = [answer(other, alignment) for other in one.alternatives]
    return tree
