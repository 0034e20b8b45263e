"""Models in a browser: one file, opened from disk, that writes what Python writes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dragoman
import models
from conftest import Ran
from dragoman.checkpoint import Fields, Loaded, load_model
from dragoman.config import Config
from dragoman.data.fields import TextField, TextSpec
from dragoman.model import build
from dragoman.predict import Prediction, Predictor
from dragoman.ship.html import page
from dragoman.ship.rounding import Form, round_model
from small import words

SPECS = {
    name: spec
    for name, spec in (models.FEW | models.LABELS).items()
    if spec.encoder.kind in ("text", "nothing", "several")
    and not ({"pointer", "image", "question"} & set(name.split("-")))
}
FAST = (
    "rnn-after-feed-bilinear-copy-plain",
    "gru-after-every-step-copy-tanh",
    "gru-before-after-dot-copy-plain",
    "gru-after-lm",
    "copy-coverage",
    "local-after",
    "monotone",
    "monotone-tied",
    "several-gate",
    "still-attention",
    "aligned-hidden",
    "aligned-whole",
)
TEXTS = ["a", "ab", "abcde" * 3, "eddcbax", "ccc"]


def loaded(spec: models.ModelSpec) -> Loaded:
    """A model with random weights for small alphabets."""
    names = {"nothing": (), "several": ("source", "other")}.get(spec.encoder.kind, ("source",))
    sources = {name: TextField.learn(TextSpec(units="char"), ["abcde"]) for name in names}
    units = "label" if spec.decoder.kind == "still" else "char"
    target = TextField.learn(TextSpec(units=units), ["x", "y", "z"])
    more = {"more": {"other": {"units": "char"}}} if len(names) > 1 else {}
    search = {"max_length": 12, "sample": False} if not names else {}
    config = Config.model_validate({"model": spec.model_dump(), "data": more, "search": search})
    return Loaded(config, Fields(sources, target), models.make(spec).float())


def put(place: Path, given: Loaded, form: Form = "int8") -> str:
    """The address of a model's page."""
    (place / "page.html").write_text(page(given, form), "utf-8")
    return (place / "page.html").as_uri()


def answers(tab: Any, inputs: Sequence[Sequence[str]], **options: object) -> list[Any]:
    script = "([inputs, options]) => dragoman.answer(inputs, options).then((reply) => reply.found)"
    return tab.evaluate(script, [[list(one) for one in inputs], options])  # type: ignore[no-any-return]


def agree(found: Any, ours: Prediction) -> None:
    texts = [one["text"] for one in found["answers"]]
    assert texts == [ours.text, *(one.text for one in ours.alternatives)]
    first = found["answers"][0]
    assert tuple(first["tokens"]) == ours.tokens
    assert first["score"] == pytest.approx(ours.score, rel=1e-5, abs=1e-4)
    np.testing.assert_allclose(first["gains"], ours.log_probs, atol=1e-4)
    if ours.source:
        assert tuple(found["source"]) == ours.source
    if ours.alignment is not None and ours.alignment.size:
        np.testing.assert_allclose(first["looked"], ours.alignment, atol=1e-4)


def same(name: str, tab: Any, place: Path) -> None:
    given = loaded(SPECS[name])
    tab.goto(put(place, given))
    rounded = round_model(given, "int8")
    rounded.model.double()  # what single precision loses in ten steps is no fault of the page
    predictor = Predictor(*rounded)
    columns = len(given.fields.sources)
    inputs = [(text, f"ed{text}")[:columns] if columns else (text[:2],) for text in TEXTS]
    for options in ({"beam": 1}, {"beam": 4, "n_best": 3}):
        ours = predictor.predict(inputs, predictor.options(**options))
        for found, mine in zip(answers(tab, inputs, **options), ours, strict=True):
            agree(found, mine)


@pytest.mark.parametrize("name", FAST)
def test_pages_are_their_models(name: str, tab: Any, tmp_path: Path) -> None:
    """The same texts, tokens, prices and attention as Python with the same rounded weights."""
    same(name, tab, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SPECS if name not in FAST])
def test_all_pages_are_their_models(name: str, tab: Any, tmp_path: Path) -> None:
    same(name, tab, tmp_path)


@pytest.mark.parametrize("form", ["fp32", "fp16", "int8"])
def test_a_thousand_words_in_the_browser(
    form: Form,
    tiny_model: Path,
    tab: Any,
    tmp_path: Path,
) -> None:
    """Greedy and with a beam of 5; of fp32, the model's own answers."""
    given = load_model(tiny_model)
    tab.goto(put(tmp_path, given, form))
    inputs = words(1000, seed=5)
    predictor = Predictor(*(given if form == "fp32" else round_model(given, form)))
    for beam in (1, 5):
        ours = predictor.predict(inputs, predictor.options(beam=beam))
        theirs = answers(tab, [[text] for text in inputs], beam=beam)
        assert [one["answers"][0]["text"] for one in theirs] == [one.text for one in ours]


