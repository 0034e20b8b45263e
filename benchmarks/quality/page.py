"""docs/results.md, made of results/*.json and rows.yaml: python benchmarks/quality/page.py."""

import json
import statistics
from typing import Any

from run import HERE, load_rows

PAGE = HERE.parents[1] / "docs" / "results.md"
HEAD = """# Results

Made by `python benchmarks/quality/page.py` from `benchmarks/quality/results/*.json`; no figure is
typed by hand. `make results ROW=name` measures a row anew (`DATA=` is the folder of data sets,
`DEVICE=cuda` a GPU). Figures are of the test set; where there are several seeds, mean ± standard
deviation. Minutes are those of training one model on the machine named, beside others where several
were trained at once. Others' figures are those of their papers or pages, on the data named, not
always with the same preprocessing.
"""


def shown(row: dict[str, Any], value: float) -> float:
    """A figure as people in the field write it."""
    return 100 - value if row.get("error") else value


def ours(row: dict[str, Any], values: list[float]) -> str:
    """Mean and deviation over seeds.

    >>> ours({"metric": "bleu"}, [37.0, 39.0])
    '**38.0** ± 1.4'
    """
    told = [shown(row, value) for value in values]
    digits = 2 if row["metric"] == "dev_bits" else 1
    mean = f"**{statistics.mean(told):.{digits}f}**"
    return f"{mean} ± {statistics.stdev(told):.{digits}f}" if len(told) > 1 else mean


def lines_of(row: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """One line of the table per test; rows over several languages get their mean."""
    lines = []
    others = "; ".join(f"{who}: {value}" for who, value in row.get("beside", {}).items())
    for place, test in enumerate(dict.fromkeys(record["test"] for record in found["figures"])):
        records = [record for record in found["figures"] if record["test"] == test]
        seeds = zip(*(record["values"] for record in records), strict=True)
        cell = ours(row, [statistics.mean(seed) for seed in seeds])
        if all("ensemble" in record for record in records):
            together = statistics.mean(shown(row, record["ensemble"]) for record in records)
            cell += f"; all {len(found['seeds'])} together **{together:.1f}**"
        title = row["title"] if not place else ""
        cut = " (stopped there)" if found.get("stopped") else ""
        cost = f"{found['minutes']:.1f} min{cut}, {found['hardware']}" if not place else ""
        lines.append(f"| {title} | {test} | {cell} | {others if not place else ''} | {cost} |")
    return lines


def languages(row: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """The single languages of a row that has several."""
    if len(found["figures"]) < 2 or not row.get("each"):
        return []
    heads = [record["item"] for record in found["figures"]]
    single = [ours(row, record["values"]) for record in found["figures"]]
    lines = [f"\n{row['title']} ({row['data']}):\n", "| | " + " | ".join(heads) + " |"]
    lines += ["|---" * (len(heads) + 1) + "|", "| one model | " + " | ".join(single) + " |"]
    if all("ensemble" in record for record in found["figures"]):
        both = [f"{shown(row, record['ensemble']):.1f}" for record in found["figures"]]
        lines.append("| together | " + " | ".join(both) + " |")
    return lines


def section(name: str, rows: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    lines = [f"\n## {name}\n", "| what | test | ours | others | cost |", "|---|---|---|---|---|"]
    lines += [line for pair in rows for line in lines_of(*pair)]
    lines += [line for pair in rows for line in languages(*pair)]
    lines += ["\n<details><summary>Commands</summary>\n"]
    lines += [f"- {row['title']} ({row['data']}): `{found['command']}`" for row, found in rows]
    return [*lines, "\n</details>"]


def main() -> None:
    rows, sections = load_rows(), {}
    for name, row in rows.items():
        path = HERE / "results" / f"{name}.json"
        if path.exists():
            pair = (row, json.loads(path.read_text("utf-8")))
            sections.setdefault(row["section"], []).append(pair)
    text = [line for name, pairs in sections.items() for line in section(name, pairs)]
    PAGE.write_text(HEAD + "\n".join(text) + "\n", "utf-8")
    missing = [name for name in rows if not (HERE / "results" / f"{name}.json").exists()]
    print(f"written: {PAGE}" + (f"; not measured yet: {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
