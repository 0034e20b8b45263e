"""Points and pointing, from a file to an answer: fields, tasks with their solvers, metrics."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dragoman
from dragoman import geometry
from dragoman.cli import cli
from dragoman.config import resolve
from dragoman.data.points import PointsField, PointsSpec
from dragoman.demo import ordering
from dragoman.demo.orders import Sizes, held_karp, improved, pairs, shortest
from dragoman.errors import UserError
from dragoman.evaluate import evaluate_files
from dragoman.metrics import compute, tallies
from dragoman.ship.describe import describe
from dragoman.ship.html import page

TINY: dict[str, Any] = {
    "model": {
        "encoder": {"embedding": 32, "hidden": 32, "rounds": 1, "heads": 4},
        "decoder": {"hidden": 32},
        "head": {"embedding": 32, "size": 32},
    },
    "train": {"max_steps": 3, "batch_size": 8, "evaluate_every": 3},
    "data": {"dev_rows": 8},
}


def chance() -> np.random.Generator:
    return np.random.default_rng(5)


def test_a_field_reads_and_scales_points_as_it_learned_to() -> None:
    rows = [geometry.write_points(chance().normal(7, 3, (9, 3))) for _ in range(20)]
    field = PointsField.learn(PointsSpec(dimensions=3), rows)
    column, bad = field.read(rows)
    assert not bad
    assert np.allclose(column.flat.mean(0), 0, atol=1e-4)
    assert np.allclose(column.flat.std(0), 1, atol=1e-4)
    again = PointsField.load(field.spec, lambda name: field.files()[name])
    assert np.array_equal(again.encode(rows[0]), field.encode(rows[0]))
    assert np.array_equal(field.encode("[[1,2,3],[4,5,6]]"), field.encode("1 2 3, 4 5 6"))


@pytest.mark.parametrize("damaged", [b"[]", b"{", b'[[0], ["a"]]', b"[[0, NaN], [1, 1]]"])
def test_a_damaged_scale_is_refused(damaged: bytes) -> None:
    with pytest.raises(UserError, match=r"scale\.json"):
        PointsField.load(PointsSpec(), lambda _: damaged)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 x", "'x' is not a number"),
        ("1 2 3", "3 numbers are no points of 2"),
        ("1 inf", "not finite"),
        ("[[1, 2], [3]]", "not a list of 2 numbers"),
        ("[[1, 2], 3]", "not a list of 2 numbers"),
        ("[1, 2", "not valid JSON"),
        ("[null, 2]", "'None' is not a number"),
    ],
)
def test_bad_numbers_are_named(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        PointsField.learn(PointsSpec(), []).encode(text)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("0 0 1 nan\t1 2", "a number is not finite"),
        ("0 0 1 1\t1 3", "position 3 of a source of 2"),
        ("0 0 1 1\t1 two", "not a list of positions"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path: Path, row: str, why: str) -> None:
    path = tmp_path / "points.tsv"
    path.write_text("0 0 1 1\t1 2\n" * 40 + row + "\n")
    with pytest.raises(UserError, match=f"points.tsv:41: .*{why}"):
        dragoman.train(path, tmp_path / "m", recipe="ptr-net-set", config=TINY, quiet=True)
    careful = TINY | {"data": {"dev_rows": 8, "on_bad_line": "skip"}}
    model = dragoman.train(
        path, tmp_path / "n", recipe="ptr-net-set", config=careful, quiet=True, overwrite=True
    )
    assert model.options().valid == "none"


def test_held_karp_finds_the_shortest_tours() -> None:
    cities = chance().random((20, 7, 2))
    for points, order in zip(cities, held_karp(cities).tolist(), strict=True):
        best = min(geometry.length(points, [0, *p, 0]) for p in itertools.permutations(range(1, 7)))
        assert geometry.is_tour([*order, 0], 7)
        assert geometry.length(points, [*order, 0]) == pytest.approx(best, abs=1e-5)


def test_tours_are_canonical_and_hardly_longer_beyond_the_exact_ones() -> None:
    cities = chance().random((12, 10, 2))
    for points, order in zip(cities, shortest(cities).tolist(), strict=True):
        assert order[0] == 0
        assert geometry.turning(points[order]) > 0
        near = improved(points).tolist()
        assert near[0] == 0
        assert geometry.is_tour([*near, 0], 10)
        assert geometry.length(points, [*near, 0]) < 1.05 * geometry.length(points, [*order, 0])
    large = shortest(chance().random((1, 30, 2)))[0].tolist()
    assert geometry.is_tour([*large, 0], 30)


def test_a_hull_holds_all_points() -> None:
    for points in chance().random((30, 9, 2)):
        order = geometry.hull(points)
        ring = points[order[:-1]]
        assert order[0] == min(order)
        assert order[0] == order[-1]
        assert geometry.turning(ring) > 0
        for a, b in itertools.pairwise([*ring, ring[0]]):
            side, away = b - a, points - a
            assert (side[0] * away[:, 1] - side[1] * away[:, 0] > -1e-12).all()


def test_few_points_have_hulls_and_tours_too() -> None:
    assert geometry.hull(np.zeros((1, 2))) == [0, 0]
    assert geometry.hull(np.array([[1.0, 1.0], [0.0, 0.0]])) == [0, 1, 0]
    for size in (1, 2, 3):
        assert sorted(shortest(chance().random((2, size, 2)))[1].tolist()) == list(range(size))


@pytest.mark.parametrize("task", ["sort", "hull", "tsp"])
def test_tasks_are_the_same_again_and_valid(task: str) -> None:
    rows = list(pairs(task, 30, Sizes(4, 6), seed=3))
    assert rows == list(pairs(task, 30, Sizes(4, 6), seed=3))
    assert rows != list(pairs(task, 30, Sizes(4, 6), seed=4))
    names = {"sort": ["exact"], "hull": ["hull", "hull-area"], "tsp": ["tour", "tour-valid"]}[task]
    sources, answers = zip(*rows, strict=True)
    assert [s.value for s in compute(names, answers, answers, sources)] == [100] * len(names)
    if task == "sort":
        for numbers, order in rows:
            values = [float(word) for word in numbers.split()]
            assert [values[place] for place in geometry.read_order(order) or []] == sorted(values)


def test_wrong_orders_cost() -> None:
    square = "0 0 1 1 1 0 0 1"
    right, wrong = "1 3 2 4 1", "1 2 3 4 1"
    scores = compute(
        ["tour", "tour-length", "tour-valid", "hull", "hull-area"],
        [right, wrong, "1 3 2 4", "1 3 x"],
        [right] * 4,
        [square] * 4,
    )
    found = {score.name: round(score.value, 2) for score in scores}
    charged = (4 + 3 * (2 + 2 * 2**0.5)) / 4  # what is no tour costs as much as the file's order
    assert found["tour length"] == round(charged, 2)
    assert found["tour"] == round(100 * charged / 4, 2)
    assert found["valid tours"] == 50
    assert found["hull"] == 25
    assert found["hull area"] == 25  # the second crosses itself, the others are not closed


def test_metrics_of_sources_need_sources() -> None:
    with pytest.raises(UserError, match="tour looks at the sources"):
        tallies(["tour"], ["1 1"], ["1 1"])
    with pytest.raises(UserError, match=r"unknown metric 'tours'.*did you mean 'tour'"):
        tallies(["tours"], ["1 1"], ["1 1"])


def test_words_of_a_text_can_be_pointed_at(tmp_path: Path) -> None:
    """The position of the one number among words."""
    draw, rows = chance(), []
    for _ in range(300):
        words = draw.choice(["ba", "ko", "ti", "lu"], int(draw.integers(2, 6))).tolist()
        place = int(draw.integers(len(words)))
        words[place] = "7"
        rows.append((" ".join(words), str(place + 1)))
    tree = {
        "data": {"source": {"kind": "text", "units": "word"}, "dev_rows": 30},
        "model": {
            "encoder": {"kind": "text", "embedding": 24, "hidden": 24},
            "decoder": {"hidden": 32, "start": "dense"},
            "head": {"embedding": 24, "size": 24},
        },
        "train": {"max_steps": 120, "lr": 0.01, "batch_size": 32, "evaluate_every": 120},
    }
    model = dragoman.train(rows, tmp_path / "m", recipe="ptr-net-small", config=tree, quiet=True)
    answers = model(["ba 7 lu", "7 ko", "ti ti ti ti 7"])
    assert isinstance(answers, list)
    assert [answer.text for answer in answers] == ["2", "1", "5"]
    assert answers[0].alignment is not None
    assert answers[0].alignment[0].argmax() == 1
    assert describe(model.team.first)["points"]  # ONNX takes pointers, a page does not
    with pytest.raises(UserError, match=r"model.head.kind=pointer cannot be exported to HTML"):
        page(model.team.first)


def test_answers_are_valid_tours_with_attention_over_points(tmp_path: Path) -> None:
    path = tmp_path / "tours.tsv"
    rows = list(pairs("tsp", 60, Sizes(4, 6), seed=1))
    path.write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    tree = TINY | {"search": {"valid": "tour", "max_length": 2}}  # validity wins over the limit
    model = dragoman.train(path, tmp_path / "m", recipe="ptr-net-set", config=tree, quiet=True)
    scores = {s.name: s.value for s in evaluate_files(model, {"train": [str(path)]}, {}, [])}
    assert scores["valid tours"] == 100
    assert scores["tour"] >= 100
    answer = model.predict([rows[0][0]])[0]
    assert answer.attention is not None
    tree = json.loads(json.dumps(answer.attention.tree()))
    count = len(geometry.read_points(rows[0][0]))
    assert (tree["over"], tree["shape"]) == ("points", [count])
    assert np.array(tree["weights"]).shape == (count + 1, count)
    both = dragoman.load(tmp_path / "m", others=[tmp_path / "m"]).predict([rows[0][0]])[0]
    assert both.text == answer.text


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["data.target.units=word"], "go together"),
        (["model.head.kind=vocabulary"], "go together"),
        (["search.valid=tuor"], "search.valid"),
        (["data.source.dimensions=0"], "dimensions"),
        (["data.source.kind=text", "data.source.reverse=true"], "reverse=false"),
    ],
)
def test_what_does_not_fit_is_refused(settings: list[str], why: str) -> None:
    with pytest.raises(UserError, match=why):
        resolve("ptr-net", settings=settings)


def test_a_model_of_words_knows_no_valid_orders(tmp_path: Path) -> None:
    rows = [("ab", "ba"), ("cd", "dc")] * 10
    short = {"train": {"max_steps": 1}, "model": {"encoder": {"hidden": 4}}}
    model = dragoman.train(rows, tmp_path / "m", config=short, quiet=True)
    with pytest.raises(UserError, match=r"search\.valid"):
        model("ab", valid="tour")


@pytest.mark.parametrize("task", ["sort", "hull", "tsp"])
def test_demos_learn_measure_and_draw(
    task: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ordering, "HELD_OUT", 20)
    ordering.show(task, tmp_path / "demo", count=100, steps=2)
    said = capsys.readouterr().out
    assert "100 solved ones to learn from" in said
    assert "On 20 held out" in said
    assert (tmp_path / "demo" / "alignment.png").exists()


def test_tasks_are_written_to_files(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tours.tsv"
    ran = CliRunner().invoke(
        cli, ["demo", "tsp", "--write", str(path), "--pairs", "100", "--size", "4-6", "--seed", "7"]
    )
    assert "100 rows of 4 to 6 points, seed 7" in ran.output
    lines = path.read_text().splitlines()
    assert [tuple(line.split("\t")) for line in lines] == list(pairs("tsp", 100, Sizes(4, 6), 7))
