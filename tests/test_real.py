"""Short runs on real data: every recipe beats a trivial baseline, stated beside it."""

import gzip
import math
from collections import Counter
from pathlib import Path

import pytest

from dragoman.config import resolve
from dragoman.evaluate import evaluate, evaluate_files
from dragoman.metrics import bleu, chrf, exact
from dragoman.predict import Predictor
from dragoman.progress import Reporter
from dragoman.training import run

DATA = Path(__file__).parents[2] / "shared" / "data"
pytestmark = [pytest.mark.slow, pytest.mark.shared]


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def trained(name: str, folder: Path, tree: dict[str, object], *settings: str) -> Predictor:
    return run(resolve(name, tree=tree, settings=settings), folder, Reporter(quiet=True))


TRANSLATORS = ["cho2014", "sutskever2014", "stacked-gru", "bahdanau2015", "luong2015"]


@pytest.mark.parametrize("name", [f"{name}-small" for name in TRANSLATORS])
def test_translation_beats_copying_and_the_commonest_sentence(name: str, tmp_path: Path) -> None:
    place = DATA / "multi30k"
    data = {
        "train": [str(place / "train.de.gz"), str(place / "train.en.gz")],
        "dev": [str(place / "val.de.gz"), str(place / "val.en.gz")],
        "source": {"units": "word", "size": 4000, "lower": True},
        "target": {"units": "word", "size": 4000, "lower": True},
    }
    steps = ["train.max_steps=500", "train.evaluate_every=500", "train.batch_tokens=1024"]
    model = trained(name, tmp_path / "model", {"data": data}, *steps)
    sources = lines(place / "test_2016_flickr.de.gz")[:300]
    references = [line.lower() for line in lines(place / "test_2016_flickr.en.gz")[:300]]
    found = {score.name: score.value for score in evaluate(model, sources, references, {"beam": 1})}
    written = [p.text for p in model.predict(sources, model.options(beam=1))]
    copied = [line.lower() for line in sources]
    common = Counter(line.lower() for line in lines(place / "train.en.gz")).most_common(1)[0][0]
    assert bleu(written, references).value > bleu(copied, references).value
    assert chrf(written, references).value > chrf([common] * 300, references).value
    words = [word for line in references for word in [*line.split(), "</s>"]]
    assert found["perplexity"] < unigram_perplexity(words)


def unigram_perplexity(symbols: list[str]) -> float:
    """Of a text under its own frequencies: better than any unigram model trained elsewhere."""
    counts = Counter(symbols)
    total = sum(count * math.log(count / len(symbols)) for count in counts.values())
    return math.exp(-total / len(symbols))


def test_pronunciation_beats_copying_and_the_commonest_answer(tmp_path: Path) -> None:
    place = DATA / "g2p-2021" / "low"
    data = {"train": [str(place / "ice_train.tsv.gz")], "dev": [str(place / "ice_dev.tsv.gz")]}
    model = trained("transduce", tmp_path / "model", {"data": data}, "train.max_steps=600")
    rows = [line.split("\t") for line in lines(place / "ice_test.tsv.gz")]
    written = [p.text for p in model.predict([row[0] for row in rows])]
    wanted = [row[1] for row in rows]
    spelled = [" ".join(row[0]) for row in rows]
    assert exact(written, wanted).value > 60
    assert exact(spelled, wanted).value < 20


@pytest.mark.parametrize(("name", "most"), [("rnn-lm", 9.0), ("gru-lm", 7.0), ("lstm-lm", 7.5)])
def test_language_models_beat_letter_frequencies(name: str, most: float, tmp_path: Path) -> None:
    data = {"train": [str(DATA / "tinyshakespeare.txt.gz")]}
    steps = ["train.max_steps=250", "train.evaluate_every=250"]
    model = trained(name, tmp_path / "model", {"data": data}, *steps)
    text = lines(DATA / "tinyshakespeare.txt.gz")[-2000:]
    path = tmp_path / "end.txt"
    path.write_text("\n".join(text) + "\n", "utf-8")
    scores = evaluate_files(model, {"train": [str(path)]}, {}, [])
    perplexity = next(score.value for score in scores if score.name.lower() == "perplexity")
    assert perplexity < most < unigram_perplexity(list("\n".join(text)))


def test_a_word_language_model_beats_word_frequencies(tmp_path: Path) -> None:
    data = {
        "train": [str(DATA / "tinyshakespeare.txt.gz")],
        "target": {"units": "word", "size": 5000},
    }
    steps = ["train.max_steps=250", "train.evaluate_every=250", "train.bptt=32"]
    model = trained("lstm-lm", tmp_path / "model", {"data": data}, *steps)
    assert model.fields.target.spec.units == "word"
    text = lines(DATA / "tinyshakespeare.txt.gz")[-2000:]
    path = tmp_path / "end.txt"
    path.write_text("\n".join(text) + "\n", "utf-8")
    scores = evaluate_files(model, {"train": [str(path)]}, {}, [])
    perplexity = next(score.value for score in scores if score.name.lower() == "perplexity")
    known = set(model.fields.target.units.symbols)
    words = [w if w in known else "<unk>" for line in text for w in [*line.split(), "</s>"]]
    assert perplexity < unigram_perplexity(words)
