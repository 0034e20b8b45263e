"""Drawn scenes: what is said about them is true, and the demonstrations run."""

import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from dragoman.data.rows import read_table
from dragoman.demo import looking, scenes


def some(count: int = 300) -> list[scenes.Scene]:
    chance = np.random.default_rng(4)
    return [scenes.scene(chance) for _ in range(count)]


def test_scenes_have_one_to_three_shapes_that_do_not_touch() -> None:
    for shown in some():
        assert 1 <= len(shown) <= 3
        for i, one in enumerate(shown):
            assert all(abs(one.x - b.x) + abs(one.y - b.y) > 11 for b in shown[i + 1 :])
    assert {len(shown) for shown in some()} == {1, 2, 3}


def test_sentences_are_true() -> None:
    seen = set()
    for shown in some():
        told, names = scenes.sentence(shown), [thing.name for thing in shown]
        where = {thing.name: thing for thing in shown}
        if found := re.match(r"a (\w+ \w+) (left of|right of|above|below) a (\w+ \w+)", told):
            a, b = where[found[1]], where[found[3]]
            truth = {
                "left of": a.x < b.x,
                "right of": a.x > b.x,
                "above": a.y < b.y,
                "below": a.y > b.y,
            }
            assert truth[found[2]], told
            seen.add(found[2])
        else:
            assert len(set(names)) == 1
            assert told in (f"a {names[0]}", f"two {names[0]}s", f"three {names[0]}s")
            assert told.startswith({1: "a ", 2: "two ", 3: "three "}[len(names)])
        assert all(name in told for name in names)
    assert seen == {"left of", "right of", "above", "below"}


def test_a_picture_has_one_sentence() -> None:
    for shown in some():
        assert len({scenes.sentence(order) for order in permutations(shown)}) == 1


def test_answers_are_true() -> None:
    chance, kinds = np.random.default_rng(5), set()
    for shown in some():
        for asked, answer in scenes.questions(shown, chance):
            kinds.add(" ".join(asked.split()[:2]))
            if found := re.match(r"is there a (\w+ \w+)", asked):
                assert (answer == "yes") == (found[1] in [thing.name for thing in shown])
            elif found := re.match(r"what colour is the (\w+)", asked):
                assert {t.colour for t in shown if t.shape == found[1]} == {answer}
            elif found := re.match(r"what is the (\w+) shape", asked):
                assert {t.shape for t in shown if t.colour == found[1]} == {answer}
            elif found := re.match(r"is the (\w+ \w+) left of the (\w+ \w+)", asked):
                pairs = [(a, b) for a in shown for b in shown]
                named = [a.x < b.x for a, b in pairs if (a.name, b.name) == found.groups()]
                assert (answer == "yes") in named
            else:
                assert answer == scenes.NUMBERS[len(shown)]
    assert kinds == {"is there", "how many", "what colour", "what is", "is the"}


def test_pictures_show_their_colours() -> None:
    chance = np.random.default_rng(6)
    for shown in some(30):
        pixels = np.asarray(scenes.draw(shown, chance))
        for thing in shown:
            assert tuple(pixels[round(thing.y) + 1, round(thing.x)]) == scenes.COLOURS[thing.colour]


@pytest.mark.parametrize("what", ["scenes", "vqa"])
def test_the_demonstration_runs(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looking.show(what, tmp_path, pairs=120, steps=2)
    out = capsys.readouterr().out
    assert "right to the letter on" in out
    assert (tmp_path / "model" / "manifest.json").exists()
    table = read_table(tmp_path / "data" / "rows-2.tsv", count=3 if what == "vqa" else 2)
    assert len(table) >= looking.HELD_OUT
