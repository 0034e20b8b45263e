"""Runs an exported model with numpy and onnxruntime alone; subwords need sentencepiece, too, and
pictures and clips Pillow; sounds other than plain WAV files need soundfile.

python run.py < inputs.txt            one line in, one line out: a text, or the name of a file
python run.py --beam 1 --n-best 3     options of the search

from runner import Runner
Runner("folder")(["some text"])[0][0].text
"""

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime

from .asking import Asker, Query
from .columns import EOS, FIRST, JOINTS, PAD
from .searching import NEVER, Array, Limits, Paths, Rules, beam, chance, sample

BATCH = 32


class Answer(NamedTuple):
    """A text, its symbols, its log-probability, and where each symbol looked (T, S)."""

    text: str
    tokens: list[str]
    score: float
    weights: Array | None


class Runner:
    """A model: graphs that read and step, and columns."""

    def __init__(self, folder: str | Path = ".", threads: int = 1) -> None:
        folder = Path(folder)
        self.about: dict[str, Any] = json.loads((folder / "model.json").read_text("utf-8"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        reads = bool(self.about["sources"])
        self.begin = _session(folder / "begin.onnx", options) if reads else None
        self.step = _session(folder / "step.onnx", options)
        self.asker = Asker(self.about, folder)

    def __call__(self, inputs: Sequence[Any], first: int = 0, **given: Any) -> list[list[Answer]]:
        """For each input (a text, the name of a file or its content; a tuple of them where there
        are several columns) its answers, best first. `given` are options as model.json names them
        under "search"; `first` is the first input's place in a stream.
        """
        unknown = given.keys() - self.about["search"].keys()
        if unknown:
            raise ValueError(f"unknown option: {', '.join(sorted(unknown))}")
        options = self.about["search"] | {k: v for k, v in given.items() if v is not None}
        rows = [(one,) if isinstance(one, str | bytes) else tuple(one) for one in inputs]
        busy = [i for i, one in enumerate(rows) if not self.asker.blank(one)]
        queries = {i: self.asker.ask(rows[i]) for i in busy}
        order = sorted(busy, key=lambda i: len(queries[i].rows[0]))
        results = [[Answer("", [], 0.0, None)] for _ in rows]
        for begin in range(0, len(order), BATCH):
            part = order[begin : begin + BATCH]
            found = self._answer([queries[i] for i in part], options, [first + i for i in part])
            for place, answers in zip(part, found, strict=True):
                results[place] = answers
        return results

    def _answer(
        self, queries: list[Query], options: dict[str, Any], places: list[int]
    ) -> list[list[Answer]]:
        known, state = self._read(queries)
        rules, count = self._rules(queries, options), options["n_best"]

        def step(tokens: Array, state: list[Array]) -> list[Array]:
            return self._step(known, tokens, state)

        if options["sample"]:
            noise = chance(options["seed"], places, rules.steps, count)
            found = sample(step, state, rules, noise, options)
        else:
            spare = count if count > 1 and self.asker.target.kind not in JOINTS else 0
            width = max(options["beam"], count + spare)
            gnmt = options["length_penalty"] == "gnmt"
            found = beam(step, state, rules, width, options["normalize"], gnmt)
        return [self._present(found, b, query, options) for b, query in enumerate(queries)]

    def _read(self, queries: list[Query]) -> tuple[dict[str, Array], list[Array]]:
        plan, known = self.about["plan"], dict[str, Array]()
        if self.begin is None:
            empty = [np.zeros((len(queries), *shape), np.float32) for shape in plan["shapes"]]
            return known, empty
        known |= self.asker.batch(queries)
        names = [output.name for output in self.begin.get_outputs()]
        wanted = {one.name for one in self.begin.get_inputs()}
        given = {name: value for name, value in known.items() if name in wanted}
        known |= dict(zip(names, self.begin.run(names, given), strict=True))
        return known, [known[name] for name in plan["state"]]

    def _step(self, known: dict[str, Array], tokens: Array, state: list[Array]) -> list[Array]:
        given = {name: known[name] for name in self.about["plan"]["fixed"]}
        given |= {f"state_{i}": leaf for i, leaf in enumerate(state)}
        return self.step.run(None, given | {"tokens": tokens})  # type: ignore[no-any-return]

    def _rules(self, queries: list[Query], options: dict[str, Any]) -> Rules:
        """How long each answer may be, how it begins, and which symbols it may hold."""
        asker, ends, points = self.asker, self.about["ends"], self.about["points"]
        lengths = asker.lengths(queries)
        least, most = np.full_like(lengths, options["min_length"]), np.ones_like(lengths)
        prompts = [[] if asker.sources else query.rows[0] for query in queries]
        longest: int = self.about["target"]["max_length"]
        own, counts = None, asker.positions(queries) if points else lengths
        if self.about["copies"]:
            own = np.array([asker.target.size + len(query.copied) for query in queries])
        elif points:
            own = FIRST + counts
        if ends == "source":
            most = least = lengths - asker.signs + self.about["beyond"]
        elif ends == "sign" and not asker.sources:  # a prompt comes on top
            most = lengths + (options["max_length"] or max(longest, options["min_length"]))
            least = lengths + options["min_length"]
        elif ends == "sign" and points and options["valid"] != "none":  # as long as it must be
            most = counts + 1
        elif ends == "sign" and options["max_length"]:
            most = np.full_like(lengths, options["max_length"])
        elif ends == "sign":
            wished = np.ceil(lengths * (options["ratio"] or 2.0)).astype(np.int64)
            most = np.maximum(wished.clip(max=longest - 10) + 10, options["min_length"])
        limits = Limits(least, most, prompts, own, counts)
        return Rules(ends, limits, options["valid"], options["no_repeat_ngram"])

    def _present(
        self, found: Paths, item: int, query: Query, options: dict[str, Any]
    ) -> list[Answer]:
        """The answers to a query: no text twice, unless it was drawn."""
        answers: list[Answer] = []
        for slot, score in enumerate(found.scores[item].tolist()):
            if score == NEVER:
                continue
            ids = found.tokens[item, slot].tolist()
            length = next((t for t, i in enumerate(ids) if i in (EOS, PAD)), len(ids))
            text, tokens = self.asker.target.decode(ids[:length], query.copied)
            weights = None if found.weights is None else found.weights[item, slot, :length]
            if options["sample"] or all(text != one.text for one in answers):
                answers.append(Answer(text, tokens, score, weights))
        return answers[: options["n_best"]]


def _session(path: Path, options: Any) -> Any:
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Answer each line of stdin with one line on stdout; columns stand between tabs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", type=Path, default=Path(sys.argv[0]).parent)
    parser.add_argument("--beam", type=int)
    parser.add_argument("--n-best", type=int)
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--normalize", type=float)
    parser.add_argument("--sample", action="store_true", default=None)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--valid", choices=["none", "each-once", "tour", "hull"])
    options = vars(parser.parse_args())
    runner = Runner(options.pop("model"))
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    count, first = max(len(runner.asker.sources), 1), 0
    ahead = 1 if sys.stdin.isatty() else 16 * BATCH
    while lines := [line.rstrip("\r\n") for line in islice(sys.stdin, ahead)]:
        rows = [
            (line.split("\t") + [""] * count)[:count] if count > 1 else [line] for line in lines
        ]
        for answers in runner(rows, first, **options):
            texts = (one.text.replace("\r", "\\r").replace("\n", "\\n") for one in answers)
            print("\t".join(texts), flush=ahead == 1)
        first += len(lines)
