"""From options to answers: rules in words, several models, least risk, no <unk>, the flags."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dragoman
from dragoman import answers
from dragoman.config import SearchSpec, resolve_search
from dragoman.data.fields import TextField, TextSpec
from dragoman.data.spelling import spellings
from dragoman.decode import Asked
from dragoman.errors import UserError
from small import SPEEDY, over, reversals, words

WORDS = words(12, seed=8)
STDIN = "".join(f"{word}\n" for word in WORDS).encode()
WAYS = [{"beam": 1}, {"beam": 4}, {"beam": 4, "groups": 2}, {"sample": True, "temperature": 2.0}]
CUT = over(SPEEDY, data={"dev_rows": 20})  # the same rows to train on as the tiny model has


@pytest.fixture(scope="session")
def sibling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untaught model with the alphabets of the tiny one."""
    folder = tmp_path_factory.mktemp("sibling") / "model"
    dragoman.train(reversals(300), folder, config=CUT, quiet=True)
    return folder


@pytest.fixture(scope="session")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of the tiny model's answers."""
    folder = tmp_path_factory.mktemp("speaker") / "model"
    tree = {
        "data": {"dev_rows": 20, "format": "lines", "target": {"units": "char"}},
        "model": {"decoder": {"hidden": 8, "layers": 1}, "head": {"embedding": 6}},
        "train": {"max_steps": 3, "batch_size": 4},
    }
    texts = [(target,) for _, target in reversals(300)]
    dragoman.train(texts, folder, recipe="lstm-lm", config=tree, quiet=True)
    return folder


@pytest.fixture(scope="session")
def speller(tmp_path_factory: pytest.TempPathFactory) -> dragoman.Predictor:
    """An untaught model of bytes: many of its paths are no text, and read the same."""
    folder = tmp_path_factory.mktemp("bytes") / "model"
    bytes_ = {"dev_rows": 4, "target": {"units": "bytes"}}
    dragoman.train(reversals(40), folder, config=over(SPEEDY, data=bytes_), quiet=True)
    return dragoman.load(folder)


