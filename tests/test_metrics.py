"""Metrics: the laws of a distance, known numbers, and errors that name the mistake."""

import math
import random
import time

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from dragoman import metrics
from dragoman.errors import UserError
from dragoman.metrics import METRICS, Score, compute, edit_distance

symbols = st.text(alphabet="abcé ", max_size=12)
lines = st.lists(st.text(alphabet="abcd ", max_size=20), min_size=1, max_size=6)
HYPOTHESES = ["The dog bit the man.", "It was not unexpected at all.", "The man bit him first."]
REFERENCES = ["The dog bit the man.", "It was not surprising.", "The man had bitten the dog first."]


def table_distance(a: str, b: str) -> int:
    """The textbook table, row by row: slow and plainly right."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (x != y)))
    return row[-1]


@given(symbols, symbols)
def test_edit_distance_equals_the_table(a: str, b: str) -> None:
    assert edit_distance(a, b) == table_distance(a, b)


@given(st.text(alphabet="ab", min_size=60, max_size=140), st.text(alphabet="ab", max_size=140))
def test_edit_distance_beyond_a_machine_word(a: str, b: str) -> None:
    assert edit_distance(a, b) == table_distance(a, b)


@given(symbols, symbols, symbols)
def test_edit_distance_is_a_metric(a: str, b: str, c: str) -> None:
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, b) == edit_distance(b, a)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


def test_edit_distance_is_fast() -> None:
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefgh", k=20)) for _ in range(20_000)]
    start = time.perf_counter()
    for a, b in zip(words[::2], words[1::2], strict=True):
        edit_distance(a, b)
    assert time.perf_counter() - start < 2  # about 0.1 s on an idle machine


@given(lines)
def test_a_perfect_answer_scores_perfectly(texts: list[str]) -> None:
    for score in compute(["cer", "wer", "per"], texts, texts):
        assert score.value == 0
    for score in compute(["exact", "accuracy"], texts, texts):
        assert score.value == 100


@given(lines, st.integers(0, 5))
def test_all_scores_are_finite_and_ordered_like_their_lines(texts: list[str], shift: int) -> None:
    shifted = texts[shift % len(texts) :] + texts[: shift % len(texts)]
    scores = compute(METRICS, texts, shifted)
    assert all(math.isfinite(score.value) and score.value >= 0 for score in scores)
    assert [s.value for s in compute(METRICS, texts[::-1], shifted[::-1])] == pytest.approx(
        [s.value for s in scores]
    )


def test_a_perfect_translation_has_100_bleu_and_chrf() -> None:
    assert metrics.bleu(REFERENCES, REFERENCES).value == 100
    assert metrics.chrf(REFERENCES, REFERENCES).value == 100


def test_bleu_and_chrf_are_those_of_sacrebleu() -> None:
    bleu, chrf = compute(["bleu", "chrf"], HYPOTHESES, REFERENCES)
    assert bleu.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert chrf.value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert bleu.signature is not None
    assert bleu.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert chrf.signature is not None
    assert chrf.signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_lowercase_forgives_case_and_says_so() -> None:
    shouted = [line.upper() for line in REFERENCES]
    for metric in (metrics.bleu, metrics.chrf):
        assert metric(shouted, REFERENCES).value < 50
        forgiving = metric(shouted, REFERENCES, lowercase=True)
        assert forgiving.value == 100
        assert "case:lc" in (forgiving.signature or "")


def test_known_rates() -> None:
    assert metrics.cer(["kitten"], ["sitting"]).value == pytest.approx(300 / 7)
    assert metrics.wer(["a b c", ""], ["a x c d", "e"]).value == pytest.approx(60)
    assert metrics.wer(["so  many\twords here"], ["one"]).value == 400  # rates may pass 100


def test_per_is_wer_under_its_own_name() -> None:
    score = metrics.per(["K AE T"], ["K AA T S"])
    assert score == Score("PER", 50.0, "lower")


def test_silence_is_right_where_nothing_was_said() -> None:
    assert metrics.cer([""], [""]).value == 0
    assert metrics.cer(["ab"], [""]).value == 200
    assert metrics.wer([" "], [""]).value == 0


def test_perplexity_of_a_uniform_model_is_its_alphabet() -> None:
    assert metrics.perplexity(10 * math.log(1 / 37), 10).value == pytest.approx(37)
    assert metrics.bits_per_character(10 * math.log(1 / 16), 10).value == pytest.approx(4)
    assert metrics.perplexity(-1e9, 1).value == math.inf


@pytest.mark.parametrize("measure", [metrics.perplexity, metrics.bits_per_character])
def test_nothing_cannot_be_predicted(measure: object) -> None:
    with pytest.raises(UserError, match="nothing to measure"):
        measure(-1.0, 0)  # type: ignore[operator]


@pytest.mark.parametrize("name", list(METRICS))
def test_lists_must_match(name: str) -> None:
    with pytest.raises(UserError, match="2 predictions but 1 references"):
        compute([name], ["a", "b"], ["a"])
    with pytest.raises(UserError, match="nothing to measure"):
        compute([name], [], [])


def test_a_typo_is_named_before_anything_is_computed() -> None:
    with pytest.raises(UserError, match=r"unknown metric 'blue' \(did you mean 'bleu'\?\)"):
        compute(["cer", "blue"], ["a"], [])
