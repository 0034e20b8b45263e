"""The estimator: scikit-learn's habits, with and without scikit-learn."""

import inspect
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dragoman
from dragoman import Transducer, UserError
from small import SPEEDY, TEXT_LM, over, reversals, words

LABELS: dict[str, Any] = {
    "model": {"encoder": {"embedding": 8, "hidden": 8}, "attention": {"size": 8}},
    "train": {"max_steps": 40, "batch_size": 16, "lr": 0.02},
}
REVIEWS = ["good fine nice", "bad awful poor", "good nice", "bad poor"] * 15
MOODS = ["pos", "neg"] * 30
SOURCES, TARGETS = map(list, zip(*reversals(40), strict=True))


@pytest.fixture(scope="module")
def judge() -> Transducer:
    return Transducer("classify", LABELS, seed=3).fit(REVIEWS, MOODS)


@pytest.fixture(scope="module")
def speller() -> Transducer:
    return Transducer(settings=SPEEDY).fit(SOURCES, TARGETS)


def test_parameters_are_stored_as_they_are_given() -> None:
    given = {"recipe": "tag", "settings": LABELS, "seed": 4, "folder": "x", "quiet": False}
    estimator = Transducer(**given)
    assert estimator.get_params() == given
    assert all(estimator.get_params()[name] is value for name, value in given.items())
    assert not [name for name in vars(estimator) if name.endswith("_")]


def test_parameters_can_be_changed_and_wrong_names_are_refused() -> None:
    estimator = Transducer(settings={"train": {"lr": 0.1, "seed": 5}})
    before = estimator.settings
    assert estimator.set_params(seed=2, settings__train__lr=0.5) is estimator
    assert (estimator.seed, estimator.settings) == (2, {"train": {"lr": 0.5, "seed": 5}})
    assert before == {"train": {"lr": 0.1, "seed": 5}}  # a clone may share it
    for wrong in ("sed", "recipe__lr"):
        with pytest.raises(UserError, match=f"no parameter '{wrong}'"):
            estimator.set_params(**{wrong: 1})


def test_a_classifier_learns_and_says_how_sure_it_is(judge: Transducer) -> None:
    assert judge.score(REVIEWS, MOODS) == 1.0
    assert judge.classes_.tolist() == ["neg", "pos"]
    shares = judge.predict_proba([*REVIEWS[:2], " "])
    assert shares.shape == (3, 2)
    np.testing.assert_allclose(shares.sum(1), 1)
    best = judge.classes_[shares[:2].argmax(1)].tolist()
    assert best == judge.predict(REVIEWS[:2]) == MOODS[:2]
    assert shares[2].tolist() == [0.5, 0.5]  # nothing is known of nothing


def test_probabilities_are_the_models_own(judge: Transducer) -> None:
    shares = judge.predict_proba(["good bad"])[0]
    rows = [("good bad", label) for label in judge.classes_]
    expected = np.exp([one.score for one in judge.model_.score(rows)])
    np.testing.assert_allclose(shares, expected / expected.sum(), rtol=1e-5)


def test_arrays_are_taken_as_lists_are(judge: Transducer) -> None:
    assert judge.predict(np.array(REVIEWS[:3])) == judge.predict(REVIEWS[:3])
    assert judge.score(np.array(REVIEWS), np.array(MOODS, dtype=object)) == 1.0


def test_as_many_answers_as_inputs(speller: Transducer) -> None:
    written = speller.predict(["abc", "", "zz"])
    assert len(written) == 3
    assert written[1] == ""
    assert speller.n_features_in_ == 1
    assert speller.score(SOURCES, speller.predict(SOURCES)) == 1.0
    assert not hasattr(speller, "classes_")
    with pytest.raises(UserError, match="only labels have probabilities"):
        speller.predict_proba(["abc"])


def test_the_seed_decides(speller: Transducer) -> None:
    again = Transducer(settings=SPEEDY).fit(SOURCES, TARGETS)
    other = Transducer(settings=SPEEDY, seed=9).fit(SOURCES, TARGETS)
    rows = [("abc", "cba")]
    assert again.model_.score(rows) == speller.model_.score(rows) != other.model_.score(rows)


def test_a_dev_set_may_be_given_and_the_model_stays_in_its_folder(tmp_path: Path) -> None:
    estimator = Transducer(settings=over(SPEEDY, data={}), folder=tmp_path / "model")
    for _ in range(2):  # a second fit starts anew
        estimator.fit(SOURCES, TARGETS, dev=(["ab\tc", "d\ne"], ["cba", "ed"]))
    kept = dragoman.load(tmp_path / "model")
    assert [one.text for one in kept.predict(SOURCES[:3])] == estimator.predict(SOURCES[:3])


def test_inputs_of_several_columns() -> None:
    tree = {**LABELS, "model": {"encoder": {"embedding": 8, "hidden": 8}}}
    pairs = [(one, one) for one in REVIEWS]
    estimator = Transducer("rocktaschel2016", tree).fit(pairs, MOODS)
    assert estimator.n_features_in_ == 2
    assert set(estimator.predict(pairs[:3])) <= {"pos", "neg"}
    assert estimator.predict_proba(np.array(pairs[:3])).shape == (3, 2)


def test_a_language_model_needs_no_answers() -> None:
    lines = [" ".join(words(6, seed)) for seed in range(20)]
    estimator = Transducer("lstm-lm", TEXT_LM).fit(lines)
    assert estimator.predict(["ab"])[0].startswith("ab")
    assert estimator.score(lines) < 0
    assert estimator.n_features_in_ == 0


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match="call fit"):
        Transducer().predict(["a"])
    with pytest.raises(UserError, match="2 inputs, y has 1"):
        Transducer().fit(["a", "b"], ["c"])
    with pytest.raises(UserError, match="X is empty"):
        Transducer().fit([], [])
    with pytest.raises(UserError, match="rows of 1 texts, this model takes 2"):
        Transducer().fit(["a", "b"])
    with pytest.raises(UserError, match="no recipe 'transduse'"):
        Transducer("transduse").fit(["a", "b"], ["c", "d"])


def test_scikit_learn_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)  # now an import of it would fail
    fresh = runpy.run_path(inspect.getfile(Transducer))["Transducer"]
    assert fresh("tag").get_params()["recipe"] == "tag"


def test_scikit_learns_own_tools_take_it() -> None:
    base = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed")
    selection = pytest.importorskip("sklearn.model_selection")
    estimator = Transducer("classify", LABELS, seed=3)
    assert base.clone(estimator).get_params() == estimator.get_params()
    assert base.is_classifier(estimator)
    assert not base.is_classifier(Transducer())
    assert selection.cross_val_score(estimator, REVIEWS, MOODS, cv=2).tolist() == [1.0, 1.0]
    grid = selection.GridSearchCV(estimator, {"settings__train__lr": [1e-5, 0.02]}, cv=2)
    assert grid.fit(REVIEWS, MOODS).best_params_ == {"settings__train__lr": 0.02}
