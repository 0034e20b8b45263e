"""docs/results.md, made of results/*.json and rows.yaml: python benchmarks/quality/page.py."""

import json
import statistics
from typing import Any

from insets import ROOT, fill_all
from measured import Measured, digits, measured, ours, shown, table
from run import HERE, load_rows

PAGE = ROOT / "docs" / "results.md"
HEAD = """# Results

Made by `python benchmarks/quality/page.py` from `benchmarks/quality/results/*.json`; no figure is
typed by hand. `make results ROW=name` measures a row anew (`DATA=` is the folder of data sets,
`DEVICE=cuda` a GPU). Figures are of the test set; where there are several seeds, mean ± standard
deviation. Minutes are those of training one model on the machine named, beside others where several
were trained at once; on a CPU that was busy with other work, CPU time stands beside the clock's.
*Stopped there* means that the time was up and the best model so far is what was judged. Others'
figures are those of their papers or pages, on the data named, not always with the same
preprocessing.
"""
COLUMNS = ["what", "data", "test", "ours", "others", "minutes", "hardware"]
LENGTHS = {  # the systems of the figure, by row
    "multi30k-de-en-vector": "one vector",
    "multi30k-de-en-vector-reversed": "one vector, source reversed",
    "multi30k-de-en-every-step": "the vector at every step",
    "multi30k-de-en-attention": "attention",
}
MANY = 6  # settings that are more than a line
OPTIONS = """`dragoman train` looks at the texts and chooses a recipe with its units, sizes, rates
and stopping (`python benchmarks/quality/defaults.py` asks it). Where a row says nothing besides,
its figure is what a table gives without a single option.
"""
FIGURE = "images/bleu-by-length.png"
FIGURE_TEXT = f"""
![BLEU against the length of the source]({FIGURE})

Where one vector gives way: Multi30k test 2016, beam 5, sources in five parts by their length in
subwords, with 95 % intervals. All four systems have the same sizes and the same minutes.
"""


def lines_of(pair: Measured) -> list[list[str]]:
    """One line of the table per test; rows over several languages get their mean."""
    row, found = pair
    others = "; ".join(f"{who}: {value}" for who, value in row.get("beside", {}).items())
    cut = " (stopped there)" if found.get("stopped") else ""
    first, *rest = pair.tests()
    cost = [others, f"{found['minutes']:.1f}{cut}{busy(found)}", found["hardware"]]
    head = [row["title"], row["data"], first, pair.told(first), *cost]
    return [head, *(["", "", test, pair.told(test), "", "", ""] for test in rest)]


def busy(found: dict[str, Any]) -> str:
    """CPU time, where it was measured and tells more than the clock: on a CPU."""
    if "cpu_minutes" not in found or "NVIDIA" in found["hardware"]:
        return ""
    threads = "one thread" if found["threads"] == 1 else f"{found['threads']} threads"
    return f"; {found['cpu_minutes']:.1f} of CPU time, {threads}"


def languages(pair: Measured) -> list[str]:
    """The single languages of a row that has several."""
    row, figures = pair.row, pair.found["figures"]
    if len(figures) < 2 or not row.get("each"):
        return []
    heads = [record["item"] for record in figures]
    rows = [["one model"]]
    rows[0] += [ours(row, [shown(row, one) for one in record["values"]]) for record in figures]
    if all("ensemble" in record for record in figures):
        rows.append(["together", *(f"{shown(row, one['ensemble']):.1f}" for one in figures)])
    for who, values in row.get("beside_each", {}).items():
        rows.append([who, *(f"{values[item]:.1f}" for item in heads)])
    return [f"\n{row['title']} ({row['data']}):\n", *table(["", *heads], rows)]


def signatures(pairs: list[Measured]) -> list[str]:
    """How BLEU was computed, as sacrebleu tells it."""
    scores = [record.get("scores", {}) for pair in pairs for record in pair.found["figures"]]
    told = {score["BLEU"]["signature"] for score in scores if "BLEU" in score}
    return [f"\nBLEU is sacrebleu's, `{name}`." for name in sorted(told)]


def section(name: str, pairs: list[Measured]) -> list[str]:
    lines = [f"\n## {name}\n", *table(COLUMNS, [line for pair in pairs for line in lines_of(pair)])]
    lines += signatures(pairs)
    lines += [line for pair in pairs for line in languages(pair)]
    if LENGTHS.keys() <= {pair.row["name"] for pair in pairs}:
        draw({pair.row["name"]: pair for pair in pairs})
        lines.append(FIGURE_TEXT)
    lines += ["\n<details><summary>Commands</summary>\n"]
    lines += [f"- {row['title']} ({row['data']}): `{found['command']}`" for row, found in pairs]
    return [*lines, "\n</details>"]


