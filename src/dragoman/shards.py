"""A file of inputs answered in pieces, by one process or many: each piece is written under a
temporary name and renamed, with a record beside it; what is there already is not done again.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.checkpoint import MANIFEST
from dragoman.config import SearchSpec
from dragoman.data.rows import BadLines
from dragoman.disk import partial, settle_folder, write
from dragoman.errors import DragomanError, UserError
from dragoman.inputs import Inputs
from dragoman.output import FORMATS
from dragoman.predict import Predictor


class Shard(NamedTuple):
    """One of several pieces of a file, counted from 1.

    >>> Shard(2, 3).bounds(10), str(Shard(2, 3)), Shard(2, 3).path(Path("out.txt")).name
    ((3, 6), '2/3', 'out.txt.00002-of-00003')
    """

    number: int = 1
    of: int = 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def bounds(self, total: int) -> tuple[int, int]:
        """The first line and the one behind the last."""
        return total * (self.number - 1) // self.of, total * self.number // self.of

    def path(self, output: Path) -> Path:
        return output.with_name(f"{output.name}.{self.number:05d}-of-{self.of:05d}")


def parse_shard(text: str) -> Shard:
    """
    >>> parse_shard("3/8")
    Shard(number=3, of=8)
    """
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    shard = Shard(int(found[1]), int(found[2])) if found else Shard(0, 0)
    if not 1 <= shard.number <= shard.of:
        raise UserError(f"--shard {text}: write it as i/n, from 1/n to n/n")
    return shard


class Task(NamedTuple):
    """What is to be answered, and how: all that decides what the output is."""

    model: Path
    inputs: str
    columns: str | None
    required: str | None
    layout: str
    options: SearchSpec
    helpers: dict[str, Any]  # further arguments of `load`
    on_bad: BadLines = "skip"

    @property
    def key(self) -> str:
        """A name for this task: another model, file (or content of it) or option has another."""
        helpers = [self.helpers.get("lm"), self.helpers.get("dictionary")]
        helpers += self.helpers.get("others", ())
        files = [self.model / MANIFEST, self.inputs, *(one for one in helpers if one)]
        try:
            sums = [_sum_of(Path(file)) for file in files]
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror}") from None
        told = [self.inputs, self.columns, self.required, self.layout, self.helpers, sums]
        text = json.dumps([*told, self.options.model_dump(mode="json")], default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def read(self, predictor: Predictor) -> Inputs:
        fields = predictor.fields
        told = (self.columns, self.required, self.on_bad, fields.files)
        return Inputs(self.inputs, len(fields.sources), *told)


def finished(task: Task, path: Path, shard: Shard) -> bool:
    """Whether a piece is there already, whole and of this task."""
    record = _record(path)
    return record is not None and (record["task"], record["shard"]) == (task.key, str(shard))


def write_shard(
    task: Task, output: Path, shard: Shard, predictor: Predictor, batch_size: int
) -> Inputs:
    """Answer one piece of the inputs; these know what of it could not be read."""
    path = shard.path(output)
    (path.with_name(path.name + ".json")).unlink(missing_ok=True)
    total = task.read(predictor).total()
    begin, end = shard.bounds(total)
    asked = task.read(predictor)
    answers = predictor.stream(asked.part(begin, end), task.options, batch_size, begin)
    lines = (FORMATS[task.layout](answer, place) for place, answer in enumerate(answers, begin))
    count, digest = write_lines(path, lines)
    if count != end - begin:
        path.unlink()
        raise DragomanError(
            f"{task.inputs}: {total:,} inputs at first, fewer later: it was changed"
        )
    record = {"task": task.key, "shard": str(shard), "first": begin, "total": total}
    record |= {"inputs": end - begin, "answers": count, "sha256": digest}
    write(path.with_name(path.name + ".json"), json.dumps(record).encode())
    return asked


def write_lines(path: Path, lines: Iterator[str]) -> tuple[int, str]:
    """Write a file whole or not at all, line by line; how many lines, and their checksum."""
    fresh, count, digest = partial(path), 0, hashlib.sha256()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as file:
            for line in lines:
                content = f"{line}\n".encode("utf-8", "replace")
                file.write(content)
                digest.update(content)
                count += 1
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        settle_folder(path.parent)
    finally:
        fresh.unlink(missing_ok=True)
    return count, digest.hexdigest()


def merge(output: Path) -> tuple[int, int]:
    """All pieces as one file, after their counts and order were checked; (inputs, pieces)."""
    paths = _pieces(output)
    records = []
    for path in paths:
        record = _record(path)
        if record is None:
            raise UserError(f"{path}: not finished, or damaged: run its --shard again")
        records.append(record)
    if len({(record["task"], record["total"]) for record in records}) > 1:
        raise UserError(f"{output}: pieces of different tasks: remove those of the other one")
    ends = [record["first"] + record["inputs"] for record in records]
    if [record["first"] for record in records] != [0, *ends[:-1]] or ends[-1] != records[0][
        "total"
    ]:
        raise UserError(f"{output}: the pieces do not cover the inputs: run their --shard again")
    write_lines(output, _joined(paths))
    return ends[-1], len(paths)


def remove(output: Path) -> None:
    """Remove the pieces of an output."""
    for path in _pieces(output):
        path.unlink()
        path.with_name(path.name + ".json").unlink()


def _pieces(output: Path) -> list[Path]:
    """The files of all pieces, in order; none may be missing."""
    pattern = re.compile(re.escape(output.name) + r"\.(\d{5})-of-(\d{5})")
    folder = output.parent if output.parent.is_dir() else Path()
    found = [pattern.fullmatch(path.name) for path in folder.iterdir()]
    numbers = sorted((int(m[2]), int(m[1])) for m in found if m)
    if not numbers:
        raise UserError(
            f"{output}: no pieces of it are there; `predict --shard i/n -o` writes them"
        )
    of = numbers[0][0]
    if {size for size, _ in numbers} != {of}:
        raise UserError(f"{output}: pieces of different --shard i/n: remove those you do not want")
    missing = sorted(set(range(1, of + 1)) - {number for _, number in numbers})
    if missing:
        raise UserError(f"{output}: --shard {missing[0]}/{of} is missing ({len(missing)} in all)")
    return [Shard(number, of).path(output) for number in range(1, of + 1)]


def _record(path: Path) -> dict[str, Any] | None:
    """What stands beside a piece, if the piece is as it was written, with an answer to each of its
    inputs.
    """
    try:
        record: Any = json.loads(path.with_name(path.name + ".json").read_bytes())
        names, counts = ("task", "shard"), ("first", "total", "inputs", "answers")
        whole = record["sha256"] == _digest(path) and record["answers"] == record["inputs"]
        whole = whole and all(isinstance(record[name], str) for name in names)
        return record if whole and all(type(record[name]) is int for name in counts) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _sum_of(path: Path) -> str:
    """The checksum of a file, or of a model folder's manifest."""
    path = path / MANIFEST if path.is_dir() else path
    about = path.stat()
    return _remembered(path, about.st_size, about.st_mtime_ns)


@lru_cache(16)
def _remembered(path: Path, size: int, changed: int) -> str:
    """A checksum, taken once as long as the file is not written to."""
    return _digest(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _joined(paths: list[Path]) -> Iterator[str]:
    for path in paths:
        with path.open(encoding="utf-8", newline="\n") as file:
            yield from (line.removesuffix("\n") for line in file)
