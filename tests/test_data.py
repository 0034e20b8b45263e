"""Text units, fields and batches."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.core import EOS, UNK
from dragoman.data.batches import Budget, Examples, Ragged, Stream, plan
from dragoman.data.fields import TextField, TextSpec, settle
from dragoman.data.text import UNITS, Bytes, Chars, Subwords, Units, Words
from dragoman.errors import UserError

plain = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=60)


@pytest.fixture(scope="module")
def subwords() -> Subwords:
    lines = ["the cat sat on the mat", "a dog ran to the house", "2024 was a year of rain"] * 40
    return Subwords.learn(lines, size=400, min_count=1)


@settings(max_examples=400)
@given(text=plain)
def test_subwords_bring_any_text_back(subwords: Subwords, text: str) -> None:
    assert subwords.decode(subwords.encode(text)) == text


@given(text=plain)
def test_bytes_bring_any_text_back(text: str) -> None:
    assert Bytes().decode(Bytes().encode(text)) == text


@given(texts=st.lists(plain, min_size=1, max_size=5))
def test_characters_bring_back_what_they_learned(texts: list[str]) -> None:
    units = Chars.learn(texts, size=10_000, min_count=1)
    assert [units.decode(units.encode(text)) for text in texts] == texts


@pytest.mark.parametrize(
    "text", ["▁", "▂", "▂0▁▂1", "a ▁ b", "  two  spaces ", "<s> </s> <0x41>", "🇨🇿👩‍👩‍👧"]
)
def test_signs_of_sentencepieces_own_survive(subwords: Subwords, text: str) -> None:
    assert subwords.decode(subwords.encode(text)) == text


@pytest.mark.parametrize("kind", [kind for kind in UNITS if kind != "features"])
def test_units_travel_as_files(kind: str) -> None:
    lines = ["the cat sat on the mat", "a dog ran to the house"] * 30
    units: Units = UNITS[kind].learn(lines, size=400, min_count=1)
    files = units.files()
    again: Units = UNITS[kind].load(files.__getitem__)
    assert again.encode(lines[0]) == units.encode(lines[0])
    assert again.size == units.size
    assert units.decode(units.encode(lines[0])) == lines[0]


def test_the_same_text_gives_the_same_subword_model(subwords: Subwords) -> None:
    lines = ["the cat sat on the mat", "a dog ran to the house", "2024 was a year of rain"] * 40
    assert Subwords.learn(lines, size=400, min_count=1).proto == subwords.proto


def test_rare_symbols_become_unknown() -> None:
    units = Words.learn(["a a a b b c"], size=100, min_count=2)
    assert units.encode("a b c") == [4, 5, UNK]
    assert Words.learn(["a a a b b c"], size=5, min_count=1).encode("a b") == [4, UNK]


@pytest.mark.parametrize("content", [b"\xff", b"{}", b"[1]", b"[" * 100_000, b""])
def test_a_broken_vocabulary_is_refused(content: bytes) -> None:
    with pytest.raises(UserError):
        Chars.load(lambda name: content)


@pytest.mark.parametrize("content", [b"", b"junk", b"\x0a\xff\xff\xff"])
def test_a_broken_subword_model_is_refused(content: bytes) -> None:
    with pytest.raises(UserError):
        Subwords.load(lambda name: content)


@pytest.mark.parametrize(
    ("values", "units"),
    [
        (["AH B AW T", "K AE T S", "D AO G"] * 50, "word"),
        (["abate", "katze", "dorf"] * 50, "char"),
        (["mardi 5 novembre 2024", "5. studenoga 2024."], "char"),
        (
            [f"man {i} is near bush {i * 7} in the garden of his house" for i in range(200)],
            "subword",
        ),
        ([""], "char"),
        ([], "char"),
    ],
)
def test_auto_picks_units_that_suit(values: list[str], units: str) -> None:
    assert settle(TextSpec(), values).units == units


def test_units_of_a_sorted_column_are_those_of_all_of_it() -> None:
    words = [f"word{number}" for number in range(1000)]
    texts = [" ".join(words[at % 900 : at % 900 + 2]) for at in range(25_000)]
    texts += [" ".join(words[at % 900 : at % 900 + 30]) for at in range(25_000)]
    assert settle(TextSpec(), texts).units == "subword"
    assert settle(TextSpec(), iter(texts)).units == "subword"


def test_a_field_cuts_reverses_and_ends() -> None:
    field = TextField.learn(TextSpec(units="char", reverse=True, max_length=3), ["abcd"])
    ids = field.encode("abcd")
    assert field.units.tokens(ids) == ["c", "b", "a", "</s>"]
    assert field.decode(ids) == "abc"
    assert field.longer("abcd")
    assert not field.longer("abc")


def test_a_field_normalises() -> None:
    field = TextField.learn(TextSpec(units="char", lower=True, normalize="nfkc"), ["é1a"])
    assert field.decode(field.encode("E\u0301①A")) == "é1a"


def test_hangul_is_read_by_its_letters_and_written_in_syllables() -> None:
    field = TextField.learn(TextSpec(units="char"), ["한국", "국어"])
    assert field.spec.normalize == "nfd"
    assert field.tokens(field.encode("한")) == ["\u1112", "\u1161", "\u11ab"]
    assert field.decode(field.encode("한국어")) == "한국어"
    unseen = field.encode("학")  # a syllable that no row has, of letters that some have
    assert field.decode(unseen) == "학"
    assert TextField.learn(TextSpec(units="word"), ["한국 국어"]).spec.normalize == "nfc"
    assert TextField.learn(TextSpec(units="char", normalize="nfc"), ["한국"]).size == 6
    assert TextField.learn(TextSpec(units="char"), ["été"]).spec.normalize == "nfc"


def test_a_path_ends_at_its_end() -> None:
    field = TextField.learn(TextSpec(units="char"), ["ab"])
    assert field.decode([4, 5, EOS, 4, 0]) == "ab"
    assert field.tokens([4, 0, 5]) == ["a"]


rows = st.lists(st.lists(st.integers(4, 99), max_size=12), min_size=1, max_size=40)


@given(rows)
def test_ragged_rows_come_back(many: list[list[int]]) -> None:
    ragged = Ragged.of(many)
    assert [ragged[i].tolist() for i in range(len(ragged))] == many
    padded = ragged.pad(range(len(many)))
    assert [v[m].tolist() for v, m in zip(padded.values, padded.mask, strict=True)] == many
    assert not padded.values[~padded.mask].any()


lengths = st.lists(st.integers(1, 50), min_size=1, max_size=300).map(np.array)


@given(lengths, st.integers(1, 200), st.integers(0, 5), st.integers(0, 5))
def test_an_epoch_holds_every_row_once_within_the_budget(
    sizes: np.ndarray, tokens: int, seed: int, epoch: int
) -> None:
    batches = plan(sizes, Budget(tokens), seed, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * sizes[batch].max() <= tokens


@given(lengths, st.integers(1, 20))
def test_batches_by_rows(sizes: np.ndarray, count: int) -> None:
    batches = plan(sizes, Budget(1, rows=count), 1, 0)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    assert max(len(batch) for batch in batches) <= count


def test_order_is_a_function_of_seed_and_epoch() -> None:
    sizes = np.random.default_rng(0).integers(1, 40, 500)

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [batch.tolist() for batch in plan(sizes, Budget(400), seed, epoch)]

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)


def test_batches_hold_rows_of_like_length() -> None:
    sizes = np.random.default_rng(0).integers(1, 100, 5000)
    batches = plan(sizes, Budget(2000), 1, 0)
    padded = sum(len(batch) * sizes[batch].max() for batch in batches)
    assert padded < 1.1 * sizes.sum()


def test_a_stream_is_the_text() -> None:
    stream = Stream(np.arange(103, dtype=np.int32), streams=4, steps=7)
    pieces = [stream.batch(p).target.values for p in range(len(stream))]
    assert torch.equal(torch.cat(pieces, 1).flatten(), torch.arange(100))


def test_examples_without_a_source_read_nothing() -> None:
    batch = Examples([], Ragged.of([[4, 2], [5, 6, 2]])).batch(np.array([1, 0]))
    assert batch.source.values.shape == (2, 0)
    assert batch.target.values.tolist() == [[5, 6, 2], [4, 2, 0]]


LOAD = """
import resource, sys
from dragoman.config import resolve
from dragoman.corpus import load_corpus
tree = {"data": {"train": [sys.argv[1]], "source": {"units": "word"}, "target": {"units": "word"}}}
corpus = load_corpus(resolve("transduce", tree=tree), None, lambda line: None)
print(len(corpus.train), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_a_million_pairs_of_twenty_tokens_fit_in_a_gigabyte(tmp_path: Path) -> None:
    words = np.array([f"word{i}" for i in range(20_000)])
    chance = np.random.default_rng(0)
    path = tmp_path / "many.tsv"
    with path.open("w") as file:
        for _ in range(100):
            block = words[chance.integers(0, len(words), (10_000, 40))]
            file.writelines(" ".join(row[:20]) + "\t" + " ".join(row[20:]) + "\n" for row in block)
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, check=True
    )
    count, megabytes = map(int, done.stdout.split())
    assert count == 999_000
    assert megabytes < 1000
