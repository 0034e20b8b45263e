"""Metrics: the laws of a distance, known numbers, and errors that name the mistake."""

import math
import random
import time
from itertools import islice, product

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import metrics
from dragoman.errors import UserError
from dragoman.metrics import METRICS, Score, compute, edit_distance, tallies
from dragoman.metrics.edits import common_length

symbols = st.text(alphabet="abcé ", max_size=12)
lines = st.lists(st.text(alphabet="abcd ", max_size=20), min_size=1, max_size=6)
tags = st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y", "E-X", "S-Y"]), max_size=6)
answers = st.one_of(st.text(alphabet="abc ", max_size=9), tags.map(" ".join))
exams = st.lists(  # an answer and one to three references
    st.tuples(answers, st.lists(answers, min_size=1, max_size=3)), min_size=1, max_size=6
)
RATES = ["cer", "wer", "per"]
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


# --- several references


@given(exams)
def test_the_gold_among_several_references_is_perfect(exam: list[tuple[str, list[str]]]) -> None:
    written = [answer for answer, _ in exam]
    wanted = [[*several, answer] for answer, several in exam]
    for score in compute([*RATES, "ter"], written, wanted):
        assert score.value == 0
    for score in compute(["exact", "accuracy", "f1-micro", "f1-macro"], written, wanted):
        assert score.value == 100


@given(exams)
def test_the_rate_is_that_of_the_best_of_all_choices(exam: list[tuple[str, list[str]]]) -> None:
    written, wanted = [answer for answer, _ in exam], [several for _, several in exam]
    choices = [list(choice) for choice in islice(product(*wanted), 300)]
    if math.prod(map(len, wanted)) == len(choices):
        least = min(metrics.cer(written, choice).value for choice in choices)
        assert metrics.cer(written, wanted).value == pytest.approx(least)


@given(exams, st.randoms(use_true_random=False))
def test_a_further_reference_never_hurts(
    exam: list[tuple[str, list[str]]], chance: random.Random
) -> None:
    written, wanted = [answer for answer, _ in exam], [several for _, several in exam]
    fewer = [chance.sample(several, chance.randint(1, len(several))) for several in wanted]
    single = [several[0] for several in fewer]
    for name in [*RATES, "exact", "rouge1", "rouge2", "rougeL"]:
        measure = METRICS[name]
        values = [measure(written, given).value for given in (single, fewer, wanted)]
        falls = [-value for value in values] if measure.better == "higher" else values
        assert falls[0] >= falls[2] - 1e-9, name
        assert falls[1] >= falls[2] - 1e-9, name


@given(exams)
def test_the_order_and_number_of_references_change_nothing(
    exam: list[tuple[str, list[str]]],
) -> None:
    written, wanted = [answer for answer, _ in exam], [several for _, several in exam]
    mirrored = [[*several, *several][::-1] for several in wanted]
    for name in [
        *RATES,
        "exact",
        "accuracy",
        "accuracy-last",
        "rouge1",
        "rougeL",
        "f1-entity",
        "bleu",
    ]:
        measure = METRICS[name]
        value = measure(written, wanted).value
        assert measure(written, mirrored).value == pytest.approx(value), name


def test_a_short_reference_of_fewer_edits_does_not_raise_the_rate() -> None:
    written, wanted = ["ab", "x" * 50], [["ab", "abbbbbbbbb"], ["y" * 50]]
    assert metrics.cer(written, wanted).value == pytest.approx(100 * 50 / 52)
    wanted[0] = ["a", "ab" + "b" * 98]  # 1 edit of 1, or 98 of 100
    assert metrics.cer(written, wanted).value == pytest.approx(100 * 148 / 150)


def test_ragged_references_are_those_of_sacrebleu() -> None:
    several = [["The dog bit the man.", "The dog had bitten the man."], [REFERENCES[1]], HYPOTHESES]
    streams = [
        [several[row][at] if at < len(several[row]) else None for row in range(3)]
        for at in range(3)
    ]
    bleu, chrf, ter = compute(["bleu", "chrf", "ter"], HYPOTHESES, several)
    assert bleu.value == sacrebleu.corpus_bleu(HYPOTHESES, streams).score
    assert chrf.value == sacrebleu.corpus_chrf(HYPOTHESES, streams).score
    assert ter.value == pytest.approx(sacrebleu.corpus_ter(HYPOTHESES, streams).score)
    assert "nrefs:var" in (bleu.signature or "")


def test_ter_may_pass_100() -> None:
    assert metrics.ter(["so many words here"], ["one"]).value == 400


def test_an_item_without_reference_is_named() -> None:
    with pytest.raises(UserError, match="item 2 has no reference"):
        metrics.exact(["a", "b"], [["a"], []])


# --- tallies: counting once is counting each time


WEIGHED = {"cider"}  # rare words weigh more: rare in the whole file, whichever part is asked for


