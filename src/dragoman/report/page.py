"""Findings as one HTML file: no script, nothing from elsewhere, text stays text."""

from collections.abc import Iterable, Sequence
from html import escape

from dragoman.notebook import as_html
from dragoman.report import Findings, Shown
from dragoman.report.charts import Axes, Point, Series, chart
from dragoman.report.mistakes import MARK, cut, pieces

STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--soft:#5b6575;--back:#fff;--card:#f5f7fa;
--rule:#dde2ea;--one:#0072b2;--two:#d55e00;--three:#009e73;--bad:#d55e00;--good:#009e73}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa5b5;--back:#14181f;--card:#1c222c;
--rule:#303846;--one:#56b4e9;--two:#e69f00;--three:#2fc79a;--bad:#ff9d5c;--good:#2fc79a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:60rem;padding:2rem 1rem 4rem;color:var(--ink);background:var(--back);
font:16px/1.55 system-ui,sans-serif}
h1{font-size:1.7rem;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2.4rem 0 .6rem}
p,dd,small{color:var(--soft)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:0}
dd{margin:0;overflow-wrap:anywhere}
table.figures{border-collapse:collapse;width:100%}
table.figures :is(th,td){text-align:left;padding:.35rem .8rem .35rem 0;
border-bottom:1px solid var(--rule)}
.figures td{font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
svg{width:100%;height:auto;background:var(--card);border-radius:.5rem}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}.grid{stroke:var(--rule)}
.case{background:var(--card);border-radius:.5rem;padding:.7rem .9rem;margin:.6rem 0;overflow-x:auto}
.case div{overflow-wrap:anywhere}
.case b{display:inline-block;min-width:4.5rem;font-weight:500;color:var(--soft)}
del{color:var(--good);text-decoration:none;border-bottom:2px solid}
ins{color:var(--bad);text-decoration:none;border-bottom:2px solid}
summary{cursor:pointer;color:var(--soft)}
"""
CALLED = {"train_loss": "training rows", "dev_loss": "dev rows"}  # losses, in one chart


def page(findings: Findings) -> str:
    """The whole file."""
    title = f"{findings.name}: report"
    sections = [
        _head(findings),
        _section("How good", _scores(findings)),
        _section("By length of the source", _by_length(findings)),
        _section("By size of the training data", _by_size(findings)),
        _section("Training", _training(findings)),
        _section("What is taken for what", _confusions(findings)),
        _section("The worst mistakes", _cases(findings.worst, findings.words)),
        _section("Mistakes drawn at random", _cases(findings.typical, findings.words)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(sections)}</body></html>\n"
    )


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{title}</h2>{inside}</section>" if inside else ""


def _head(findings: Findings) -> str:
    about = "".join(f"<dt>{k}</dt><dd>{escape(v)}</dd>" for k, v in findings.about.items())
    right = findings.inputs - findings.wrong
    told = f"{right:,} of {findings.inputs:,} answers are exactly right."
    return f"<h1>{_text(findings.name)}</h1><p>{told}</p><dl>{about}</dl>"


def _scores(findings: Findings) -> str:
    rows = []
    for score in findings.scores:
        bounds = f"{score.interval.low:.2f} to {score.interval.high:.2f}" if score.interval else ""
        cells = (score.name, f"{score.value:.2f}", bounds, score.better, score.signature or "")
        rows.append(cells)
    heads = ("metric", "value", "95 % interval", "better", "signature")
    signed = any(score.signature for score in findings.scores)
    return _table(heads, rows) if signed else _table(heads[:-1], [row[:-1] for row in rows])


def _by_length(findings: Findings) -> str:
    if len(findings.parts) < 2:
        return ""
    points = []
    for place, (_, score) in enumerate(findings.parts):
        low, high = score.interval or (None, None)
        points.append(Point(place, score.value, low, high))
    name = findings.scores[0].name
    axes = Axes("tokens of the source", name, [part.name for part, _ in findings.parts])
    inputs = ", ".join(f"{part.name}: {len(part.items):,}" for part, _ in findings.parts)
    return chart([Series(name, points)], axes) + f"<p><small>Inputs of {inputs}.</small></p>"


def _by_size(findings: Findings) -> str:
    if not findings.grown:
        return ""
    points = [
        Point(one.rows, one.score.value, *(one.score.interval or (None, None)))
        for one in findings.grown
    ]
    name = findings.grown[0].score.name
    return chart([Series(name, points)], Axes("training rows", name))


def _training(findings: Findings) -> str:
    """The losses in one chart, what was watched in another: they have different scales."""
    history = findings.history
    names = sorted({key for figures in history for key in figures})
    losses = [name for name in names if name.endswith("loss")]
    watched = [n for n in names if n.startswith("dev_") and n not in (*losses, "dev_perplexity")]
    charts = []
    for group, title in ((losses, "loss, nats a token"), (watched[:3], "on the dev rows")):
        series = [
            Series(CALLED.get(name) or name.removeprefix("dev_"), points)
            for name in group
            if (points := [Point(f["step"], f[name]) for f in history if name in f])
        ]
        charts.append(chart(series, Axes("steps", title)))
    return "<br>".join(filter(None, charts)) if len(history) > 1 else ""


def _confusions(findings: Findings) -> str:
    rows = [(one.wanted, one.written, f"{one.times:,}") for one in findings.confused]
    note = f"<p><small>{MARK} is nothing: left out, or put in.</small></p>"
    return _table(("wanted", "written", "times"), rows) + note if rows else ""


def _cases(shown: Sequence[Shown], words: bool) -> str:
    return "".join(_case(one, words) for one in shown)


def _case(shown: Shown, words: bool) -> str:
    wanted, written = _difference(shown.mistake.wanted, shown.mistake.written, words)
    source = "".join(f"<div><b>source</b>{_text(text)}</div>" for text in shown.source)
    detail = as_html(shown.prediction)
    return (
        f'<div class="case">{source}<div><b>wanted</b>{wanted}</div>'
        f"<div><b>written</b>{written}</div>"
        f"<details><summary>how sure, and where it looked</summary>{detail}</details></div>"
    )


def _difference(wanted: str, written: str, words: bool) -> tuple[str, str]:
    """Both lines, with what differs marked."""
    glue = " " if words else ""
    left: list[str] = []
    right: list[str] = []
    for same, a, b in pieces(cut(wanted, words), cut(written, words)):
        for found, part, tag in ((left, a, "del"), (right, b, "ins")):
            text = escape(glue.join(part))
            if text:
                found.append(text if same else f"<{tag}>{text}</{tag}>")
    return f"<bdi>{glue.join(left)}</bdi>", f"<bdi>{glue.join(right)}</bdi>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    top = "".join(f"<th>{head}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="figures"><tr>{top}</tr>{body}</table>'


def _text(text: str) -> str:
    return f"<bdi>{escape(text)}</bdi>"
