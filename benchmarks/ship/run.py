"""What leaving costs, measured: `python benchmarks/ship/run.py NAME=MODEL,TEST[,TEST] ...`.

For each model folder and its test file (or two parallel ones): the model itself, its ONNX form, the
same in int8, and its page in a browser (of a small model in fp32, too). Of each its size, how long
a fresh process or tab takes until it could answer, how many inputs a second it answers with a beam
of 5 and how well; how many answers are the model's own, and how many are those of Python with the
same weights, greedily and with the beam. All of it runs on one thread, one after the other; figures
compare within one model. They are kept in results.json, and the table in docs/ship.md is written
from there.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from page import RESULTS, write_page

from browser import FLAGS, executable
from dragoman.checkpoint import Loaded, load_model
from dragoman.errors import UserError
from dragoman.evaluate.exam import Exam, read_exam
from dragoman.predict import Input, Predictor
from dragoman.ship.folder import export_onnx, write_files
from dragoman.ship.html import page
from dragoman.ship.measure import model_answers, rounded_answers, unpacked
from dragoman.ship.rounding import Form
from dragoman.ship.runner import Runner

BEAMS = (1, 5)  # greedy, and what speed and quality are measured with
SMALL = 8_000_000  # bytes; nobody sends a larger model as a page with all its digits
ALONE = 200  # inputs that a page is asked one by one
ASK = """([inputs, beam]) => dragoman.answer(inputs, {beam, n_best: 1})
    .then(({found, ms}) => [found.map((one) => one.answers[0].text), ms])"""
ASK_ONE_BY_ONE = """async ([inputs, beam]) => {
    const times = [];
    for (const one of inputs) times.push((await dragoman.answer([one], {beam, n_best: 1})).ms);
    return times;
}"""
Row = dict[str, Any]
Answers = dict[int, list[str]]  # by the beam's width


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    done = work()
    return done, time.perf_counter() - begin


def started(*command: str) -> float:
    """How long a fresh Python takes until it could answer: the least of three tries."""
    words = [sys.executable, *command]

    def start() -> None:
        subprocess.run(words, stdin=subprocess.DEVNULL, check=True)

    return min(timed(start)[1] for _ in range(3))


class Model:
    """A model folder, the inputs of its test, and what the model itself answers."""

    def __init__(self, folder: Path, tests: Sequence[str]) -> None:
        self.loaded = load_model(folder)
        self.start = started("-c", f"import dragoman; dragoman.load({str(folder)!r})")
        self.predictor = Predictor(*self.loaded)
        self.exam: Exam = read_exam(self.predictor, {"train": list(tests)}, ())
        self.inputs: Sequence[Input] = self.exam.cases.sources
        self.size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        asked = {beam: timed(lambda beam=beam: self._own(beam)) for beam in BEAMS}
        self.answers: Answers = {beam: answers for beam, (answers, _) in asked.items()}
        self.seconds = asked[BEAMS[-1]][1]

    def _own(self, beam: int) -> list[str]:
        return model_answers(self.predictor)(self.inputs, {"beam": beam})

    def rows(self, browser: Any) -> Iterator[Row]:
        yield self.row("dragoman", self.size, self.start, self.seconds, self.answers, None)
        yield self.graphs(int8=False)
        yield self.graphs(int8=True)
        yield self.browsed(browser, "int8")
        if self.size < SMALL:
            yield self.browsed(browser, "fp32")

    def row(
        self,
        form: str,
        size: int,
        start: float,
        seconds: float,
        answers: Answers,
        python: Answers | None,
    ) -> Row:
        """What is kept of a form; `python` are the answers of Python with the same weights."""
        best, count = answers[BEAMS[-1]], len(self.inputs)
        scores = self.exam.of_answers(form, best).scores()[:2]
        return {
            "form": form,
            "size": size,
            "start": start,
            "speed": count / seconds,
            "quality": {score.name: score.value for score in scores},
            "own": _same(best, self.answers[BEAMS[-1]]),
            "python": python and [_same(answers[beam], python[beam]) for beam in BEAMS],
            "inputs": count,
        }

    def graphs(self, int8: bool) -> Row:
        files = export_onnx(self.loaded, int8)
        size = sum(len(content) for name, content in files.items() if not name.endswith(".py"))
        with tempfile.TemporaryDirectory() as place:
            write_files(Path(place), files)
            runner, start = Runner(place), started(f"{place}/run.py")
        answers: Answers = {}
        for beam in BEAMS:
            given = unpacked(self.loaded.fields, self.inputs)
            found, seconds = timed(lambda given=given, beam=beam: runner(given, beam=beam))
            answers[beam] = [one[0].text for one in found]
        name = "onnx, int8" if int8 else "onnx"
        return self.row(name, size, start, seconds, answers, None if int8 else self.answers)

    def browsed(self, browser: Any, form: Form) -> Row:
        try:
            content = page(self.loaded, form)
        except UserError as error:
            return {"form": f"html, {form}", "refused": str(error)}
        inputs = [[one] if isinstance(one, str) else list(one) for one in self.inputs]
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "page.html"
            path.write_text(content, "utf-8")
            tab = browser.new_page()
            tab.goto(path.as_uri())
            start = tab.evaluate("dragoman.ready.then(() => performance.now())") / 1000
            told = {beam: tab.evaluate(ASK, [inputs, beam]) for beam in BEAMS}
            some = inputs[:ALONE] if form == "int8" else []
            alone = [tab.evaluate(ASK_ONE_BY_ONE, [some, beam]) for beam in BEAMS if some]
            tab.close()
        answers = {beam: found for beam, (found, _) in told.items()}
        seconds = told[BEAMS[-1]][1] / 1000
        python = self.answers if form == "fp32" else _rounded(self.loaded, self.inputs, form)
        size = len(content.encode())
        row = self.row(f"html, {form}", size, start, seconds, answers, python)
        return row | {"alone": [statistics.median(times) for times in alone]} if alone else row


def _rounded(loaded: Loaded, inputs: Sequence[Input], form: Form) -> Answers:
    answers = rounded_answers(loaded, form)
    return {beam: answers(inputs, {"beam": beam}) for beam in BEAMS}


def _same(some: Sequence[str], others: Sequence[str]) -> int:
    return sum(a == b for a, b in zip(some, others, strict=True))


def main() -> None:
    from playwright.sync_api import sync_playwright

    torch.set_num_threads(1)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable(), args=FLAGS)
        for given in sys.argv[1:]:
            name, _, places = given.partition("=")
            folder, *tests = places.split(",")
            model = Model(Path(folder), tests)
            numbers = sum(p.numel() for p in model.loaded.model.parameters())
            found = {"parameters": numbers, "rows": list(model.rows(browser))}
            known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
            known[name] = found
            RESULTS.write_text(json.dumps(known, ensure_ascii=False, indent=1) + "\n", "utf-8")
    write_page()


if __name__ == "__main__":
    main()