def draw(pairs: dict[str, Measured]) -> None:
    """BLEU against length, of the first seed of each system."""
    from dragoman.plots.lengths import Bucket, by_length

    systems = {}
    for name, label in LENGTHS.items():
        (record,) = pairs[name].records("test 2016, beam 5")
        parts = record["scores"]["BLEU"]["breakdown"]
        systems[label] = [
            Bucket(part["part"], part["inputs"], part["value"], *part["interval"]) for part in parts
        ]
    by_length(systems, "BLEU", PAGE.parent / FIGURE, unit="subwords")


def verdict(pair: Measured) -> list[str]:
    """A target beside what was reached: by one model, by several together, and whether that is it.

    >>> row = {"metric": "exact", "error": True, "title": "g2p", "target": {"value": 25.0}}
    >>> record = {"test": "test", "values": [70.0, 72.0], "ensemble": 76.0}
    >>> verdict(Measured(row, {"figures": [record], "seeds": [1, 2]}))
    ['g2p, test', '≤ 25.0', '29.0', '24.0', 'met']
    """
    row, target = pair.row, pair.row["target"]
    test = target.get("test") or pair.tests()[0]
    one, together, less = statistics.mean(pair.values(test)), pair.together(test), row.get("error")
    reached = [value for value in (one, together) if value is not None]
    short = min(reached) - target["value"] if less else target["value"] - max(reached)
    said = "met" if round(short, digits(row)) <= 0 else f"missed by {short:.1f}"
    if said != "met" and "why" in target:
        said += f": {target['why']}"
    both = f"{together:.1f}" if together is not None else "–"
    aim = f"{'≤' if less else '≥'} {target['value']}"
    return [f"{row['title']}, {test}", aim, f"{one:.1f}", both, said]


def targets(pairs: list[Measured]) -> list[str]:
    """What the best of others reach, or a little more, and whether we do."""
    rows = [verdict(pair) for pair in pairs if "target" in pair.row]
    heads = ["what", "target", "one model", "several together", "reached?"]
    return ["\n## Targets\n", *table(heads, rows)]


def by_itself(pairs: dict[str, Measured]) -> list[str]:
    """Which rows are what `dragoman train` gives when it is told nothing."""
    path = HERE / "results" / "defaults.json"
    chosen = json.loads(path.read_text("utf-8")) if path.exists() else {}
    rows = []
    for name, one in chosen.items():
        if name in pairs and len(one["otherwise"]) < MANY:
            row, told = pairs[name].row, ", ".join(f"`{s}`" for s in one["otherwise"])
            rows.append(
                [f"{row['title']} ({row['data']})", f"`{one['recipe']}`", told or "nothing"]
            )
        elif name in pairs:
            title = f"{pairs[name].row['title']} ({pairs[name].row['data']})"
            rows.append([title, f"`{one['recipe']}`", "much; see its command"])
    heads = ["what", "chosen", "what its row says besides"]
    return ["\n## With no options\n", OPTIONS, *table(heads, rows)] if rows else []


def waiting(missing: list[str]) -> list[str]:
    """Rows that are described and were not measured yet, with what they should reach."""
    rows = []
    for name in missing:
        row = load_rows()[name]
        aim = row.get("target", {}).get("value")
        sign = "≤" if row.get("error") else "≥"
        rows.append([f"`{name}`", row["title"], row["data"], f"{sign} {aim}" if aim else ""])
    heads = ["row", "what", "data", "target"]
    return ["\n## Not measured yet\n", *table(heads, rows)] if rows else []


def main() -> None:
    pairs, missing = measured()
    sections = dict[str, list[Measured]]()
    for pair in pairs.values():
        sections.setdefault(pair.row["section"], []).append(pair)
    text = targets(list(pairs.values()))
    text += [line for name, some in sections.items() for line in section(name, some)]
    text += by_itself(pairs) + waiting(missing)
    PAGE.write_text(HEAD + "\n".join(text) + "\n", "utf-8")
    fill_all(pairs)
    print(f"written: {PAGE}" + (f"; not measured yet: {', '.join(missing)}" if missing else ""))


if __name__ == "__main__":
    main()
