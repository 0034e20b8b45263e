"""Formulas to be learnt by heart: the first of a table that are not too long.

    python benchmarks/formulas.py ../shared/data/im2latex/train.tsv.gz build/formulas.tsv --rows 200

The table names the pictures where they are.
"""

import argparse
from pathlib import Path

from dragoman.data.rows import read_table
from dragoman.demo.media import manifest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--longest", type=int, default=100, help="characters")
    given = parser.parse_args()
    rows = read_table(given.table.resolve(), files=[0], on_bad="skip")
    fitting = [(name, text) for name, text in rows if len(text) <= given.longest]
    manifest(given.out, fitting[: given.rows])


if __name__ == "__main__":
    main()
