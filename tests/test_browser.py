"""The browser that other tests drive: it draws, and it tells of what goes wrong in a page."""

from pathlib import Path
from typing import Any

from browser import PHONE, screenshot


def test_a_page_is_drawn(tab: Any, tmp_path: Path) -> None:
    tab.set_content("<title>t</title><h1>Dragoman</h1>")
    assert tab.locator("h1").inner_text() == "Dragoman"
    picture = screenshot(tab, "heading", tmp_path)
    assert picture.startswith(b"\x89PNG")
    assert (tmp_path / "heading.png").read_bytes() == picture


def test_a_phone_is_narrow(open_tab: Any) -> None:
    page = open_tab(viewport=PHONE)
    assert page.evaluate("innerWidth") == PHONE["width"]


def test_what_goes_wrong_in_a_page_is_told(tab: Any) -> None:
    tab.set_content("<script>console.error('broken'); nowhere()</script>")
    assert tab.complaints[0] == "broken"
    assert "nowhere is not defined" in tab.complaints[1]
    tab.complaints.clear()
