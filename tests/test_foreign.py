"""Models that arrive from other toolkits price given answers as those toolkits did.

The checkpoints under `golden/` were made by the toolkits' own code (OpenNMT-py 3.5.1, JoeyNMT
2.3.0, yoyodyne 0.5.27), with random weights, and so were the log-probabilities beside them.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from conftest import Ran
from dragoman.foreign import KNOWN, arrive

GOLDEN = Path(__file__).parent / "golden"
CLASSIFIER = ("classifier.weight", "classifier.bias")
YOYODYNE = ("attlstm", "attgru", "lstm", "gru")
FILES = {
    "opennmt-general": ("opennmt-py", "opennmt-general.pt"),
    "opennmt-mlp": ("opennmt-py", "opennmt-mlp.pt"),
    "opennmt-dot": ("opennmt-py", "opennmt-dot.pt"),
    "joeynmt-bahdanau": ("joeynmt", "joeynmt-bahdanau/best.ckpt"),
    "joeynmt-luong": ("joeynmt", "joeynmt-luong/best.ckpt"),
    **{f"yoyodyne-{kind}": ("yoyodyne", f"yoyodyne-{kind}.ckpt") for kind in YOYODYNE},
}


@pytest.mark.parametrize("name", FILES)
def test_a_model_that_arrives_prices_answers_as_before(name: str, tmp_path: Path) -> None:
    toolkit, file = FILES[name]
    arrive(GOLDEN / file, toolkit, tmp_path / "model")
    wanted = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    predictor = dragoman.load(tmp_path / "model")
    rows = list(zip(wanted["sources"], wanted["targets"], strict=True))
    for scored, log_probs in zip(predictor.score(rows), wanted["log_probs"], strict=True):
        assert scored.log_probs == pytest.approx(log_probs, abs=1e-4)
    (answer,) = predictor.predict([wanted["sources"][0]])
    if answer.alignment is not None:
        assert answer.alignment.shape[1] == len(answer.source)


def test_the_output_layer_of_opennmt_goes_by_either_name(tmp_path: Path) -> None:
    """What its own command saves today is called otherwise than what older ones did."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        content = torch.load(GOLDEN / "opennmt-general.pt", weights_only=True)
    assert set(content["generator"]) == {"0.weight", "0.bias"}
    content["generator"] = {name[2:]: tensor for name, tensor in content["generator"].items()}
    torch.save(content, tmp_path / "new.pt")
    arrive(GOLDEN / "opennmt-general.pt", "opennmt-py", tmp_path / "older")
    arrive(tmp_path / "new.pt", "opennmt-py", tmp_path / "newer")
    older, newer = (tmp_path / name / "model.safetensors" for name in ("older", "newer"))
    assert older.read_bytes() == newer.read_bytes()


def test_trust_must_be_said(verb: Callable[..., Ran], tmp_path: Path) -> None:
    command = ("import", GOLDEN / "opennmt-dot.pt", "--from", "opennmt-py", "-o", tmp_path / "m")
    ran = verb(*command)
    assert ran.code == 2
    assert "--trust" in ran.err
    assert not (tmp_path / "m").exists()
    assert verb(*command, "--trust").code == 0
    assert verb("predict", tmp_path / "m", stdin=b"der Hund\n").code == 0
    assert "sha256" in verb("info", tmp_path / "m").out


def test_a_checkpoint_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(dragoman.UserError, match=r"none\.pt: no such file: name the checkpoint"):
        arrive(tmp_path / "none.pt", "joeynmt", tmp_path / "m")
    with pytest.raises(dragoman.UserError, match="this is a folder"):
        arrive(tmp_path, "joeynmt", tmp_path / "m")


class Trap:
    """A pickle that would run something."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("trapped"),))


def test_what_is_more_than_data_is_refused(
    verb: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Trap()}, tmp_path / "trap.pt")
    ran = verb("import", "trap.pt", "--from", "opennmt-py", "-o", "m", "--trust")
    assert ran.code == 2
    assert "holds more than data" in ran.err
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [("decoder_type", "transformer"), ("copy_attn", True), ("global_attention", "none")],
)
def test_what_does_not_fit_is_refused_by_name(option: str, value: object, tmp_path: Path) -> None:
    with torch.serialization.safe_globals([argparse.Namespace]):
        content = torch.load(GOLDEN / "opennmt-general.pt", weights_only=True)
    setattr(content["opt"], option, value)
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(dragoman.UserError, match=f"-{option}.* has no counterpart"):
        arrive(tmp_path / "other.pt", "opennmt-py", tmp_path / "m")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"_class_path": "yoyodyne.models.TransformerModel"}, "TransformerModel"),
        ({"index": {"features_vocabulary": ["[PL]"]}}, "features_col"),
    ],
)
def test_what_yoyodyne_has_alone_is_refused_by_name(
    changes: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    with torch.serialization.safe_globals(KNOWN):
        content = torch.load(GOLDEN / "yoyodyne-gru.ckpt", weights_only=True)
    content["hyper_parameters"] |= changes
    torch.save(content, tmp_path / "other.ckpt")
    with pytest.raises(dragoman.UserError, match=f"{complaint}.* has no counterpart"):
        arrive(tmp_path / "other.ckpt", "yoyodyne", tmp_path / "m")


def test_columns_that_share_a_table_are_cut_each_by_its_own_symbols(tmp_path: Path) -> None:
    """Letters to phones, as yoyodyne has it unless told otherwise: letters are spelled."""
    with torch.serialization.safe_globals(KNOWN):
        content = torch.load(GOLDEN / "yoyodyne-attlstm.ckpt", weights_only=True)
    own = {"source_vocabulary": ["a", "b"], "target_vocabulary": ["AH", "b"]}
    content["state_dict"] = {
        name: tensor[:-1] if name in ("embeddings.weight", *CLASSIFIER) else tensor
        for name, tensor in content["state_dict"].items()
    }  # of four symbols three are left
    content["hyper_parameters"]["index"] |= own
    torch.save(content, tmp_path / "tied.ckpt")
    config = arrive(tmp_path / "tied.ckpt", "yoyodyne", tmp_path / "m")
    assert (config.data.source.units, config.data.target.units) == ("char", "word")
    (answer,) = dragoman.load(tmp_path / "m").predict(["ab"])
    assert answer.source == ("<s>", "a", "b", "</s>")


def test_a_tensor_that_nobody_takes_is_refused(tmp_path: Path) -> None:
    with torch.serialization.safe_globals([argparse.Namespace]):
        content = torch.load(GOLDEN / "opennmt-general.pt", weights_only=True)
    content["model"]["encoder.extra.weight"] = torch.zeros(1)
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(dragoman.UserError, match=r"no part for 'encoder\.extra\.weight'"):
        arrive(tmp_path / "other.pt", "opennmt-py", tmp_path / "m")