@pytest.mark.parametrize("name", [name for name in METRICS if name not in WEIGHED])
@settings(max_examples=20)
@given(exam=exams, seed=st.integers(0, 99))
def test_a_tally_is_the_metric_of_every_choice(
    name: str, exam: list[tuple[str, list[str]]], seed: int
) -> None:
    written, wanted = [answer for answer, _ in exam], [several for _, several in exam]
    fast = METRICS[name].tally(written, wanted)
    slow = metrics.slowly(METRICS[name], written, wanted)
    assert fast.score() == METRICS[name](written, wanted) == slow.score()
    draws = np.random.default_rng(seed).multinomial(len(exam), np.ones(len(exam)) / len(exam), 4)
    assert fast.values(draws.astype(float)) == pytest.approx(slow.values(draws.astype(float)))


def test_a_tally_knows_its_parts() -> None:
    tally = metrics.exact.tally(["a", "b", "c"], ["a", "x", "c"])
    assert tally.score([0, 2]).value == 100
    assert tally.score([1]).value == 0


# --- ROUGE


@given(symbols, symbols)
def test_the_common_length_equals_the_table(a: str, b: str) -> None:
    row = [0] * (len(b) + 1)
    for x in a:
        previous, row = row, [0]
        for j, y in enumerate(b, 1):
            row.append(previous[j - 1] + 1 if x == y else max(previous[j], row[-1]))
    assert common_length(a, b) == row[-1]


def test_rouge_by_hand() -> None:
    given = ["The police killed the gunman", "the the the", "", "One."]
    wanted = ["police: kill the GUNMAN!", "the cat", "the cat", "one"]
    one = [
        2 * 3 / 9,
        2 * 1 / 5,
        0,
        1,
    ]  # police, the, gunman; a word is shared as often as both have
    two = [2 * 1 / 7, 0, 0, 0]  # the gunman; one word makes no pair
    assert metrics.rouge1(given, wanted).value == pytest.approx(100 * sum(one) / 4)
    assert metrics.rouge2(given, wanted).value == pytest.approx(100 * sum(two) / 4)
    assert metrics.rouge_l(given, wanted).value == pytest.approx(100 * sum(one) / 4)
    assert metrics.rouge_l(["c b a"], ["a b c"]).value == pytest.approx(100 / 3)


def test_rouge_reads_other_alphabets() -> None:
    assert metrics.rouge1(["हिन्दी café"], ["हिन्दी cafe"]).value == 50


# --- labels

CONLL = [  # gold and answer of three sentences; hits: 2 of 4 answers, of 5 gold entities
    ("B-PER I-PER O O B-LOC", "B-PER I-PER O O B-ORG"),
    ("B-ORG I-ORG I-ORG O", "B-ORG I-ORG O O"),
    ("O B-LOC B-LOC", "O B-LOC O"),
]


def test_the_label_of_the_whole_is_the_last_word() -> None:
    answers = ["O O Play", "Rate ", "O Play", ""]
    gold: list[str | list[str]] = ["B-x O Play", ["O Play", "O Rate"], "O Rate", ""]
    assert metrics.accuracy_last(answers, gold).value == 75


def test_entities_of_a_known_example() -> None:
    gold, answers = zip(*CONLL, strict=True)
    assert metrics.f1_entity(answers, gold).value == pytest.approx(100 * 2 * 2 / (4 + 5))
    assert metrics.f1_entity(gold, gold).value == 100


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("I-PER I-PER O", [("PER", 0, 1)]),  # IOB1
        ("B-PER I-LOC", [("PER", 0, 0), ("LOC", 1, 1)]),
        ("B-X E-X S-X E-X", [("X", 0, 1), ("X", 2, 2), ("X", 3, 3)]),  # as conlleval reads it
        ("B-X L-X U-Y", [("X", 0, 1), ("Y", 2, 2)]),  # BILOU
        ("B-X M-X E-X", [("X", 0, 2)]),  # BMES
        ("B-A-B I-A-B", [("A-B", 0, 1)]),
        ("O NOUN", []),
        ("", []),
    ],
)
def test_entities_of_all_dialects(line: str, found: list[tuple[str, int, int]]) -> None:
    assert list(metrics.entities(line)) == found


@given(st.lists(tags.filter(lambda line: any(tag != "O" for tag in line)), min_size=1, max_size=4))
def test_entity_f1_of_the_gold_is_perfect(gold: list[list[str]]) -> None:
    texts = [" ".join(line) for line in gold]
    assert metrics.f1_entity(texts, texts).value == 100


labelled = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1)


@given(labelled)
def test_label_metrics_agree(pairs: list[tuple[str, str]]) -> None:
    written, wanted = map(list, zip(*pairs, strict=True))
    reports, table = metrics.per_label(written, wanted), metrics.confusion(written, wanted)
    share = metrics.accuracy(written, wanted).value
    assert metrics.f1_micro(written, wanted).value == pytest.approx(share)
    assert 100 * np.trace(table.counts) / len(pairs) == pytest.approx(share)
    mean = sum(report.f1 for report in reports) / len(reports)
    assert metrics.f1_macro(written, wanted).value == pytest.approx(mean)
    assert [report.label for report in reports] == table.labels
    assert [report.support for report in reports] == table.counts.sum(1).tolist()


