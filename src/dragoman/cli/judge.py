"""The verb that judges: models and files of outputs, alone, against each other, and over runs."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from dragoman.cli.options import data_tree, load, search_options
from dragoman.errors import UserError

SEARCH = ("beam", "max_length", "min_length", "normalize")
LABELLED = {"accuracy", "accuracy-last", "f1-micro", "f1-macro"}  # metrics of one label a line
MEANS = {"f1-micro", "f1-macro"}  # over labels


@click.command()
@click.argument("model", required=False)
@click.argument("data", nargs=-1)
@search_options
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="exact, cer, wer, per, bleu, chrf, ter, rouge1, rouge2, rougeL, bleu1 .. bleu4, "
    "rouge-captions, cider, accuracy, accuracy-last, f1-micro, "
    "f1-macro, f1-entity, f1-set; else what fits.",
)
@click.option(
    "--against",
    multiple=True,
    metavar="SYSTEM",
    help="Compare with this model folder or file of outputs, with tests; may be repeated.",
)
@click.option(
    "--with",
    "runs",
    multiple=True,
    metavar="SYSTEM",
    help="A further run of the same model: mean and standard deviation; may be repeated.",
)
@click.option(
    "--ensemble",
    multiple=True,
    metavar="FOLDER",
    help="A further model that decodes together with MODEL; may be repeated.",
)
@click.option(
    "--by",
    type=click.Choice(["length", "label", "tag", "question"]),
    help="Also in parts: by length of the source, by the reference's label (its first word, or the "
    "last behind tags), by the source's first word, by the first two words of the last text.",
)
@click.option(
    "--hyp",
    metavar="FILE",
    help="Outputs of any system, instead of MODEL and DATA. With --metric accuracy-last they are "
    "tags and a label, judged apart.",
)
@click.option("--ref", multiple=True, metavar="FILE", help="References for --hyp; may be repeated.")
@click.option(
    "--group/--no-group",
    default=None,
    help="Rows of the same source are one input with several right answers (not for subwords).",
)
@click.option("--columns", help="Columns to read, by number or name.")
@click.option(
    "--on-bad-line", type=click.Choice(["error", "skip"]), default="error", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
def evaluate(as_json: bool, **given: Any) -> None:
    """How good MODEL is on DATA, judged by what it writes by itself.

    \b
    dragoman evaluate model/ test.tsv                       one model
    dragoman evaluate model/ test.tsv --against other/      is it better than the other?
    dragoman evaluate run1/ test.tsv --with run2/           over several runs
    dragoman evaluate run1/ test.tsv --ensemble run2/       both together
    dragoman evaluate --hyp out.txt --ref ref.txt           outputs of any system
    """
    _check(given)
    exam, predictor, judge = _exam(given)
    report = _report(given, exam, predictor, judge)
    if as_json:
        click.echo(json.dumps(report.tree(), ensure_ascii=False))
        return
    for line in report.lines():
        click.echo(line)


def _check(given: dict[str, Any]) -> None:
    if given["against"] and given["runs"]:
        raise UserError("--against compares systems, --with averages over runs: take one of them")
    if bool(given["hyp"]) != bool(given["ref"]):
        raise UserError("--hyp (outputs) and --ref (references) go together")
    if given["hyp"] and (given["model"] or given["ensemble"]):
        raise UserError("--hyp stands instead of MODEL and DATA: leave those away")
    for path in (*given["against"], *given["runs"]):
        if not Path(path).exists():  # say it before the first system is at work for minutes
            raise UserError(f"{path}: there is no such model folder or file of outputs")
    if not given["hyp"] and not given["data"]:
        missing = "DATA..." if given["model"] else "MODEL"
        raise click.UsageError(f"Missing argument '{missing}'.", click.get_current_context())


def _exam(given: dict[str, Any]) -> tuple[Any, Any, Callable[[str], Any]]:
    """The exam, the model that set it, and how a system (a folder or a file) sits it."""
    from dragoman.evaluate.exam import read_exam, read_lines, read_outputs

    if given["hyp"]:
        exam = read_outputs(given["ref"], given["metrics"])
        return exam, None, lambda path: exam.of_lines(path, read_lines(path))
    predictor = load(Path(given["model"]), given["device"], others=given["ensemble"])
    table = data_tree(given["data"], given | {"dev": (), "layout": None})["data"]
    tell = partial(click.echo, err=True)
    exam = read_exam(predictor, table, given["metrics"], tell, given["group"])
    search = {key: given[key] for key in SEARCH}

    def judge(path: str) -> Any:
        if Path(path).is_file():
            return exam.of_lines(path, read_lines(path))
        model = predictor if path == given["model"] else load(Path(path), given["device"])
        return exam.of_model(path, model, search, given["batch_size"])

    return exam, predictor, judge


def _report(given: dict[str, Any], exam: Any, predictor: Any, judge: Callable[[str], Any]) -> Any:
    from dragoman.evaluate import split, spread
    from dragoman.evaluate.report import Report, Rival, Slice
    from dragoman.metrics import per_label

    system = judge(given["hyp"] or given["model"])
    scores = system.scores()
    parts = split(given["by"], exam, predictor) if given["by"] else []
    labelled = given["by"] == "label" and LABELLED & set(exam.names)

    def told(found: list[Any]) -> list[Any]:  # a mean over labels says nothing of one label
        return [one for one in found if not (labelled and one.name.lower() in MEANS)]

    others = [judge(path) for path in (*given["against"], *given["runs"])]
    spreads = spread([scores, *(run.scores() for run in others)]) if given["runs"] else []
    return Report(
        scores,
        [Slice(part.name, len(part.items), told(system.scores(part.items))) for part in parts],
        per_label(exam.labels(system.written), [exam.labels(one) for one in exam.wanted])
        if labelled
        else [],
        [Rival(one.name, one.scores(), exam.compare(system, one)) for one in others]
        if given["against"]
        else [],
        [system.name, *given["runs"]],
        spreads,
    )
