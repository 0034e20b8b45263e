"""Text fit to draw: every token is seen, whatever it is made of and whichever fonts are there.

Letters are joined and lines turned (Arabic, Devanagari, Hebrew) by matplotlib itself, from 3.11 on.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

BASE_FONT = "DejaVu Sans"  # comes with matplotlib, so it is always there
LONGEST = 24  # characters of a label
WORD = "▁"  # how a subword says that a word begins
_SIGNS = {"\n": "↵", "\t": "⇥"}
_JOINERS = "\u200c\u200d"  # they shape the letters beside them and have no look of their own


class Labels(NamedTuple):
    """Tokens made fit to draw, and the fonts that have their glyphs."""

    source: list[str]
    target: list[str]
    title: str
    fonts: list[str]


def as_is(fonts: Sequence[str]) -> dict[str, Any]:
    """How text is drawn: in these fonts, and nothing in it is obeyed."""
    return {"fontfamily": list(fonts), "parse_math": False, "usetex": False}


def line(text: str, longest: int = 60) -> tuple[str, dict[str, Any]]:
    """A line of anyone's text, and how to draw it.

    >>> line("a\\tb")[0]
    'a⇥b'
    """
    shown = "".join(char if char == " " else _sign(char) for char in text) or "∅"
    shown = shown if len(shown) <= longest else shown[: longest - 1] + "…"
    fonts, missing = find_fonts(shown)
    clear = "".join(f"[{_code(char)}]" if char in missing else char for char in shown)
    return clear, as_is(fonts)


def legend(axes: "Axes", handles: "Sequence[Artist] | None" = None) -> None:
    """A legend: names are anyone's text, as labels are."""
    shown = handles if handles is not None else axes.get_legend_handles_labels()[0]
    names = [str(one.get_label()) for one in shown]
    look = {"family": find_fonts("".join(names))[0], "size": 9}
    for text in axes.legend(shown, names, frameon=False, loc="best", prop=look).get_texts():
        text.set(parse_math=False, usetex=False)


def labels(source: Sequence[str], target: Sequence[str], title: str) -> Labels:
    lines = [[_visible(token) for token in line] for line in (source, target, title.split())]
    fonts, missing = find_fonts({char for line in lines for token in line for char in token})
    first, second, words = ([_spell(token, missing) for token in line] for line in lines)
    return Labels(first, second, " ".join(words), fonts)


def _visible(token: str) -> str:
    """Spaces and controls as signs, nothing at all as the empty set, much too long a token cut;
    that a word begins with a subword need not be said where each stands by itself.
    """
    if not token:
        return "∅"
    token = (token.removeprefix(WORD) or " ").replace(WORD, " ")
    shown = "".join(map(_sign, token)) if token not in _JOINERS else _code(token)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _sign(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Zs":
        return "␣"
    if category[0] in "CZ" and char not in _JOINERS:
        return _SIGNS.get(char, _code(char))
    return char


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"


def _spell(token: str, missing: set[str]) -> str:
    """The token with code points for what no font can draw: ugly, but true."""
    if missing.isdisjoint(token):
        alone = unicodedata.category(token[0]).startswith("M")
        return "◌" + token if alone else token  # an accent needs something to stand on
    parts = (f" {_code(char)} " if char in missing else char for char in token)
    words = "".join(parts).split()
    return " ".join(words[:3] + ["…"] * (len(words) > 3))


def find_fonts(characters: Iterable[str]) -> tuple[list[str], set[str]]:
    """Fewest families that cover the characters, and the characters that none covers."""
    families, missing = _cover(frozenset(characters))
    return list(families), set(missing)


@lru_cache(maxsize=256)
def _cover(characters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    from matplotlib.font_manager import findfont

    families, missing = [BASE_FONT], set(characters)
    missing -= _covered(findfont(BASE_FONT), missing)
    for look in (_listed, _unlisted):
        offers = look(missing) if missing else {}
        while missing and offers:
            best = max(offers, key=lambda name: (len(offers[name] & missing), "Sans" in name))
            if missing.isdisjoint(offers[best]):
                break
            families.append(best)
            missing -= offers[best]
    return tuple(families), frozenset(missing)


def _covered(file: str, wanted: set[str]) -> set[str]:
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(file)
    except (OSError, RuntimeError):  # listed once, since removed or broken
        return set()
    return {char for char in wanted if font.get_char_index(ord(char))}


def _listed(wanted: set[str]) -> dict[str, set[str]]:
    """What each family that matplotlib knows has of the characters. "Last Resort" has a box for
    everything; emoji fonts hold bitmaps that cannot be scaled.
    """
    from matplotlib.font_manager import fontManager

    return {
        font.name: _covered(font.fname, wanted)
        for font in fontManager.ttflist
        if (font.style, font.weight, font.stretch) == ("normal", 400, "normal")
        and not any(word in font.name for word in ("Resort", "Emoji"))
    }


def _unlisted(wanted: set[str]) -> dict[str, set[str]]:
    """The same once more, with fonts that were installed since matplotlib last looked."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {font.fname for font in fontManager.ttflist}
    for file in sorted(set(findSystemFonts()) - known):
        if _covered(file, wanted):
            fontManager.addfont(file)
    return _listed(wanted)


def visual(tokens: Sequence[str]) -> list[int]:
    """The tokens of a line from left to right, by number: Arabic and Hebrew begin at the right, but
    numbers and Latin words in them do not.

    >>> visual(["a", "b"]), visual(["א", "ב", "1", "2", "</s>"])
    ([0, 1], [4, 2, 3, 1, 0])
    """
    ways = [_way(token) for token in tokens]
    strong = next((way for way in ways if way in ("R", "L")), "L")
    order = list(range(len(tokens)))
    if strong == "L":
        return order
    order.reverse()
    begin = 0
    while begin < len(order):
        end = begin + 1
        if ways[order[begin]] in ("L", "N"):
            while end < len(order) and ways[order[end]] in ("L", "N"):
                end += 1
            order[begin:end] = order[begin:end][::-1]
        begin = end
    return order


def _way(token: str) -> str:
    """R(ight to left), L(eft to right), N(umber), or nothing."""
    if token.startswith("<") and token.endswith(">"):  # a sign of our own
        return ""
    kinds = {"R": "R", "AL": "R", "L": "L", "EN": "N", "AN": "N"}
    return next((kinds[k] for k in map(unicodedata.bidirectional, token) if k in kinds), "")


def width(token: str) -> int:
    """Columns of the token in a terminal: a Chinese character takes two, an accent none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in token)
    return wide + sum(not unicodedata.category(char).startswith("M") for char in token)


def widest(tokens: Iterable[str]) -> int:
    return max(map(width, tokens))
