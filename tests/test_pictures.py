"""Pictures: files of all sorts, tables that name them, the encoder and what it attends to."""

import io
import json
import os
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import dragoman
from dragoman.attention import one_place
from dragoman.data import media
from dragoman.data.files import UnreadableError, locate
from dragoman.data.pictures import ImageField, ImageSpec
from dragoman.encoders.image import AugmentSpec, augmented
from dragoman.encoders.nets import ResNet, load_weights
from dragoman.errors import UserError
from dragoman.objectives import Aims, Drawn, reinforce

SPEC = ImageSpec(height=8, width=8, mean=(0.5,) * 3, std=(0.5,) * 3)
NET = {"kind": "image", "widths": [8, 16], "blocks": 1, "coordinates": True}
TREE: dict[str, Any] = {
    "data": {
        "source": {"kind": "image", "height": 16, "width": 16},
        "target": {"units": "word"},
        "dev_rows": 6,
    },
    "model": {
        "encoder": NET,
        "attention": {"size": 8, "gate": True},
        "decoder": {"cell": "gru", "hidden": 16, "readout_size": 8},
        "head": {"embedding": 8},
    },
    "train": {"max_steps": 120, "batch_size": 12, "lr": 0.01, "evaluate_every": 60},
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def content(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def half(colour: str, other: str = "white") -> Image.Image:
    """The upper half of one colour, the lower of another."""
    image = Image.new("RGB", (16, 16), other)
    image.paste(colour, (0, 0, 16, 8))
    return image


def scenes(folder: Path, count: int, zipped: bool = False) -> Path:
    """A table of pictures and what is on them; the pictures beside it, or in a zip."""
    rows, files = [], {}
    for number in range(count):
        colour = ["red", "blue", "green"][number % 3]
        place = ["above", "below"][number // 3 % 2]
        image = half(colour) if place == "above" else half("white", colour)
        files[f"{number}.png"] = content(image)
        rows.append(f"pics/{number}.png\t{colour} is {place}\n")
    if zipped:
        with zipfile.ZipFile(folder / "pics.zip", "w") as packed:
            for name, body in files.items():
                packed.writestr(name, body)
    else:
        (folder / "pics").mkdir()
        for name, body in files.items():
            (folder / "pics" / name).write_bytes(body)
    table = folder / "train.tsv"
    table.write_text("".join(rows))
    return table


def bomb(side: int) -> bytes:
    """A valid PNG of side × side pixels in few bytes."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    packer, row = zlib.compressobj(9), b"\0" * (1 + (side + 7) // 8)
    body = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        chunk(*part) for part in ((b"IHDR", header), (b"IDAT", body), (b"IEND", b""))
    )


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_the_three_formats_are_read(form: str) -> None:
    pixels = ImageField(SPEC).decode(content(half("red"), form))
    assert pixels.shape == (1, 3, 8, 8)
    assert pixels.dtype == np.uint8
    assert pixels[0, :, 1, 1].astype(int) == pytest.approx([255, 0, 0], abs=12)
    assert pixels[0, :, 6, 6].astype(int) == pytest.approx([255, 255, 255], abs=12)


@pytest.mark.parametrize("side", [12_000, 20_000])
def test_15_a_bomb_is_refused_from_its_header(side: int) -> None:
    packed = bomb(side)
    assert len(packed) < 100_000
    tracemalloc.start()
    with pytest.raises(UnreadableError, match="pixels"):
        ImageField(SPEC).decode(packed)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2_000_000


@pytest.mark.parametrize("form", ["GIF", "BMP", "TIFF", "PPM", "ICO", "EPS"])
def test_15_other_formats_are_refused_unread(form: str) -> None:
    with pytest.raises(UnreadableError, match="not a JPEG, PNG or WEBP"):
        ImageField(SPEC).decode(content(half("red"), form))


def test_15_what_only_begins_like_a_picture_is_refused() -> None:
    whole = content(half("red"), "JPEG")
    tail = content(half("red"), "GIF")
    for broken in (b"", whole[:40], whole[: len(whole) // 2], whole[:3] + tail, b"RIFF0000WEBP"):
        with pytest.raises(UnreadableError):
            ImageField(SPEC).decode(broken)


def test_15_all_sorts_of_pixels_become_the_same() -> None:
    field, red = ImageField(SPEC), half("red")
    notes = Image.Exif()
    notes[0x0112] = 3  # upside down
    turned = field.decode(content(red.rotate(180), exif=notes))
    assert np.array_equal(turned, field.decode(content(red)))
    cmyk = field.decode(content(red.convert("CMYK"), "JPEG", quality=100))
    assert cmyk[0, :, 1, 1].astype(int) == pytest.approx([255, 0, 0], abs=16)
    deep = Image.fromarray(np.full((16, 16), 30_000, np.uint16))
    assert set(field.decode(content(deep)).flatten().tolist()) == {116}
    clear = Image.new("RGBA", (16, 16), (255, 0, 0, 0))
    assert set(field.decode(content(clear)).flatten().tolist()) == {255}
    dot = field.decode(content(Image.new("RGB", (1, 1), (7, 8, 9))))
    assert dot[0, :, 0, 0].tolist() == dot[0, :, 7, 7].tolist() == [7, 8, 9]
    for mode in ("1", "L", "P", "LA"):
        assert field.decode(content(red.convert("L").convert(mode))).shape == (1, 3, 8, 8)


def test_aspects() -> None:
    wide = Image.new("RGB", (32, 8), "black")
    wide.paste("white", (0, 0, 8, 8))

    def seen(aspect: str) -> Any:
        spec = SPEC.model_copy(update={"aspect": aspect, "fill": 99, "colour": "rgb"})
        return ImageField(spec).decode(content(wide))[0, 0]

    assert seen("stretch")[:, 0].tolist() == [255] * 8
    assert seen("stretch")[:, 7].tolist() == [0] * 8
    assert seen("crop").max() == 0  # the white edge is cut off
    assert seen("pad")[0].tolist() == [99] * 8
    assert seen("pad")[3, 0] > 200


@pytest.mark.parametrize("zipped", [False, True])
def test_a_table_names_pictures_beside_it(tmp_path: Path, verb: Callable, zipped: bool) -> None:
    table, folder = scenes(tmp_path, 60, zipped), tmp_path / "model"
    (tmp_path / "tree.yaml").write_text(json.dumps(TREE))
    ran = verb("train", table, "-c", tmp_path / "tree.yaml", "-o", folder)
    assert ran.code == 0, ran.err
    found = json.loads(verb("evaluate", folder, table, "--json", "--metric", "exact").out)
    assert found["exact"]["value"] > 90
    ran = verb("predict", folder, table, "--format", "jsonl")
    answers = [json.loads(line) for line in ran.lines]
    assert len(answers) == 60
    seen = answers[0]["attention"]
    assert (seen["over"], seen["shape"]) == ("grid", [4, 4])
    assert len(seen["weights"]) == len(answers[0]["tokens"])
    assert all(sum(row) == pytest.approx(1, abs=0.01) for row in seen["weights"])
    config = dragoman.load(folder).config.data.source
    assert len(config.mean) == 3
    assert min(config.std) > 0


def test_14_broken_pictures_are_named_counted_and_skipped_by_policy(
    tmp_path: Path, verb: Callable
) -> None:
    table = scenes(tmp_path, 40)
    (tmp_path / "pics" / "3.png").unlink()
    whole = (tmp_path / "pics" / "5.png").read_bytes()
    (tmp_path / "pics" / "5.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "pics" / "7.png").write_text("no picture")
    tree = TREE | {"train": {"max_steps": 2, "batch_size": 8}}
    (tmp_path / "tree.yaml").write_text(json.dumps(tree))
    given = ("train", table, "-c", tmp_path / "tree.yaml", "-o", tmp_path / "model")
    ran = verb(*given)
    assert ran.code == 2
    assert f"{table}:4: {tmp_path / 'pics' / '3.png'}: no such file" in ran.err
    ran = verb(*given, "--on-bad-line", "skip")
    assert ran.code == 0, ran.err
    assert f"{table}:6: {tmp_path / 'pics' / '5.png'}: a broken PNG" in ran.err
    assert f"{table}:8: {tmp_path / 'pics' / '7.png'}: not a JPEG" in ran.err
    assert sum("skipped" in line for line in ran.err.splitlines()) in (1, 2)
    ran = verb("predict", tmp_path / "model", table)
    assert (ran.code, len(ran.lines)) == (0, 40)
    assert ran.err.count("no answer to") == 3
    with pytest.raises(UserError, match="no such file"):
        dragoman.load(tmp_path / "model")(str(tmp_path / "pics" / "3.png"))


def test_14_where_no_picture_can_be_read_it_says_why(tmp_path: Path, verb: Callable) -> None:
    table = scenes(tmp_path, 20)
    for picture in (tmp_path / "pics").iterdir():
        picture.unlink()
    (tmp_path / "tree.yaml").write_text(json.dumps(TREE))
    ran = verb("train", table, "-c", tmp_path / "tree.yaml", "-o", tmp_path / "model")
    assert ran.code == 2
    assert ".png: no such file, nor in a zip beside it; none of the pictures" in ran.err
    assert "as seen from the table's own folder" in ran.err


def test_what_was_decoded_is_kept_until_a_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(media, "WORTH", 4)
    scenes(tmp_path, 6)
    names = [str(tmp_path / "pics" / f"{number}.png") for number in (0, 1, 2, 0, 3)]
    field = ImageField(SPEC)
    first, bad = field.read(names)
    assert not bad
    (kept,) = cache.iterdir()
    stamp = (kept / "rows").stat().st_mtime_ns
    second, _ = field.read(names)
    assert (kept / "rows").stat().st_mtime_ns == stamp
    assert torch.equal(first.pad(range(5)).values, second.pad(range(5)).values)
    assert np.array_equal(second[0], second[3])
    Path(names[1]).write_bytes(content(half("black")))
    third, _ = field.read(names)
    assert len(list(cache.iterdir())) == 2
    assert not np.array_equal(third[1], first[1])
    (kept / "about.json").unlink()  # as if somebody had been stopped while clearing up
    assert np.array_equal(field.read(names)[0][0], first[0])


def test_several_processes_read_what_one_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(media, "WORTH", 4)
    monkeypatch.setattr(media.os, "cpu_count", lambda: 2)
    scenes(tmp_path, 70, zipped=True)
    names = [str(tmp_path / "pics" / f"{number}.png") for number in range(70)]
    names[11] = str(tmp_path / "pics" / "none.png")
    many, bad = ImageField(SPEC).read(names)
    assert list(bad) == [11]
    monkeypatch.setattr(media, "WORTH", 10_000)
    alone, _ = ImageField(SPEC).read(names)
    assert np.array_equal(many.lengths, alone.lengths)
    assert all(np.array_equal(many[row], alone[row]) for row in range(70))


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "WORTH", 4)
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "file" / "cache"))
    scenes(tmp_path, 6)
    names = [str(tmp_path / "pics" / f"{number}.png") for number in range(6)]
    column, bad = ImageField(SPEC).read(names)
    assert (len(column), bad) == (6, {})


def test_those_who_are_slower_or_were_stopped_spoil_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(media, "WORTH", 4)
    scenes(tmp_path, 6)
    names = [str(tmp_path / "pics" / f"{number}.png") for number in range(6)]
    field = ImageField(SPEC)
    left = cache / ".image-abc.123"  # by a process that was killed long ago
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    first, _ = field.read(names)
    (kept,) = cache.iterdir()
    before = (kept / "rows").stat().st_ino
    field._build(kept, [locate(name) for name in reversed(names)])  # it comes too late
    assert list(cache.iterdir()) == [kept]
    assert (kept / "rows").stat().st_ino == before
    assert np.array_equal(field.read(names)[0][0], first[0])


def test_pictures_are_varied_in_training_alone() -> None:
    pictures = torch.arange(2 * 3 * 6 * 6.0).view(2, 3, 6, 6)
    assert torch.equal(augmented(pictures, AugmentSpec()), pictures)
    torch.manual_seed(1)
    flipped = augmented(pictures.repeat(8, 1, 1, 1), AugmentSpec(flip=True))
    kinds = {bool(torch.equal(one, pictures[i % 2])) for i, one in enumerate(flipped)}
    assert kinds == {True, False}
    for i, one in enumerate(flipped):
        assert torch.equal(one, pictures[i % 2]) or torch.equal(one.flip(-1), pictures[i % 2])
    moved = augmented(torch.ones(4, 3, 6, 6), AugmentSpec(shift=2, colour=0.5))
    assert moved.amax() <= 1.5
    assert moved.amin() >= 0.5
    assert len({float(one.mean()) for one in moved}) == 4


def test_resnets_have_the_usual_names_shapes_and_sizes() -> None:
    counts = {"resnet18": 11_176_512, "resnet34": 21_284_672, "resnet50": 23_508_032}
    for name, count in counts.items():  # as published, without the classifier
        with torch.device("meta"):
            net = ResNet(3, name)
        assert sum(p.numel() for p in net.parameters()) == count
        assert net.halvings == 5
    names = {key: tuple(value.shape) for key, value in net.state_dict().items()}
    assert names["conv1.weight"] == (64, 3, 7, 7)
    assert names["layer1.0.downsample.0.weight"] == (256, 64, 1, 1)
    assert names["layer3.5.conv2.weight"] == (256, 256, 3, 3)
    assert names["layer4.2.bn3.running_var"] == (2048,)
    assert "layer4.1.downsample.0.weight" not in names
    assert len(names) == 5 * 53  # a weight, a scale, a shift and two statistics for each
    small = ResNet(3, "resnet18").eval()
    with torch.no_grad():
        x = torch.zeros(1, 64, 16, 16)
        assert small.layer1(x).shape == (1, 64, 16, 16)
        assert small.layer2(small.layer1(x)).shape == (1, 128, 8, 8)
        assert small(torch.zeros(1, 3, 64, 96)).shape == (1, 512, 2, 3)


def published(path: Path) -> dict[str, torch.Tensor]:
    """Weights as people publish them, with a classifier and counts of batches."""
    torch.manual_seed(3)
    given = ResNet(3, "resnet18").state_dict()
    extra = {"fc.weight": torch.ones(10, 512), "bn1.num_batches_tracked": torch.tensor(7)}
    save_file(given | extra, path)
    return given


def test_weights_of_a_file_fit_or_are_refused(tmp_path: Path) -> None:
    given, net = published(tmp_path / "resnet18.safetensors"), ResNet(3, "resnet18")
    assert load_weights(net, tmp_path / "resnet18.safetensors") == len(given)
    assert all(torch.equal(tensor, given[name]) for name, tensor in net.state_dict().items())
    save_file({"conv1.weight": torch.ones(1)}, tmp_path / "odd.safetensors")
    with pytest.raises(UserError, match="on one side only"):
        load_weights(net, tmp_path / "odd.safetensors")
    save_file(given | {"conv1.weight": torch.ones(1)}, tmp_path / "odd.safetensors")
    with pytest.raises(UserError, match="'conv1\\.weight' is"):
        load_weights(net, tmp_path / "odd.safetensors")
    (tmp_path / "bad.safetensors").write_text("no")
    with pytest.raises(UserError, match="not a safetensors file"):
        load_weights(net, tmp_path / "bad.safetensors")


@pytest.mark.slow
def test_weights_of_a_file_are_the_beginning(tmp_path: Path) -> None:
    given = published(tmp_path / "resnet18.safetensors")
    net = {"net": "resnet18", "frozen": True, "weights": str(tmp_path / "resnet18.safetensors")}
    tree = {
        "model": {"encoder": net},
        "data": {"source": {"height": 16, "width": 16}, "dev_rows": 6},
        "train": {"max_steps": 2, "batch_size": 8},
    }
    rows = [line.split("\t") for line in scenes(tmp_path, 24).read_text().splitlines()]
    pairs = [(str(tmp_path / name), told) for name, told in rows]
    model = dragoman.train(
        pairs, tmp_path / "model", recipe="image-classify", config=tree, quiet=True
    )
    for name, tensor in model.model.encoder.net.state_dict().items():
        assert torch.equal(tensor, given[name]), name
    (tmp_path / "resnet18.safetensors").unlink()  # the model folder holds all it needs
    assert dragoman.load(tmp_path / "model")(pairs[0][0]).text


@pytest.mark.parametrize("hard", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_resumed_run_is_the_same_run(tmp_path: Path, hard: bool) -> None:
    """Statistics of batches and the baseline of hard attention are part of a checkpoint."""
    net = {"kind": "image", "net": "resnet18", "augment": {"flip": True}}
    tree = TREE | {
        "model": TREE["model"]
        | {"encoder": NET if hard else net, "attention": {"size": 8, "gate": True, "hard": hard}},
        "train": {
            "max_steps": 4,
            "batch_size": 8,
            "evaluate_every": 2,
            "doubly_stochastic": 1.0,
        },
    }
    rows = [line.split("\t") for line in scenes(tmp_path, 30).read_text().splitlines()]
    pairs = [(str(tmp_path / name), told) for name, told in rows]
    whole = dragoman.train(pairs, tmp_path / "whole", config=tree, quiet=True)
    short = tree | {"train": tree["train"] | {"max_steps": 2}}
    dragoman.train(pairs, tmp_path / "half", config=short, quiet=True)
    again = dragoman.train(pairs, tmp_path / "half", config=tree, resume=True, quiet=True)
    mine, theirs = whole.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    kept = "decoder.baseline" if hard else "encoder.net.bn1.running_mean"
    assert mine[kept].abs().sum() > 0


def test_hard_attention_learns_from_what_its_draws_were_worth() -> None:
    """Of four places one helps: REINFORCE finds it, entropy keeps it from being sure."""

    def learned(entropy: float) -> float:
        torch.manual_seed(2)
        logits, baseline = torch.zeros(4, requires_grad=True), torch.zeros(())
        memory, steps = torch.eye(4).expand(32, 4, 4), torch.ones(32, 1, dtype=torch.bool)
        for _ in range(150):
            weights = logits.softmax(-1).expand(32, 1, 4)
            seen, places = one_place(weights.detach(), memory, drawn=True)
            assert torch.equal(seen.argmax(-1), places)
            gained = (places[:, 0] == 2).float()
            loss = reinforce(
                Drawn(weights, places, steps), gained, baseline, Aims(reward=1.0, entropy=entropy)
            )
            (grad,) = torch.autograd.grad(loss / 32, logits)
            baseline = baseline.lerp(gained.mean(), 0.1)
            logits = (logits - 0.5 * grad).detach().requires_grad_()
        return float(logits.detach().softmax(-1)[2])

    assert learned(0.0) > 0.9
    assert 0.3 < learned(1.0) < 0.8


def test_rows_that_drew_nothing_teach_nothing() -> None:
    weights = torch.full((2, 1, 4), 0.25, requires_grad=True)
    drawn = Drawn(weights, torch.tensor([[-1], [3]]), torch.ones(2, 1, dtype=torch.bool))
    loss = reinforce(drawn, torch.tensor([5.0, 1.0]), torch.tensor(0.0), Aims(reward=1.0))
    (grad,) = torch.autograd.grad(loss, weights)
    assert grad[0].abs().sum() == 0
    assert grad[1, 0].tolist() == [0, 0, 0, -4]


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="when=before"):
        dragoman.train(
            [("a", "b")] * 4,
            tmp_path / "model",
            config={"model": {"attention": {"hard": True, "when": "after"}}},
        )
    with pytest.raises(UserError, match="3 numbers"):
        ImageField(ImageSpec(mean=(0.5,), std=(0.5,)))
