"""A model with the habits of scikit-learn's estimators, which does not need scikit-learn."""
# ruff: noqa: N803  (X is how scikit-learn calls its inputs)

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dragoman.config import Config, resolve
from dragoman.data.fields import clean
from dragoman.errors import UserError, did_you_mean
from dragoman.metrics import exact
from dragoman.predict import Input, Predictor
from dragoman.recipes import merge
from dragoman.training import train

Inputs = Sequence[Input]  # texts, or a tuple of texts for each source column


class Transducer:
    """Texts in, texts out: what the recipe says makes it a translator (`transduce`), a classifier
    (`classify`), a tagger (`tag`) or a language model (`lstm-lm`, fitted without `y`).

    `settings` change the recipe, as `config` does in `train`; single ones have names of their own
    for a grid search: `settings__train__lr`. With `folder` the model stays there, ready for `load`;
    each fit starts anew. Without it, it lives in memory. Estimators are cloned, not pickled: a
    model's one form on disk is its folder.

    >>> model = Transducer(settings={"train": {"max_steps": 2}})
    >>> model.fit(["one", "two"] * 10, ["eins", "zwei"] * 10)
    Transducer(settings={'train': {'max_steps': 2}})
    >>> len(model.predict(["one", "two", "three"]))
    3
    """

    model_: Predictor  # the trained model, with all that it can do beside predicting
    classes_: npt.NDArray[np.str_]  # of a classifier: the labels it knows, sorted
    n_features_in_: int  # source columns

    def __init__(
        self,
        recipe: str = "transduce",
        settings: Mapping[str, Any] | None = None,
        seed: int | None = None,
        folder: str | Path | None = None,
        quiet: bool = True,
    ) -> None:
        self.recipe, self.settings, self.seed = recipe, settings, seed
        self.folder, self.quiet = folder, quiet

    def fit(
        self,
        X: Inputs,
        y: Sequence[str] | None = None,
        dev: tuple[Inputs, Sequence[str]] | None = None,
    ) -> Self:
        """Train on inputs and their answers. `dev`, more of both, says when to stop; by default
        some of the rows do (`data.dev_rows`).
        """
        with tempfile.TemporaryDirectory() as place:
            tree = self._tree()
            if dev is not None:
                path = _write(Path(place) / "dev.jsonl", _rows(*dev))
                tree = merge(tree, {"data": {"dev": [str(path)]}})
            self.model_ = train(
                _rows(X, y),
                self.folder or Path(place) / "model",
                recipe=self.recipe,
                config=tree,
                overwrite=True,
                quiet=self.quiet,
            )
        self.n_features_in_ = len(self.model_.fields.sources)
        vars(self).pop("classes_", None)  # an earlier fit's
        if self._classifies():
            self.classes_ = np.array(sorted(self.model_.fields.target.units.symbols))
        return self

    def predict(self, X: Inputs) -> list[str]:
        """The answer to each input; of a language model, what it makes of each beginning."""
        return [prediction.text for prediction in self._fitted().predict(_inputs(X))]

    def predict_proba(self, X: Inputs) -> npt.NDArray[np.float64]:  # (inputs, classes)
        """How likely each of `classes_` is. Of a blank input nothing is known: all are alike."""
        model = self._fitted()
        if not self._classifies():
            raise UserError(f"recipe {self.recipe} writes texts: only labels have probabilities")
        options = model.options(n_best=len(self.classes_) + 1)  # one more for an unknown label
        column = {label: place for place, label in enumerate(self.classes_.tolist())}
        result: npt.NDArray[np.float64] = np.zeros((len(X), len(column)))
        for row, prediction in zip(result, model.predict(_inputs(X), options), strict=True):
            for one in (prediction, *prediction.alternatives):
                if one.text in column:
                    row[column[one.text]] = np.exp(one.score)
        result[result.sum(1) == 0] = 1.0
        result /= result.sum(1, keepdims=True)
        return result

    def score(self, X: Inputs, y: Sequence[str] | None = None) -> float:
        """The share of inputs whose answer is right to the letter; of a language model, the mean
        log-probability of a text.
        """
        model, rows = self._fitted(), _rows(X, y)
        if not model.fields.sources:
            return float(np.mean([one.score for one in model.score(rows)]))
        spec = model.fields.target.spec
        wanted = [clean(row[-1], spec) for row in rows]  # in the form the model was taught
        return exact(self.predict([row[:-1] for row in rows]), wanted).value / 100

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as they were given."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; `settings__train__lr=0.01` changes one of the settings."""
        known = self.get_params()
        for name, value in params.items():
            first, *path = name.split("__")
            if first not in known or (path and first != "settings"):
                raise UserError(f"there is no parameter '{name}'{did_you_mean(name, list(known))}")
            for key in reversed(path):
                value = {key: value}  # noqa: PLW2901
            setattr(self, first, merge(dict(self.settings or {}), value) if path else value)
        return self

    def __repr__(self) -> str:
        usual = signature(type(self)).parameters
        changed = (f"{k}={v!r}" for k, v in self.get_params().items() if v != usual[k].default)
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator before it lets it into its own tools; nobody else
        calls this, so it is there when it is imported.
        """
        utils = import_module("sklearn.utils")
        labels = self._classifies()
        return utils.Tags(
            estimator_type="classifier" if labels else None,
            target_tags=utils.TargetTags(required=self._config().reads_source),
            classifier_tags=utils.ClassifierTags() if labels else None,
            input_tags=utils.InputTags(one_d_array=True, two_d_array=False, string=True),
        )

    def _tree(self) -> dict[str, Any]:
        tree = dict(self.settings or {})
        return tree if self.seed is None else merge(tree, {"train": {"seed": self.seed}})

    def _config(self) -> Config:
        return resolve(self.recipe, tree=self._tree())

    def _classifies(self) -> bool:
        return bool(self._config().data.target.units == "label")

    def _fitted(self) -> Predictor:
        if not hasattr(self, "model_"):
            raise UserError("this estimator knows nothing yet: call fit(X, y) first")
        return self.model_


def _inputs(given: Iterable[Input]) -> list[Input]:
    """Plain texts and tuples, whatever kind of array or frame they came from."""
    return [str(one) if isinstance(one, str) else tuple(map(str, one)) for one in given]


def _rows(given: Iterable[Input], answers: Iterable[str] | None) -> list[tuple[str, ...]]:
    sources = [(one,) if isinstance(one, str) else one for one in _inputs(given)]
    if not sources:
        raise UserError("X is empty: there is nothing to learn or to judge")
    if answers is None:
        return sources
    targets = list(map(str, answers))
    if len(sources) != len(targets):
        raise UserError(f"X has {len(sources)} inputs, y has {len(targets)} answers")
    return [(*source, target) for source, target in zip(sources, targets, strict=True)]


def _write(path: Path, rows: Iterable[tuple[str, ...]]) -> Path:
    lines = (json.dumps({str(n): text for n, text in enumerate(row)}) + "\n" for row in rows)
    path.write_text("".join(lines), "utf-8")
    return path
