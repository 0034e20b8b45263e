"""Rows of rows.yaml that were measured, and their figures as people in the field write them."""

import json
import statistics
from typing import Any, NamedTuple

from run import HERE, load_rows


class Measured(NamedTuple):
    """A row, and what was found for it."""

    row: dict[str, Any]
    found: dict[str, Any]

    def records(self, test: str) -> list[dict[str, Any]]:
        return [record for record in self.found["figures"] if record["test"] == test]

    def tests(self) -> list[str]:
        return list(dict.fromkeys(record["test"] for record in self.found["figures"]))

    def values(self, test: str) -> list[float]:
        """One a seed: the mean over languages where there are several."""
        seeds = zip(*(record["values"] for record in self.records(test)), strict=True)
        return [shown(self.row, statistics.mean(seed)) for seed in seeds]

    def together(self, test: str) -> float | None:
        """Of all seeds as one system."""
        records = self.records(test)
        if not all("ensemble" in record for record in records):
            return None
        return shown(self.row, statistics.mean(record["ensemble"] for record in records))

    def told(self, test: str) -> str:
        """Mean and deviation over seeds, what they reach together, and what else was scored."""
        cell = ours(self.row, self.values(test))
        if (together := self.together(test)) is not None:
            cell += f"; all {len(self.found['seeds'])} together **{together:.{digits(self.row)}f}**"
        (first, *_) = self.records(test)
        for name, metric in self.row.get("also", {}).items():
            cell += f"; {name} {first['scores'][metric]['value']:.2f}"
        return cell


def measured() -> tuple[dict[str, Measured], list[str]]:
    """What was measured, by name, and the names of what was not."""
    there, missing = dict[str, Measured](), list[str]()
    for name, row in load_rows().items():
        path = HERE / "results" / f"{name}.json"
        if path.exists():
            there[name] = Measured(row, json.loads(path.read_text("utf-8")))
        else:
            missing.append(name)
    return there, missing


def shown(row: dict[str, Any], value: float) -> float:
    """A figure as people in the field write it."""
    return 100 - value if row.get("error") else value


def digits(row: dict[str, Any]) -> int:
    return 2 if row["metric"] == "dev_bits" else 1


def ours(row: dict[str, Any], values: list[float]) -> str:
    """Mean and deviation over seeds.

    >>> ours({"metric": "bleu"}, [37.0, 39.0])
    '**38.0** ± 1.4'
    """
    places = digits(row)
    mean = f"**{statistics.mean(values):.{places}f}**"
    return f"{mean} ± {statistics.stdev(values):.{places}f}" if len(values) > 1 else mean


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of Markdown.

    >>> table(["a", "b"], [["1", "2"]])
    ['| a | b |', '|---|---|', '| 1 | 2 |']
    """
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
    return [lines[0], "|---" * len(heads) + "|", *lines[1:]]
