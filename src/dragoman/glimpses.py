"""Where a model looked that is no text, as HTML: pictures, frames, sounds and tours; no scripts,
no files.
"""

from collections.abc import Sequence
from html import escape
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dragoman.data.seen import Seen, data_url, png

Floats = npt.NDArray[np.floating]
BLUE = (31, 119, 180)
WIDE = 116  # pixels of a small picture
SIDE, EDGE = 220, 14  # pixels of the square that a tour is drawn on, and around it


class Part(Protocol):
    """Weights over one column."""

    @property
    def over(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def weights(self) -> npt.NDArray[np.float32]: ...


def glimpse(part: Part, tokens: Sequence[str], seen: Sequence[Seen]) -> str:
    """Weights over a column that is no text, on what was seen of it, if that is there."""
    kind = {"grid": "image", "frames": "video", "times": "sound"}.get(part.over)
    shown = next((one for one in seen if one.kind == kind), None)
    top = max(float(part.weights.max()), min(1.0, 3 / part.weights.shape[1]))
    shares = part.weights / top  # of all tokens: one that looks everywhere glows nowhere
    if part.over == "grid":
        return _pictures(shares.reshape(len(shares), *part.shape[-2:]), tokens, shown)
    return _frames(shares, tokens, shown) if part.over == "frames" else _bars(shares, tokens, shown)


def tour(points: Floats, order: Sequence[int]) -> str:
    """Points (S, 2) and the way through them, the first stop ringed.

    >>> tour(np.array([[0, 0], [1, 0], [0, 1]]), [0, 2, 1]).count("<circle")
    4
    """
    low, scale = points.min(0), SIDE / max(float(np.ptp(points, 0).max()), 1e-9)
    places = (points - low) * scale + EDGE
    wide, tall = places.max(0) + EDGE
    places[:, 1] = tall - places[:, 1]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places[list(order)])
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>' for x, y in places]
    if order:
        x, y = places[order[0]]
        dots.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" style="stroke:#d55e00;fill:none"/>')
    ink = f"rgb{BLUE}"
    return (
        f'<svg viewBox="0 0 {wide:.0f} {tall:.0f}" style="width:{wide:.0f}px;display:block">'
        f'<polygon points="{path}" style="fill:none;stroke:{ink};stroke-width:2"/>'
        f'<g style="fill:white;stroke:{ink};stroke-width:1.8">{"".join(dots)}</g></svg>'
    )


def _pictures(shares: Floats, tokens: Sequence[str], shown: Seen | None) -> str:
    """The picture in grey for each token, lit where the model looked."""
    below = f'<img alt="" src="{data_url(shown.png())}" style="{GREY}">' if shown else ""
    height = "" if shown else f"height:{WIDE}px;background:#999"
    figures = [
        f'<div style="width:{WIDE}px;text-align:center"><div style="position:relative;{height}">'
        f'{below}<img alt="" src="{data_url(png(_lit(share)))}" style="{OVER}"></div>'
        f"{_safe(token)}</div>"
        for token, share in zip(tokens, shares, strict=False)
    ]
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px;margin:6px 0">{"".join(figures)}</div>'


GREY = f"width:{WIDE}px;display:block;filter:grayscale(1) brightness(.8)"
OVER = "position:absolute;top:0;left:0;width:100%;height:100%"


def _lit(share: Floats) -> Floats:
    """Weights (h, w) as colours that let through what they lie over."""
    colours = [np.full_like(share, 255), 90 + 150 * share, 40 + 60 * share, 225 * share**1.5]
    return np.stack(colours, -1).clip(0, 255)


def _frames(shares: Floats, tokens: Sequence[str], shown: Seen | None) -> str:
    """Frames across, tokens down."""
    heads = [
        f'<img alt="frame {at + 1}" style="width:52px" '
        f'src="{data_url(Seen("image", shown.values[at : at + 1]).png())}">'
        if shown and at < len(shown.values)
        else f"<small>{at + 1}</small>"
        for at in range(shares.shape[1])
    ]
    cells = "".join(f'<td style="text-align:center">{head}</td>' for head in heads)
    rows = "".join(
        f'<tr><th style="{RIGHT}">{_safe(token)}</th>{"".join(map(_cell, row.tolist()))}</tr>'
        for token, row in zip(tokens, shares, strict=False)
    )
    return f'<table style="{TABLE}"><tr><td></td>{cells}</tr>{rows}</table>'


TABLE, RIGHT = "border-collapse:collapse;font-size:small", "text-align:right;font-weight:normal"


def _cell(share: float) -> str:
    red, green, blue = BLUE
    return f'<td style="background:rgba({red},{green},{blue},{share:.2f})">&nbsp;</td>'


def _bars(shares: Floats, tokens: Sequence[str], shown: Seen | None) -> str:
    """A stripe of weights for each token, below the spectrogram where there is one."""
    rows = []
    if shown is not None:
        rows.append(("", shown.png(), 96))
    for token, share in zip(tokens, shares, strict=False):
        ink = np.broadcast_to(np.array(BLUE, float), (1, len(share), 3))
        rows.append((_safe(token), png(np.concatenate([ink, 255 * share[None, :, None]], -1)), 18))
    cells = "".join(
        f'<tr><th style="{RIGHT};white-space:nowrap">{name}</th><td style="width:100%;padding:1px">'
        f'<img alt="" src="{data_url(picture)}" style="width:100%;height:{tall}px;display:block;'
        f'image-rendering:pixelated"></td></tr>'
        for name, picture, tall in rows
    )
    seconds = shown.seconds if shown else None
    note = f"<small>0 to {seconds:.2f} seconds</small>" if seconds else ""
    return f'<table style="{TABLE};width:100%;max-width:640px">{cells}</table>{note}'


def _safe(token: str) -> str:
    return f"<bdi>{escape(token.encode('utf-8', 'replace').decode())}</bdi>"
