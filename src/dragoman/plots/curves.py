"""How training went, for one run or several."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.errors import UserError
from dragoman.plots.canvas import COLOURS, DASHES, MARKS, Picture, blank, grid, kept, needed, plain
from dragoman.plots.labels import legend, line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Run = Sequence[Mapping[str, float]]  # the figures of each evaluation, oldest first
TITLES = {"bleu": "BLEU", "chrf": "chrF", "cer": "CER (%)", "wer": "WER (%)", "per": "PER (%)"}
TITLES |= {"exact": "exact match (%)", "accuracy": "accuracy (%)", "bits": "bits per character"}
TITLES |= {"bleu1": "BLEU-1", "bleu4": "BLEU-4", "cider": "CIDEr", "rouge-captions": "ROUGE-L"}
TITLES |= {"f1-macro": "macro F1 (%)", "f1-entity": "entity F1 (%)", "hull-area": "hull area"}
TITLES |= {"tour": "tour length (%)", "tour-valid": "valid tours (%)"}


def learning(
    runs: Mapping[str, Run],
    path: str | Path | None = None,
    metric: str | None = None,
    title: str = "Learning curves",
) -> Picture:
    """Loss and a metric by training step; dashes tell training from held-out rows. Without a
    metric, the one that all runs have and that tells most.

    >>> run = [{"step": 10, "train_loss": 2.0, "dev_loss": 2.1, "dev_cer": 50.0}]
    >>> len(learning({"small": run}).figure.axes)
    2
    """
    needed()
    if not runs or not all(runs.values()):
        empty = next((name for name, run in runs.items() if not run), "no run")
        raise UserError(f"nothing to draw: {empty}: no evaluation was recorded")
    _refuse_unknown(metric, runs)
    chosen = metric or _metric(runs)
    panels = ["loss", *([chosen] if chosen else [])]
    figure = blank(4.6 * len(panels) + 0.6, 3.5)
    places = grid(figure, 1, len(panels))
    for number, (name, run) in enumerate(runs.items()):
        colour, (shown, _) = COLOURS[number % len(COLOURS)], line(name, 32)
        _draw(places[0], run, "train_loss", colour, DASHES[2])
        mark = MARKS[number % len(MARKS)] if len(runs) > 1 else None
        _draw(places[0], run, "dev_loss", colour, DASHES[0], mark)
        if chosen:
            _draw(places[1], run, f"dev_{chosen}", colour, DASHES[0], mark)
        places[-1].plot([], [], color=colour, linewidth=2, marker=mark, label=shown)
    plain(places[0], "training steps", "loss (nats per token)")
    if chosen:
        plain(places[1], "training steps", f"{TITLES.get(chosen, chosen)}, held-out rows")
    _legends(places)
    shown, how = line(title, 80)
    figure.suptitle(shown, fontsize=12, **how)
    figure.tight_layout(w_pad=2.5)
    return kept(figure, path)


def _draw(
    axes: "Axes", run: Run, name: str, colour: str, dash: Any, mark: str | None = None
) -> None:
    steps = [row["step"] for row in run if name in row]
    values = [row[name] for row in run if name in row]
    axes.plot(
        steps,
        values,
        color=colour,
        linestyle=dash,
        linewidth=1.8,
        marker=mark or ("o" if len(steps) == 1 else None),
        markerfacecolor="white" if dash == DASHES[2] else colour,
        markevery=max(1, len(steps) // 6),
        markersize=4.5,
    )


def _legends(places: "Sequence[Axes]") -> None:
    """What dashes mean beside the loss, and which run is which beside the metric if there is one;
    a single run needs no name.
    """
    from matplotlib.lines import Line2D

    kinds = [
        Line2D([], [], color="#333", linestyle=DASHES[2], label="training rows"),
        Line2D([], [], color="#333", linestyle=DASHES[0], label="held-out rows"),
    ]
    runs = places[-1].get_legend_handles_labels()[0]
    runs = runs if len(runs) > 1 else []
    if len(places) == 1:
        legend(places[0], [*kinds, *runs])
        return
    legend(places[0], kinds)
    if runs:
        legend(places[1], runs)


def _refuse_unknown(metric: str | None, runs: Mapping[str, Run]) -> None:
    """A metric that no run has would leave its panel empty."""
    rows = (row for run in runs.values() for row in run)
    told = {name.removeprefix("dev_") for row in rows for name in row if name.startswith("dev_")}
    if metric and metric not in told:
        known = ", ".join(sorted(told - {"loss"})) or "none"
        raise UserError(f"no run has '{metric}'; they have {known}")


def _metric(runs: Mapping[str, Run]) -> str | None:
    """The last metric that every run has, perplexity aside: it is the loss once more."""
    common = [set(run[-1]) for run in runs.values()]
    names = [name for name in next(iter(runs.values()))[-1] if all(name in one for one in common)]
    told = [name.removeprefix("dev_") for name in names if name.startswith("dev_")]
    left = [name for name in told if name not in ("loss", "perplexity")]
    return left[-1] if left else None
