"""Rows on disk: built once, resumed, mapped, and the same to training as rows in memory."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from dragoman.config import resolve
from dragoman.corpus import Corpus, load_corpus, steps_of
from dragoman.data import store as rooms
from dragoman.data.store import Row, Store
from dragoman.errors import UserError
from dragoman.stored import stored_corpus


def rows(count: int) -> list[Row]:
    chance = np.random.default_rng(1)
    return [
        [chance.integers(4, 99, chance.integers(0, 9)).tolist() for _ in range(2)]
        for _ in range(count)
    ]


def read(store: Store) -> list[list[list[int]]]:
    columns = store.columns()
    return [[column[row].tolist() for column in columns] for row in range(len(columns[0]))]


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    given = rows(100)
    store = Store(tmp_path, "key", 2)
    store.build(iter([*given[:50], None, *given[50:]]))
    assert read(store) == given
    assert store.state["read"] == 101


def test_a_build_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "BLOCK", 10)
    given = rows(95)

    def broken() -> Iterator[Row]:
        yield from given[:47]
        raise KeyboardInterrupt

    store = Store(tmp_path, "key", 2)
    with pytest.raises(KeyboardInterrupt):
        store.build(broken())
    assert store.state["read"] == 40
    with (tmp_path / "0.symbols").open("ab") as file:
        file.write(b"half a block")
    with pytest.raises(UserError, match="not complete"):
        store.columns()
    store.build(iter(given))
    assert read(store) == given


def test_another_key_is_another_store(tmp_path: Path) -> None:
    Store(tmp_path, "one", 2).build(iter(rows(5)))
    other = Store(tmp_path, "two", 2)
    assert not other.state["done"]
    other.build(iter(rows(3)))
    assert len(read(other)) == 3


@pytest.mark.parametrize("content", ["", "[]", '{"key": "key"}', "\0"])
def test_a_broken_state_is_no_state(tmp_path: Path, content: str) -> None:
    (tmp_path / "state.json").write_text(content)
    store = Store(tmp_path, "key", 2)
    store.build(iter(rows(3)))
    assert read(store) == rows(3)


def pairs(tmp_path: Path, count: int) -> Path:
    path = tmp_path / "pairs.tsv"
    words = ["".join(chr(97 + (i * k) % 26) for k in range(1, 2 + i % 7)) for i in range(count)]
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words), "utf-8")
    return path


def test_a_stored_corpus_holds_the_same_rows_as_one_in_memory(tmp_path: Path) -> None:
    tree = {"data": {"train": [str(pairs(tmp_path, 300))], "store": str(tmp_path / "store")}}
    said: list[str] = []
    stored = stored_corpus(resolve("transduce", tree=tree), None, said.append)
    again = stored_corpus(resolve("transduce", tree=tree), None, said.append)
    plain = load_corpus(resolve("transduce", tree=tree), None, said.append)
    assert sum("encoding" in line for line in said) == 1

    def texts(corpus, examples) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
        source, target = corpus.fields.sources["source"], corpus.fields.target
        batch = examples.batch(np.arange(len(examples)))
        return sorted(
            (source.decode(s.tolist()), target.decode(t.tolist()))
            for s, t in zip(batch.source.values, batch.target.values, strict=True)
        )

    every = [texts(c, c.train) + texts(c, c.dev) for c in (stored, again, plain)]
    assert sorted(every[0]) == sorted(every[1]) == sorted(every[2])
    assert sorted(stored.samples) == texts(stored, stored.dev)
    assert stored.config.train.batch_tokens == plain.config.train.batch_tokens


def counted(corpus: Corpus, epoch: int) -> Counter[str]:
    """How often each source of the training rows comes in an epoch."""
    field, seen = corpus.fields.sources["source"], Counter[str]()
    for rows in steps_of(corpus, epoch):
        for values in corpus.train.batch(rows).source.values:
            seen[field.decode((values if values.dim() == 1 else values[:, 0]).tolist())] += 1
    return seen


@pytest.mark.parametrize("stored", [False, True])
def test_corpora_are_mixed_by_weight(tmp_path: Path, stored: bool) -> None:
    own = pairs(tmp_path, 100)
    twice, rare = tmp_path / "twice.tsv", tmp_path / "rare.tsv"
    twice.write_text("".join(f"X{'y' * i}\ta\n" for i in range(30)))
    rare.write_text("".join(f"Z{'u' * i}\tb\n" for i in range(80)))
    also = [{"files": [str(twice)], "weight": 2}, {"files": [str(rare)], "weight": 0.25}]
    tree = {"data": {"train": [str(own)], "also": also}, "train": {"batch_size": 7}}
    if stored:
        tree["data"]["store"] = str(tmp_path / "store")
    read = stored_corpus if stored else load_corpus
    corpus = read(resolve("transduce", tree=tree), None, lambda line: None)
    assert not any(source[0] in "XZ" for source, _ in corpus.samples)  # dev rows are the own ones
    first, second = counted(corpus, 0), counted(corpus, 1)
    assert all(first[f"X{'y' * i}"] == 2 for i in range(30))
    rare_ones = [{word for word in seen if word[0] == "Z"} for seen in (first, second)]
    assert all(8 <= len(words) <= 34 for words in rare_ones)
    assert rare_ones[0] != rare_ones[1]
    assert sum(first[word] for word in first if word[0] not in "XZ") == 90
    assert counted(corpus, 0) == first  # the same seed, the same epoch


def test_a_store_takes_copies_shared_alphabets_and_a_dev_file(tmp_path: Path) -> None:
    data = {"train": [str(pairs(tmp_path, 200))], "dev": [str(pairs(tmp_path, 200))]}
    data |= {"store": str(tmp_path / "store"), "shared": True}
    units = {"units": "char", "size": 20}
    tree = {"data": data | {"source": units, "target": units}}
    stored = stored_corpus(resolve("summarize", tree=tree), None, lambda line: None)
    plain = load_corpus(resolve("summarize", tree=tree), stored.fields, lambda line: None)
    assert stored.samples == plain.samples
    assert stored.fields.sources["source"].units is stored.fields.target.units
    every = np.arange(len(plain.train))
    mine, theirs = stored.train.batch(every), plain.train.batch(every)
    assert torch.equal(mine.source.values, theirs.source.values)
    assert torch.equal(mine.target.values, theirs.target.values)
    assert (mine.target.values >= stored.fields.target.size).any()  # these are copied
    del tree["data"]["dev"]
    with pytest.raises(UserError, match="needs a dev file"):
        stored_corpus(resolve("summarize", tree=tree), None, lambda line: None)


def test_training_from_a_store(tmp_path: Path, verb) -> None:  # type: ignore[no-untyped-def]
    path = pairs(tmp_path, 200)
    small = [
        "-s",
        "model.encoder.hidden=8",
        "-s",
        "model.decoder.hidden=8",
        "-s",
        "train.max_steps=3",
    ]
    ran = verb("train", path, "-o", tmp_path / "m", "-s", f"data.store={tmp_path / 's'}", *small)
    assert ran.code == 0, ran.err
    assert json.loads((tmp_path / "s" / "state.json").read_text())["rows"] == 200
    assert (tmp_path / "m" / "model.safetensors").exists()


BUILD = """
import resource, sys
from dragoman.config import resolve
from dragoman.corpus import steps_of
from dragoman.stored import stored_corpus
data = {"train": [sys.argv[1]], "store": sys.argv[2]}
data |= {"source": {"units": "word"}, "target": {"units": "word"}}
corpus = stored_corpus(resolve("transduce", tree={"data": data}), None, lambda line: None)
batches = steps_of(corpus, 0)
corpus.train.batch(batches[0])
print(len(corpus.train), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_two_million_pairs_take_little_memory(tmp_path: Path) -> None:
    """A fifth of ten million: what grows with the rows must stay below a fifth of two gigabytes."""
    words = np.array([f"word{i}" for i in range(20_000)])
    chance = np.random.default_rng(0)
    path = tmp_path / "many.tsv"
    with path.open("w") as file:
        for _ in range(200):
            block = words[chance.integers(0, len(words), (10_000, 40))]
            file.writelines(" ".join(row[:20]) + "\t" + " ".join(row[20:]) + "\n" for row in block)
    command = [sys.executable, "-c", BUILD, str(path), str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, megabytes = map(int, done.stdout.split())
    assert count == 1_999_000
    assert megabytes < 350 + 400


def test_a_file_that_was_corrected_is_read_anew(tmp_path: Path) -> None:
    path, said = tmp_path / "pairs.tsv", list[str]()
    tree = {"data": {"train": [str(path)], "store": str(tmp_path / "store"), "dev_rows": 2}}
    for first, second in (("x y", "y x"), ("y x", "x y")):  # as long as before, in other places
        path.write_text(f"ab\t{first}\ncd\t{second}\n" * 10)
        corpus = stored_corpus(resolve("transduce", tree=tree), None, said.append)
        field, row = corpus.fields.target, corpus.train.batch(np.array([0])).rows[0]
        assert field.decode(corpus.train.target[int(row)].tolist()) in (first, second)
        texts = {
            (
                corpus.fields.sources["source"].decode(corpus.train.sources[0][r].tolist()),  # type: ignore[attr-defined]
                field.decode(corpus.train.target[r].tolist()),
            )
            for r in range(20)
        }
        assert texts == {("ab", first), ("cd", second)}


def test_a_store_counts_tags_and_dev_rows_as_memory_does(tmp_path: Path) -> None:
    path = tmp_path / "tags.tsv"
    path.write_text("a b c\tX Y Z\n" * 20 + "a b c d\tX Y\n")
    data = {"train": [str(path)], "store": str(tmp_path / "store"), "dev_rows": 8}
    with pytest.raises(UserError, match=r"tags.tsv:21: 4 symbols but 2 tags"):
        stored_corpus(resolve("tag", tree={"data": data}), None, lambda line: None)
    said = list[str]()
    config = resolve("tag", tree={"data": data | {"on_bad_line": "skip"}})
    corpus = stored_corpus(config, None, said.append)
    assert (len(corpus.train), len(corpus.dev)) == (12, 8)
    assert any("1 row left out (longer than max_length, or not one tag" in line for line in said)
