"""Charts as SVG, drawn without a library: a page that holds them needs nothing else."""

from collections.abc import Sequence
from html import escape
from math import floor, log10
from typing import NamedTuple

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 28, 34, 48  # margins, for axes, their names and the legend
COLOURS = ("var(--one)", "var(--two)", "var(--three)")


class Point(NamedTuple):
    """A value, and between which bounds it lies if that is known."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class Series(NamedTuple):
    """Points of one kind, joined by a line."""

    name: str
    points: Sequence[Point]


class Axes(NamedTuple):
    """What the chart is about. `names` are written at x = 0, 1, 2 ... instead of numbers."""

    x: str
    y: str
    names: Sequence[str] = ()


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers that span a range.

    >>> ticks(0, 97)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    >>> ticks(3, 3)
    [2.0, 3.0, 4.0]
    """
    if high - low < 1e-12:
        return [low - 1.0, float(low), low + 1.0]
    rough = (high - low) / count
    scale = 10 ** floor(log10(rough))
    size = next(step * scale for step in (1, 2, 5, 10) if step * scale >= rough)
    first = floor(low / size)
    found: list[float] = []
    while not found or found[-1] < high - size * 1e-6:
        found.append(round(float((first + len(found)) * size), 10))
    return found


class _Scale:
    """From values to places on the page."""

    def __init__(self, series: Sequence[Series], axes: Axes) -> None:
        points = [point for one in series for point in one.points]
        bounds = [y for p in points for y in (p.y, *(b for b in (p.low, p.high) if b is not None))]
        self.rows = ticks(min(bounds), max(bounds))
        if axes.names:
            self.columns = [float(i) for i in range(len(axes.names))]
            self.low, self.high = -0.5, len(axes.names) - 0.5
        else:
            self.columns = ticks(min(p.x for p in points), max(p.x for p in points))
            self.low, self.high = self.columns[0], self.columns[-1]

    def x(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        share = (value - self.rows[0]) / (self.rows[-1] - self.rows[0])
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def chart(series: Sequence[Series], axes: Axes) -> str:
    """Lines over an axis; points with bounds carry them as whiskers.

    >>> page = chart([Series("BLEU", [Point(0, 30), Point(1, 20, 18, 22)])], Axes("length", "BLEU"))
    >>> page.count("<circle"), page.count('class="whisker"')
    (2, 1)
    """
    series = [one for one in series if one.points]
    if not series:
        return ""
    scale = _Scale(series, axes)
    told = escape(f"{axes.y} against {axes.x}", quote=True)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{told}">']
    parts += _frame(scale, axes)
    for place, one in enumerate(series):
        parts += _line(scale, one, COLOURS[place % len(COLOURS)])
        if len(series) > 1:
            parts.append(_legend(place, one.name))
    return "".join([*parts, "</svg>"])


def _frame(scale: _Scale, axes: Axes) -> list[str]:
    base = HEIGHT - BOTTOM
    parts = []
    for value in scale.rows:
        y = scale.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(_text(f"{value:g}", LEFT - 6, y + 4, "end"))
    for place, value in enumerate(scale.columns):
        name = axes.names[place] if axes.names else f"{value:g}"
        parts.append(_text(name, scale.x(value), base + 18, "middle"))
    parts.append(_text(axes.x, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "middle"))
    middle = (TOP + base) / 2
    turned = f'transform="rotate(-90 14 {middle})"'
    parts.append(_text(axes.y, 14, middle, "middle", turned))
    return parts


def _line(scale: _Scale, one: Series, colour: str) -> list[str]:
    places = [(scale.x(p.x), scale.y(p.y)) for p in one.points]
    joined = " ".join(f"{x},{y}" for x, y in places)
    parts = [f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for point, (x, y) in zip(one.points, places, strict=True):
        if point.low is not None and point.high is not None:
            low, high = scale.y(point.low), scale.y(point.high)
            whisker = f'x1="{x}" x2="{x}" y1="{low}" y2="{high}" stroke="{colour}"'
            parts.append(f'<line class="whisker" {whisker}/>')
        parts.append(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"><title>')
        parts.append(f"{point.y:g}</title></circle>")
    return parts


def _legend(place: int, name: str) -> str:
    x = LEFT + 180 * place
    swatch = f'<rect x="{x}" y="12" width="14" height="4" fill="{COLOURS[place % 3]}"/>'
    return swatch + _text(name, x + 20, 18, "start")


def _text(words: str, x: float, y: float, anchor: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {more}>{escape(words)}</text>'
