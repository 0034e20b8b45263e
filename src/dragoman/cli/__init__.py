"""The command line: verbs that read stdin and write stdout, one line in, one line out.

Rooms are imported inside the verbs: `dragoman --help` must not wait for torch.
"""

import os
import sys
from typing import Any, NoReturn, TextIO

import click

from dragoman import __version__
from dragoman.cli import apply, draw, judge, learn, look, report, serving, ship
from dragoman.errors import DragomanError


class Verbs(click.Group):
    """All verbs, in the order in which people need them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            raise _with_hint(error) from None
        except BrokenPipeError:  # click would call it a failure
            return _hush()


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="dragoman")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Give it pairs, get a model: recurrent encoder-decoders with attention.

    \b
    dragoman train pairs.tsv -o model/      learn from tab-separated pairs
    dragoman predict model/ < inputs.txt    one line in, one line out
    dragoman evaluate model/ test.tsv       how good is it?
    """


VERBS: dict[click.Command, str] = {  # what --help tells of each, in 64 characters at most
    learn.train: "Learn a model from DATA: a file of pairs, or two parallel files.",
    apply.predict: "Answer each line of INPUTS, or of stdin, with one line.",
    apply.merge: "Join the pieces that `predict --shard` wrote.",
    apply.score: "How likely MODEL holds given targets (log-probabilities).",
    judge.evaluate: "How good MODEL is on DATA, judged by what it writes by itself.",
    draw.plot: "Draw what models do, for papers and talks: PNG, SVG or PDF.",
    report.report: "Write one HTML page on how MODEL does on DATA.",
    ship.export: "Write MODEL in a form that runs where Dragoman does not.",
    ship.bring: "Bring a recurrent model of another toolkit here.",
    serving.serve: "Serve MODELS over HTTP, with a page to try them.",
    serving.watch: "Watch MODELS on a page while they train.",
    look.recipes: "List the recipes: name, parameters, paper, and what they are.",
    look.info: "What a model folder holds; without one, what Dragoman runs on.",
    look.check: "Look a model folder or a data file over.",
    look.demo: "Learn something in about two minutes, and try it.",
}
for verb, line in VERBS.items():
    verb.short_help = line
    cli.add_command(verb)


def main() -> NoReturn:
    """Run a verb. The user's mistake is one line and exit code 2; a failure is one line and exit
    code 1.
    """
    for stream in (sys.stdout, sys.stderr):
        _utf8(stream)
    for cache in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(cache, "64")  # else torch keeps a plan for each of 1024 shapes
    debug = "--debug" in sys.argv
    try:
        code = cli.main(prog_name="dragoman", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        code = _hush()
    except click.exceptions.Abort:
        code = 130
    except KeyboardInterrupt:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except Exception as error:
        if debug:
            raise
        code = _complain(error)
    sys.exit(code if isinstance(code, int) else 0)


def _with_hint(error: click.NoSuchOption) -> click.NoSuchOption:
    """Whoever gives `train` a setting as an option is told how settings are given."""
    if error.ctx is None or error.ctx.command is not learn.train:
        return error
    from dragoman.config import Config
    from dragoman.explain import homes

    found = homes(error.option_name.lstrip("-").replace("-", "_"), Config)
    if not found:
        return error
    told = f"{error.message} (settings are given as --set {found[0]}=VALUE)"
    return click.NoSuchOption(error.option_name, told, ctx=error.ctx)


def _complain(error: Exception) -> int:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, DragomanError):
        click.echo(f"dragoman: {text}", err=True)
        return error.exit_code
    kind = "" if isinstance(error, OSError) else f"{type(error).__name__}: "
    click.echo(f"dragoman: failed: {kind}{text} (dragoman --debug ... shows where)", err=True)
    return 1


def _hush() -> int:
    """Whoever read our output has seen enough: `dragoman predict ... | head -1`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _utf8(stream: TextIO) -> None:
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", errors="replace")
