"""What answers hold whatever is asked beside them: beginnings, bans of copied words, streams that
are the whole answer, places without signs, and what cannot be read.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dragoman
from dragoman.core import BOS, EOS, SPECIALS
from dragoman.data.fields import TextField, TextSpec
from dragoman.data.increments import increments
from dragoman.decode import Asked
from dragoman.encoders import Layout
from dragoman.errors import UserError
from dragoman.looked import lay_out
from dragoman.output import as_pharaoh
from dragoman.prediction import Prediction
from dragoman.validate import ROWS, evaluate, usual
from small import SPEEDY, TEXT_LM, over, reversals, words, write_pairs


def test_an_answer_holds_its_beginning_whatever_stands_beside_it(tiny: dragoman.Predictor) -> None:
    long = Asked(("ab",), prefix="abcdef" * 8)
    (alone,) = tiny.predict([long])
    (beside, _) = tiny.predict([long, Asked(("abcdef" * 12,))])
    assert alone.text.startswith("abcdef" * 8)
    assert alone.text == beside.text


@pytest.fixture(scope="module")
def copier(tmp_path_factory: pytest.TempPathFactory) -> dragoman.Predictor:
    """An untaught model that copies, and knows few words."""
    word = {"units": "word", "min_count": 3}
    tree = over(SPEEDY, data={"source": word, "target": word})
    tree = over(tree, model={"head": {"kind": "copy", "embedding": 4}})
    rows = [(f"the {word}", f"the {word}") for word in words(40)]
    return dragoman.train(rows, tmp_path_factory.mktemp("copier"), config=tree, quiet=True)


@pytest.mark.parametrize("way", [{"beam": 1}, {"beam": 3}, {"sample": True}], ids=str)
def test_words_that_are_copied_can_be_banned(copier: dragoman.Predictor, way: dict) -> None:
    sources = ["zorgon zorgon", "quux", "zorgon quux the"]
    free = " ".join(one.text for one in copier(sources, **way))
    assert "zorgon" in free
    for one in copier(sources, ban=("zorgon", "quux the"), **way):
        assert "zorgon" not in one.text.split()
        assert "quux the" not in one.text
    with pytest.raises(UserError, match="it or a part of it is banned"):
        copier(sources[0], ban=("zorgon",), require=("zorgon",))


def test_nothing_is_streamed_for_a_blank_line(tiny: dragoman.Predictor) -> None:
    assert "".join(tiny.generate("  ", tiny.options(beam=1))) == tiny("  ").text == ""
    with pytest.raises(UserError, match="replace_unknown is for answers that are whole"):
        tiny.generate("ab", tiny.options(beam=1, replace_unknown=True))


@pytest.mark.parametrize("text", ["한국어 말 ab", "café naïve", "Ώ", "ab", "각 각"])
def test_letters_that_were_taken_apart_are_streamed_together(text: str) -> None:
    field = TextField.learn(TextSpec(units="char", normalize="nfd"), [text])
    ids = field.prompt(text)
    pieces = list(increments(field, ids))
    assert "".join(pieces) == field.decode(ids)
    assert len(pieces) > 1 or len(field.decode(ids)) == 1


def test_a_long_prompt_is_not_cut(tmp_path: Path) -> None:
    tree = over(TEXT_LM, data={"dev_rows": 4, "target": {"units": "char", "max_length": 30}})
    rows = [(" ".join(words(4, seed)),) for seed in range(20)]
    model = dragoman.train(rows, tmp_path, recipe="lstm-lm", config=tree, quiet=True)
    prompt = "abc def " * 20
    assert model(prompt, max_length=5).text.startswith(prompt)


SIGNED = [
    (("a", "b"), "1-0"),
    (("a", "b", SPECIALS[EOS]), "1-0"),
    ((SPECIALS[BOS], "a", "b", SPECIALS[EOS]), "1-0"),
    (("a",), "0-0"),
]


@pytest.mark.parametrize(("source", "wanted"), SIGNED)
def test_links_are_to_words_not_to_signs(source: tuple[str, ...], wanted: str) -> None:
    weights = np.full((1, len(source)), 0.1, np.float32)
    weights[0, source.index("b" if "b" in source else "a")] = 0.6
    assert as_pharaoh(Prediction("x", ("x",), 0.0, (), source, weights), 0) == wanted


@pytest.mark.parametrize(("signs", "turned"), [("none", "cba"), ("end", "cba."), ("both", "<cba.")])
def test_weights_over_a_reversed_source_come_in_its_own_order(signs: str, turned: str) -> None:
    field = TextField.learn(TextSpec(units="char", reverse=True, signs=signs), ["abc"])
    read = np.array([[ord(letter) for letter in turned]], np.float32)
    layout = [Layout("tokens", (len(turned),))]
    found = lay_out([field], layout, layout, read)
    assert "".join(chr(int(w)) for w in found.weights[0]).strip("<.") == "abc"


def test_tags_of_all_dialects_are_judged_by_entities() -> None:
    from dragoman.config import resolve

    for line in ("O B-PER I-PER", "O B-PER M-PER E-PER S-LOC", "U-LOC B-X L-X"):
        field = TextField.learn(TextSpec(units="word"), [line])
        fields = type("Fields", (), {"target": field, "source": None})()
        assert usual(resolve("tag"), fields)[-1] == "f1-entity"
        assert usual(resolve("tag-and-label"), fields)[:2] == ["accuracy-last", "f1-entity"]


def test_many_dev_rows_are_judged_from_all_over_the_file(tmp_path: Path) -> None:
    from dragoman.config import resolve
    from dragoman.corpus import load_corpus
    from dragoman.fresh import new_model

    lines = [("ab", "x")] * ROWS + [("ba", "y")] * (2 * ROWS)
    train = write_pairs(tmp_path / "train.tsv", [("ab", "x"), ("ba", "y")] * 20)
    dev = write_pairs(tmp_path / "dev.tsv", lines)
    tree = over(SPEEDY, data={"train": [str(train)], "dev": [str(dev)], "dev_rows": None})
    corpus = load_corpus(resolve("classify", tree=_labels(tree)), None, lambda line: None)
    model = new_model(corpus.config, corpus.fields, lambda line: None)
    found = evaluate(corpus, model, "accuracy")
    wanted = found.written[1]
    assert (len(wanted), wanted.count("x")) == (ROWS, math.ceil(ROWS / 3))
    assert len({sample.wanted for sample in found.samples}) == 2


def _labels(tree: dict) -> dict:
    tree["model"] = {"encoder": {"embedding": 4, "hidden": 4}, "attention": {"size": 4}}
    return tree


def test_no_rows_have_no_scores(tiny: dragoman.Predictor) -> None:
    assert tiny.score([]) == []


def test_an_ensemble_is_scored_together(tmp_path: Path) -> None:
    rows = reversals(60)
    for seed in (1, 2):
        tree = over(SPEEDY, train={"seed": seed})
        dragoman.train(rows, tmp_path / str(seed), config=tree, quiet=True)
    one, two = (dragoman.load(tmp_path / name).score(rows[:5]) for name in "12")
    both = dragoman.load(tmp_path / "1", others=[tmp_path / "2"]).score(rows[:5])
    for a, b, c in zip(one, two, both, strict=True):
        means = [
            math.log((math.exp(p) + math.exp(q)) / 2)
            for p, q in zip(a.log_probs, b.log_probs, strict=True)
        ]
        assert c.log_probs == pytest.approx(means, abs=1e-5)


def test_rows_whose_files_are_missing_are_passed_over_by_all_verbs(
    tmp_path: Path, verb: Callable
) -> None:
    from PIL import Image

    names = [f"{at}.png" for at in range(12)]
    for at, name in enumerate(names):
        Image.new("L", (8, 8), 20 * at).save(tmp_path / name)
    table = write_pairs(tmp_path / "t.tsv", [(n, "ab"[at % 2]) for at, n in enumerate(names)])
    net = ("model.encoder.widths=[4]", "data.source.height=8", "data.source.width=8")
    steps = (*net, "train.max_steps=1", "data.dev_rows=2")
    told = [part for setting in steps for part in ("--set", setting)]
    ran = verb("train", table, "-r", "image-classify", "-o", tmp_path / "m", "-q", *told)
    assert ran.code == 0, ran.err
    asked = write_pairs(tmp_path / "in.tsv", [("0.png", "a"), ("gone.png", "b"), ("1.png", "b")])
    skip = ("--on-bad-line", "skip")
    for command in (("predict", *skip), ("predict", "--jobs", "2", *skip), ("score", *skip)):
        ran = verb(command[0], tmp_path / "m", asked, *command[1:])
        assert ran.code == 0, ran.err
        assert [bool(line) for line in ran.lines] == [True, False, True]
        if "--jobs" not in command:
            assert "gone.png" in ran.err
    ran = verb("evaluate", tmp_path / "m", asked, "--json", *skip)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["accuracy"]["value"] is not None
    assert verb("evaluate", tmp_path / "m", asked, "--on-bad-line", "error").code == 2
