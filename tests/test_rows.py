"""Rows: what a file says is what comes out, and what is wrong with it is told by file and line."""

import csv
import gzip
import io
import json
import os
import pickle
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import small
from dragoman.data import lines
from dragoman.data.kinds import columns_of, is_header, kind_of
from dragoman.data.rows import Strings, iter_inputs, iter_rows, read_table
from dragoman.errors import UserError

any_text = st.text(st.characters())  # lone surrogates included
cell = st.text(st.characters(exclude_characters="\t\n\r\0", exclude_categories=["Cs"]))
full_cell = cell.filter(str.strip).filter(lambda text: not text.startswith("\ufeff"))
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write a file into the current folder; give back its bare name, as a person would type it."""
    monkeypatch.chdir(tmp_path)

    def write(name, content):
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write


@pytest.fixture
def stdin(monkeypatch):
    def feed(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return feed


def texts(rows):
    return [row.values for row in rows]


def refusal(*args, **options):
    with pytest.raises(UserError) as caught:
        read_table(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# --- Strings and Table


@given(st.lists(any_text), st.lists(any_text))
def test_strings_give_back_what_they_were_given(first, more):
    strings = Strings(first)
    strings.extend(more)
    strings.append("end")
    texts = [*first, *more, "end"]
    assert list(strings) == texts
    assert [strings[i] for i in range(-len(texts), len(texts))] == texts * 2
    assert list(strings[1:]) == texts[1:]
    assert list(pickle.loads(pickle.dumps(strings))) == texts


@given(st.data())
def test_strings_select_as_lists_do(data):
    texts = data.draw(st.lists(any_text, min_size=1))
    where = data.draw(st.lists(st.integers(-len(texts), len(texts) - 1)))
    chosen = Strings(texts).select(where)
    chosen.append("more")
    assert list(chosen) == [*(texts[i] for i in where), "more"]
    assert chosen.nbytes == sum(len(t.encode("utf-8", "surrogatepass")) + 8 for t in chosen) + 8


def test_strings_refuse_wrong_positions():
    with pytest.raises(IndexError):
        Strings(["a"])[1]
    with pytest.raises(IndexError):
        Strings(["a"]).select([1])


def test_table_selects_rows_with_their_lines(put):
    table = read_table(put("p.tsv", "a\tA\nb\tB\nc\tC\n")).select(np.array([2, 0]))
    assert list(table) == [("c", "C"), ("a", "A")]
    assert table.lines.tolist() == [3, 1]
    assert table.name == "p.tsv"


# --- formats


@same_folder
@given(rows=st.lists(st.tuples(full_cell, full_cell)), ending=st.sampled_from(["\n", "\r\n"]))
def test_tsv_round_trip(put, rows, ending):
    table = read_table(put("p.tsv", "".join(f"{a}\t{b}{ending}" for a, b in rows)))
    assert list(table) == rows
    assert table.lines.tolist() == list(range(1, len(rows) + 1))


@same_folder
@given(rows=st.lists(st.tuples(full_cell, full_cell)))
def test_csv_round_trip(put, rows):
    """Against the standard library as writer; line breaks go inside the quotes."""
    rows = [(a, f"{b}\n{a}\r\n,") for a, b in rows]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("source", "target"), *rows])
    expected = [(a, b.replace("\r\n", "\n")) for a, b in rows]
    assert list(read_table(put("p.csv", out.getvalue()))) == expected


@same_folder
@given(rows=st.lists(st.tuples(full_cell, full_cell)), ascii_only=st.booleans())
def test_jsonl_round_trip(put, rows, ascii_only):
    lines = (json.dumps({"source": a, "target": b}, ensure_ascii=ascii_only) for a, b in rows)
    assert list(read_table(put("p.jsonl", "".join(f"{line}\n" for line in lines)))) == rows


@same_folder
@given(rows=st.lists(st.tuples(cell, cell).filter(lambda row: any(map(str.strip, row)))))
def test_parallel_round_trip(put, rows):
    rows = [(f"<{a}", f"<{b}") for a, b in rows]
    names = [put(f"p.{i}", "".join(f"{row[i]}\n" for row in rows)) for i in range(2)]
    table = read_table(names)
    assert list(table) == rows
    assert table.name == "p.0 + p.1"


@pytest.mark.parametrize("name", ["p.tsv", "p.txt", "p"])
def test_extra_columns_are_fine(put, name):
    assert list(read_table(put(name, "a\tb\t12\nc\td\n"))) == [("a", "b"), ("c", "d")]


def test_columns_by_number_and_name(put):
    tsv, csv_ = put("p.tsv", "id\tde\ten\n1\tja\tyes\n"), put("p.csv", 'id,de,en\n1,"ja",yes\n')
    jsonl = put("p.jsonl", '{"id": 1, "de": "ja", "en": "yes"}\n')
    for name in (tsv, csv_, jsonl):
        assert list(read_table(name, columns=["en", "de"])) == [("yes", "ja")]
        assert list(read_table(name, columns=["en", 2])) == [("yes", "ja")]
        assert list(read_table(name, columns=["de"])) == [("ja",)]
    assert list(read_table(csv_, columns=[3, 1])) == [("yes", "1")]
    assert list(read_table(jsonl, columns=[3, 1])) == [("yes", "1")]
    assert list(read_table(tsv, columns=[3])) == [("en",), ("yes",)]
    assert read_table(tsv, columns=["en"]).lines.tolist() == [2]
    assert list(read_table(put("p.txt", "a\tb\tc\n"), columns=[3])) == [("c",)]


def test_columns_can_be_joined(put):
    text = "de\ten\tkind\tde+en\nja\tyes\tA\tB\nno\tno\tX\tC\n"
    tsv, csv_ = put("p.tsv", text), put("p.csv", text.replace("\t", ","))
    jsonl = put("p.jsonl", '{"de": "ja", "en": "yes", "kind": "A", "de+en": "B"}\n')
    for name in (tsv, csv_):
        joined = list(read_table(name, columns=["de", "en+kind"]))
        assert joined == [("ja", "yes A"), ("no", "no X")]
        assert list(read_table(name, columns=["de+en"])) == [("B",), ("C",)]  # as it is called
    assert list(read_table(jsonl, columns=["kind+de", 2])) == [("A ja", "yes")]
    assert list(read_table(tsv, columns=[1, "2+3"]))[1] == ("ja", "yes A")
    with pytest.raises(UserError, match=r"no column 'kin' \(did you mean 'kind'\?\)"):
        read_table(csv_, columns=["de+kin"])
    with pytest.raises(UserError, match=r"too few columns; columns 1,2\+3 are read"):
        read_table(put("q.tsv", "a\tb\n"), columns=[1, "2+3"])
    with pytest.raises(UserError, match="no column 0"):
        read_table(tsv, columns=[1, "0+2"])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("tsv", "a\tb\tc\nd\te\tf\n"),
        ("csv", "s,t,u\na,b,c\nd,e,f\n"),
        ("jsonl", '{"s": "a", "t": "b", "u": "c"}\n{"s": "d", "t": "e", "u": "f"}\n'),
    ],
)
def test_joined_columns_are_read_in_one_go(kind, text):
    """What can be read only once loses no row."""
    columns = [[1, "2+3"], ["s", "t+u"]] if kind != "tsv" else [[1, "2+3"]]
    for chosen in columns:
        reader, writer = os.pipe()
        os.write(writer, text.encode())
        os.close(writer)
        found = list(read_table(f"/dev/fd/{reader}", format=kind, columns=chosen))
        os.close(reader)
        assert found == [("a", "b c"), ("d", "e f")]


def test_an_empty_part_is_a_problem(put):
    texts = {
        "p.tsv": "a\tb\tc\nd\te\t\ng\t \t \n",
        "p.csv": "s,t,u\na,b,c\nd,e,\ng, , \n",
        "p.jsonl": '{"s": "a", "t": "b", "u": "c"}\n{"s": "d", "t": "", "u": "f"}\n'
        '{"s": "g", "t": "", "u": ""}\n',
    }
    for name, text in texts.items():
        table = read_table(put(name, text), columns=[1, "2+3"], on_bad="skip")
        assert list(table) == [("a", "b c")]
        assert table.problems == {"a part of column '2+3' is empty": 1, "empty target": 1}
    plain = read_table(put("q.tsv", "a\t2+3\tc\n"), columns=[1, "2+3"])
    assert list(plain) == [("a", "2+3 c")]  # sums are no names of columns


def test_csv_record_over_several_lines_has_the_number_of_its_first(put):
    table = read_table(
        put("p.csv", 'a,b\n"x\n\ny",1\nz,"say ""hi"", you"\n5" disk,"",\n'), on_bad="skip"
    )
    assert list(table) == [("x\n\ny", "1"), ("z", 'say "hi", you')]
    assert table.lines.tolist() == [2, 5]
    assert table.problems == {"too many columns": 1}
    assert list(read_table(put("q.csv", 'a,b\n5" disk,é\rè\n'))) == [('5" disk', "é\rè")]


def test_jsonl_keys(put):
    assert list(read_table(put("a.jsonl", '{"n": 1, "target": "b", "source": "a"}\n'))) == [
        ("a", "b")
    ]
    other = put("b.json", '{"x": "a", "y": 1.50}\n{"y": "d", "x": "c"}\n')
    assert list(read_table(other)) == [("a", "1.50"), ("c", "d")]
    assert list(read_table(other, count=1)) == [("a",), ("c",)]


def test_lines_and_running(put):
    name = put("p.txt", "one\n\ntwo \n")
    assert list(read_table(name, format="lines", allow_empty=True)) == [("one",), ("",), ("two ",)]
    assert list(read_table(name, format="running")) == [("one",), ("",), ("two ",)]
    table = read_table(name, count=1, on_bad="skip")
    assert (list(table), table.lines.tolist()) == ([("one",), ("two ",)], [1, 3])
    assert refusal(name, count=1).startswith("p.txt:2: empty line; ")


def test_auto_joins_tables_and_pairs_plain_files(put):
    a, b = put("a.tsv", "1\t2\n"), put("b.tsv.gz", gzip.compress(b"3\t4\n"))
    joined = read_table([a, b])
    assert (list(joined), joined.name) == ([("1", "2"), ("3", "4")], "a.tsv + b.tsv.gz")
    assert joined.lines.tolist() == [1, 1]
    x, y = put("x.de", "1\n2\n"), put("y.en", "3\n4\n")
    assert list(read_table([x, y])) == [("1", "3"), ("2", "4")]
    assert [row.values for row in iter_rows([x, y], count=1)] == [("1",), ("2",), ("3",), ("4",)]
    assert refusal([a, x]).startswith("a.tsv + x.de: different kinds of file")


def test_only_lf_and_crlf_end_a_line(put):
    odd = "a\rb\x0b\x0c\x1c\x85\u2028\u2029c"
    assert list(read_table(put("p.tsv", f"{odd}\t{odd}\r\nx\ty\r\n"))) == [(odd, odd), ("x", "y")]
    assert list(read_table(put("p.txt", "a\r\r\nb"), count=1)) == [("a\r",), ("b",)]


@pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz", "P.TSV.GZ", "packed.txt"])
def test_bom_and_gzip(put, name):
    content = b"\xef\xbb\xbfname\tname2\r\n\xef\xbb\xbfx\ty"
    packed = gzip.compress(content) if name != "p.tsv" else content
    assert list(read_table(put(name, packed), columns=["name", 2])) == [("\ufeffx", "y")]
    assert len(read_table(put("bom.tsv", b"\xef\xbb\xbf"))) == 0


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_stdin(stdin, pack):
    stdin(pack("é\tb\nc\td".encode()))
    table = read_table("-")
    assert (list(table), table.name) == ([("é", "b"), ("c", "d")], "<stdin>")
    assert not sys.stdin.buffer.closed


def test_stdin_beside_a_file_and_twice(stdin, put):
    stdin(b"a\nb\n")
    assert list(read_table(["-", put("p.en", "A\nB\n")])) == [("a", "A"), ("b", "B")]
    assert "only once" in refusal(["-", "-"])
    stdin(b"a\n")
    assert refusal("-").startswith("<stdin>:1: too few columns; ")


def test_endless_input_streams(monkeypatch):
    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            buffer[:4] = b"a\tb\n"
            return 4

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Endless())))
    assert [row.values for row in islice(iter_rows("-"), 1000)] == [("a", "b")] * 1000
    monkeypatch.undo()


@pytest.mark.parametrize("suffix", ["tsv", "csv", "jsonl", "txt"])
def test_nothing_in_gives_an_empty_table(put, suffix):
    for content in (b"", gzip.compress(b"")):
        table = read_table(put(f"p.{suffix}", content))
        assert (len(table), len(table.columns), list(table)) == (0, 2, [])
    assert len(read_table(put("h.csv", "source,target\n"))) == 0
    assert len(read_table(put("h.tsv", "source\ttarget\n"), columns=["source"])) == 0


# --- bad rows

GOOD_TSV, GOOD_CSV, GOOD_JSON = "a\tb\n", "a,b\n", '{"source": "a", "target": "b"}\n'
BAD = [
    ("tsv", GOOD_TSV, b"only\n", "too few columns"),
    ("tsv", GOOD_TSV, b"\n", "empty line"),
    ("tsv", GOOD_TSV, b" \t \n", "empty line"),
    ("tsv", GOOD_TSV, b" \tb\n", "empty source"),
    ("tsv", GOOD_TSV, "a\t\u3000\n".encode(), "empty target"),
    ("tsv", GOOD_TSV, b"a\0\tb\n", "NUL byte"),
    ("tsv", GOOD_TSV, b"a\t\xff\n", "bad UTF-8"),
    ("tsv", GOOD_TSV, b"a\t\xed\xa0\x80\n", "bad UTF-8"),
    ("csv", GOOD_CSV, b"a\n", "too few columns"),
    ("csv", GOOD_CSV, b"a,b,c\n", "too many columns"),
    ("csv", GOOD_CSV, b"\n", "empty line"),
    ("csv", GOOD_CSV, b'"a"x,b\n', "bad quoting"),
    ("csv", GOOD_CSV, b'"a","b\n', "quote never closed"),
    ("csv", GOOD_CSV, b'a,"\n\xff"\n', "bad UTF-8"),
    ("csv", GOOD_CSV, b'a,""\n', "empty target"),
    ("jsonl", GOOD_JSON, b"\n", "empty line"),
    ("jsonl", GOOD_JSON, b"{\n", "invalid JSON"),
    ("jsonl", GOOD_JSON, b"[" * 100_000 + b"\n", "invalid JSON"),
    ("jsonl", GOOD_JSON, b'["a", "b"]\n', "invalid JSON"),
    ("jsonl", GOOD_JSON, b'{"source": "a"}\n', "missing key 'target'"),
    (
        "jsonl",
        GOOD_JSON,
        b'{"source": "a", "targt": "b"}\n',
        "missing key 'target' (did you mean 'targt'?)",
    ),
    ("jsonl", GOOD_JSON, b'{"source": "a", "target": null}\n', "value of 'target' is not a text"),
    ("jsonl", GOOD_JSON, b'{"source": "a", "target": true}\n', "value of 'target' is not a text"),
    ("jsonl", GOOD_JSON, b'{"source": "a", "target": NaN}\n', "value of 'target' is not a text"),
    ("jsonl", GOOD_JSON, b'{"source": "a", "target": "\\u0000"}\n', "NUL byte"),
    ("jsonl", GOOD_JSON, b'{"source": "a", "target": "\\ud800"}\n', "bad UTF-8"),
    ("jsonl", GOOD_JSON, b'{"source": "", "target": "b"}\n', "empty source"),
]


@pytest.mark.parametrize(("suffix", "good", "bad", "reason"), BAD)
def test_bad_rows_are_told_or_skipped_but_always_answered(put, suffix, good, bad, reason):
    name = put(f"p.{suffix}", good.encode() * 2 + bad)  # of a csv the first line is the header
    good_lines = [2] if suffix == "csv" else [1, 2]
    message = refusal(name)
    assert message.startswith(f"{name}:3: {reason}; ")
    assert message.endswith("or leave such lines out with --on-bad-line skip")
    table = read_table(name, on_bad="skip")
    assert list(table) == [("a", "b")] * len(good_lines)
    assert table.lines.tolist() == good_lines
    assert table.problems == {reason: 1}
    answered = texts(iter_inputs(name, format="auto", count=2))
    assert len(answered) == len(good_lines) + 1
    assert all(len(row) == 2 and "\0" not in row[0] + row[1] for row in answered)


def test_bad_rows_before_the_first_good_one(put):
    name = put("p.jsonl", '{"a": "x"}\n{"a": "x", "b": "y"}\n')
    assert refusal(name).startswith("p.jsonl:1: too few columns")
    assert list(read_table(name, on_bad="skip")) == [("x", "y")]


def test_an_unclosed_quote_counts_all_it_swallowed(put):
    name = put("p.csv", 'a,b\n"x,y\n1,2\n3,4\n')
    assert refusal(name).startswith("p.csv:2: quote never closed")
    assert read_table(name, on_bad="skip").problems == {"quote never closed": 3}
    assert texts(iter_inputs(name, format="csv", count=2)) == [("", "")] * 3


def test_reasons_are_counted(put):
    table = read_table(put("p.tsv", "a\tb\nx\ny\n\nc\td\na\t \n"), on_bad="skip")
    assert table.problems == {"too few columns": 2, "empty line": 1, "empty target": 1}
    assert read_table(put("p.tsv", "a\t\n"), allow_empty=True).problems == {}
    three = put("t.tsv", "a\tb\t \n")
    assert refusal(three, count=3).startswith("t.tsv:1: empty column 3; ")


def test_parallel_leaves_both_sides_out(put):
    names = [put("p.de", b"a\n\nc\n\n"), put("p.en", b"A\nB\n\xff\n\n")]
    table = read_table(names, on_bad="skip")
    assert (list(table), table.lines.tolist()) == ([("a", "A")], [1])
    assert table.problems == {"empty source": 1, "bad UTF-8": 1, "empty line": 1}
    assert refusal(names).startswith("p.de:2: empty source; ")
    assert refusal([put("q.de", "a\nb\n"), put("q.en", "A\n \n")]).startswith(
        "q.en:2: empty target; "
    )
    assert refusal([put("q.de", "a\nb\n"), put("q.en", b"A\n\xff\n")]).startswith(
        "q.en:2: bad UTF-8; "
    )


@pytest.mark.parametrize("on_bad", ["error", "skip"])
def test_parallel_files_must_be_equally_long(put, on_bad):
    names = [put("p.de", "a\nb\nc\nd\n"), put("p.en", "A\n")]
    told = "p.de has 4, p.en has 1 lines"
    assert told in refusal(names, on_bad=on_bad)
    told = "p.en has 1, p.de has 4 lines"
    assert told in refusal(names[::-1], on_bad=on_bad)
    assert texts(iter_inputs(names, format="parallel", count=2))[2:] == [("c", ""), ("d", "")]
    assert "2 parallel files for 3 columns" in refusal(names, count=3)


# --- files and options that cannot be used


def test_unreadable_files(put, tmp_path, monkeypatch):
    assert refusal("gone.tsv") == "gone.tsv: no such file; check the path"
    assert refusal(tmp_path) == f"{tmp_path}: this is a folder; name a file in it"
    packed = gzip.compress(b"a\tb\n" * 1000)
    assert refusal(put("cut.gz", packed[:-20])).startswith("cut.gz: gzip file is cut off")
    assert refusal(put("not.gz", b"a\tb\n")).startswith("not.gz: broken gzip file")
    assert refusal(put("bad.gz", packed[:12] + b"\xff" * 9)).startswith("bad.gz: broken gzip file")
    assert refusal(f"{put('file', '')}/x").startswith("file/x: cannot be read (")
    assert refusal([]).startswith("no input file")

    def locked(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lines, "open", locked, raising=False)
    assert refusal("p.tsv").startswith("p.tsv: no permission")


def test_wrong_columns_and_options(put):
    csv_, tsv, txt = (
        put("p.csv", "source,target\na,b\n"),
        put("p.tsv", "x\ty\n"),
        put("p.txt", "x\n"),
    )
    told = "p.csv:1: no column 'targt' (did you mean 'target'?); there are source, target"
    assert refusal(csv_, columns=["targt"]) == told
    assert refusal(tsv, columns=["z"]).startswith("p.tsv:1: no column 'z'; there are x, y")
    assert refusal(csv_, columns=[3]) == "p.csv:1: no column 3; the header has only 2"
    assert refusal(tsv, columns=[3]).startswith("p.tsv:1: too few columns")
    for name in (csv_, tsv, put("p.jsonl", GOOD_JSON)):
        assert refusal(name, columns=[0]) == f"{name}: no column 0; columns are numbered from 1"
    assert "has no columns" in refusal(txt, format="lines", columns=[1])
    assert "did you mean 'jsonl'" in refusal(txt, format="json")
    assert "did you mean 'skip'" in refusal(txt, on_bad="skipp")
    assert refusal(put("q.csv", b'"a,b\n')).startswith("q.csv:1: quote never closed in the header")
    assert refusal(put("q.csv", b'"a"a,b\n')).startswith("q.csv:1: bad quoting in the header")
    assert refusal(put("q.csv", b"\xff,b\n")).startswith("q.csv:1: bad UTF-8 in the header")


# --- prediction answers every line


@same_folder
@given(
    content=st.binary()
    | st.lists(st.sampled_from([b'"', b",", b"\n", b"\r", b"\t", b"\xc3", b"{}"])).map(b"".join)
)
def test_inputs_are_never_dropped(put, content):
    assume(
        not content.startswith((b"\x1f\x8b", b"\xef\xbb\xbf"))
    )  # gzip and BOM are read, not data
    assume(not lines._foreign(content))  # a workbook is refused by name
    many = content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    name = put("inputs", content)
    for kind, count in [("lines", 1), ("running", 1), ("tsv", 1), ("tsv", 3), ("jsonl", 2)]:
        rows = texts(iter_inputs(name, format=kind, count=count))
        assert [len(row) for row in rows] == [count] * many
        assert "\0" not in "".join(map("".join, rows))
    records = texts(iter_inputs(put("inputs.csv", b"a,b\n" + content), format="csv", count=2))
    assert (len(records) == many) if b'"' not in content else (len(records) <= many)


def test_inputs_keep_what_can_be_read(put):
    name = put("p.tsv", b"a\tb\nc\n\n\xff\0\td\n")
    assert texts(iter_inputs(name, format="tsv", count=2)) == [
        ("a", "b"),
        ("c", ""),
        ("", ""),
        ("\ufffd\ufffd", "d"),
    ]
    assert texts(iter_inputs(name)) == [("a\tb",), ("c",), ("",), ("\ufffd\ufffd\td",)]
    assert texts(iter_inputs(name, format="tsv", columns=[2])) == [("b",), ("",), ("",), ("d",)]


# --- size


@pytest.mark.parametrize("size", [1_000_000, 10_000_000])
def test_very_long_lines(put, size):
    long = 'é"' * (size // 3)
    assert list(read_table(put("p.tsv", f"a\tb\n{long}\tc\n"))) == [("a", "b"), (long, "c")]
    assert list(read_table(put("p.csv", f'a,b\n"{long.replace(chr(34), chr(34) * 2)}",c\n'))) == [
        (long, "c")
    ]
    assert list(read_table(put("p.jsonl", json.dumps({"source": long, "target": "c"})))) == [
        (long, "c")
    ]


def test_a_quoted_value_of_many_lines_takes_linear_time(put):
    began = time.perf_counter()
    text = "x,\n" * 100_000
    assert list(read_table(put("p.csv", f'a,b\n"{text}",c\n"{text}'), on_bad="skip")) == [
        (text, "c")
    ]
    assert time.perf_counter() - began < 5


def test_bulk_is_compact(put):
    pair = " ".join(["token"] * 20)
    table = read_table(put("p.tsv", f"{pair}\t{pair}\n" * 100_000))
    assert len(table) == 100_000
    assert table.nbytes / len(table) < 2 * len(pair) + 25  # the texts and three numbers
    assert next(iter(table)) == (pair, pair)


# --- kinds of files


def test_one_place_knows_the_kind_of_a_file():
    for name in ("a.tsv", "a.TSV", "a.Tsv.GZ"):
        assert kind_of(name, count=1) == "tsv"
    assert {kind_of(name) for name in ("a.json", "a.JSONL.gz")} == {"jsonl"}
    assert kind_of(["a.tsv", "b.tsv"]) == "tsv"
    assert kind_of(["a.tsv", "b.tsv"], "parallel") == "parallel"
    with pytest.raises(UserError, match="different kinds"):
        kind_of(["a.tsv", "b.csv"])


def test_columns_are_those_of_most_lines(put):
    assert columns_of(put("a.tsv", "lonely\n\n1\t2\t3\n4\t5\t6\n"), "tsv") == ["1", "2", "3"]
    assert columns_of(put("a.csv", 'x,"y\nz"\n1,2\n'), "csv") == ["x", "y\nz"]
    assert columns_of(put("a.jsonl", '\n[1]\n{"a": 1, "b": 2}\n'), "jsonl") == ["a", "b"]
    usual = put("b.jsonl", '{"id": 1, "target": "y", "source": "x"}\n')
    assert columns_of(usual, "jsonl") == ["source", "target"]
    assert columns_of(put("a.txt", "a\tb\n"), "lines") == []
    assert columns_of("-", "tsv") == columns_of("none.tsv", "tsv") == []
    assert columns_of(put("empty.tsv", ""), "tsv") == []


def test_a_header_has_names_and_an_answer_of_its_own():
    rows = [("so good", "yes"), ("so bad", "no")]
    assert is_header(("Sentence_1", "NER tags"), rows)
    assert is_header(("text", "label"), [*rows, ("text", "label")])  # of a further file
    assert not is_header(("text", "yes"), rows)
    assert not is_header(("text", "label"), [*rows, ("a bill", "label")])
    assert not is_header(("the text of this row", "label"), rows)
    assert not is_header((), rows)


@pytest.mark.parametrize("content", [b"PK\x03\x04\x14\0", "a\tb\n".encode("utf-16")])
def test_what_is_no_text_is_refused_whatever_the_policy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "words.tsv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"words.tsv: (a workbook|text in UTF-16).*: save it as"):
        read_table(path, on_bad="skip")


def test_parquet_is_a_table_like_others(tmp_path: Path, verb: Callable) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    words = [f"{a}{b}{c}" for a in "bdfg" for b in "aeio" for c in "klm"]
    path, columns = tmp_path / "words.parquet", {"id": range(48), "sound": [*map(str.upper, words)]}
    write_table(arrow.table(columns | {"word": words}), path)
    table = read_table(path, columns=["word", "sound"])
    assert list(table)[:2] == [("bak", "BAK"), ("bal", "BAL")]
    assert next(iter(read_table(path, columns=[1, 3]))) == ("0", "bak")
    ran = verb(
        "train",
        path,
        "--columns",
        "word,sound",
        "-o",
        tmp_path / "m",
        *small.settings(small.SPEEDY),
    )
    assert ran.code == 0, ran.err
    assert len(verb("predict", tmp_path / "m", path).lines) == 48
    assert verb("evaluate", tmp_path / "m", path).code == 0
    assert verb("check", path, "--columns", "word,sound").code == 0
    path.write_bytes(b"PAR1 nothing")
    ran = verb("train", path, "-o", tmp_path / "n")
    assert ran.code == 2
    assert "words.parquet: not a Parquet file" in ran.err
    with pytest.raises(UserError, match=r"none.parquet: no such file"):
        read_table(tmp_path / "none.parquet")
