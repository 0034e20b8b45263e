"""Is a beam ever worse than greedy search, by the model's own score, normalisation off?

python benchmarks/quality/beam.py MODEL INPUTS [--width 5]: also looks for answers that come twice.
"""

import argparse
from itertools import islice
from pathlib import Path

import dragoman
from dragoman.data.rows import iter_inputs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs")
    parser.add_argument("--width", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    model = dragoman.load(args.model, args.device)
    lines = [row.values[0] for row in islice(iter_inputs([args.inputs], format="lines"), 1000)]
    greedy = model.predict(lines, model.options(beam=1, normalize=0.0))
    beam = model.predict(lines, model.options(beam=args.width, normalize=0.0, n_best=args.width))
    pairs = list(zip(greedy, beam, strict=True))
    worse = sum(b.score < g.score - 1e-4 for g, b in pairs)
    better = sum(b.score > g.score + 1e-4 for g, b in pairs)
    lists = [[b.text, *(one.text for one in b.alternatives)] for _, b in pairs]
    doubles = sum(len(set(texts)) < len(texts) for texts in lists)
    print(
        f"{len(pairs)} inputs: beam {args.width} better than greedy on {better}, worse on {worse}"
    )
    print(f"n-best lists with an answer twice: {doubles}; shortest list {min(map(len, lists))}")


if __name__ == "__main__":
    main()
