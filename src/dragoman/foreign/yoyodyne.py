"""yoyodyne: recurrent encoders and decoders, with soft attention or with one vector at every step.

A checkpoint of its command line holds tensors, options and the vocabularies. Embeddings are one
table for both sides; the decoder starts from a learned state.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.errors import UserError
from dragoman.foreign.parts import Alphabet, Arrived, Tensors, cell, fed, layers, refuse_unless

INDEX = "yoyodyne.data.indexes._reconstruct_index"  # the one name in a checkpoint; read as a dict
KINDS = {
    "GRUModel": ("gru", False),
    "LSTMModel": ("lstm", False),
    "SoftAttentionGRUModel": ("gru", True),
    "SoftAttentionLSTMModel": ("lstm", True),
}
SIGNS = ["<P>", "<UNK>", "<S>", "<E>", "<SOURCE>", "<FEATURES>"]
GATES = {3: "gru", 4: "lstm"}


def read(content: Any, path: Path) -> Arrived:
    """A checkpoint of version 0.5 as our parts."""
    try:
        options, tensors = content["hyper_parameters"], Tensors(content["state_dict"])
        index, name = dict(options["index"]), str(options["_class_path"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path}: not a checkpoint of yoyodyne's command line") from None
    kind = name.rpartition(".")[2]
    refuse_unless(kind in KINDS, f"model.class_path: {name}")
    refuse_unless(not index["features_vocabulary"], "data.features_col")
    width = options.get("decoder_input_size")
    projected = tensors.has("source_projection.weight")
    refuse_unless(not projected, f"model.init_args.decoder_input_size: {width}")
    tied = bool(index["tie_embeddings"])
    read, written = _symbols(index, tied)
    source, target = _alphabets(read, written, tied)
    weights = _weights(tensors, (source, target), KINDS[kind][1])
    tensors.finish()
    units = {"source": _units(read), "target": _units(written)}
    tree = _tree(weights, units, KINDS[kind], options)
    return Arrived(tree, {"source": source.symbols, "target": target.symbols}, weights)


def _symbols(index: dict[str, Any], tied: bool) -> tuple[list[str], list[str]]:
    """Of both columns. Braces tell the source's from the target's where the table is not shared."""
    read, written = list(index["source_vocabulary"]), list(index["target_vocabulary"] or [])
    return (read if tied else [symbol[1:-1] for symbol in read]), written


def _alphabets(read: list[str], written: list[str], tied: bool) -> tuple[Alphabet, Alphabet]:
    """Of both columns, as rows of the one table: target first, then the source, if they differ."""
    signs = {"pad": "<P>", "bos": "<S>", "eos": "<E>", "unk": "<UNK>"}
    if tied:
        whole = Alphabet.of([*SIGNS, *sorted({*read, *written})], **signs)
        return whole, whole
    target = Alphabet.of([*SIGNS, *written], **signs)
    first = len(SIGNS) + len(written)
    places = [SIGNS.index(signs[sign]) for sign in ("pad", "bos", "eos", "unk")]
    return Alphabet(read, [*places, *range(first, first + len(read))]), target


def _weights(
    tensors: Tensors, alphabets: tuple[Alphabet, Alphabet], attends: bool
) -> dict[str, Tensor]:
    source, target = alphabets
    table, reader = tensors.take("embeddings.weight"), "source_encoder.module"
    deep = _count(tensors, f"{reader}.weight_ih_l{{}}")
    both = tensors.has(f"{reader}.weight_ih_l0_reverse")
    count = _count(tensors, "decoder.module.weight_ih_l{}")
    starts = [tensors.take(f"decoder.{name}") for name in ("h0", "c0")[: _slots(tensors)]]
    found = {
        "encoder.table.weight": source.arrange(table),
        "head.table.weight": target.arrange(table),
        "decoder.first": torch.stack(starts).expand(count, -1, -1).contiguous(),
        **layers(tensors, reader, "encoder.reader.layers", deep, both),
    }
    for level in range(count):
        found |= cell(tensors, f"decoder.module.{{}}_l{level}", f"decoder.stack.cells.{level}")
    width = found["decoder.stack.cells.0.inward.weight"].size(1) - table.size(1)
    out = target.arrange(tensors.take("classifier.weight"))  # the output sees no context
    found["head.weight"] = torch.cat([out, out.new_zeros(len(out), width)], 1)
    found["head.bias"] = target.arrange(tensors.take("classifier.bias")[:, None])[:, 0]
    return fed(found, table.size(1)) | _attention(tensors, width) if attends else found


def _attention(tensors: Tensors, width: int) -> dict[str, Tensor]:
    looks, ours = "decoder.attention", "decoder.attention"
    both = tensors.take(f"{looks}.M.weight")  # reads an annotation, then the state
    tensors.take(f"{looks}.V.bias")  # added to all energies alike: a softmax does not see it
    return {
        f"{ours}.key.weight": both[:, :width].contiguous(),
        f"{ours}.query.weight": both[:, width:].contiguous(),
        f"{ours}.query.bias": tensors.take(f"{looks}.M.bias"),
        f"{ours}.score.weight": tensors.take(f"{looks}.V.weight"),
    }


def _count(tensors: Tensors, name: str) -> int:
    """How many layers there are."""
    count = 0
    while tensors.has(name.format(count)):
        count += 1
    return count


def _slots(tensors: Tensors) -> int:
    return 1 + tensors.has("decoder.c0")


def _units(symbols: list[str]) -> str:
    """Symbols of one character each are spelled; others stand between blanks. A column's own count:
    in a shared table there are more.
    """
    return "char" if all(len(symbol) == 1 for symbol in symbols) else "word"


def _tree(
    weights: dict[str, Tensor],
    units: dict[str, str],
    kind: tuple[str, bool],
    options: dict[str, Any],
) -> dict[str, Any]:
    cells, attends = kind
    across = weights["encoder.reader.layers.0.0.across.weight"]
    names = [name.split(".") for name in weights if name.startswith("encoder.reader")]
    hidden = weights["decoder.stack.cells.0.across.weight"].size(1)
    column = {"normalize": "none"}
    longest = {"max_length": int(options.get("max_target_length") or 128)}
    decoder = {"cell": cells, "hidden": hidden, "start": "learned", "readout": "plain"}
    return {
        "recipe": "yoyodyne",
        "data": {
            "source": {**column, "units": units["source"], "signs": "both"},
            "target": {**column, "units": units["target"]},
        },
        "model": {
            "encoder": {
                "cell": GATES[len(across) // across.size(1)],
                "embedding": weights["encoder.table.weight"].size(1),
                "hidden": across.size(1),
                "layers": 1 + max(int(name[3]) for name in names),
                "bidirectional": any(name[4] == "1" for name in names),
                "summary": "final" if attends else "end",
            },
            "attention": {"score": "mlp", "size": hidden, "when": "before"} if attends else None,
            "decoder": decoder
            | {
                "layers": len(weights["decoder.first"]),
                "context": "attention" if attends else "every-step",
            },
            "head": {"embedding": weights["head.table.weight"].size(1)},
        },
        "search": {"beam": 1, **longest},
    }
