"""Answers while they are written, from a given beginning, and what else could have been written."""

from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.choices import choices
from dragoman.decode import Asked
from dragoman.errors import UserError
from dragoman.live import Stroke, write
from dragoman.predict import Prediction, Predictor
from small import SPEEDY, over, reversals

OPTIONS: list[dict[str, Any]] = [
    {"beam": 1},
    {"sample": True, "seed": 3},
    {"sample": True, "temperature": 2.0, "top_k": 4},
    {"beam": 1, "max_length": 3},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_strokes_are_the_answer(tiny: Predictor, options: dict[str, Any]) -> None:
    settled = tiny.options(**options)
    for place, text in enumerate(["abc", "fedcb", "a"]):
        *strokes, answer = write(tiny, Asked((text,)), settled, place)
        (alone,) = tiny.predict([text], settled, first=place)
        assert isinstance(answer, Prediction)
        assert (answer.text, answer.tokens) == (alone.text, alone.tokens)
        assert answer.score == pytest.approx(alone.score, abs=1e-5)
        written = [one for one in strokes if isinstance(one, Stroke)]
        assert tuple(one.token for one in written) == alone.tokens
        assert not written or written[-1].text == alone.text
        assert all(len(one.weights or ()) == len(alone.source) for one in written)


def test_a_blank_is_answered_at_once(tiny: Predictor) -> None:
    assert [str(one) for one in write(tiny, Asked(("  ",)), tiny.options(beam=1))] == [""]


def test_places_may_be_given_one_by_one(tiny: Predictor) -> None:
    options = tiny.options(sample=True, temperature=3.0)
    alone = [tiny.predict(["abcde"], options, first=place)[0].text for place in (5, 0, 9)]
    together = [one.text for one in tiny.predict(["abcde"] * 3, options, first=[5, 0, 9])]
    assert together == alone
    assert len(set(alone)) > 1


@pytest.mark.parametrize("beam", [1, 4])
def test_an_answer_goes_on_from_a_given_beginning(tiny: Predictor, beam: int) -> None:
    options = tiny.options(beam=beam)
    for begun in ("f", ("f",)):
        (found,) = tiny.predict([Asked(("abc",), prefix=begun)], options)
        assert found.tokens[0] == "f"
    free = tiny("abc", beam=beam)
    (same,) = tiny.predict([Asked(("abc",), prefix=free.tokens)], options)
    assert same.text == free.text
    assert same.score == pytest.approx(free.score, abs=1e-5)
    mixed = [Asked(("abc",), prefix=("f",)), Asked(("abc",)), Asked(("fed",), prefix="dd")]
    texts = [one.text for one in tiny.predict(mixed, options)]
    assert texts[1] == free.text
    assert texts[2].startswith("dd")


def test_a_language_model_goes_on_from_tokens(tiny_lm: Path) -> None:
    model = dragoman.load(tiny_lm)
    options = model.options(max_length=5, beam=1)
    by_text = model.predict(["ab"], options)[0]
    *strokes, whole = write(model, Asked(("ab",)), options)
    assert (len(strokes), str(whole)) == (len(by_text.tokens), by_text.text)
    (by_tokens,) = model.predict([Asked(("",), prefix=("a", "b"))], options)
    assert by_tokens.text == by_text.text


def test_choices_hold_what_was_written(tiny: Predictor) -> None:
    options = tiny.options(beam=1)
    texts = ["abc", "fedcb", "a"]
    answers = tiny.predict(texts, options)
    asked = [(Asked((text,)), one.tokens) for text, one in zip(texts, answers, strict=True)]
    found = choices(tiny.team, asked, options, 3)
    for answer, places in zip(answers, found, strict=True):
        assert [place[0].token for place in places] == [*answer.tokens, "</s>"]
        likely = [place[0].log_prob for place in places]
        assert likely == pytest.approx(list(answer.log_probs), abs=1e-4)
        assert all(len(place) == 3 for place in places)
        assert all(place[0].log_prob >= place[1].log_prob for place in places)


@pytest.mark.parametrize("reverse", [True, False])
def test_choices_are_in_the_order_of_the_text(tmp_path: Path, reverse: bool) -> None:
    tree = over(SPEEDY, data={"dev_rows": 4, "target": {"units": "char", "reverse": reverse}})
    model = dragoman.train(reversals(40), tmp_path, config=tree, quiet=True)
    one = model("abcd", beam=1, max_length=4)
    assert isinstance(one, Prediction)
    ((*places, end),) = choices(model.team, [(Asked(("abcd",)), one.tokens)], model.options(), 9)
    assert [dict(p)[t] for p, t in zip(places, one.tokens, strict=True)] == pytest.approx(
        list(one.log_probs[: len(places)]), abs=1e-4
    )
    assert "</s>" in dict(end)
    if reverse:
        with pytest.raises(UserError, match="the last symbol first"):
            model.predict([Asked(("abcd",), prefix="a")])
