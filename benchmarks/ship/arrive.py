"""Do models of other toolkits answer here as they did there? A real one of each:
`python benchmarks/ship/arrive.py TRAIN.tsv DEV.tsv TEST.tsv [--steps N] [--page]`.

Each toolkit (installed by benchmarks/speed/peers.sh) learns a small model by its own command,
writes its answers to the test file, greedily and with a beam where it has one, and leaves a
checkpoint. That is imported, and our answers are compared with its own. `--page` writes the table
into docs/ship.md.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from page import fill

from dragoman.checkpoint import load_model
from dragoman.foreign import arrive
from dragoman.predict import Predictor

PEERS = Path(os.environ.get("DRAGOMAN_PEERS", Path.home() / ".cache/dragoman/peers"))
SIDES = ("src", "tgt")
BEAM = 5
HEAD = ["| toolkit | beam | same answers | right there | right here |", "|---|---|---|---|---|"]


class Left(NamedTuple):
    """What a toolkit leaves: its checkpoint, and its answers by the width of the beam."""

    checkpoint: Path
    answers: dict[int, list[str]]
    spelled: bool = False  # whether it reads characters, or symbols with blanks between them


def call(*command: object, given: Path | None = None, folder: Path | None = None) -> str:
    """What a toolkit's own command prints; it may read its own pickles."""
    own = {**os.environ, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    own.pop("PYTHONPATH", None)
    words = [str(word) for word in command]
    stream = given.open() if given else subprocess.DEVNULL
    done = subprocess.run(
        words, env=own, stdin=stream, capture_output=True, text=True, cwd=folder, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {(done.stderr or done.stdout)[-2000:]}")
    return done.stdout


def written(path: Path, tree: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(tree), "utf-8")
    return path


def opennmt(work: Path, steps: int) -> Left:
    tool = PEERS / "opennmt/bin"
    files = {
        name: {f"path_{side}": str(work / f"{part}.{side}") for side in SIDES}
        for name, part in (("corpus", "train"), ("valid", "dev"))
    }
    size = {"enc_layers": 1, "dec_layers": 1, "hidden_size": 128, "word_vec_size": 64}
    config = written(
        work / "opennmt.yaml",
        {
            "save_data": str(work / "opennmt"),
            **{f"{side}_vocab": str(work / f"vocab.{side}") for side in SIDES},
            "data": files,
            "save_model": str(work / "opennmt"),
            **{"encoder_type": "brnn", "decoder_type": "rnn", "rnn_type": "LSTM", **size},
            **{"global_attention": "general", "optim": "adam", "learning_rate": 0.003},
            **{"train_steps": steps, "valid_steps": steps, "save_checkpoint_steps": steps},
            **{"batch_size": 64, "bucket_size": 4096, "seed": 1},
        },
    )
    call(tool / "onmt_build_vocab", "-config", config, "-n_sample", -1)
    call(tool / "onmt_train", "-config", config)
    checkpoint, found = work / f"opennmt_step_{steps}.pt", {}
    for beam in (1, BEAM):
        files = ("-src", work / "test.src", "-output", work / "opennmt.out")
        call(tool / "onmt_translate", "-model", checkpoint, *files, "-beam_size", beam)
        found[beam] = lines(work / "opennmt.out")
    return Left(checkpoint, found)


def joeynmt(work: Path, steps: int) -> Left:
    embedded = {"embedding_dim": 64, "scale": False}
    shape = {"type": "recurrent", "rnn_type": "gru", "num_layers": 1, "embeddings": embedded}
    found = {}
    tree: dict[str, Any] = {
        "name": "joeynmt",
        "model_dir": str(work / "joeynmt"),
        **{"use_cuda": False, "fp16": False, "random_seed": 1},
        "data": {
            **{part: str(work / part) for part in ("train", "dev", "test")},
            "dataset_type": "plain",
            **{
                side: {"lang": lang, "level": "word", "lowercase": False}
                for side, lang in (("src", "src"), ("trg", "tgt"))
            },
        },
        "testing": {"beam_size": 1, "max_output_length": 60, "eval_metrics": ["bleu"]},
        "training": {
            **{"optimizer": "adamw", "learning_rate": 0.003, "batch_size": 64},
            **{"batch_type": "sentence", "epochs": 1000, "updates": steps},
            **{"validation_freq": steps, "logging_freq": steps, "overwrite": True},
            **{"early_stopping_metric": "loss", "shuffle": True, "print_valid_sents": [0]},
            **{"scheduling": "exponential", "decrease_factor": 0.99},  # halved unless told so
        },
        "model": {
            "initializer": "xavier_uniform",
            "encoder": {**shape, "hidden_size": 128, "bidirectional": True},
            "decoder": {
                **{**shape, "hidden_size": 128, "attention": "bahdanau"},
                **{"input_feeding": True, "init_hidden": "bridge"},
            },
        },
    }
    tool = (PEERS / "joeynmt/bin/python", "-m", "joeynmt")
    call(*tool, "train", written(work / "joeynmt.yaml", tree), "--skip-test")
    checkpoint = work / "joeynmt/best.ckpt"
    for beam in (1, BEAM):
        tree["testing"] |= {"beam_size": beam, "beam_alpha": -1, "load_model": str(checkpoint)}
        config = written(work / "joeynmt.yaml", tree)
        found[beam] = call(*tool, "translate", config, given=work / "test.src").splitlines()
    return Left(checkpoint, found)


def yoyodyne(work: Path, steps: int) -> Left:
    for part in ("train", "dev", "test"):
        pairs = zip(*(lines(work / f"{part}.{side}") for side in SIDES), strict=True)
        rows = [f"{source.replace(' ', '')}\t{target}\n" for source, target in pairs]
        (work / f"{part}.tsv").write_text("".join(rows), "utf-8")
    tool, out = PEERS / "yoyodyne/bin/yoyodyne", work / "yoyodyne.out"
    parts = "yoyodyne.models"
    shape = {
        "source_encoder": {
            "class_path": f"{parts}.modules.LSTMEncoder",
            "init_args": {"embedding_size": 64, "hidden_size": 128},
        },
        **{"embedding_size": 64, "decoder_hidden_size": 128},
        "optimizer": {"class_path": "yoyodyne.optimizers.Adam", "init_args": {"lr": 0.003}},
    }
    tree: dict[str, Any] = {
        "seed_everything": 1,
        "trainer": {
            **{"max_steps": steps, "accelerator": "cpu", "logger": False},
            **{"enable_progress_bar": False, "default_root_dir": str(work)},
        },
        "model": {"class_path": f"{parts}.SoftAttentionLSTMModel", "init_args": shape},
        "data": {
            "model_dir": str(work),
            **{
                key: str(work / f"{part}.tsv") for key, part in (("train", "train"), ("val", "dev"))
            },
            **{"predict": str(work / "test.tsv"), "target_sep": " ", "batch_size": 64},
        },
        "checkpoint": {"dirpath": str(work), "filename": "yoyodyne", "save_last": False},
        "prediction": {"path": str(out)},
    }
    config = written(work / "yoyodyne.yaml", tree)
    call(tool, "fit", "--config", config, folder=work)
    checkpoint = work / "yoyodyne.ckpt"
    call(tool, "predict", "--config", config, "--ckpt_path", checkpoint, folder=work)
    return Left(checkpoint, {1: lines(out)}, spelled=True)


TOOLKITS: dict[str, Callable[[Path, int], Left]] = {
    "opennmt-py": opennmt,
    "joeynmt": joeynmt,
    "yoyodyne": yoyodyne,
}


def lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def lay_out(work: Path, files: Sequence[Path]) -> None:
    """The pairs as the toolkits want them: symbols with blanks between them, a file a side."""
    for part, path in zip(("train", "dev", "test"), files, strict=True):
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        for side, texts in zip(SIDES, zip(*rows, strict=True), strict=True):
            cut = [" ".join(text) if side == "src" else text for text in texts]
            (work / f"{part}.{side}").write_text("".join(f"{one}\n" for one in cut), "utf-8")


def compared(name: str, left: Left, work: Path) -> Iterator[str]:
    """A line of the table for each width of the beam."""
    arrive(left.checkpoint, name, work / f"{name}-here")
    predictor = Predictor(*load_model(work / f"{name}-here"))
    sources, wanted = lines(work / "test.src"), lines(work / "test.tgt")
    inputs = [line.replace(" ", "") for line in sources] if left.spelled else sources
    for beam, theirs in left.answers.items():
        options = predictor.options(beam=beam, normalize=0.0, max_length=100)
        ours = [one.text for one in predictor.stream(inputs, options)]
        same = sum(a == b for a, b in zip(ours, theirs, strict=True))
        right = [sum(a == b for a, b in zip(said, wanted, strict=True)) for said in (theirs, ours)]
        yield f"| {name} | {beam} | {same:,} of {len(ours):,} | {right[0]:,} | {right[1]:,} |"


def main() -> None:
    about = argparse.ArgumentParser(description=__doc__)
    about.add_argument("files", nargs=3, type=Path, metavar="TSV")
    about.add_argument("--steps", type=int, default=400)
    about.add_argument("--only", choices=list(TOOLKITS), action="append")
    about.add_argument("--work", type=Path, help="keep what is made here")
    about.add_argument("--page", action="store_true", help="write the table into docs/ship.md")
    given = about.parse_args()
    table = [*HEAD]
    print(*table, sep="\n")
    with tempfile.TemporaryDirectory() as place:
        work = given.work or Path(place)
        work.mkdir(parents=True, exist_ok=True)
        lay_out(work, given.files)
        for name in given.only or TOOLKITS:
            for line in compared(name, TOOLKITS[name](work, given.steps), work):
                table.append(line)
                print(line, flush=True)
    if given.page:
        fill("what arrives", [*table, ""])


if __name__ == "__main__":
    main()
