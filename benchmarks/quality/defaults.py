"""What `dragoman train` would choose for the texts of each row, were it given no options.

    python benchmarks/quality/defaults.py --data ../shared/data

Leaves results/defaults.json, of which page.py makes a part of docs/results.md.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from run import HERE, Task, load_rows

from dragoman.config import resolve
from dragoman.guess import guess

SECTIONS = (
    "Translation",
    "Pronunciation, inflection, transliteration",
    "Labels and tags",
    "Answers, dialog, summaries",
)


def chosen(row: dict[str, Any], data: Path) -> dict[str, Any]:
    """The recipe for a row's files, and where the row is set otherwise."""
    task = Task(row, row.get("each", [""])[0], 1)
    told = {"train": task.files(row["train"], data, data)}
    if "columns" in row:
        told["columns"] = row["columns"].split(",")
    name = guess({"data": told}).recipe
    ours = resolve(name).model_dump()
    theirs = resolve(row["recipe"], settings=row.get("set", [])).model_dump()
    return {"recipe": name, "otherwise": sorted(unequal(ours, theirs))}


def unequal(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The settings in which two configs are not the same, and what the second says.

    >>> list(unequal({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}))
    ['a.c=3']
    """
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from unequal(one[key], other[key], f"{path}.{key}" if path else key)
    elif one != other:
        yield f"{path}={other}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=HERE / "../../../shared/data")
    given = parser.parse_args()
    rows = [row for row in load_rows().values() if row["section"] in SECTIONS]
    found = {row["name"]: chosen(row, given.data) for row in rows}
    (HERE / "results" / "defaults.json").write_text(json.dumps(found, indent=1) + "\n")
    for name, one in found.items():
        print(name, one["recipe"], *one["otherwise"])


if __name__ == "__main__":
    main()
