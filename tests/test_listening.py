"""Models that listen and watch, from files to answers: means, masks, labels, attention."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import dragoman
import made
from conftest import Ran
from dragoman.core import Padded
from dragoman.data.sound import SoundField, SoundSpec
from dragoman.demo import clips, senses, speech
from dragoman.encoders.sound import Masking, MaskingSpec, Sound
from dragoman.encoders.sound import SoundSpec as EncoderSpec
from dragoman.errors import UserError

pytest.importorskip("soundfile")
pytest.importorskip("av")

HEAR = {"kind": "sound", "hidden": 4, "layers": 2, "halvings": 1, "front": 2}
WATCH = {"kind": "video", "hidden": 4, "frame": {"kind": "image", "widths": [4]}}
SMALL: dict[str, Any] = {
    "attention": {"size": 4},
    "decoder": {"hidden": 4, "readout_size": 4},
    "head": {"embedding": 4},
}
Pairs = list[tuple[str, str]]
BRIEF = {"max_steps": 2, "batch_size": 8}


def rows(folder: Path, make: Callable[[Path, int], str], count: int = 12) -> Pairs:
    return [(str(folder / make(folder, n)), f"word {n % 3}") for n in range(count)]


def trained(
    folder: Path,
    source: dict[str, Any],
    model: dict[str, Any],
    pairs: Pairs,
    **more: Any,
) -> dragoman.Predictor:
    tree = {"data": {"dev_rows": 2, "source": source}, "model": model, "train": BRIEF}
    return dragoman.train(pairs, folder / "model", config=tree, quiet=True, **more)


def test_means_of_the_training_sounds_stay_in_the_folder(tmp_path: Path) -> None:
    pairs = rows(tmp_path, made.write_sound)
    source = {"kind": "sound", "rate": 8000, "bands": 8, "normalize": "global"}
    trained(tmp_path, source, {"encoder": HEAR, **SMALL}, pairs)
    kept = yaml.safe_load((tmp_path / "model" / "config.yaml").read_text())["data"]["source"]
    assert len(kept["mean"]) == len(kept["std"]) == 8
    loaded = dragoman.load(tmp_path / "model").fields.sources["source"]
    assert list(loaded.spec.mean) == kept["mean"]


def test_bands_are_normalised_by_the_training_sounds(tmp_path: Path) -> None:
    names = [name for name, _ in rows(tmp_path, made.write_sound)]
    field = SoundField.learn(SoundSpec(rate=8000, bands=8, normalize="global"), names)
    column, bad = field.read(names)
    values = column.pad(range(len(names))).values.flatten(0, 1)
    assert not bad
    assert values.mean(0).abs().max() < 1e-3
    assert (values.std(0) - 1).abs().max() < 1e-2


def test_an_utterance_is_normalised_by_itself(tmp_path: Path) -> None:
    names = [name for name, _ in rows(tmp_path, made.write_sound, 3)]
    field = SoundField(SoundSpec(rate=8000, bands=8))
    together, alone = field.read(names)[0].pad([0, 1, 2]), field.read(names[1:2])[0].pad([0])
    assert torch.allclose(together.values[1], alone.values[0], atol=1e-5)
    assert together.values[0].mean(0).abs().max() < 1e-4
    assert (together.values[0].var(0, correction=0) - 1).abs().max() < 1e-2


def test_statistics_of_other_bands_are_refused() -> None:
    with pytest.raises(UserError, match="8 numbers, not 2"):
        SoundField(SoundSpec(bands=8, normalize="global", mean=(1.0, 2.0)))


def test_masks_hide_bands_and_times_in_training_alone() -> None:
    spec = EncoderSpec(hidden=3, layers=1, halvings=0, masking=MaskingSpec(bands=0.5, times=0.5))
    given = Padded(torch.randn(4, 20, 8), torch.arange(20) < torch.tensor([[20], [15], [9], [0]]))
    encoder = Sound(spec, 8)
    still = encoder.eval()(given).summary
    assert torch.equal(still, encoder(given).summary)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(encoder.train()(given).summary)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    masked = Masking(MaskingSpec(masks=1, bands=0.5, times=0.0))(given.values, given.mask)
    hidden = (masked == 0).all(1)  # (B, bands): a whole band, or nothing of it
    assert torch.equal(hidden, (masked == 0).any(1))
    assert (hidden.sum(1) <= 4).all()


@pytest.mark.parametrize("sense", ["sound", "video"])
def test_attention_tells_what_it_lies_over(
    sense: str, tmp_path: Path, verb: Callable[..., Ran]
) -> None:
    heard = sense == "sound"
    source = {"kind": sense} | ({"rate": 8000} if heard else {"height": 8, "width": 8, "frames": 3})
    pairs = rows(tmp_path, made.write_sound if heard else made.write_clip)
    model = trained(tmp_path, source, {"encoder": HEAR if heard else WATCH, **SMALL}, pairs)
    ran = verb("predict", tmp_path / "model", "--format", "jsonl", stdin=pairs[0][0].encode())
    seen = json.loads(ran.out)["attention"]
    assert seen["over"] == ("times" if heard else "frames")
    assert seen["shape"] == [3]  # 17 frames of sound by eights, or three frames of a clip
    if heard:
        assert seen["times"] == [0.035, 0.115, 0.195]
    (answer,) = model.predict([pairs[0][0]])
    assert answer.attention is not None
    assert np.allclose(answer.attention.weights.sum(1), 1, atol=1e-5)


def test_each_frame_of_a_clip_has_a_label(tmp_path: Path) -> None:
    pairs = [
        (
            str(tmp_path / made.write_clip(tmp_path, n, frames=3 + n % 3)),
            "a b a b a"[: 5 + n % 3 * 2],
        )
        for n in range(12)
    ]
    source = {"kind": "video", "height": 8, "width": 8}
    model = trained(tmp_path, source, {"encoder": WATCH}, pairs, recipe="tag")
    found = model.predict([name for name, _ in pairs])
    assert [len(one.tokens) for one in found] == [3 + n % 3 for n in range(12)]
    uneven = [*pairs, (pairs[0][0], "a b")]
    with pytest.raises(UserError, match="3 places but 2 tags"):
        trained(tmp_path / "odd", source, {"encoder": WATCH}, uneven, recipe="tag")


@pytest.mark.parametrize("show", [senses.SPEECH, senses.CLIPS], ids=["speech", "clips"])
def test_the_demonstrations_run(
    show: senses.Show,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(senses, "HELD_OUT", 4)
    monkeypatch.setattr(speech, "can_speak", lambda: False)
    senses.show(show, tmp_path / "demo", pairs=12, steps=2)
    told = capsys.readouterr().out
    assert "12 pairs to learn from" in told
    assert "Held out:" in told
    assert (tmp_path / "demo" / "manifest.json").exists()


@pytest.mark.skipif(not speech.can_speak(), reason="espeak-ng is not installed")
def test_a_voice_can_be_heard() -> None:
    spoken = speech.speak("three one four", seed=1)
    assert 0.5 < len(spoken) / speech.RATE < 4
    assert abs(spoken).max() > 0.05
    assert np.array_equal(spoken, speech.speak("three one four", seed=1))


def test_shapes_move_as_the_sentence_says() -> None:
    for seed, (colour, shape, ways) in enumerate(clips.scripts(20, seed=3)):
        bright = clips.draw(colour, shape, ways, seed).max(3) > 150
        centre = np.array([np.argwhere(frame).mean(0) for frame in bright])[:, ::-1]
        legs = np.array_split(centre, len(ways))
        for way, leg in zip(ways, legs, strict=True):
            moved = leg[-1] - leg[0]
            assert np.argmax(abs(moved)) == np.argmax(np.abs(clips.WAYS[way]))
            assert np.sign(moved[np.argmax(abs(moved))]) == sum(clips.WAYS[way])
