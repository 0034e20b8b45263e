"""Text while it is written, and candidates ranked."""

import gc
import json
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dragoman
from conftest import Ran
from dragoman import Predictor, UserError
from dragoman.checkpoint import Fields, Loaded
from dragoman.config import Config, SearchSpec
from dragoman.core import UNK
from dragoman.data.fields import TextField, TextSpec
from dragoman.data.increments import increments
from dragoman.decode import Asked
from dragoman.streaming import refuse
from dragoman.teams import Team
from small import TEXT_LM, over, words

LINES = [" ".join(words(6, seed)) for seed in range(40)]
ODD = ["a \u2581 b \u2582 \u25820 c", "日本語 é \u2582\u2582", "🙂 naïve"] * 3
FIELDS = {
    units: TextField.learn(TextSpec(units=units, size=320), LINES + ODD)
    for units in ("char", "word", "subword", "bytes", "features")
}
TELLING = [0x20, 0x30, 0x31, 0x81, 0x82, 0x96, 0x9F, 0xC3, 0xE2, 0xF0]  # parts of odd characters


@pytest.fixture(scope="module", params=["char", "word", "subword", "bytes"])
def speaker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    target = {"units": request.param, "size": None if request.param == "char" else 300}
    tree = over(TEXT_LM, data={"dev_rows": 4, "target": target})
    place = tmp_path_factory.mktemp(request.param)
    rows = [(line,) for line in LINES + ODD]
    return dragoman.train(rows, place, recipe="lstm-lm", config=tree, quiet=True)


@given(st.sampled_from(sorted(FIELDS)), st.data())
def test_increments_joined_are_the_text(units: str, data: st.DataObject) -> None:
    field = FIELDS[units]
    symbol = st.integers(UNK, field.size - 1)
    if units in ("bytes", "subword"):
        symbol |= st.sampled_from([UNK + 1 + byte for byte in TELLING])
    ids = data.draw(st.lists(symbol, max_size=20))
    assert "".join(increments(field, ids)) == field.decode(ids)


@given(st.sampled_from(["char", "subword", "bytes"]), st.text(max_size=20))
def test_no_half_characters_come_out(units: str, text: str) -> None:
    field = FIELDS[units]
    ids = field.prompt(text)
    assert "".join(increments(field, ids)) == field.decode(ids)
    if units == "bytes" and "\ufffd" not in field.decode(ids):
        assert all("\ufffd" not in piece for piece in increments(field, ids))
        assert len(list(increments(field, ids))) == len(field.decode(ids))


def test_text_comes_out_at_once() -> None:
    field = FIELDS["bytes"]
    rest = iter(field.prompt("né!"))
    pieces = increments(field, rest)
    assert next(pieces) == "n"
    assert len(list(islice(rest, 4))) == 3  # no symbol was read ahead


@pytest.mark.parametrize(
    "options",
    [
        {"sample": False, "beam": 1},
        {"sample": True, "seed": 4},
        {"sample": True, "temperature": 0.7, "top_k": 5},
        {"sample": True, "top_p": 0.8, "min_length": 20},
        {"sample": True, "temperature": 0.0},
        {"sample": True, "no_repeat_ngram": 2, "repetition_penalty": 1.5, "ban": ["a"]},
    ],
    ids=str,
)
def test_what_is_streamed_is_what_is_predicted(speaker: Predictor, options: Any) -> None:
    search = speaker.options(max_length=60, **options)
    prompts = ["", "ab", "é b"]
    whole = [one.text for one in speaker.predict(prompts, search, batch_size=1)]
    streamed = ["".join(speaker.generate(p, search, i)) for i, p in enumerate(prompts)]
    if speaker.fields.target.ends_lines:  # an answer is a line
        streamed = [text.split("\n")[0] for text in streamed]
    assert streamed == whole
    if options["sample"] and options.get("temperature") != 0:
        assert streamed != ["".join(speaker.generate(p, search, 7)) for p in prompts]


def test_running_text_goes_on_behind_the_end_of_a_line(speaker: Predictor) -> None:
    search = speaker.options(max_length=2000, sample=True, seed=1)
    if not speaker.fields.target.ends_lines:
        search = speaker.options(max_length=2000, min_length=1990, sample=True, seed=1)
    pieces = list(speaker.generate("ab", search))
    lines = "".join(pieces).split("\n")
    assert len(pieces) > 1500
    assert len(lines) > 5


def test_required_phrases_are_streamed_too(tiny_lm: Path) -> None:
    model = dragoman.load(tiny_lm)
    asked = Asked(("ab",), ("fed",))
    text = "".join(model.generate(asked, model.options(max_length=20)))
    assert "fed" in text
    assert text == model.predict([asked], model.options(max_length=20))[0].text


