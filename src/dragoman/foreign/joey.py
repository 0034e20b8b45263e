"""JoeyNMT: recurrent encoders and decoders with Bahdanau's or Luong's attention.

A checkpoint holds tensors alone: config.yaml and the two vocabularies lie beside it.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import UserError
from dragoman.foreign.parts import Alphabet, Arrived, Tensors, cell, fed, layers, refuse_unless
from dragoman.recipes import read_yaml

SCORES = {"bahdanau": "mlp", "luong": "bilinear"}
SIGNS = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>"}


def read(content: Any, path: Path) -> Arrived:
    """A checkpoint of version 2 as our parts."""
    try:
        tensors = Tensors(content["model_state"])
    except (KeyError, TypeError):
        raise UserError(f"{path}: not a checkpoint of JoeyNMT") from None
    config = read_yaml(path.parent / "config.yaml")
    encoder, decoder = config["model"]["encoder"], config["model"]["decoder"]
    _check(config, encoder, decoder)
    special = config["data"].get("special_symbols", {})
    signs = {sign: special.get(f"{sign}_token", usual) for sign, usual in SIGNS.items()}
    source, target = (
        Alphabet.of(_lines(path.parent / f"{side}_vocab.txt"), **signs) for side in ("src", "trg")
    )
    weights = _weights(tensors, encoder, decoder, (source, target))
    for name in [name for name in tensors.left if name.startswith("loss_function.")]:
        tensors.take(name)
    tensors.finish()
    symbols = {"source": source.symbols, "target": target.symbols}
    return Arrived(_tree(config, encoder, decoder), symbols, weights)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: the vocabulary cannot be read: {error}") from None


def _check(config: dict[str, Any], encoder: dict[str, Any], decoder: dict[str, Any]) -> None:
    for name, part in (("encoder", encoder), ("decoder", decoder)):
        kind, cell_kind = part.get("type", "recurrent"), part.get("rnn_type", "gru")
        refuse_unless(kind == "recurrent", f"model.{name}.type: {kind}")
        refuse_unless(cell_kind in ("gru", "lstm"), f"model.{name}.rnn_type: {cell_kind}")
    score = decoder.get("attention", "bahdanau")
    refuse_unless(score in SCORES, f"model.decoder.attention: {score}")
    activation = decoder.get("activation", "tanh")
    refuse_unless(activation == "tanh", f"model.decoder.activation: {activation}")
    start, cells = decoder.get("init_hidden", "bridge"), decoder.get("rnn_type", "gru")
    fits = start == "zero" or (start == "bridge" and cells == "gru")  # an LSTM's memory starts at 0
    refuse_unless(fits, f"model.decoder.init_hidden: {start} (with {cells})")
    for side in ("src", "trg"):
        level = config["data"].get(side, {}).get("level", "word")
        refuse_unless(level in ("word", "bpe"), f"data.{side}.level: {level}")


def _weights(
    tensors: Tensors,
    encoder: dict[str, Any],
    decoder: dict[str, Any],
    alphabets: tuple[Alphabet, Alphabet],
) -> dict[str, Tensor]:
    source, target = alphabets
    tables = [
        _scaled(alphabet.arrange(tensors.take(f"{name}_embed.lut.weight")), part)
        for name, alphabet, part in (("src", source, encoder), ("trg", target, decoder))
    ]
    count, deep = decoder.get("num_layers", 1), encoder.get("num_layers", 1)
    both, looks = encoder.get("bidirectional", True), "decoder.attention"
    found = {
        "encoder.table.weight": tables[0],
        "head.table.weight": tables[1],
        "head.weight": target.arrange(tensors.take("decoder.output_layer.weight")),
        "head.bias": torch.zeros(len(target.rows)),
        "decoder.readout.mix.weight": tensors.take("decoder.att_vector_layer.weight"),
        "decoder.readout.mix.bias": tensors.take("decoder.att_vector_layer.bias"),
        f"{looks}.key.weight": tensors.take(f"{looks}.key_layer.weight"),
        **layers(tensors, "encoder.rnn", "encoder.reader.layers", deep, both),
    }
    for level in range(count):
        found |= cell(tensors, f"decoder.rnn.{{}}_l{level}", f"decoder.stack.cells.{level}")
    if decoder.get("input_feeding", True):
        found = fed(found, tables[1].size(1))
    if decoder.get("init_hidden", "bridge") == "bridge":  # the same start for all layers
        for kind in ("weight", "bias"):
            bridge = tensors.take(f"decoder.bridge_layer.{kind}")
            found[f"decoder.bridge.{kind}"] = torch.cat([bridge] * count)
    if decoder.get("attention", "bahdanau") == "bahdanau":
        query = tensors.take(f"{looks}.query_layer.weight")
        found[f"{looks}.query.weight"] = query
        found[f"{looks}.query.bias"] = query.new_zeros(len(query))
        found["decoder.attention.score.weight"] = tensors.take(
            "decoder.attention.energy_layer.weight"
        )
    return found


def _scaled(table: Tensor, part: dict[str, Any]) -> Tensor:
    """Embeddings that are multiplied when they are read, multiplied for good."""
    scale = part.get("embeddings", {}).get("scale", False)
    return table * table.size(1) ** 0.5 if scale else table


def _tree(
    config: dict[str, Any], encoder: dict[str, Any], decoder: dict[str, Any]
) -> dict[str, Any]:
    data = config["data"]
    lower = {side: bool(data.get(side, {}).get("lowercase", False)) for side in ("src", "trg")}
    hidden = decoder["hidden_size"]
    return {
        "recipe": "joeynmt",
        "data": {
            "source": {"units": "word", "normalize": "none", "lower": lower["src"]},
            "target": {"units": "word", "normalize": "none", "lower": lower["trg"]},
        },
        "model": {
            "encoder": {
                "cell": encoder.get("rnn_type", "gru"),
                "embedding": encoder["embeddings"]["embedding_dim"],
                "hidden": encoder["hidden_size"],
                "layers": encoder.get("num_layers", 1),
                "bidirectional": encoder.get("bidirectional", True),
            },
            "attention": {
                "score": SCORES[decoder.get("attention", "bahdanau")],
                "size": hidden,
                "when": "after",
                "feed": decoder.get("input_feeding", True),
            },
            "decoder": {
                "cell": decoder.get("rnn_type", "gru"),
                "hidden": hidden,
                "layers": decoder.get("num_layers", 1),
                "start": "zero" if decoder.get("init_hidden", "bridge") == "zero" else "dense",
                "readout": "tanh",
                "readout_size": hidden,
            },
            "head": {"embedding": decoder["embeddings"]["embedding_dim"]},
        },
    }
