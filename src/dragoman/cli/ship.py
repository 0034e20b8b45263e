"""The verbs by which models leave and arrive."""

from pathlib import Path

import click

from dragoman.cli.options import MODEL
from dragoman.errors import UserError


@click.command()
@MODEL
@click.option("--to", "form", type=click.Choice(["onnx"]), required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
def export(model: Path, form: str, output: Path) -> None:
    """Write MODEL in a form that runs where Dragoman does not.

    \b
    dragoman export model/ --to onnx -o out/     graphs and a runner (numpy, onnxruntime)
    """
    from dragoman.checkpoint import load_model
    from dragoman.ship.folder import export_onnx

    if output.exists() and not output.is_dir():
        raise UserError(f"{output}: a file stands there; name a folder")
    files = export_onnx(load_model(model), output)
    size = sum(len(content) for name, content in files.items() if not name.endswith(".py"))
    click.echo(f"{output}: {size / 1e6:.2f} MB   try: python {output / 'run.py'} < inputs.txt")
