"""Write what was measured into docs/ship.md: `python benchmarks/ship/page.py`.

Everything between two marks of the page is replaced; what people wrote around them stays.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results.json"
PAGE = Path(__file__).parents[2] / "docs" / "ship.md"
BEGIN, END = "<!-- measured: {} -->", "<!-- end of measured -->"
HEAD = [
    "| form | MB | start, s | inputs/s | quality | the model's own answers "
    "| as Python with these weights, greedy / beam 5 |",
    "|---|---|---|---|---|---|---|",
]


def section(name: str, found: dict[str, Any]) -> Iterator[str]:
    """A model: a table, and a line for each form that there is not or that was asked one by one."""
    rows = [row for row in found["rows"] if "refused" not in row]
    yield from (f"**{name}** ({found['parameters'] / 1e6:.2f} M parameters)", "", *HEAD)
    for row in rows:
        yield line(row)
    notes = dict.fromkeys(note(row) for row in found["rows"])  # each once
    yield from ("", *filter(None, notes), "")


def line(row: dict[str, Any]) -> str:
    quality = ", ".join(f"{name} {value:.2f}" for name, value in row["quality"].items())
    count = row["inputs"]
    python = " / ".join(f"{same:,}" for same in row["python"] or ()) or "–"
    speed = f"{row['speed']:.0f}" if row["speed"] >= 20 else f"{row['speed']:.1f}"
    return (
        f"| {row['form']} | {row['size'] / 1e6:.2f} | {row['start']:.2f} | {speed} | {quality} | "
        f"{row['own']:,} of {count:,} | {python} |"
    )


def note(row: dict[str, Any]) -> str:
    if "refused" in row:
        return f"- {row['form'].partition(',')[0]}: {row['refused']}"
    if "alone" not in row:
        return ""
    greedy, beam = row["alone"]
    return (
        f"- {row['form']}, one by one: {greedy:.1f} ms greedy, {beam:.1f} ms with beam 5 (medians)"
    )


def fill(what: str, body: list[str]) -> None:
    """The page with one pair of its marks filled anew."""
    begin = BEGIN.format(what)
    before, _, rest = PAGE.read_text("utf-8").partition(begin)
    after = rest.partition(END)[2]
    PAGE.write_text("\n".join([f"{before}{begin}", "", *body, f"{END}{after}"]), "utf-8")


def write_page() -> None:
    known = json.loads(RESULTS.read_text("utf-8"))
    body = [text for name, found in known.items() for text in section(name, found)]
    fill("what leaving costs", body)


if __name__ == "__main__":
    write_page()
