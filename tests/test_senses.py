"""Columns of any sense: a new one is one class and one line in each of two tables."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pytest
import torch
from torch import nn

import dragoman
from dragoman.config import resolve
from dragoman.core import Encoded, Source
from dragoman.data.columns import Arrays
from dragoman.data.fields import Field
from dragoman.data.senses import FIELDS
from dragoman.encoders import ENCODERS, Encoder, Layout, Sizes
from dragoman.errors import UserError
from dragoman.spec import Size, Spec


class CloudSpec(Spec):
    """How points are read: so many numbers each."""

    kind: Literal["cloud"] = "cloud"
    dimensions: Size = 3


class CloudField(Field):
    """Points as `x,y,z;x,y,z`."""

    options = CloudSpec

    def __init__(self, spec: CloudSpec) -> None:
        self.spec, self.size = spec, spec.dimensions

    @classmethod
    def learn(cls, spec: Any, values: Iterable[str]) -> Self:
        return cls(spec)

    @classmethod
    def load(cls, spec: Any, read: Callable[[str], bytes]) -> Self:
        return cls(spec)

    def encode(self, value: str) -> Any:
        return np.array([p.split(",") for p in value.split(";")], np.float32)

    def column(self, rows: Iterable[Any]) -> Arrays:
        return Arrays.of(rows)

    def read(self, values: Any) -> tuple[Arrays, dict[int, str]]:
        none, bad = np.zeros((0, self.size), np.float32), {}
        rows = []
        for place, value in enumerate(values):
            try:
                rows.append(self.encode(value))
            except ValueError:
                rows.append(none)
                bad[place] = "not a list of points"
        return self.column(rows), bad


class CloudEncoderSpec(Spec):
    """Options of the encoder."""

    kind: Literal["cloud"] = "cloud"
    hidden: Size = 16


class Cloud(Encoder):
    """Each point by itself; the summary is their maximum (Qi et al. 2017)."""

    options = CloudEncoderSpec

    def __init__(self, spec: CloudEncoderSpec, dimensions: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dimensions, spec.hidden), nn.ReLU(), nn.Linear(spec.hidden, spec.hidden)
        )
        self.sizes = Sizes(spec.hidden, spec.hidden, ())

    def forward(self, source: Source) -> Encoded:
        memory = self.layers(source.values)
        best = memory.masked_fill(~source.mask.unsqueeze(-1), -9.0).amax(1)
        return Encoded(memory, source.mask, best, ())

    def layouts(self, shapes: Any) -> tuple[Layout, ...]:
        return (Layout("points", shapes[0][:1]),)


@pytest.fixture
def cloud() -> Iterator[None]:
    FIELDS["cloud"], ENCODERS["cloud"] = CloudField, Cloud
    yield
    del FIELDS["cloud"], ENCODERS["cloud"]


TREE = {
    "data": {"source": {"kind": "cloud"}, "target": {"units": "word"}, "dev_rows": 5},
    "model": {
        "encoder": {"kind": "cloud"},
        "attention": {"size": 8},
        "decoder": {"cell": "gru", "hidden": 16, "readout_size": 8},
        "head": {"embedding": 8},
    },
    "train": {"max_steps": 40, "batch_size": 8, "lr": 0.02, "evaluate_every": 20},
}


def clouds(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Points, and on which side they lie."""
    chance, rows = np.random.default_rng(seed), []
    for _ in range(count):
        points = chance.normal(size=(chance.integers(1, 5), 3)).round(2)
        points[:, 0] = abs(points[:, 0]) * chance.choice([-1, 1])
        side = "on the right" if points[0, 0] > 0 else "on the left"
        rows.append((";".join(",".join(map(str, p)) for p in points), side))
    return rows


