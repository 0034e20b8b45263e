"""Rows that name sounds and clips which cannot be read: named, counted, refused or left out."""

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import made
from conftest import Ran
from small import settings

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("av")

SOUND: dict[str, Any] = {
    "data": {"source": {"kind": "sound", "max_seconds": 2}, "dev_rows": 4},
    "model": {
        "encoder": {"kind": "sound", "hidden": 4, "layers": 1, "halvings": 1},
        "attention": {"size": 4},
        "decoder": {"hidden": 4, "readout_size": 4},
        "head": {"embedding": 4},
    },
    "train": {"max_steps": 2, "batch_size": 8},
}
VIDEO: dict[str, Any] = {
    **SOUND,
    "data": {"source": {"kind": "video", "height": 12, "width": 12, "frames": 4}, "dev_rows": 4},
    "model": {
        **SOUND["model"],
        "encoder": {"kind": "video", "hidden": 4, "frame": {"kind": "image", "widths": [4]}},
    },
}


def flac(samples: Any, rate: int = 8000) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="FLAC")
    return file.getvalue()


def many_frames() -> bytes:
    """An array file whose header promises a million frames."""
    file = io.BytesIO()
    head = {"descr": "|u1", "fortran_order": False, "shape": (1_000_000, 12, 12, 3)}
    np.lib.format.write_array_header_1_0(file, head)
    return file.getvalue() + bytes(1000)


def array(frames: int) -> bytes:
    file = io.BytesIO()
    np.save(file, made.clip(1, 9)[:frames])
    return file.getvalue()


def no_samples() -> bytes:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(0, np.float32), 8000, format="WAV")
    return file.getvalue()


BROKEN: dict[str, tuple[dict[str, Any], str, Callable[[], bytes], str]] = {
    "a sound cut off": (SOUND, "x.flac", lambda: flac(made.sound(1))[:1000], "no sound"),
    "an empty sound": (SOUND, "x.flac", lambda: b"", "no sound"),
    "0 samples": (SOUND, "x.wav", no_samples, "0 samples"),
    "an hour": (SOUND, "x.flac", lambda: flac(np.zeros(3600 * 8000, np.int16)), "max_seconds=2"),
    "a clip cut off": (VIDEO, "x.npy", lambda: array(9)[:2000], "ends before frame"),
    "an empty clip": (VIDEO, "x.mp4", lambda: b"", "no clip"),
    "0 frames": (VIDEO, "x.npy", lambda: array(0), "0 frames"),
    "a million frames": (VIDEO, "x.npy", many_frames, "1,000,000 frames"),
}


def rows(folder: Path, kind: str, name: str) -> Path:
    """Twenty good rows, and in line 8 one that names `name`."""
    make = {"sound": made.write_sound, "video": made.write_clip}[kind]
    lines = [f"{make(folder, number)}\tword {number % 3}" for number in range(20)]
    lines.insert(7, f"{name}\tword 1")
    table = folder / "rows.tsv"
    table.write_text("\n".join(lines) + "\n", "utf-8")
    return table


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN)
def test_it_is_named_or_left_out_and_counted(
    case: tuple[dict[str, Any], str, Callable[[], bytes], str],
    tmp_path: Path,
    verb: Callable[..., Ran],
) -> None:
    tree, name, content, why = case
    table = rows(tmp_path, tree["data"]["source"]["kind"], name)
    (tmp_path / name).write_bytes(content())
    wanted = ["train", table, "-o", tmp_path / "model", *settings(tree)]
    ran = verb(*wanted)
    assert ran.code == 2
    assert f"{table}:8:" in ran.err
    assert name in ran.err
    assert why in ran.err
    assert "Traceback" not in ran.err
    assert not (tmp_path / "model" / "manifest.json").exists()
    skipped = verb(*wanted, "--on-bad-line", "skip", "--overwrite")
    assert skipped.code == 0
    assert "1 row skipped" in skipped.err
    assert name in skipped.err


@pytest.mark.parametrize("tree", [SOUND, VIDEO], ids=["sound", "video"])
def test_a_missing_file_is_named(
    tree: dict[str, Any], tmp_path: Path, verb: Callable[..., Ran]
) -> None:
    table = rows(tmp_path, tree["data"]["source"]["kind"], "lost.bin")
    ran = verb("train", table, "-o", tmp_path / "model", *settings(tree))
    assert ran.code == 2
    assert f"{table}:8:" in ran.err
    assert "lost.bin" in ran.err
    assert "no such file" in ran.err


def test_a_header_that_lies_trains_and_is_read_to_its_end(
    tmp_path: Path, verb: Callable[..., Ran]
) -> None:
    table = rows(tmp_path, "sound", "lying.wav")
    content = bytearray((tmp_path / "3.wav").read_bytes())
    at = content.find(b"data")
    content[at + 4 : at + 8] = struct.pack("<I", 0x7FFFF000)
    (tmp_path / "lying.wav").write_bytes(content)
    assert verb("train", table, "-o", tmp_path / "model", *settings(SOUND)).code == 0
    ran = verb(
        "predict", tmp_path / "model", stdin=f"{tmp_path}/lying.wav\n{tmp_path}/3.wav".encode()
    )
    first, second = ran.out.splitlines()
    assert first == second
