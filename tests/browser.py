"""A real browser for tests: Debian's chromium, or whichever one is installed, without a window.

`browser` starts one for the tests of a file; `tab` is a fresh page of it, and fails the test if the
page complained. Where there is no browser the tests are skipped, and say so.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none"]
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def executable() -> str:
    """The path of an installed browser; without one, the test is skipped."""
    pytest.importorskip("playwright")
    wanted = [os.environ.get("DRAGOMAN_BROWSER", ""), *NAMES]
    found = next((path for name in wanted if name and (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no chromium is installed (DRAGOMAN_BROWSER may name one)")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A playwright browser. It ends with the file: its event loop would be in the way of others."""
    path = executable()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def open_tab(browser: Any) -> Iterator[Callable[..., Any]]:
    """`open_tab(**options)`: a fresh page. What it writes to the console as an error, and what
    fails to load, is a failure of the test; `page.complaints` holds it.
    """
    contexts: list[Any] = []
    pages: list[Any] = []

    def make(**options: Any) -> Any:
        context = browser.new_context(**{"viewport": DESKTOP, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)  # busy machines are slow
        page.complaints = []
        page.on("console", lambda m: m.type == "error" and page.complaints.append(m.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        pages.append(page)
        return page

    yield make
    complaints = [line for page in pages for line in page.complaints]
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def tab(open_tab: Callable[..., Any]) -> Any:
    """A fresh page of the size of a laptop's screen."""
    return open_tab()


def screenshot(page: Any, name: str, folder: Path | None = None) -> bytes:
    """The whole page as a PNG; kept where a folder, or DRAGOMAN_SHOTS, says so."""
    picture: bytes = page.screenshot(full_page=True)
    place = folder or (Path(kept) if (kept := os.environ.get("DRAGOMAN_SHOTS")) else None)
    if place:
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.png").write_bytes(picture)
    return picture
