"""OpenNMT-py: recurrent encoders and decoders with Luong's attention and input feeding."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import UserError
from dragoman.foreign.parts import (
    Alphabet,
    Arrived,
    Tensors,
    cell,
    fed,
    layers,
    refuse_unless,
)

SCORES = {"general": "bilinear", "dot": "dot", "mlp": "mlp"}
LUT = "{}.embeddings.make_embedding.emb_luts.0.weight"


def read(content: Any, path: Path) -> Arrived:
    """A checkpoint of version 3 as our parts."""
    try:
        options, vocabularies = vars(content["opt"]), content["vocab"]
        tensors = Tensors({**content["model"], **_generator(content)})
        tokens = {side: [str(token) for token in vocabularies[side]] for side in ("src", "tgt")}
    except (KeyError, TypeError):
        raise UserError(f"{path}: not a checkpoint of OpenNMT-py 3") from None
    _check(options, vocabularies)
    signs = ("<blank>", "<s>", "</s>", "<unk>")
    source, target = (Alphabet.of(tokens[side], *signs) for side in ("src", "tgt"))
    weights = _weights(tensors, options, source, target)
    tensors.finish()
    return Arrived(
        _tree(options, weights), {"source": source.symbols, "target": target.symbols}, weights
    )


def _generator(content: Any) -> dict[str, Tensor]:
    """The output layer, which stands apart; in older checkpoints, as the first of two."""
    found = (content["generator"] or {}).items()
    return {f"generator.{name.removeprefix('0.')}": tensor for name, tensor in found}


def _check(options: dict[str, Any], vocabularies: Any) -> None:
    refuse_unless(
        options["encoder_type"] in ("rnn", "brnn"), f"-encoder_type {options['encoder_type']}"
    )
    refuse_unless(options["decoder_type"] == "rnn", f"-decoder_type {options['decoder_type']}")
    refuse_unless(options["rnn_type"] in ("LSTM", "GRU"), f"-rnn_type {options['rnn_type']}")
    score = options.get("global_attention")
    refuse_unless(score in SCORES, f"-global_attention {score}")
    function = options.get("global_attention_function", "softmax")
    refuse_unless(function == "softmax", f"-global_attention_function {function}")
    for flag in ("copy_attn", "coverage_attn", "bridge", "context_gate"):
        refuse_unless(not options.get(flag), f"-{flag}")
    refuse_unless(not vocabularies.get("src_feats"), "-n_src_feats")
    start = vocabularies.get("decoder_start_token", "<s>")
    refuse_unless(start == "<s>", f"-decoder_start_token {start}")


def _weights(
    tensors: Tensors, options: dict[str, Any], source: Alphabet, target: Alphabet
) -> dict[str, Tensor]:
    feeds, count = bool(options["input_feed"]), options["dec_layers"]
    both = options["encoder_type"] == "brnn"
    table = target.arrange(tensors.take(LUT.format("decoder")))
    found = {
        "encoder.table.weight": source.arrange(tensors.take(LUT.format("encoder"))),
        "head.table.weight": table,
        "head.weight": target.arrange(tensors.take("generator.weight")),
        "head.bias": target.arrange(tensors.take("generator.bias")[:, None])[:, 0],
        **layers(tensors, "encoder.rnn", "encoder.reader.layers", options["enc_layers"], both),
    }
    for level in range(count):
        theirs = f"decoder.rnn.layers.{level}.{{}}" if feeds else f"decoder.rnn.{{}}_l{level}"
        found |= cell(tensors, theirs, f"decoder.stack.cells.{level}")
    found = fed(found, table.size(1)) if feeds else found
    return found | _attention(tensors, options["global_attention"], found)


def _attention(tensors: Tensors, score: str, found: dict[str, Tensor]) -> dict[str, Tensor]:
    stem = "decoder.attn"
    out = tensors.take(f"{stem}.linear_out.weight")  # reads the context, then the state
    width = out.size(1) // 2
    mix = torch.cat([out[:, width:], out[:, :width]], 1)
    if score != "mlp":
        weights = {
            "decoder.readout.mix.weight": mix,
            "decoder.readout.mix.bias": mix.new_zeros(len(mix)),
        }
        if score == "general":
            weights["decoder.attention.key.weight"] = tensors.take(
                f"{stem}.linear_in.weight"
            ).T.contiguous()
        return weights
    bias = tensors.take(f"{stem}.linear_out.bias")
    return {  # no tanh above this one: the larger of two equal numbers is a linear layer
        "decoder.readout.mix.weight": mix.repeat_interleave(2, 0),
        "decoder.readout.mix.bias": bias.repeat_interleave(2, 0),
        "decoder.attention.key.weight": tensors.take(f"{stem}.linear_context.weight"),
        "decoder.attention.query.weight": tensors.take(f"{stem}.linear_query.weight"),
        "decoder.attention.query.bias": tensors.take(f"{stem}.linear_query.bias"),
        "decoder.attention.score.weight": tensors.take(f"{stem}.v.weight"),
    }


def _tree(options: dict[str, Any], weights: dict[str, Tensor]) -> dict[str, Any]:
    both, kind = options["encoder_type"] == "brnn", options["rnn_type"].lower()
    hidden, score = options["dec_hid_size"], options["global_attention"]
    return {
        "recipe": "opennmt-py",
        "data": {
            "source": {"units": "word", "normalize": "none", "signs": "none"},
            "target": {"units": "word", "normalize": "none"},
        },
        "model": {
            "encoder": {
                "cell": kind,
                "embedding": weights["encoder.table.weight"].size(1),
                "hidden": options["enc_hid_size"] // (2 if both else 1),
                "layers": options["enc_layers"],
                "bidirectional": both,
            },
            "attention": {
                "score": SCORES[score],
                "size": hidden,
                "when": "after",
                "feed": bool(options["input_feed"]),
            },
            "decoder": {
                "cell": kind,
                "hidden": hidden,
                "layers": options["dec_layers"],
                "start": "copy",
                "readout": "maxout" if score == "mlp" else "tanh",
                "readout_size": hidden,
            },
            "head": {"embedding": weights["head.table.weight"].size(1)},
        },
    }
