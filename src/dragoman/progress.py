"""What people see while a model trains: a bar on a terminal, a line per evaluation everywhere.
Always on stderr.
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from torch import Tensor
from tqdm import tqdm

SHOWN = 60  # characters of a sample
BAR = "{percentage:3.0f}% {bar} {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


class Reporter:
    """Tells how training goes; silent where `quiet`."""

    def __init__(
        self, quiet: bool = False, stream: TextIO | None = None, board: Path | None = None
    ) -> None:
        self.quiet, self.stream = quiet, stream or sys.stderr
        self.bar: Any = None
        self.board = _board(board) if board else None
        self.loss: float | None = None

    def say(self, line: str) -> None:
        """A line for people."""
        if not self.quiet:
            tqdm.write(line, file=self.stream)

    def start(self, total: int, done: int) -> None:
        hidden = self.quiet or not self.stream.isatty()
        self.bar = tqdm(
            total=total if total < 1 << 62 else None,
            initial=done,
            disable=hidden,
            file=self.stream,
            unit="step",
            dynamic_ncols=True,
            nrows=20,  # a terminal that does not tell its height has one all the same
            leave=False,
            bar_format=BAR,
        )
        self.tokens, self.since = 0, time.monotonic()

    def step(self, step: int, nll: Tensor, tokens: int) -> None:
        """One training step. The loss is read only now and then: that waits for the device."""
        self.tokens += tokens
        self.bar.update(1)
        passed = time.monotonic() - self.since
        if passed < 0.5:
            return
        value = float(nll)
        self.loss = value if self.loss is None else 0.7 * self.loss + 0.3 * value
        self.bar.set_postfix_str(
            f"loss {self.loss:.3f}, {self.tokens / passed:,.0f} tok/s", refresh=True
        )
        self.tokens, self.since = 0, time.monotonic()

    def evaluation(
        self,
        figures: Mapping[str, float],
        metric: str,
        improved: bool,
        sample: tuple[str, str, str] | None,
    ) -> None:
        """How the model does on dev rows, and one thing it wrote."""
        dev = {k.removeprefix("dev_"): v for k, v in figures.items() if k.startswith("dev_")}
        shown = "  ".join(f"{name} {value:.2f}" for name, value in dev.items() if name != "loss")
        star = " *" if improved else ""
        self.say(f"step {figures['step']:>6}  loss {figures['train_loss']:.3f}  dev {shown}{star}")
        if sample:
            source, written, wanted = (_short(text) for text in sample)
            right = "" if written == wanted else f"   (should be: {wanted})"
            self.say(f"    {source} → {written}{right}" if source else f"    … {written}")
        if self.board:
            for name, value in figures.items():
                self.board.add_scalar(name, value, figures["step"])

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
        if self.board:
            self.board.close()


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _board(folder: Path) -> Any:
    from dragoman.errors import UserError

    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "train.tensorboard needs tensorboard: pip install 'dragoman[tensorboard]'"
        ) from None
    return SummaryWriter(str(folder))
