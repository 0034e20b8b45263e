"""The page in a real browser: what people do with it, and what must never happen to them."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from browser import PHONE, screenshot
from dragoman.predict import Predictor

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from dragoman.serve.runs import unborn
from served import Running, serving


@pytest.fixture(scope="module")
def server(tiny_model: Path, tiny_lm: Path) -> Iterator[Running]:
    with serving(tiny_model, tiny_lm) as running:
        yield running


def link(server: Running, *given: tuple[str, str]) -> str:
    return f"{server.address}/#{urlencode(given)}"


def settled(page: Any) -> str:
    """The answer, once it is whole: then it can be opened at its end."""
    page.wait_for_selector(".panel .text .token.end")
    return answer(page)


def answer(page: Any) -> str:
    text: str = page.evaluate(
        "[...document.querySelectorAll('.panel:first-child .text .token:not(.end)')]"
        ".map(node => node.textContent).join('')"
    )
    return text


def test_people_type_and_see_the_answer(tab: Any, server: Running, tiny: Predictor) -> None:
    tab.goto(server.address)
    area = tab.locator("textarea")
    assert area.evaluate("node => node === document.activeElement")
    area.type("fedcb")
    assert settled(tab) == tiny("fedcb", beam=1).text
    tab.wait_for_selector(".rank .list li")
    ranked = tab.locator(".rank .list .what").all_inner_texts()
    found = tiny("fedcb", beam=5, n_best=5)
    assert ranked == [found.text, *(one.text for one in found.alternatives)]
    bars = tab.locator(".rank .share i").evaluate_all("all => all.map(one => one.clientWidth)")
    assert bars == sorted(bars, reverse=True)  # they show what answers are ranked by
    assert tab.locator(".spoken").inner_text() == tiny("fedcb", beam=1).text
    assert len(screenshot(tab, "typed")) > 20_000


def test_attention_is_linked_to_the_answer(tab: Any, server: Running, tiny: Predictor) -> None:
    tab.goto(link(server, ("t", "abc")))
    settled(tab)
    source, tokens = tiny("abc", beam=1).source, tiny("abc", beam=1).tokens
    assert tab.locator(".edges [data-side=source]").count() == len(source)
    assert tab.locator(".edges [data-side=target]").count() == len(tokens)
    assert tab.locator(".edges path").count() >= len(tokens)
    tab.locator(".text .token").nth(1).hover()
    assert tab.locator(".edges .lit[data-side=target]").get_attribute("data-at") == "1"
    assert tab.locator(".edges path.lit").count() >= 1
    tab.get_by_role("button", name="Heat map").click()
    assert tab.locator(".heat tbody tr").count() == len(tokens)
    assert tab.locator(".heat thead th[data-side]").count() == len(source)
    tab.locator(".heat td").nth(0).hover()
    assert tab.locator(".text .token.lit").get_attribute("data-at") == "0"
    assert "view=heat" in tab.url


def test_forty_letters_are_seen_at_once(tab: Any, server: Running) -> None:
    tab.goto(link(server, ("t", "fedcba" * 6 + "abcd")))
    settled(tab)
    tab.wait_for_selector(".edges.upright path")
    assert tab.locator(".view").evaluate("node => node.scrollHeight - node.clientHeight") <= 1


def test_another_word_is_chosen_by_keyboard(tab: Any, server: Running, tiny: Predictor) -> None:
    tab.goto(link(server, ("t", "abc")))
    before = settled(tab)
    tab.locator(".text .token").first.focus()
    tab.keyboard.press("Enter")
    items = tab.locator(".menu button")
    items.first.wait_for()
    assert items.count() == 6
    tab.keyboard.press("ArrowDown")
    chosen = tab.evaluate("document.activeElement.querySelector('.word').textContent")
    assert chosen != before[0]
    tab.keyboard.press("Enter")
    tab.wait_for_selector(".token.pinned")
    assert settled(tab)[0] == chosen
    assert tab.evaluate("document.activeElement.dataset.at") == "0"  # who chose stays there
    link_of_it = tab.url
    tab.goto("about:blank")
    tab.goto(link_of_it)  # the link alone brings all of it back
    assert settled(tab)[0] == chosen
    tab.get_by_role("button", name="Let the model choose again").click()
    tab.wait_for_selector(".text:not(:has(.pinned)) .token.end")
    assert answer(tab) == before
    tab.locator(".text .token").first.focus()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Escape")
    assert tab.locator(".menu").count() == 0
    assert tab.evaluate("document.activeElement.dataset.at") == "0"


def test_the_skip_link_leads_to_the_text_and_loses_nothing(tab: Any, server: Running) -> None:
    tab.goto(link(server, ("t", "abc"), ("mode", "beam")))
    before = settled(tab)
    state = tab.url
    tab.locator(".skip").focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.tagName") == "TEXTAREA"
    assert (tab.url, settled(tab)) == (state, before)


def test_two_models_side_by_side(tab: Any, server: Running) -> None:
    tab.goto(link(server, ("t", "abc")))
    settled(tab)
    tab.get_by_role("button", name="Compare").click()
    tab.wait_for_selector(".panel:nth-child(2) .text .token.end")
    names = [tab.locator(".panel select").nth(i).input_value() for i in range(2)]
    assert names == list(server.models.served)
    boxes = [tab.locator(".panel .answer").nth(i).bounding_box() for i in range(2)]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"]
    screenshot(tab, "two")


@pytest.mark.parametrize("mode", ["beam", "sample"])
def test_ways_to_decode(tab: Any, server: Running, tiny: Predictor, mode: str) -> None:
    tab.goto(link(server, ("t", "fedc"), ("mode", mode), ("temperature", "2"), ("seed", "4")))
    options = {"beam": 5} if mode == "beam" else {"sample": True, "temperature": 2.0, "seed": 4}
    assert settled(tab) == tiny("fedc", **options).text


def test_training_is_shown(tab: Any, server: Running) -> None:
    tab.goto(server.address)
    tab.wait_for_selector(".train .chart polyline")
    assert tab.locator(".samples tbody tr").count() == 6
    tab.locator(".samples .use").first.click()
    assert settled(tab)


HARM = [
    "<script>document.title='taken'</script>",
    "</textarea><img src=x onerror=\"document.title='taken'\">",
    "\u202egnp.exe\u202c \u2066x",
    "\x00\x07\u2028",
]


@pytest.mark.parametrize("text", HARM)
@pytest.mark.fault(22)
def test_text_stays_text(tab: Any, server: Running, text: str) -> None:
    served = next(iter(server.models.served.values()))
    real = served.predictor.predict

    def echo(*args: Any, **more: Any) -> Any:
        """The worst that a model can write: what it was given."""
        from dataclasses import replace

        return [
            replace(one, text=text, tokens=(text,) * len(one.tokens)) for one in real(*args, **more)
        ]

    served.predictor.predict = echo  # type: ignore[method-assign]
    try:
        tab.goto(link(server, ("t", text + "abc"), ("mode", "beam")))
        tab.wait_for_selector(".rank .list li, .text .token")
        tab.wait_for_timeout(100)
    finally:
        del served.predictor.predict
    assert tab.title() == "Dragoman"
    assert tab.locator("main script, main img:not([src^='page/'])").count() == 0
    shown = tab.locator(".text").inner_text()
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x07]", shown)
    if "\u202e" in text:
        assert "U+202E" in shown


def test_nothing_is_fetched_from_elsewhere(tab: Any, server: Running) -> None:
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(link(server, ("t", "abc")))
    settled(tab)
    assert asked
    assert all(url.startswith(server.address) for url in asked)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("text", ["abc", "fedcba " * 12, "שלום עולם", "中文字符"])
def test_nothing_sticks_out_of_a_phone(
    open_tab: Any, server: Running, scheme: str, text: str
) -> None:
    page = open_tab(viewport=PHONE, color_scheme=scheme)
    page.goto(link(server, ("t", text)))
    settled(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    direction = "getComputedStyle(document.querySelector('textarea')).direction"
    assert page.evaluate(direction) == ("rtl" if "ש" in text else "ltr")


def test_who_cannot_see_finds_names_for_everything(tab: Any, server: Running) -> None:
    tab.goto(link(server, ("t", "abc")))
    settled(tab)
    nameless = tab.evaluate(
        "[...document.querySelectorAll('button, select, textarea, input, [role=button]')]"
        ".filter(node => node.checkVisibility() && !(node.textContent.trim() || node.ariaLabel"
        " || node.labels?.[0]?.textContent.trim())).map(node => node.outerHTML)"
    )
    assert nameless == []
    assert tab.locator("[aria-live=polite]").count() >= 1


def test_a_token_is_asked_for(tab: Any, tiny_model: Path, tiny: Predictor) -> None:
    with serving(tiny_model, token="secret-word") as server:
        tab.goto(link(server, ("t", "abc")))
        tab.locator("#key").fill("secret-word")
        tab.get_by_role("button", name="Open").click()
        assert settled(tab) == tiny("abc", beam=1).text
        tab.complaints = [line for line in tab.complaints if "401" not in line]


def test_a_run_that_was_only_just_started_is_waited_for(tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    command = [sys.executable, "-m", "dragoman", "watch", str(folder), "--port", "0", "--no-open"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "waiting for the first checkpoint" in process.stderr.readline()
        shutil.copytree(tiny_model / "checkpoints", tmp_path / "made")
        (tmp_path / "made").rename(folder / "checkpoints")
        assert process.stderr.readline().startswith("http://127.0.0.1:")
        process.terminate()
    assert not unborn(tiny_model)
    assert not unborn(tmp_path / "nowhere")


def goes_on(folder: Path) -> None:
    """What training leaves behind when it has evaluated once more."""
    last = max((folder / "checkpoints").glob("step-*"))
    progress = json.loads((last / "progress.json").read_text())
    progress["history"].append({**progress["history"][-1], "step": 210})
    manifest = json.loads((last / "manifest.json").read_text())
    (last / "progress.json").write_text(json.dumps(progress))
    digest = sha256((last / "progress.json").read_bytes()).hexdigest()
    manifest["files"]["progress.json"] = digest
    (last / "manifest.json").write_text(json.dumps(manifest))
    (folder / "checkpoints" / "last").write_text(last.name)


def test_a_run_is_watched(tab: Any, tiny_model: Path, tmp_path: Path) -> None:
    """The page follows a folder: new figures and new weights show without a hand."""
    folder = tmp_path / "run"
    shutil.copytree(tiny_model, folder)
    with serving(folder, watched=True) as server:
        tab.goto(link(server, ("t", "abc")))
        settled(tab)
        tab.wait_for_selector(".train .now:has-text('step 140')")
        goes_on(folder)
        tab.wait_for_selector(".train .now:has-text('step 210')")