def test_sets_of_labels() -> None:
    written, wanted = [{"a", "b"}, set(), {"c"}], [{"a"}, {"c"}, {"c"}]
    assert metrics.f1_micro(written, wanted).value == pytest.approx(100 * 4 / 6)
    assert metrics.f1_macro(written, wanted).value == pytest.approx((100 + 0 + 200 / 3) / 3)
    with pytest.raises(UserError, match="one label an item"):
        metrics.confusion(written, wanted)


# --- intervals and tests

RATIOS = ["exact", "cer", "wer", "per", "accuracy", "f1-micro"]  # one sum over another


@settings(max_examples=30)
@given(exam=exams, name=st.sampled_from(RATIOS))
def test_the_interval_of_a_ratio_holds_its_value(
    exam: list[tuple[str, list[str]]], name: str
) -> None:
    tally = METRICS[name].tally([a for a, _ in exam], [several[0] for _, several in exam])
    found = metrics.interval(tally)
    assert (found is None) == (len(exam) == 1)
    if found:
        assert found.low - 1e-9 <= tally.score().value <= found.high + 1e-9


@settings(max_examples=20)
@given(exam=exams, name=st.sampled_from(list(METRICS)))
def test_a_system_is_never_better_than_itself(exam: list[tuple[str, list[str]]], name: str) -> None:
    written, wanted = [answer for answer, _ in exam], [several for _, several in exam]
    found = metrics.compare(METRICS[name].tally(written * 2, wanted * 2), resamples=50)
    assert found.difference == 0
    assert found.p_bootstrap == found.p_randomisation == 1


def corpus(size: int, noise: float, seed: int) -> tuple[list[str], list[list[str]]]:
    """Sentences and answers with so many of their words wrong."""
    rng = random.Random(seed)
    words = [f"w{number}" for number in range(200)]
    wanted = [" ".join(rng.choices(words, k=rng.randint(6, 14))) for _ in range(size)]
    rng = random.Random(seed + 100 * noise)
    written = [
        " ".join(rng.choice(words) if rng.random() < noise else word for word in line.split())
        for line in wanted
    ]
    return written, [[line] for line in wanted]


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter", "wer", "rougeL"])
def test_clear_differences_are_significant_and_small_ones_are_not(name: str) -> None:
    (good, wanted), (bad, _), (like, _) = (corpus(100, x, 1) for x in (0.1, 0.4, 0.101))
    found = metrics.compare(METRICS[name].tally(good + bad, wanted * 2), resamples=300)
    assert found.p_bootstrap < 0.01
    assert found.p_randomisation < 0.01
    assert found.interval.low <= found.difference <= found.interval.high
    assert found.first == pytest.approx(METRICS[name](good, wanted).value)
    assert found.second == pytest.approx(METRICS[name](bad, wanted).value)
    found = metrics.compare(METRICS[name].tally(good + like, wanted * 2), resamples=300)
    assert min(found.p_bootstrap, found.p_randomisation) > 0.05


def test_the_interval_of_a_share_is_that_of_the_binomial() -> None:
    tally = metrics.exact.tally(["a"] * 700 + ["b"] * 300, ["a"] * 1000)
    found = metrics.interval(tally, resamples=4000)
    assert found is not None
    assert found.low == pytest.approx(70 - 1.96 * 1.449, abs=0.2)
    assert found.high == pytest.approx(70 + 1.96 * 1.449, abs=0.2)


def test_intervals_depend_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    written, wanted = corpus(60, 0.3, 2)
    tally = metrics.bleu.tally(written, wanted)
    found = metrics.interval(tally)
    assert found == metrics.interval(metrics.bleu.tally(written, wanted))
    assert found != metrics.interval(tally, seed=2)
    monkeypatch.setattr("dragoman.metrics.intervals._CELLS", 700)  # in many small portions
    assert metrics.interval(tally) == found


def test_a_part_has_the_interval_of_a_corpus_of_its_own() -> None:
    written, wanted = corpus(60, 0.3, 3)
    part = metrics.interval(metrics.wer.tally(written, wanted), among=range(20, 40))
    assert part == metrics.interval(metrics.wer.tally(written[20:40], wanted[20:40]))


def test_intervals_of_all_metrics_are_fast() -> None:
    written, wanted = corpus(1000, 0.2, 4)
    for tally in tallies([name for name in METRICS if name != "ter"], written, wanted):
        start = time.perf_counter()
        metrics.interval(tally)
        assert time.perf_counter() - start < 2, tally.name  # about 0.1 s on an idle machine


def test_the_perplexity_of_many_texts_has_an_interval() -> None:
    tally = metrics.perplexities([-10.0, -20.0, -15.0], [10, 10, 10])
    assert tally.score().value == pytest.approx(math.exp(1.5))
    found = metrics.interval(tally)
    assert found is not None
    assert math.exp(1) <= found.low < math.exp(1.5) < found.high <= math.exp(2)
