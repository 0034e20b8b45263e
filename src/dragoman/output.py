"""Predictions as lines: text, JSON, Moses n-best lists, Pharaoh alignments."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.core import BOS, EOS, SPECIALS
from dragoman.predict import Prediction, Scored

END = SPECIALS[EOS : EOS + 1]


def escape(text: str) -> str:
    """One line whatever the text holds.

    >>> escape("a\\nb")
    'a\\\\nb'
    """
    return text.replace("\r", "\\r").replace("\n", "\\n")


def as_text(prediction: Prediction, place: int) -> str:
    """The answer; with alternatives, all of them between tabs."""
    return "\t".join(escape(one.text) for one in (prediction, *prediction.alternatives))


def as_json(prediction: Prediction, place: int) -> str:
    """All that is known, as one JSON object; `attention` says what its weights lie over (tokens,
    grid, frames, times, points), in which shape.
    """
    return json.dumps(_tree(prediction), ensure_ascii=False)


def as_nbest(prediction: Prediction, place: int) -> str:
    """Moses' n-best format: number ||| text ||| log-probability per token ||| log-probability."""
    lines = []
    for one in (prediction, *prediction.alternatives):
        mean = one.score / max(len(one.log_probs), 1)
        lines.append(f"{place} ||| {escape(one.text)} ||| {mean:.6f} ||| {one.score:.6f}")
    return "\n".join(lines)


def as_pharaoh(prediction: Prediction, place: int) -> str:
    """Source-target links: for each token written, the source token it looked at most (signs
    aside).

    >>> import numpy as np
    >>> weights = np.array([[0.1, 0.8, 0.1], [0.6, 0.2, 0.2]], np.float32)
    >>> as_pharaoh(Prediction("b a", ("b", "a"), 0.0, (), ("a", "b", "</s>"), weights), 0)
    '1-0 0-1'
    """
    weights, seen = prediction.alignment, prediction.attention
    tokens = prediction.source
    inner = slice(tokens[:1] == SPECIALS[BOS : BOS + 1], len(tokens) - (tokens[-1:] == END))
    if weights is None or not tokens[inner] or (seen and not seen.textual):
        return ""
    return " ".join(f"{int(row.argmax())}-{t}" for t, row in enumerate(weights[:, inner]))


def unanswered(why: str) -> None:
    """Tell people which input has no answer."""
    print(f"dragoman: no answer to {why}", file=sys.stderr, flush=True)


def score_text(scored: Scored) -> str:
    return f"{scored.score:.6f}" if scored.log_probs else ""


def score_json(scored: Scored) -> str:
    read = bool(scored.log_probs)
    tree = {
        "score": round(scored.score, 6) if read else None,
        "perplexity": round(scored.perplexity, 6) if read else None,
        "tokens": scored.tokens,
        "log_probs": [round(value, 6) for value in scored.log_probs],
    }
    return json.dumps(tree, ensure_ascii=False)


def ranking_text(ranked: Sequence[tuple[str, float]]) -> str:
    """Candidates and their log-probabilities, between tabs.

    >>> ranking_text([("cat", -1.5), ("dog", -2.0)])
    'cat\\t-1.500000\\tdog\\t-2.000000'
    """
    return "\t".join(f"{escape(text)}\t{score:.6f}" for text, score in ranked)


def ranking_json(ranked: Sequence[tuple[str, float]]) -> str:
    """A JSON list of objects.

    >>> ranking_json([("cat", -1.5)])
    '[{"text": "cat", "score": -1.5}]'
    """
    tree = [{"text": text, "score": round(score, 6)} for text, score in ranked]
    return json.dumps(tree, ensure_ascii=False)


def _tree(prediction: Prediction) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "text": prediction.text,
        "tokens": prediction.tokens,
        "score": round(prediction.score, 6),
        "log_probs": [round(value, 6) for value in prediction.log_probs],
        "source": prediction.source,
        "attention": None if prediction.attention is None else prediction.attention.tree(),
    }
    if prediction.alternatives:
        tree["alternatives"] = [_tree(one) for one in prediction.alternatives]
    return tree


FORMATS: dict[str, Callable[[Prediction, int], str]] = {
    "text": as_text,
    "jsonl": as_json,
    "nbest": as_nbest,
    "pharaoh": as_pharaoh,
}

RANKINGS: dict[str, Callable[[Sequence[tuple[str, float]]], str]] = {
    "text": ranking_text,
    "jsonl": ranking_json,
}
