"""Which answers are wrong, how wrong, and what is taken for what."""

import random
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from dragoman.metrics.edits import edit_distance

SHOWN = 12  # mistakes of each kind on the page
HABITS = 5  # confusions that came again: so many tell enough
MARK = "∅"  # nothing: a symbol left out or put in


class Mistake(NamedTuple):
    """An answer that is none of the right ones."""

    item: int
    written: str
    wanted: str  # the nearest of the right answers
    share: float  # edits, as a share of the longer of both


class Confusion(NamedTuple):
    """What stood where something else was wanted, and how often."""

    wanted: str
    written: str
    times: int


def mistakes(written: Sequence[str], wanted: Sequence[list[str]]) -> list[Mistake]:
    """All wrong answers, the worst first.

    >>> mistakes(["cat", "dug"], [["cat"], ["bug", "dog"]])
    [Mistake(item=1, written='dug', wanted='bug', share=0.3333333333333333)]
    """
    found = []
    for item, (line, several) in enumerate(zip(written, wanted, strict=True)):
        if line in several:
            continue
        shares = [_share(line, one) for one in several]
        best = min(range(len(several)), key=shares.__getitem__)
        found.append(Mistake(item, line, several[best], shares[best]))
    return sorted(found, key=lambda mistake: (-mistake.share, mistake.item))


def _share(a: str, b: str) -> float:
    return edit_distance(a, b) / max(len(a), len(b), 1)


def worst_and_typical(found: Sequence[Mistake]) -> tuple[list[Mistake], list[Mistake]]:
    """The worst mistakes, and some of the others drawn at random: always the same ones.

    >>> worst, typical = worst_and_typical([Mistake(i, "", "", 1.0) for i in range(30)])
    >>> len(worst), len(typical), {m.item for m in worst} & {m.item for m in typical}
    (12, 12, set())
    """
    worst, rest = list(found[:SHOWN]), list(found[SHOWN:])
    typical = random.Random(1).sample(rest, min(SHOWN, len(rest)))
    return worst, sorted(typical, key=lambda mistake: mistake.item)


def confusions(found: Sequence[Mistake], words: bool, most: int = 20) -> list[Confusion]:
    """What is taken for what, the commonest first: words, or characters where there are no words.
    Where some come again, those that came once are chance, and are left out.

    >>> wrong = [Mistake(0, "dug", "dog", 0.3), Mistake(1, "dots", "dot", 0.3)]
    >>> confusions(wrong, words=False)
    [Confusion(wanted='o', written='u', times=1), Confusion(wanted='∅', written='s', times=1)]
    """
    counts: Counter[tuple[str, str]] = Counter()
    for mistake in found:
        a, b = cut(mistake.wanted, words), cut(mistake.written, words)
        for same, left, right in pieces(a, b):
            if not same:
                glue = " " if words else ""
                counts[glue.join(left) or MARK, glue.join(right) or MARK] += 1
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    habits = [pair for pair in ranked if pair[1] > 1]
    chosen = habits if len(habits) >= HABITS else ranked
    return [Confusion(*pair, count) for pair, count in chosen[:most]]


def cut(text: str, words: bool) -> list[str]:
    return text.split() if words else list(text)


def pieces(a: Sequence[str], b: Sequence[str]) -> list[tuple[bool, Sequence[str], Sequence[str]]]:
    """Two sequences side by side: stretches that are the same, and stretches that differ.

    >>> pieces("cart", "card")
    [(True, 'car', 'car'), (False, 't', 'd')]
    """
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return [(kind == "equal", a[i:j], b[k:n]) for kind, i, j, k, n in matcher.get_opcodes()]
