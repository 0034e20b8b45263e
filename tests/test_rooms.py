"""The shape of the house: imports go one way, files and functions stay small."""

import ast
from pathlib import Path

import dragoman

ROOT = Path(dragoman.__file__).parent
# Each room may import only from lines above its own (and from files of its own line's packages).
FLOORS = [
    ["errors", "spec", "geometry", "disk"],
    [
        "core",
        "explain",
        "metrics",
        "data.strings",
        "data.quoting",
        "data.arrow",
        "recipes",
        "device",
        "average",
        "signals",
        "crew",
    ],
    ["data.lines"],
    ["kernels", "data.files", "data.formats", "data.text", "data.columns", "data.seen"],
    ["data.batches", "data.positions", "data.kinds"],
    ["cells", "attention", "objectives", "data.rows", "data.fields"],
    ["appearance"],
    ["guess"],
    ["data.copying", "data.store", "data.increments", "data.points", "data.media"],
    ["data.pictures", "data.waves", "data.spectra", "data.clips"],
    ["data.sound", "data.video"],
    ["data.senses"],
    ["encoders", "heads"],
    ["decoders", "search"],
    ["quick"],
    ["model"],
    ["config"],
    ["checkpoint"],
    ["pointing", "requiring", "glimpses", "teams"],
    ["answers", "examples", "decode", "notebook", "snapshots", "memory"],
    ["corpus", "streaming", "choices", "looked"],
    ["prediction"],
    ["scoring"],
    ["predict", "fresh", "stored"],
    ["validate", "live", "summaries", "inputs"],
    [
        "standing",
        "jobs",
        "card",
        "evaluate",
        "check",
        "output",
        "plots",
        "optimizers",
        "progress",
        "demo.dates",
        "demo.orders",
    ],
    ["carrying", "halves", "rounding", "shards"],
    ["graphs"],
    ["stepping", "rays"],
    ["trainer"],
    ["training"],
    ["estimator", "report", "serve"],
    ["demo"],
    ["foreign.parts"],
    ["foreign.joey", "foreign.opennmt", "foreign.yoyodyne"],
    ["foreign"],
    ["ship.translate", "ship.runner", "ship.describe"],
    ["ship"],
    ["cli"],
    ["__main__"],
]
LEVEL = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
NETS = {
    "core",
    "cells",
    "attention",
    "kernels",
    "objectives",
    "encoders",
    "decoders",
    "heads",
    "model",
}


def room_of(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    dotted = ".".join(part for part in parts if part != "__init__")
    return dotted if dotted in LEVEL else dotted.split(".")[0]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dragoman"):
            module = (node.module or "").removeprefix("dragoman").lstrip(".")
            names = [f"{module}.{alias.name}".lstrip(".") for alias in node.names]
            found |= {known(name) or known(module) or "" for name in names}
    return found - {""}


def known(name: str) -> str | None:
    parts = name.split(".")
    return next((".".join(parts[:n]) for n in (2, 1) if ".".join(parts[:n]) in LEVEL), None)


FILES = [path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py"]


def test_imports_go_one_way() -> None:
    wrong = [
        f"{room_of(path)} imports {other}"
        for path in FILES
        for other in imports(path)
        if room_of(path) in LEVEL
        and other != room_of(path)
        and LEVEL[other] >= LEVEL[room_of(path)]
    ]
    assert not wrong


def test_every_file_has_a_floor() -> None:
    homeless = [path for path in FILES if room_of(path) not in LEVEL and path.parent.name != "data"]
    assert not homeless


def test_data_knows_no_network_and_networks_know_no_data() -> None:
    for path in FILES:
        mine, others = room_of(path), imports(path)
        if mine.startswith("data"):
            assert not others & (NETS - {"core"}), path
        if mine in NETS:
            assert not {other for other in others if other.startswith("data")}, path


def test_metrics_know_nothing_of_models() -> None:
    for path in (ROOT / "metrics").glob("*.py"):
        assert imports(path) <= {"errors", "geometry", "metrics"}, path


def test_files_and_functions_stay_small() -> None:
    long = []
    for path in FILES:
        text = path.read_text("utf-8")
        if text.count("\n") > 300:
            long.append(f"{path.name}: {text.count(chr(10))} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 45:
                long.append(f"{path.name}:{node.name}: {node.end_lineno - node.lineno} lines")
    assert not long
