"""Write the measured speeds into docs/speed.md: `python benchmarks/speed/page.py`.

Everything between two marks of the page is replaced; what people wrote around them stays.
"""

import json
from pathlib import Path
from typing import Any

import gpu_page

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "speed.md"
PLOT = PAGE.parent / "images" / "speed.png"
BEGIN, END = "<!-- measured: {} -->", "<!-- end of measured -->"
FIRST, OWN, STARTS = "dragoman", "dragoman recipe", ("help", "import")

SHOWN = {  # systems of the plot: ours in blues and greens, light where there is less precision
    "dragoman": "#08519c",
    "dragoman bf16": "#4292c6",
    "dragoman int8": "#9ecae1",
    "dragoman recipe": "#006d2c",
    "dragoman recipe bf16": "#41ab5d",
    "dragoman recipe int8": "#a1d99b",
    "OpenNMT-py": "#d95f02",
    "JoeyNMT": "#e6ab02",
    "yoyodyne": "#666666",
}


def table(report: dict[str, Any]) -> list[str]:
    """What each system does in a second, and how many times that is what Dragoman does."""
    names = list(dict.fromkeys(n for found in report["orders"].values() for n in found))
    lines = ["| one thread | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for order, found in report["orders"].items():
        unit = "target tokens/s" if order.startswith("training") else "sentences/s"
        cells = [_cell(found.get(name)) for name in names]
        lines.append(f"| {_told(report, order)} ({unit}) | " + " | ".join(cells) + " |")
    return lines


def ratios(report: dict[str, Any], first: str) -> list[str]:
    """How many times faster than each peer."""
    measured = {name for found in report["orders"].values() for name in found}
    peers = [peer for peer in report["peers"] if peer in measured]
    lines = ["| times as fast as | " + " | ".join(f"{p}: fp32 / bf16 / int8" for p in peers) + " |"]
    lines.append("|---" * (len(peers) + 1) + "|")
    for order, found in report["orders"].items():
        if first not in found:
            continue
        cells = []
        for peer in peers:
            theirs = found.get(peer, {}).get("per_second")
            ours = [found.get(f"{first}{kind}", {}) for kind in ("", " bf16", " int8")]
            told = [f"{one['per_second'] / theirs:.1f}" if theirs and one else "–" for one in ours]
            cells.append(" / ".join(told) if theirs else "–")
        lines.append(f"| {_told(report, order)} | " + " | ".join(cells) + " |")
    return lines


def _told(report: dict[str, Any], order: str) -> str:
    """An order's name, with a sign where it is older than the rest."""
    return order if report["dates"].get(order) == report["when"] else f"{order} †"


def _cell(found: dict[str, Any] | None) -> str:
    if found is None:
        return "–"
    if "error" in found:
        return "fails"
    return (
        f"{found['per_second']:,.0f}" if found["per_second"] >= 20 else f"{found['per_second']:.1f}"
    )


def rest(report: dict[str, Any]) -> list[str]:
    """Memory, start-up, whether the answers are those of the plain search."""
    beams = [
        found for order, found in report["orders"].items() if "as_plain" in found.get(FIRST, {})
    ]
    same = sum(found[FIRST]["as_plain"] for found in beams)
    memory: dict[str, float] = {}
    for found in report["orders"].values():
        for name, one in found.items():
            memory[name] = max(memory.get(name, 0), one.get("memory", 0))
    lines = [
        f"In {same} of {len(beams)} orders to decode, quick steps in fp32 gave token by token what "
        "plain steps and the general search gave.",
        "",
        "Most memory held (resident, the interpreter and torch included): "
        + ", ".join(f"{name} {size / 2**20:,.0f} MB" for name, size in memory.items())
        + ".",
    ]
    if report.get("start"):
        told = (
            f"{name} " + " / ".join(f"{both[w]:.2f} s" if w in both else "–" for w in STARTS)
            for name, both in report["start"].items()
        )
        lines += ["", "CPU time of `--help` / of importing the package: " + ", ".join(told) + "."]
    return lines


def plot(report: dict[str, Any], path: Path) -> None:
    """Bars: sentences a second of each system, orders with words side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    orders = [o for o in report["orders"] if o.startswith(("greedy", "beam")) and o[-1].isdigit()]
    orders.sort(key=lambda o: (o.partition(",")[0], int(o.split()[-1])))
    figure, axes = plt.subplots(figsize=(10, 5))
    width = 0.84 / len(SHOWN)
    for k, (name, colour) in enumerate(SHOWN.items()):
        found = [report["orders"][o].get(name, {}).get("per_second", 0) for o in orders]
        places = [i + k * width for i in range(len(orders))]
        axes.bar(places, found, width, label=name, color=colour)
    axes.set_yscale("log")
    axes.set_ylabel("sentences/s, one thread")
    told = [order.replace(", ", "\n") for order in orders]
    axes.set_xticks([i + 0.42 - width / 2 for i in range(len(orders))], told, fontsize=9)
    axes.tick_params("x", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=9, ncols=5, loc="upper center", frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 0.9))
    figure.savefig(path, dpi=110)


def growth(report: dict[str, Any]) -> list[str]:
    """Seconds for 16 sentences, as sizes grow one by one."""
    found = {o: f for o, f in report["orders"].items() if o.startswith("growth")}
    names = list(dict.fromkeys(n for one in found.values() for n in one))
    lines = ["| ms for 16 sentences | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for order, one in found.items():
        cells = [f"{16_000 / one[n]['per_second']:,.0f}" if n in one else "–" for n in names]
        lines.append(f"| {order.removeprefix('growth, ')} | " + " | ".join(cells) + " |")
    return lines


def peers() -> list[str]:
    """Dragoman and its peers on a CPU."""
    report = json.loads((HERE / "results" / "cpu.json").read_text("utf-8"))
    about = f"{report['machine']}, Python {report['python']}, {report['when']}. Peers: "
    about += ", ".join(f"{name} {version}" for name, version in report["peers"].items()) + "."
    main = report | {"orders": {o: f for o, f in report["orders"].items() if "growth" not in o}}
    made = [about, "", "Output layers of the peers' size:", "", *ratios(main, FIRST), ""]
    made += ["As the recipes have it:", "", *ratios(main, OWN), "", *table(main), "", *rest(main)]
    if older := sorted({when for when in report["dates"].values() if when != report["when"]}):
        made[1:1] = [
            "",
            f"† measured on {', '.join(older)}, and what it says of Dragoman is older.",
        ]
    made += [line for path in sorted((HERE / "results").glob("cpu_*.json")) for line in more(path)]
    plot(main, PLOT)
    made += ["", f"![sentences per second](images/{PLOT.name})"]
    if not any(order.startswith("growth") for order in report["orders"]):
        return made
    base = "How the cost of a search grows, from beam 5, 15 symbols, 8,000 words (one thread):"
    return [*made, "", base, "", *growth(report)]


def more(path: Path) -> list[str]:
    """What was measured on another machine."""
    report = json.loads(path.read_text("utf-8"))
    low = any(name.endswith("bf16") for found in report["orders"].values() for name in found)
    about = f"On another machine ({report['machine']}{'' if low else ', without bf16'}, "
    about += f"{report['when']}, and what it says of Dragoman is of that day"
    about += f"; `bench.py --out benchmarks/speed/results/{path.name}`, single orders by `--only`):"
    made = ["", about, "", *ratios(report, FIRST), "", "As the recipes have it:", ""]
    return [*made, *ratios(report, OWN), "", *table(report)]


def steps() -> list[str]:
    """Training steps on a CPU, kernels against the plain loop."""
    results = HERE / "results"
    found = json.loads((results / "train_cpu.json").read_text("utf-8"))
    if (senses := results / "senses_cpu.json").exists():
        found += json.loads(senses.read_text("utf-8"))
    lines = ["| | plain, ms | ours, ms | ratio |", "|---|---|---|---|"]
    for one in found:
        times = f"{one['plain_ms']:,.0f} | {one['ours_ms']:,.0f} | {one['ratio']:.2f}"
        lines.append(f"| {one['name']}, {one['precision']} | {times} |")
    return lines


def sizes() -> list[str]:
    """Training steps with sizes as they are, widened inside, and of a model made wider."""
    lines = [
        "| ms a step | | as they are | widened to 64 | as Dragoman does | a model made so wide |",
        "|---|---|---|---|---|---|",
    ]
    for device, told in (("cuda", "GPU"), ("cpu", "CPU")):
        if (path := HERE / "results" / f"sizes_{device}.json").exists():
            for one in json.loads(path.read_text("utf-8")):
                ways = ("plain", "widened", "chosen", "full")
                times = " | ".join(f"{one[f'{way}_ms']:,.2f}" for way in ways)
                lines.append(f"| {told} | {one['name']}, {one['precision']} | {times} |")
    return lines


def profile() -> list[str]:
    """What `profile_cpu.py` printed."""
    return (HERE / "results" / "profile_cpu.md").read_text("utf-8").strip().splitlines()


PARTS = {
    "training on a GPU": gpu_page.training,
    "training on a CPU": steps,
    "sizes": sizes,
    "decoding and peers": peers,
    "where the time goes on a CPU": profile,
    "searches on a GPU": gpu_page.decoding,
}


def main() -> None:
    page = PAGE.read_text("utf-8")
    for name, make in PARTS.items():
        head, mark, rest_ = page.partition(BEGIN.format(name))
        assert mark, f"{PAGE} has no place for {name}"
        page = head + mark + "\n" + "\n".join(make()) + "\n" + END + rest_.partition(END)[2]
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
