"""Training with kernels and without reaches the same loss: curves on held-out rows, several seeds.

    python benchmarks/speed/same_loss.py DATA_FOLDER --device cuda --out same_loss.json
    python benchmarks/speed/same_loss.py --plot same_loss.json docs/same-loss.png

DATA_FOLDER holds Multi30k: train and val with the endings .de.gz and .en.gz. Each run is a process
of its own, all at once.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

KERNELS = ("auto", "reference")


def settings(options: argparse.Namespace, kernel: str, seed: int) -> list[str]:
    side = {"units": "word", "size": 8000, "lower": "true"}
    words = [f"data.{s}.{k}={v}" for s in ("source", "target") for k, v in side.items()]
    train = {
        "seed": seed,
        "kernel": kernel,
        "device": options.device,
        "max_steps": options.steps,
        "evaluate_every": options.steps // 6,
        "batch_size": 128,
        "metric": "loss",
        "precision": options.precision,
    }
    return [*words, *(f"train.{key}={value}" for key, value in train.items())]


def begin(
    options: argparse.Namespace, folder: Path, kernel: str, seed: int
) -> subprocess.Popen[bytes]:
    data = options.data
    command = [sys.executable, "-m", "dragoman", "train", "-q", "-r", "bahdanau2015-small"]
    command += [str(data / f"train.{side}.gz") for side in ("de", "en")]
    for side in ("de", "en"):
        command += ["--dev", str(data / f"val.{side}.gz")]
    for setting in settings(options, kernel, seed):
        command += ["--set", setting]
    return subprocess.Popen([*command, "-o", str(folder)])


def curve(folder: Path) -> list[tuple[int, float]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [(int(f["step"]), f["dev_loss"]) for f in map(json.loads, lines)]


def compare(options: argparse.Namespace) -> list[dict[str, Any]]:
    found = []
    with tempfile.TemporaryDirectory() as place:
        runs = {(k, s): Path(place) / f"{k}-{s}" for k in KERNELS for s in options.seeds}
        going = [begin(options, folder, *which) for which, folder in runs.items()]
        for process in going:
            process.wait()
        for (kernel, seed), folder in runs.items():
            found.append({"kernel": kernel, "seed": seed, "curve": curve(folder)})
    return found


def tell(found: list[dict[str, Any]]) -> None:
    steps = [step for step, _ in found[0]["curve"]]
    print("dev loss at step   " + "".join(f"{step:>9}" for step in steps))
    for kernel in KERNELS:
        curves = [run["curve"] for run in found if run["kernel"] == kernel]
        for run in found:
            if run["kernel"] == kernel:
                values = "".join(f"{loss:9.4f}" for _, loss in run["curve"])
                print(f"{kernel:<10} seed {run['seed']}  {values}")
        means = [statistics.mean(c[i][1] for c in curves) for i in range(len(steps))]
        print(f"{kernel:<10} mean    " + "".join(f"{mean:9.4f}" for mean in means))


def plot(source: Path, target: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(6, 3.6))
    for run in json.loads(source.read_text()):
        steps, losses = zip(*run["curve"], strict=True)
        kernels = run["kernel"] == "auto"
        axes.plot(
            steps,
            losses,
            color="C0" if kernels else "C1",
            ls="-" if kernels else "--",
            label=("kernels" if kernels else "plain loop") if run["seed"] == 1 else None,
        )
    axes.set(xlabel="step", ylabel="loss on held-out rows")
    axes.legend(frameon=False)
    plt.tight_layout()
    plt.savefig(target, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path, nargs=2, metavar=("JSON", "PNG"))
    options = parser.parse_args()
    if options.plot:
        plot(*options.plot)
        return
    found = compare(options)
    tell(found)
    if options.out:
        options.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
