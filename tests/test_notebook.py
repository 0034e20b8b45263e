"""Predictions as HTML: complete, escaped, and free of scripts."""

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman
from dragoman import Prediction, Predictor
from dragoman.data.seen import Seen
from dragoman.looked import Looked
from dragoman.notebook import LARGEST
from small import SPEEDY, over, reversals

TAGS = {"div", "strong", "small", "span", "bdi", "table", "tr", "th", "td", "ol", "li"}
NASTY = ["<script>alert(1)</script>", '"><img src=x onerror=y>', "&lt;", "\u202eabc", "\ud800", ""]
texts = st.text(max_size=12) | st.sampled_from(NASTY)


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "img":  # the only one that does not end
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        # only our own words stand outside of an isolated piece
        assert self.open[-1] in ("bdi", "small", "div", "td", "strong", "li", "span")


def answer(text: str, tokens: list[str], source: list[str]) -> Prediction:
    weights = np.full((len(tokens), len(source)), 0.5, np.float32)
    other = Prediction(text, tuple(tokens), -2.0, (-2.0,))
    log_probs = (-0.1,) * len(tokens)
    return Prediction(text, tuple(tokens), -1.0, log_probs, tuple(source), weights, (other,))


@given(texts, st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_whatever_the_texts_are_they_stay_text(
    text: str, tokens: list[str], source: list[str]
) -> None:
    html = answer(text, tokens, source)._repr_html_()
    assert "<script" not in html
    html.encode("utf-8")
    page = Page(html)
    assert set(page.seen) <= TAGS
    assert page.attributes <= {"style", "title", "dir", "start"}
    assert not page.open


def test_all_is_there(tiny: Predictor) -> None:
    prediction = tiny.predict(["abc"], tiny.options(n_best=3))[0]
    page = Page(prediction._repr_html_())
    assert prediction.alignment is not None
    assert page.seen.count("td") == prediction.alignment.size + 1
    assert page.seen.count("th") == len(prediction.tokens) + len(prediction.source)
    assert page.seen.count("li") == len(prediction.alternatives) == 2
    for one in (prediction, *prediction.alternatives):
        assert one.text in page.text
        assert f"{one.score:.3f}" in page.text


def test_tokens_have_their_own_probabilities_when_the_last_is_written_first(tmp_path: Path) -> None:
    tree = over(SPEEDY, data={"dev_rows": 4, "target": {"units": "char", "reverse": True}})
    model = dragoman.train(reversals(40), tmp_path, config=tree, quiet=True)
    found = model.predict(["abc", "fed"], model.options(n_best=8))
    every = [
        (source, one)
        for source, best in zip(["abc", "fed"], found, strict=True)
        for one in (best, *best.alternatives)
        if "<unk>" not in one.text and len(set(one.tokens)) > 1
    ]
    assert every
    for source, one in every:
        (scored,) = model.score([(source, one.text)])
        *written, end = scored.log_probs
        assert scored.tokens[:-1] == one.tokens[::-1]
        assert one.log_probs == pytest.approx((*written[::-1], end), abs=1e-5)


def test_what_is_missing_is_left_out(tiny: Predictor) -> None:
    blank = tiny.predict([" "])[0]._repr_html_()
    assert "<table" not in blank
    assert "<ol" not in blank
    many = ["a"] * (LARGEST + 1)
    large = answer("a", many, many)._repr_html_()
    assert "<table" not in large
    assert "too large to show" in large


def test_blanks_are_visible() -> None:
    page = Page(answer("a b", ["a", " ", "\n"], ["x"])._repr_html_())
    assert "␣" in page.text
    assert "⏎" in page.text


def looking(over: str, shape: tuple[int, ...], seen: Seen | None) -> Prediction:
    """An answer of two tokens to something that is no text; one of them is not to be obeyed."""
    weights = np.full((2, int(np.prod(shape))), 0.1, np.float32)
    weights[0, 1] = 0.8
    attention = Looked(over, shape, weights)
    places = tuple(map(str, range(weights.shape[1])))
    shown = (seen,) if seen else ()
    tokens, sure = ("1", "<b>"), (-0.5, -0.5)
    return Prediction("1 <b>", tokens, -1.0, sure, places, weights, (), attention, shown)


FRAMES = np.zeros((3, 3, 8, 8), np.uint8)


@pytest.mark.parametrize("shown", [True, False])
@pytest.mark.parametrize(
    ("over", "shape", "seen", "pictures"),
    [
        ("grid", (2, 3), Seen("image", FRAMES[:1]), (4, 2)),
        ("frames", (3,), Seen("video", FRAMES), (3, 0)),
        ("times", (5,), Seen("sound", np.ones((40, 8)), 0.4), (3, 2)),
    ],
)
def test_what_was_looked_at_is_shown(
    over: str, shape: tuple[int, ...], seen: Seen, pictures: tuple[int, int], shown: bool
) -> None:
    html = looking(over, shape, seen if shown else None)._repr_html_()
    page = Page(html)
    assert page.seen.count("img") == pictures[0 if shown else 1]
    assert html.count('src="data:image/png;base64,') == page.seen.count("img")
    assert "<b>" not in html


def test_a_tour_is_drawn_where_the_points_are_seen() -> None:
    square = Seen("points", np.array([[0.0, 0], [0, 1], [1, 1], [1, 0]]))
    one = Prediction("1 2 3 4", ("1", "2", "3", "4"), -1.0, (-0.2,) * 5, seen=(square,))
    page = Page(one._repr_html_())
    assert page.seen.count("circle") == 5  # four points, and a ring around the first
    lost = Prediction("1 9", ("1", "9"), -1.0, (-0.2,) * 3, seen=(square,))
    assert "svg" not in Page(lost._repr_html_()).seen


def test_one_input_alone_keeps_what_was_seen(tiny: Predictor) -> None:
    assert tiny("abc").seen == ()  # a text is seen as it is
    assert str(tiny(" ")) == ""