def write(path: Path, rows: list[tuple[str, ...]]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return path


@pytest.mark.usefixtures("cloud")
def test_a_new_sense_works_everywhere(tmp_path: Path, verb: Callable) -> None:
    folder, rows = tmp_path / "model", clouds(60)
    model = dragoman.train(rows, folder, config=TREE, quiet=True)
    again = dragoman.load(folder)
    for source, _ in rows[:5]:
        assert model(source).log_probs == again(source).log_probs
    right = sum(again(source).text == side for source, side in clouds(40, seed=1))
    assert right > 30
    seen = again(rows[0][0]).attention
    assert (seen.over, seen.shape) == ("points", (len(rows[0][0].split(";")),))
    test = write(tmp_path / "test.tsv", rows)
    found = json.loads(verb("evaluate", folder, test, "--json").out)
    assert found["exact"]["value"] > 80
    lines = verb("predict", folder, test, "--format", "jsonl", "--replace-unknown").lines
    assert len(lines) == 60
    assert json.loads(lines[0])["attention"]["over"] == "points"
    assert "reads cloud" in verb("info", folder).out
    assert verb("predict", folder, test, "--format", "pharaoh").code == 0
    assert verb("evaluate", folder, test, "--by", "tag").code == 2
    assert verb("evaluate", folder, test, "--by", "length").code == 0


@pytest.mark.usefixtures("cloud")
def test_a_new_sense_joins_others_and_resumes(tmp_path: Path) -> None:
    tree = TREE | {
        "data": TREE["data"] | {"more": {"question": {"units": "word"}}},
        "model": TREE["model"]
        | {
            "encoder": {
                "kind": "several",
                "fuse": "product",
                "parts": [{"kind": "cloud"}, {"embedding": 8, "hidden": 8}],
            }
        },
    }
    rows = [(points, "which side ?", side) for points, side in clouds(40)]
    through = dragoman.train(rows, tmp_path / "through", config=tree, quiet=True)
    short = tree | {"train": tree["train"] | {"max_steps": 20}}
    dragoman.train(rows, tmp_path / "halved", config=short, quiet=True)
    halved = dragoman.train(rows, tmp_path / "halved", config=tree, resume=True, quiet=True)
    for one, other in zip(through.model.parameters(), halved.model.parameters(), strict=True):
        assert torch.equal(one, other)
    seen = halved(rows[0][:2]).attention
    points = len(rows[0][0].split(";"))
    assert [(part.over, part.shape) for part in seen.parts] == [
        ("points", (points,)),
        ("tokens", (4,)),
    ]
    assert seen.weights.shape[1] == points + 4 == len(halved(rows[0][:2]).source)


@pytest.mark.usefixtures("cloud")
def test_rows_that_cannot_be_read_are_named_and_skipped_by_policy(
    tmp_path: Path, verb: Callable
) -> None:
    rows = clouds(30)
    rows[3] = ("1,2,banana", "on the left")
    data = write(tmp_path / "train.tsv", rows)
    (tmp_path / "cloud.yaml").write_text(json.dumps(TREE | {"train": {"max_steps": 1}}))
    given = ("train", data, "-c", tmp_path / "cloud.yaml", "-o", tmp_path / "model")
    ran = verb(*given)
    assert ran.code == 2
    assert f"{data}:4: 1,2,banana: not a list of points" in ran.err
    ran = verb(*given, "--on-bad-line", "skip")
    assert ran.code == 0
    assert "1 row skipped (cannot be used)" in ran.err


def test_what_is_no_kind_is_told() -> None:
    with pytest.raises(UserError, match=r"data.source: .*text"):
        resolve(tree={"data": {"source": {"kind": "smell"}}})
    with pytest.raises(UserError, match=r"model.encoder: .*several"):
        resolve(tree={"model": {"encoder": {"kind": "smell"}}})
    with pytest.raises(UserError, match=r"'untis' in data.source \(did you mean 'units'"):
        resolve(tree={"data": {"source": {"untis": "word"}}})


def test_arrays_keep_their_rows() -> None:
    rows = [np.full((n, 2, 2), n, np.uint8) for n in (3, 0, 1)]
    column = Arrays.of(rows)
    assert column.lengths.tolist() == [3, 0, 1]
    assert all(np.array_equal(column[i], row) for i, row in enumerate(rows))
    some = column.select([2, 0])
    assert [row.tolist() for row in map(some.__getitem__, range(2))] == [
        rows[2].tolist(),
        rows[0].tolist(),
    ]
    values, mask = column.pad([1, 0])
    assert values.shape == (2, 3, 2, 2)
    assert values.dtype == torch.uint8
    assert mask.tolist() == [[False] * 3, [True] * 3]
    assert int(values[0].sum()) == 0
    assert (values[1] == 3).all()