def test_long_texts_take_no_more_memory(tiny_lm: Path) -> None:
    model = dragoman.load(tiny_lm)
    pieces = model.generate("", model.options(max_length=1000, min_length=1000))
    for _ in islice(pieces, 300):
        pass
    tracemalloc.start()
    first = tracemalloc.get_traced_memory()[0]
    for _ in islice(pieces, 500):
        pass
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - first
    tracemalloc.stop()
    assert grown < 20_000  # hundreds of tensors or texts are more, even without what is in them
    assert next(pieces)


def test_the_caller_is_not_left_in_inference_mode(tiny_lm: Path) -> None:
    model = dragoman.load(tiny_lm)
    pieces = model.generate("a", model.options(min_length=10))
    next(pieces)
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sample": False, "beam": 3}, "a beam knows its text only at the end"),
        ({"n_best": 2}, "one text is streamed"),
        ({"mbr": "edit", "samples": 4}, "one text is streamed"),
    ],
)
def test_what_cannot_be_streamed_is_refused(tiny_lm: Path, options: Any, told: str) -> None:
    model = dragoman.load(tiny_lm)
    with pytest.raises(UserError, match=told):  # at once, not at the first piece
        model.generate("a", model.options(**options))


def test_a_text_that_is_written_from_its_end_is_not_streamed() -> None:
    field = TextField(TextSpec(units="char", reverse=True), FIELDS["char"].units)
    with pytest.raises(UserError, match="the last symbol first"):
        refuse(Team(Loaded(Config(), Fields({}, field), None)), SearchSpec())  # type: ignore[arg-type]


def test_a_model_with_a_source_streams_as_well(
    tiny: Predictor, tiny_model: Path, verb: Callable[..., Ran]
) -> None:
    greedy = tiny.options(beam=1)
    assert "".join(tiny.generate("abc", greedy)) == tiny("abc", beam=1).text
    with pytest.raises(UserError, match="a beam knows its text only at the end"):
        tiny.generate("abc", tiny.options(beam=2))
    ran = verb("predict", tiny_model, "--stream", "--beam", 1, stdin=b"abc\n")
    assert (ran.code, ran.out) == (0, tiny("abc", beam=1).text + "\n")


def test_the_command_streams(tiny_lm: Path, verb: Callable[..., Ran]) -> None:
    options = ("--max-length", 80, "--seed", 3)
    streamed = verb("predict", tiny_lm, "--stream", *options, stdin=b"ab\ncd\n")
    whole = verb("predict", tiny_lm, *options, stdin=b"ab\ncd\n")
    assert (streamed.code, whole.code) == (0, 0)
    assert streamed.out == whole.out.replace("\\n", "\n")  # real line breaks
    refused = verb("predict", tiny_lm, "--stream", "--format", "jsonl", stdin=b"ab\n")
    assert (refused.code, "--format" in refused.err) == (2, True)


def test_ranking_is_scoring_sorted(tiny: Predictor, tiny_lm: Path) -> None:
    ranked = tiny.rank(["abc", "cba", "bca"], "abc")
    assert ranked[0][0] == "cba"
    assert [score for _, score in ranked] == sorted((s for _, s in ranked), reverse=True)
    assert dict(ranked)["bca"] == pytest.approx(tiny.score([("abc", "bca")])[0].score, abs=1e-5)
    assert tiny.rank([], "abc") == []
    model = dragoman.load(tiny_lm)
    assert {text for text, _ in model.rank(["ab", "cd ef"])} == {"ab", "cd ef"}
    with pytest.raises(UserError, match="a source of 1 texts, this model reads 0"):
        model.rank(["ab"], "source")


def test_the_command_ranks(
    tiny: Predictor, tiny_model: Path, tiny_lm: Path, verb: Callable[..., Ran]
) -> None:
    ran = verb("score", tiny_model, "--rank", stdin=b"abc\tabc\tcba\n\nabc\nde\t\ted\n")
    assert ran.code == 0
    assert len(ran.lines) == 4
    assert ran.lines[0].split("\t")[::2] == ["cba", "abc"]
    assert float(ran.lines[0].split("\t")[1]) == pytest.approx(tiny.rank(["cba"], "abc")[0][1])
    assert ran.lines[1:3] == ["", ""]
    assert ran.lines[3].startswith("ed\t")
    ran = verb("score", tiny_lm, "--rank", "--format", "jsonl", stdin=b"ab\tcd\n")
    assert {one["text"] for one in json.loads(ran.out)} == {"ab", "cd"}