HARD = [
    "Der Hund läuft.",
    "  two  blanks, and a tab\there ",
    "emoji 🙂 and ▁ sign ▂1",
    "日本語のテキスト",
    "",
    "x" * 60,
    "straße ﬁne Å İstanbul ΣΑΣ 한국어",
]


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (TextSpec(units="subword", size=300), TextSpec(units="subword", size=300, reverse=True)),
        (TextSpec(units="bytes", max_length=20), TextSpec(units="bytes")),
        (TextSpec(units="word", lower=True, reverse=True), TextSpec(units="word")),
        (TextSpec(units="features", normalize="nfkc"), TextSpec(units="char", reverse=True)),
        (TextSpec(units="char", normalize="nfd"), TextSpec(units="char", normalize="nfd")),
    ],
)
def test_pages_cut_text_as_python_does(
    reader: TextSpec,
    writer: TextSpec,
    tab: Any,
    tmp_path: Path,
) -> None:
    lines = ["The dog runs over the hill.", "Der Hund läuft über den Hügel.", "a b c 1 2 3"] * 5
    fields = Fields({"source": TextField.learn(reader, lines)}, TextField.learn(writer, lines))
    spec = SPECS["gru-after-after-mlp-copy-plain"]
    config = Config.model_validate(
        {"model": spec.model_dump(), "data": {"source": reader, "target": writer}}
    )
    model = build(spec, fields.source_sizes, fields.target.size).eval()
    given = Loaded(config, fields, model)
    tab.goto(put(tmp_path, given, "fp32"))
    predictor = Predictor(*given)
    for options in ({"beam": 1}, {"beam": 3, "n_best": 2}):
        ours = predictor.predict(HARD, predictor.options(**options))
        for found, mine in zip(answers(tab, [[x] for x in HARD], **options), ours, strict=True):
            agree(found, mine)


def test_a_page_works_offline_and_shows_what_it_did(
    tiny_model: Path,
    tiny: dragoman.Predictor,
    open_tab: Callable[..., Any],
    tmp_path: Path,
) -> None:
    tab = open_tab(offline=True)
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    address = put(tmp_path, load_model(tiny_model))
    tab.goto(address)
    assert tab.evaluate("dragoman.ready.then((reply) => reply.ms)") < 1000
    tab.fill("textarea", "fedc")
    tab.wait_for_selector("#others li")
    assert tab.inner_text("#answer") == tiny("fedc").text
    assert tab.locator("#others li").count() > 1
    assert tab.locator("#map tbody tr").count() == len(tiny("fedc").tokens)
    assert tab.locator("#map thead th").count() == len("fedc") + 2
    assert all(url == address or url.startswith(("blob:", "data:")) for url in asked)


def test_a_page_shows_text_as_text(tiny_model: Path, tab: Any, tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    content = page(load_model(tiny_model), title=hostile, lead=hostile, examples=[[hostile]])
    (tmp_path / "page.html").write_text(content, "utf-8")
    tab.on("dialog", lambda dialog: tab.complaints.append("a dialog"))
    tab.goto((tmp_path / "page.html").as_uri())
    tab.locator("#time", has_text=" ms").wait_for()
    assert tab.inner_text("h1") == hostile
    assert tab.locator("img").count() == 0


def test_parts_that_browsers_cannot_run_are_refused_by_name() -> None:
    pairs = models.LABELS["still-match"]
    given = loaded(SPECS["several-compare"])
    config = given.config.model_copy(update={"model": pairs})
    with pytest.raises(dragoman.UserError, match=r"encoder\.kind=match cannot be exported to HTML"):
        page(given._replace(config=config))


def test_export_tells_what_it_costs(
    verb: Callable[..., Ran], tiny_model: Path, tmp_path: Path
) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words(50, seed=3)))
    out = tmp_path / "model.html"
    ran = verb("export", tiny_model, "--to", "html", "-o", out, "--test", test, "--max-loss", 5)
    assert ran.code == 0, ran.err
    assert "the same answer to" in ran.out
    assert out.exists()
    # a loss that can only be too large
    worse = tmp_path / "worse.html"
    ran = verb(
        "export", tiny_model, "--to", "html", "-o", worse, "--test", test, "--max-loss", -101
    )
    assert ran.code == 2
    assert "nothing was written" in ran.err
    assert not worse.exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--to", "html", "--int8"), "--int8 belongs to --to onnx"),
        (("--to", "onnx", "--weights", "fp16"), "--weights belongs to --to html"),
        (("--to", "html", "--max-loss", 1), "--max-loss needs a test file"),
    ],
)
def test_options_of_another_form_are_refused(
    verb: Callable[..., Ran],
    tiny_model: Path,
    tmp_path: Path,
    options: tuple[Any, ...],
    complaint: str,
) -> None:
    ran = verb("export", tiny_model, "-o", tmp_path / "out", *options)
    assert ran.code == 2
    assert complaint in ran.err
