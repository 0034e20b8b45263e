"""What leaving costs, measured: `python benchmarks/ship/run.py NAME=MODEL,TEST ... > table.md`.

For each model folder and its test file: the model itself, its ONNX form, the same in int8, and its
page in a browser, each with its size, how long it takes to start, how many inputs a second it
answers and how well, and how many answers are the model's own. Everything runs in one process, one
after the other, on one thread; figures compare within one table.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from browser import FLAGS, executable
from dragoman.checkpoint import load_model
from dragoman.evaluate.exam import Exam, read_exam
from dragoman.predict import Predictor
from dragoman.ship.folder import export_onnx, write_files
from dragoman.ship.html import page
from dragoman.ship.measure import model_answers
from dragoman.ship.runner import Runner


class Row(NamedTuple):
    """One form of a model."""

    form: str
    size: int
    start: float  # seconds
    speed: float  # inputs a second
    answers: list[str]


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.perf_counter()
    done = work()
    return done, time.perf_counter() - begin


def own(folder: Path, inputs: Sequence[str]) -> Row:
    predictor, start = timed(lambda: Predictor(*load_model(folder)))
    answers, seconds = timed(lambda: model_answers(predictor)(inputs, {}))
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    return Row("dragoman", size, start, len(inputs) / seconds, answers)


def graphs(folder: Path, inputs: Sequence[str], int8: bool) -> Row:
    files = export_onnx(load_model(folder), int8)
    size = sum(len(content) for name, content in files.items() if not name.endswith(".py"))
    with tempfile.TemporaryDirectory() as place:
        write_files(Path(place), files)
        runner, start = timed(lambda: Runner(place))
        found, seconds = timed(lambda: runner(inputs))
    answers = [one[0].text for one in found]
    return Row("onnx, int8" if int8 else "onnx", size, start, len(inputs) / seconds, answers)


def browsed(folder: Path, inputs: Sequence[str], browser: Any, form: Any) -> Row:
    content = page(load_model(folder), form)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "page.html"
        path.write_text(content, "utf-8")
        tab = browser.new_page()
        tab.goto(path.as_uri())
        start = tab.evaluate("dragoman.ready.then(() => performance.now())") / 1000
        first = "found.map((one) => one.answers[0].text)"
        script = f"(inputs) => dragoman.answer(inputs).then(({{found, ms}}) => [{first}, ms])"
        answers, ms = tab.evaluate(script, [[text] for text in inputs])
        tab.close()
    return Row(f"html, {form}", len(content.encode()), start, 1000 * len(inputs) / ms, answers)


def table(name: str, rows: Sequence[Row], exam: Exam) -> Iterator[str]:
    mine = rows[0].answers
    for row in rows:
        scores = exam.of_answers(row.form, row.answers).scores()[:2]
        same = 100 * sum(a == b for a, b in zip(mine, row.answers, strict=True)) / len(mine)
        quality = ", ".join(f"{score.name} {score.value:.2f}" for score in scores)
        yield (
            f"| {name} | {row.form} | {row.size / 1e6:.2f} | {row.start:.2f} | {row.speed:.0f} | "
            f"{quality} | {same:.1f} % |"
        )


def main() -> None:
    from playwright.sync_api import sync_playwright

    torch.set_num_threads(1)
    print("| model | form | MB | start, s | inputs/s | quality | same answers |")
    print("|---|---|---|---|---|---|---|")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable(), args=FLAGS)
        for given in sys.argv[1:]:
            name, _, places = given.partition("=")
            folder, test = places.split(",")
            predictor = Predictor(*load_model(Path(folder)))
            exam = read_exam(predictor, {"train": [test]}, ())
            inputs = exam.cases.sources
            rows = [
                own(Path(folder), inputs),
                graphs(Path(folder), inputs, False),
                graphs(Path(folder), inputs, True),
                browsed(Path(folder), inputs, browser, "int8"),
            ]
            for line in table(name, rows, exam):
                print(line, flush=True)


if __name__ == "__main__":
    main()
