"""What other pages show of the results, filled in between two marks: it cannot grow stale."""

import re
from pathlib import Path

import yaml
from measured import Measured, table
from run import HERE

ROOT = HERE.parents[1]
BEGIN, END = "<!-- made by benchmarks/quality/page.py -->", "<!-- end -->"


def fill(path: Path, lines: list[str]) -> None:
    """Replace what stands between the marks."""
    text, between = path.read_text("utf-8"), "\n".join([BEGIN, *lines, END])
    filled, count = re.subn(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: between, text, flags=re.S
    )
    if count != 1:
        raise SystemExit(f"{path}: {count} places between the marks, not one")
    path.write_text(filled, "utf-8")


def front(pairs: dict[str, Measured]) -> list[str]:
    """The README's table: rows that have a word for it."""
    rows = []
    for row, found in pairs.values():
        if "front" in row:
            test, beside = row["front"].get("test", "test"), row.get("beside", {})
            who = row["front"].get("beside") or next(iter(beside), None)
            others = f"{beside[who]} ({who})" if who else ""
            rows.append([row["front"]["say"], Measured(row, found).told(test), others])
    return table(["task", "ours", "others"], rows)


def papers(pairs: dict[str, Measured]) -> list[str]:
    """What each paper printed, and what its recipe reaches on the data we have."""
    printed = yaml.safe_load((HERE / "rows.yaml").read_text("utf-8"))[".papers"]
    rows = []
    for recipe, paper in printed.items():
        asked = {name: test for name, test in paper.get("rows", {}).items() if name in pairs}
        own = [_beside(pairs[name], test) for name, test in asked.items()]
        rows.append([f"`{recipe}`", paper["printed"], "<br>".join(own) or "not measured"])
    return table(["recipe", "printed", "ours"], rows)


def _beside(pair: Measured, test: str) -> str:
    row = pair.row
    return f"{row['data']}: {row['title']}, {test}, by `{row['recipe']}`: {pair.told(test)}"


def fill_all(pairs: dict[str, Measured]) -> None:
    fill(ROOT / "README.md", front(pairs))
    fill(ROOT / "docs" / "papers.md", papers(pairs))
