"""Random rows, configs and model folders: clean errors, or none. `benchmarks/fuzz.py` tries many
more folders.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dragoman
from dragoman.checkpoint import load_model
from dragoman.config import Config, dump, validate
from dragoman.data.rows import iter_inputs, read_table

tame = settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
odd = st.sampled_from([b"\t", b"\n", b"\r\n", b'"', b",", b"{", b'{"source": "a"}', b"\xff", b"\0"])
contents = st.lists(odd | st.binary(max_size=8) | st.text(max_size=5).map(str.encode), max_size=30)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=4,
)


@pytest.mark.fault(11)
@tame
@given(parts=contents, kind=st.sampled_from(["tsv", "csv", "jsonl", "lines"]))
def test_any_bytes_are_rows_or_refused(tmp_path: Path, parts: list[bytes], kind: Any) -> None:
    path = tmp_path / "any"
    path.write_bytes(b"".join(parts))
    count = 1 if kind == "lines" else 2
    with contextlib.suppress(dragoman.UserError):
        table = read_table(path, format=kind, count=count, on_bad="skip")
        assert len(table) + sum(table.problems.values()) >= 0
        answered = list(iter_inputs(path, format=kind, count=count))
        assert len(answered) >= len(table)


@pytest.mark.fault(7)
@tame
@given(data=st.data())
def test_any_config_is_taken_or_refused(data: st.DataObject) -> None:
    tree: Any = yaml.safe_load(dump(Config()))
    inner = tree
    while isinstance(inner, dict) and inner and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(inner)))
        if not isinstance(inner[key], dict) or not inner[key]:
            break
        inner = inner[key]
    inner[data.draw(st.sampled_from(sorted(inner)) | st.text(max_size=9))] = data.draw(values)
    with contextlib.suppress(dragoman.UserError):
        assert validate(tree) is not None


@pytest.mark.fault(5)
@tame
@given(data=st.data(), forged=st.booleans())
def test_any_folder_is_loaded_or_refused(
    tiny_model: Path, tmp_path: Path, data: st.DataObject, forged: bool
) -> None:
    folder = tmp_path / "m"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(tiny_model, folder, ignore=shutil.ignore_patterns("checkpoints"))
    name = data.draw(st.sampled_from(sorted(path.name for path in folder.iterdir())))
    content = (folder / name).read_bytes()
    at = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(at, min(len(content), at + 40)))
    (folder / name).write_bytes(content[:at] + data.draw(st.binary(max_size=12)) + content[end:])
    if forged and name != "manifest.json":
        manifest = json.loads((folder / "manifest.json").read_bytes())
        manifest["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))
    with contextlib.suppress(dragoman.UserError):
        assert load_model(folder).model is not None


@pytest.mark.fault(7)
def test_a_config_that_claims_a_giant_is_refused_before_it_is_built(
    verb: Callable, tiny_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    shutil.copytree(tiny_model, folder)
    tree = yaml.safe_load((folder / "config.yaml").read_bytes())
    tree["model"]["encoder"] |= {"hidden": 65_536, "layers": 64}  # some terabytes
    content = yaml.safe_dump(tree).encode()
    (folder / "config.yaml").write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    manifest["files"]["config.yaml"] = hashlib.sha256(content).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    ran = verb("predict", folder, stdin=b"abc\n")
    assert ran.code == 2
    assert "does not fit the config" in ran.err
