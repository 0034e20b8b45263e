"""The verbs by which models leave and arrive."""

from pathlib import Path
from typing import Any

import click

from dragoman.cli.options import MODEL, data_tree
from dragoman.errors import UserError

TOOLKITS = ["opennmt-py", "joeynmt", "yoyodyne"]
RUN = """
## Run it

`python run.py < inputs.txt` (numpy and onnxruntime; see `python run.py --help`)
"""


@click.command()
@MODEL
@click.option("--to", "form", type=click.Choice(["onnx", "html"]), required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--int8", is_flag=True, help="onnx: weights and products of one byte.")
@click.option(
    "--weights",
    type=click.Choice(["fp32", "fp16", "int8"]),
    help="html: how weights are stored.  [default: int8]",
)
@click.option("--title", help="html: of the page.")
@click.option("--lead", help="html: the line below the title.")
@click.option("--example", "examples", multiple=True, help="html: an input to try; repeatable.")
@click.option("--test", "tests", multiple=True, metavar="FILE", help="Say what changes on it.")
@click.option("--columns", help="Columns of the test file, by number or name.")
@click.option("--beam", type=int, help="For --test: paths kept alive side by side.")
@click.option("--max-loss", type=float, help="Refuse if --test is worse by more points than this.")
@click.option("--overwrite", is_flag=True, help="Write over what stands there.")
def export(model: Path, form: str, output: Path, **given: Any) -> None:
    """Write MODEL in a form that runs where Dragoman does not.

    \b
    dragoman export model/ --to onnx -o out/            graphs and a runner (numpy, onnxruntime)
    dragoman export model/ --to onnx --int8 -o out/     the same, smaller
    dragoman export model/ --to html -o model.html      a page that runs by itself, offline
    """
    given["form"] = form
    _check(form, output, given)
    if form == "html":
        _to_html(model, output, given)
    else:
        _to_onnx(model, output, given)


def _check(form: str, output: Path, given: dict[str, Any]) -> None:
    for option, belongs in (("int8", "onnx"), ("weights", "html"), ("title", "html")):
        if given[option] and form != belongs:
            raise UserError(f"--{option} belongs to --to {belongs}")
    if form == "html" and output.is_dir():
        raise UserError(f"{output}: a folder stands there; name a file, such as model.html")
    if form == "onnx" and output.exists() and not output.is_dir():
        raise UserError(f"{output}: a file stands there; name a folder")
    taken = output.is_file() or (output.is_dir() and any(output.iterdir()))
    if taken and not given["overwrite"]:
        raise UserError(f"{output}: something stands there; write over it with --overwrite")
    if given["max_loss"] is not None and not given["tests"]:
        raise UserError("--max-loss needs a test file to measure the loss on: --test FILE")


def _to_onnx(model: Path, output: Path, given: dict[str, Any]) -> None:
    from dragoman.checkpoint import load_model
    from dragoman.ship.folder import export_onnx, write_files
    from dragoman.ship.measure import runner_answers

    loaded = load_model(model)
    files = export_onnx(loaded, given["int8"])
    size = sum(len(content) for name, content in files.items() if not name.endswith(".py"))
    about = (model / "README.md").read_text("utf-8") if (model / "README.md").exists() else ""
    if given["tests"]:
        about += _measured(loaded, model, given, size, runner_answers(files, loaded.fields)).card()
    files["README.md"] = f"{about}{RUN}".encode()
    write_files(output, files)
    click.echo(f"{output}: {size / 1e6:.2f} MB   try: python {output / 'run.py'} < inputs.txt")


def _to_html(model: Path, output: Path, given: dict[str, Any]) -> None:
    from dragoman.checkpoint import load_model
    from dragoman.disk import write
    from dragoman.ship.html import page
    from dragoman.ship.measure import rounded_answers

    loaded = load_model(model)
    weights: Any = given["weights"] or "int8"
    examples = [tuple(example.split("\t")) for example in given["examples"]]
    told = {"title": given["title"], "lead": given["lead"], "examples": examples}
    content = page(loaded, weights, **told)
    if given["tests"]:
        answers = rounded_answers(loaded, weights)
        change = _measured(loaded, model, given, len(content.encode()), answers)
        content = page(loaded, weights, **told, facts=change.line())
    write(output, content.encode())
    click.echo(f"{output}: {len(content.encode()) / 1e6:.2f} MB   open it in a browser")


def _measured(loaded: Any, model: Path, given: dict[str, Any], size: int, answers: Any) -> Any:
    """What leaving costs, told; a loss that is too large is refused."""
    from dragoman.ship.measure import compare

    rest = {"dev": (), "layout": None, "columns": given["columns"], "on_bad_line": "error"}
    table = data_tree(given["tests"], rest)["data"]
    runs_here = given["form"] == "onnx"
    found = compare(loaded, model, table, answers, size, given["beam"], runs_here)
    for line in found.lines():
        click.echo(line)
    if given["max_loss"] is not None and found.loss > given["max_loss"]:
        raise UserError(
            f"{found.metric} is worse by {found.loss:.3f} points, more than --max-loss "
            f"{given['max_loss']:g}: nothing was written"
        )
    return found


@click.command("import")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--from", "toolkit", type=click.Choice(TOOLKITS), required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option("--trust", is_flag=True, help="Yes, the file comes from somebody you trust.")
def bring(checkpoint: Path, toolkit: str, output: Path, trust: bool) -> None:
    """Bring a recurrent model of another toolkit here: CHECKPOINT becomes a model folder.

    Nothing in the file is run: what is more than data is refused.
    """
    from dragoman.foreign import arrive

    if not trust:
        raise UserError(
            f"{checkpoint}: a file of another toolkit; say --trust if you know where it comes from"
        )
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output}: not empty: name a new folder")
    arrive(checkpoint, toolkit, output)
    click.echo(f"done: {output}   try: dragoman predict {output}")