@pytest.fixture(scope="session")
def worded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untaught model of words, most of which it does not know."""
    folder = tmp_path_factory.mktemp("words") / "model"
    rows = [(f"der {word}", f"the {word}") for word in words(40)]
    word = {"units": "word", "min_count": 3}
    tree = over(SPEEDY, data={"dev_rows": 4, "source": word, "target": word})
    dragoman.train(rows, folder, config=tree, quiet=True)
    return folder


# --- rules in words


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_banned_phrases_appear_in_no_answer(tiny: dragoman.Predictor, way: dict) -> None:
    free = [p.text for p in tiny(WORDS, **way)]
    bans = sorted({text[:2] for text in free if len(text) > 1})[:4]
    found = tiny(WORDS, ban=bans, n_best=2, **way)
    for one in found:
        for answer in (one, *one.alternatives):
            assert not any(ban in answer.text for ban in bans)


@settings(max_examples=25)
@given(
    phrases=st.lists(st.text("abcdef", min_size=1, max_size=4), max_size=3),
    way=st.sampled_from(WAYS),
)
def test_required_phrases_appear_in_every_answer(
    tiny: dragoman.Predictor, phrases: list[str], way: dict
) -> None:
    asked = [Asked((word,), (*phrases[1:], word[:2])) for word in WORDS[:4]]
    options = tiny.options(require=phrases[:1], n_best=2, max_length=6, **way)
    for one, wanted in zip(tiny.predict(asked, options), asked, strict=True):
        for answer in (one, *one.alternatives):
            assert all(phrase in answer.text for phrase in (*phrases[:1], *wanted.require))


def test_a_required_phrase_keeps_the_models_price(tiny: dragoman.Predictor) -> None:
    found = tiny(WORDS, require=["fa"], ban=["bb"], no_repeat_ngram=3)
    scored = tiny.score([(word, one.text) for word, one in zip(WORDS, found, strict=True)])
    for one, score in zip(found, scored, strict=True):
        assert one.score == pytest.approx(score.score, abs=1e-3)


def test_what_cannot_be_required_is_refused(tiny: dragoman.Predictor) -> None:
    with pytest.raises(UserError, match="no symbols to write"):
        tiny("abc", require=["xyz"])
    with pytest.raises(UserError, match="banned"):
        tiny("abc", require=["fab"], ban=["ab"])
    assert tiny("abc", require=[" "[:0]], ban=["xyz", ""]).text == "cba"


def test_no_ngram_of_letters_repeats(tiny: dragoman.Predictor) -> None:
    long = [p.text for p in tiny(["ababab", "ccc", "dedede"], no_repeat_ngram=2, min_length=8)]
    for text in long:
        pairs = [text[i : i + 2] for i in range(len(text) - 1)]
        assert len(set(pairs)) == len(pairs)


def test_batch_size_and_order_change_nothing_with_all_options(
    tiny_model: Path, sibling: Path, speaker: Path
) -> None:
    model = dragoman.load(tiny_model, others=[sibling, tiny_model], lm=speaker)
    given = [Asked((w,), (w[-1],) if i % 2 else ()) for i, w in enumerate(WORDS)]
    for way in WAYS:
        options = model.options(
            ban=["fe", "dd"],
            require=["a"],
            no_repeat_ngram=3,
            repetition_penalty=1.2,
            length_penalty="gnmt",
            coverage_penalty=0.2,
            n_best=3,
            **way,
        )
        whole = model.predict(given, options)
        alone = [model.predict([one], options, first=i)[0] for i, one in enumerate(given)]
        some = list(model.stream(given, options, batch_size=5))
        texts = [
            [[p.text, *(a.text for a in p.alternatives)] for p in w] for w in (whole, alone, some)
        ]
        assert texts[0] == texts[1] == texts[2]


def test_a_phrase_of_subwords_has_two_spellings() -> None:
    lines = [f"{a} {b}" for a in words(30, longest=3) for b in words(10, seed=4, longest=2)]
    field = TextField.learn(TextSpec(units="subword", size=300), lines)
    found = spellings(field, "ab")
    assert field.units.decode(found[0]) == "ab"
    glued = [field.units.decode([*field.units.encode("f"), *one]) for one in found]
    assert glued == ["f ab", "fab"]
    back = TextField(field.spec.model_copy(update={"reverse": True}), field.units)
    assert spellings(back, "ab") == [one[::-1] for one in found]
    assert spellings(field, "") == []


def test_a_copying_model_can_be_required_to_copy(tmp_path: Path) -> None:
    word = {"units": "word", "min_count": 3}
    rows = [(f"der {one} da", f"the {one} there") for one in words(40)]
    columns = {"dev_rows": 4, "source": word, "target": word}
    tree = over(SPEEDY, data=columns, model={"head": {"kind": "copy", "embedding": 4}})
    dragoman.train(rows, tmp_path / "m", config=tree, quiet=True)
    model = dragoman.load(tmp_path / "m", others=[tmp_path / "m"])
    asked = [Asked(("der zorgon da",), ("zorgon there",)), Asked(("blip",), ("the blip", "there"))]
    for way in WAYS:
        found = model.predict(asked, model.options(max_length=5, no_repeat_ngram=1, **way))
        assert "zorgon there" in found[0].text
        assert "the blip" in found[1].text
        long = model(["a b c d e", "a"], min_length=12, no_repeat_ngram=1, **way)
        assert set(long[1].tokens) <= {"a", "<unk>", *model.fields.target.units.symbols}


def test_a_language_model_goes_on_from_its_prompt_as_required(speaker: Path) -> None:
    model = dragoman.load(speaker)
    for way in WAYS:
        options = {"sample": False, "require": ["fab"], "ban": ["c"], "max_length": 5} | way
        for prompt, one in zip(["ac", "", "f"], model(["ac", "", "f"], **options), strict=True):
            assert one.text.startswith(prompt)
            assert "fab" in one.text
            assert "c" not in one.text[len(prompt) :]


# --- n-best lists, least risk


def test_no_text_is_listed_twice(speller: dragoman.Predictor) -> None:
    for one in speller(WORDS[:6], n_best=6, beam=6, max_length=1):
        texts = [one.text, *(other.text for other in one.alternatives)]
        assert len(set(texts)) == len(texts)
        assert len(texts) > 3
    drawn = speller("abc", sample=True, n_best=6, max_length=1)
    assert len(drawn.alternatives) == 5  # draws stand as they were drawn


def test_diverse_beams_differ_more(tiny: dragoman.Predictor) -> None:
    def firsts(**options: object) -> int:
        found = tiny(WORDS, beam=4, n_best=4, **options)
        return sum(len({a.text[:1] for a in (one, *one.alternatives)}) for one in found)

    assert firsts(groups=4, diversity=20.0) > firsts()


@pytest.mark.parametrize("metric", ["chrf", "bleu", "edit"])
def test_least_risk(tiny: dragoman.Predictor, metric: str) -> None:
    def said(**options: object) -> list[tuple[str, float]]:
        return [(one.text, one.score) for one in tiny(WORDS, seed=3, **options)]

    assert said(mbr=metric, samples=1) == said(sample=True)  # of one, that one
    assert said(mbr=metric, beam=1) == said(beam=1)
    drawn = tiny("abcde", sample=True, temperature=1.5, n_best=8, seed=2)
    texts = [drawn.text, *(a.text for a in drawn.alternatives)]
    best = tiny("abcde", mbr=metric, samples=8, temperature=1.5, seed=2)
    utility = answers.UTILITIES[metric]()
    gains = {text: sum(utility(text, other) for other in texts) for text in texts}
    assert gains[best.text] == pytest.approx(max(gains.values()))


def test_paths_of_a_beam_count_by_their_probability() -> None:
    texts, scores = ["aaaa", "bbbb", "bbbc"], [-0.01, -9.0, -9.0]
    assert answers.arrange(texts, scores, SearchSpec(mbr="edit"))[0] == 0
    assert answers.arrange(texts, [-2.0, -2.0, -2.0], SearchSpec(mbr="edit"))[0] == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"samples": 4}, "mbr"),
        ({"mbr": "chrf", "samples": 2, "n_best": 3}, "n_best"),
        ({"groups": 0}, "groups"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"no_repeat_ngram": -1}, "no_repeat_ngram"),
        ({"length_penalty": "gmnt"}, "length_penalty"),
        ({"ban": "ab"}, "ban"),
    ],
)
def test_absurd_options_are_refused(options: dict, named: str) -> None:
    with pytest.raises(UserError, match=named):
        resolve_search(SearchSpec(), options)


# --- several models


def test_an_ensemble_with_itself_is_the_model(tiny_model: Path, tiny: dragoman.Predictor) -> None:
    twice = dragoman.load(tiny_model, others=[tiny_model])
    for options in ({}, {"log_linear": True}, {"sample": True}):
        for one, both in zip(tiny(WORDS, **options), twice(WORDS, **options), strict=True):
            assert one.text == both.text
            assert one.score == pytest.approx(both.score, abs=1e-4)


def test_models_that_cannot_speak_together_are_refused(
    tiny_model: Path, tiny_lm: Path, speaker: Path, speller: dragoman.Predictor
) -> None:
    for helpers in ({"others": [tiny_lm]}, {"lm": tiny_lm}):
        with pytest.raises(UserError, match="same target alphabet"):
            dragoman.load(tiny_model, **helpers)
    with pytest.raises(UserError, match="same number of columns"):
        dragoman.load(tiny_model, others=[speaker])
    with pytest.raises(UserError, match="reads a source"):
        dragoman.load(tiny_model, lm=tiny_model)


def test_a_language_model_without_weight_changes_nothing(
    tiny_model: Path, speaker: Path, tiny: dragoman.Predictor
) -> None:
    fused = dragoman.load(tiny_model, lm=speaker)
    plain = [one.text for one in tiny(WORDS)]
    assert [one.text for one in fused(WORDS, lm_weight=0.0)] == plain
    assert [one.text for one in fused(WORDS, lm_weight=50.0)] != plain


# --- <unk>


def test_unknown_words_become_those_of_the_source(worded: Path, tmp_path: Path) -> None:
    model = dragoman.load(worded)
    banned = list(model.fields.target.units.symbols)
    options = {"ban": banned, "min_length": 2, "max_length": 2}
    plain = model("der zorgon", **options)
    assert plain.text == "<unk> <unk>"
    spoken = model("der zorgon", replace_unknown=True, **options)
    looked = spoken.alignment[:, :2].argmax(1)
    assert spoken.tokens == tuple(["der", "zorgon"][i] for i in looked)
    assert spoken.text == " ".join(spoken.tokens)
    dictionary = tmp_path / "words.tsv"
    dictionary.write_text("der\tthe\nzorgon\tZorgon\n")
    translated = dragoman.load(worded, dictionary=dictionary)
    said = translated("der zorgon", replace_unknown=True, **options)
    assert said.tokens == tuple(["the", "Zorgon"][i] for i in looked)


def test_without_attention_an_unknown_word_stays() -> None:
    assert answers.replace_unknown(["<unk>"], None, ["a"]) == ["<unk>"]
    nothing = np.zeros((1, 1), np.float32)
    assert answers.replace_unknown(["<unk>"], nothing, ["</s>"]) == ["<unk>"]


def test_a_dictionary_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("a\tb\nc\n")
    with pytest.raises(UserError, match=f"{path}:2"):
        answers.read_dictionary(path)
    with pytest.raises(UserError, match="cannot be read"):
        answers.read_dictionary(tmp_path / "none.tsv")


# --- flags


def test_flags_reach_the_search(verb: Callable, tiny_model: Path) -> None:
    predict = ("predict", tiny_model)
    plain = verb(*predict, stdin=STDIN).lines
    banned = verb(*predict, "--ban", "a", "--ban", "bc", stdin=STDIN).lines
    assert not any("a" in line or "bc" in line for line in banned)
    assert all("ff" in line for line in verb(*predict, "--require", "ff", stdin=STDIN).lines)
    single = verb(*predict, "--no-repeat-ngram", "1", stdin=STDIN).lines
    assert all(len(set(line)) == len(line) for line in single)
    for flags in (
        ["--repetition-penalty", "1.5"],
        ["--diverse", "2", "--beam", "4", "--diversity", "0.1"],
        ["--length-penalty", "gnmt", "--coverage-penalty", "0.1"],
        ["--mbr", "chrf"],
        ["--mbr", "edit", "--samples", "5", "--seed", "2"],
        ["--replace-unknown"],
        ["--ensemble", tiny_model, "--log-linear"],
    ):
        ran = verb(*predict, *flags, stdin=STDIN)
        assert (ran.code, ran.err) == (0, "")
        assert len(ran.lines) == len(plain)


def test_phrases_of_a_column(verb: Callable, tiny_model: Path, tmp_path: Path) -> None:
    table, records = tmp_path / "t.tsv", tmp_path / "t.jsonl"
    rows = [("abc", "ff ||| d"), ("fed", ""), ("ab", "e")]
    table.write_text("".join(f"{word}\t{phrases}\n" for word, phrases in rows))
    records.write_text("".join(json.dumps({"w": w, "p": p}) + "\n" for w, p in rows))
    ran = verb("predict", tiny_model, table, "--require-column", "2")
    assert (ran.code, ran.err) == (0, "")
    first, second, third = ran.lines
    assert "ff" in first
    assert "d" in first
    assert second == "def"
    assert "e" in third
    named = verb("predict", tiny_model, records, "--column", "w", "--require-column", "p")
    assert named.lines == ran.lines


def test_flags_that_make_no_sense_are_refused(
    verb: Callable, tiny_model: Path, tiny_lm: Path
) -> None:
    for flags, named in (
        (["--ensemble", tiny_lm], "same target alphabet"),
        (["--lm", tiny_lm], "same target alphabet"),
        (["--lm-weight", "1"], "--lm"),
        (["--samples", "3"], "mbr"),
        (["--require", "xyz"], "xyz"),
        (["--dictionary", "/nowhere.tsv"], "/nowhere.tsv"),
        (["--diverse", "0"], "groups"),
    ):
        ran = verb("predict", tiny_model, *flags, stdin=b"abc\n")
        assert (ran.code, ran.out) == (2, "")
        assert named in ran.err
        assert ran.err.count("\n") == 1
