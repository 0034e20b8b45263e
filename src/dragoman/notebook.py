"""A prediction as HTML, for notebooks: the answer, how sure each token is, where the model looked.

Whatever a text holds, it stays text: everything is escaped, no script is written, and each piece is
isolated, so that Arabic or Hebrew does not turn what stands beside it.
"""

from collections.abc import Sequence
from html import escape
from math import exp
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dragoman.data.seen import Seen
from dragoman.glimpses import Part, glimpse, tour

HEAD, BLANK = "font-weight:normal;padding:0 3px", "▁"
BESIDE = HEAD + ";text-align:right"
LARGEST = 64  # rows or columns of an alignment that are still readable as a table
VISIBLE = str.maketrans({" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"})
BLUE, INK = "31,119,180", "color:#111"  # the ink is fixed: dark themes would write white on white


class Attention(Part, Protocol):
    """Where a model looked, and what that lies over."""

    @property
    def parts(self) -> Sequence[Part]: ...


class Answer(Protocol):
    """What is shown of a prediction."""

    @property
    def text(self) -> str: ...
    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def score(self) -> float: ...
    @property
    def log_probs(self) -> tuple[float, ...]: ...
    @property
    def source(self) -> tuple[str, ...]: ...
    @property
    def alignment(self) -> npt.NDArray[np.float32] | None: ...
    @property
    def alternatives(self) -> Sequence["Answer"]: ...
    @property
    def attention(self) -> Attention | None: ...
    @property
    def seen(self) -> Sequence[Seen]: ...


def as_html(answer: Answer) -> str:
    """The answer, its tokens shaded by how unsure they are, its alignment and the next best.

    >>> from dragoman.predict import Prediction
    >>> page = as_html(Prediction("<b>", ("<", "b", ">"), -0.1, (-0.1, 0.0, 0.0, 0.0)))
    >>> "<b>" in page, "&lt;b&gt;" in page
    (False, True)
    """
    looked = _tour(answer) + (_sights(answer) or _alignment(answer))
    parts = [_headline(answer), _tokens(answer), looked, _alternatives(answer)]
    return f'<div style="font-family:sans-serif;line-height:1.6">{"".join(parts)}</div>'


def _headline(answer: Answer) -> str:
    figures = f"log p = {answer.score:.3f}"
    if answer.log_probs:
        mean = exp(answer.score / len(answer.log_probs))
        figures += f", p = {exp(answer.score):.3g}, {mean:.3f} a token"
    return f'<div><strong dir="auto">{_safe(answer.text)}</strong> <small>{figures}</small></div>'


def _tokens(answer: Answer) -> str:
    """Sure tokens are white; the less likely one was, the redder it is."""
    spans = [
        f'<span style="background:rgb(255,{_level(p)},{_level(p)});{INK};padding:1px 3px" '
        f'title="p = {p:.4f}">{_safe(token.translate(VISIBLE))}</span>'
        for token, p in zip(answer.tokens, map(exp, answer.log_probs), strict=False)
    ]
    return f'<div dir="auto" style="margin:4px 0">{" ".join(spans)}</div>' if spans else ""


def _level(probability: float) -> int:
    return round(130 + 125 * min(probability, 1.0))


def _tour(answer: Answer) -> str:
    """The way through points in the plane, where the answer is one."""
    points = next((one.values for one in answer.seen if one.kind == "points"), None)
    stops = [int(token) - 1 for token in answer.tokens if token.isdecimal()]
    if points is None or points.shape[1:] != (2,) or len(stops) < max(len(answer.tokens), 2):
        return ""
    return tour(points, stops) if max(stops) < len(points) and min(stops) >= 0 else ""


def _sights(answer: Answer) -> str:
    """Where the model looked, if that is not all text."""
    seen = answer.attention
    if seen is None or not seen.weights.size:
        return ""
    parts = seen.parts or [seen]
    if all(part.over in ("tokens", "points") for part in parts):
        return ""
    tokens, begin, drawn = [token.translate(VISIBLE) for token in answer.tokens], 0, []
    for part in parts:
        labels = answer.source[begin : begin + part.weights.shape[1]]
        begin += part.weights.shape[1]
        text = part.over == "tokens"
        drawn.append(
            _table(part.weights, labels, answer.tokens)
            if text
            else glimpse(part, tokens, answer.seen)
        )
    return "".join(drawn)


def _alignment(answer: Answer) -> str:
    weights = answer.alignment
    if weights is None or not weights.size:
        return ""
    return _table(weights, answer.source, answer.tokens)


def _table(weights: npt.NDArray[np.float32], source: Sequence[str], tokens: Sequence[str]) -> str:
    if max(weights.shape) > LARGEST:
        rows, columns = weights.shape
        return f"<div><small>alignment: {rows} × {columns}, too large to show</small></div>"
    labels = "".join(f'<th style="{HEAD}">{_label(token)}</th>' for token in source)
    rows = "".join(
        f'<tr><th style="{BESIDE}">{_label(token)}</th>{"".join(map(_cell, row))}</tr>'
        for token, row in zip(tokens, weights.tolist(), strict=False)
    )
    style = "border-collapse:collapse;font-size:small"
    return f'<table style="{style}"><tr><td></td>{labels}</tr>{rows}</table>'


def _cell(weight: float) -> str:
    shade = f"background:rgba({BLUE},{weight:.2f})"
    return f'<td style="{shade};min-width:1.2em" title="{weight:.3f}">&nbsp;</td>'


def _alternatives(answer: Answer) -> str:
    if not answer.alternatives:
        return ""
    items = (
        f'<li dir="auto">{_safe(one.text)} <small>log p = {one.score:.3f}</small></li>'
        for one in answer.alternatives
    )
    return f'<ol start="2" style="margin:4px 0">{"".join(items)}</ol>'


def _label(token: str) -> str:
    """A token beside weights; that a word begins with it need not be said there."""
    plain = token.removeprefix(BLANK) or token
    return _safe(plain.translate(VISIBLE))


def _safe(text: str) -> str:
    """Text as text, in its own direction; half a surrogate pair would break the page's encoding."""
    return f"<bdi>{escape(text.encode('utf-8', 'replace').decode())}</bdi>"
