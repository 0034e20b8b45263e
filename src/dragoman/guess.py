"""Which recipe suits a table of texts: what its answers look like beside its sources.

Nobody who has pairs should have to know that labels, tags and sentences want other models. What is
chosen here is said, and `-r` chooses otherwise.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from dragoman.data.fields import TextSpec, settle
from dragoman.data.rows import iter_inputs
from dragoman.errors import UserError

LOOK = 20_000  # rows that are looked at
LABELS = 200  # no more answers than this are labels
OFTEN = 20  # times that each of them comes, on average
RARER = 5  # sources, or words of them, are so many times as many as answers, or words of answers
TAGS = 500  # different tags at the most
SHORT = 3  # words of an answer to a question, on average
LONG = 60  # words of a source that is summed up
KNOWN, OWN = 0.8, 0.5  # shares of a reply's words: in any source, and less than this in its own
PLAIN = {"train", "dev", "columns", "format", "on_bad_line", "also", "dev_rows", "store"}
Rows = Sequence[tuple[str, ...]]


class Guess(NamedTuple):
    """A recipe and why it was chosen."""

    recipe: str
    why: str

    def told(self) -> str:
        """For people."""
        return f"recipe: {self.recipe}, since {self.why}; -r chooses another"


USUAL = Guess("transduce", "")


def guess(changes: Mapping[str, Any], rows: Iterable[tuple[str, ...]] | None = None) -> Guess:
    """The recipe for the files that a config names, or for rows at hand, where nothing else in the
    config says what kind of model it is to be.
    """
    data = dict(changes.get("data", {}))
    if {"model", "recipe"} & set(changes) or set(data) - PLAIN:
        return USUAL
    if rows is not None:
        return of_rows(list(islice(rows, LOOK)))
    files, layout = data.get("train") or (), data.get("format", "auto")
    if not files or "-" in files or layout not in ("auto", "tsv", "parallel"):
        return USUAL
    try:
        return of_rows(list(islice(_rows(files, data.get("columns")), LOOK)))
    except UserError:
        return USUAL  # whoever reads the files in earnest says what is wrong with them


def _rows(files: Sequence[str], columns: Any) -> Iterator[tuple[str, ...]]:
    """Texts side by side; rows that lack some are passed over."""
    if len(files) > 1:
        sides = [iter_inputs([name], format="lines") for name in files]
        yield from (tuple(part[0] for part in parts) for parts in zip(*sides, strict=False))
        return
    if not files[0].removesuffix(".gz").endswith(".tsv"):
        return
    wanted = [int(c) - 1 for c in columns] if columns and _numbers(columns) else None
    if columns and wanted is None:
        return
    for (line,) in iter_inputs(files, format="lines"):
        texts = line.split("\t")
        if wanted is None:
            yield tuple(texts)
        elif max(wanted) < len(texts):
            yield tuple(texts[c] for c in wanted)


def _numbers(columns: Iterable[Any]) -> bool:
    return all(str(column).isdecimal() for column in columns)


def of_rows(rows: Rows) -> Guess:
    """The recipe for texts of which the last, or in a table of more the second, is the answer.

    >>> of_rows([(f"text {i}", "yes" if i % 2 else "no") for i in range(40)]).recipe
    'classify'
    """
    widths = Counter(len(row) for row in rows).most_common(1)
    width = widths[0][0] if widths else 0
    rows = [row for row in rows if len(row) >= width]  # blank lines, and what is broken off
    if width >= 3 and (found := _of_three([row[:3] for row in rows])):
        return found
    return _of_two([(row[0], row[1]) for row in rows]) if width >= 2 else USUAL


def _of_three(rows: Rows) -> Guess | None:
    first, second, last = zip(*rows, strict=True)
    if _tagged(first, second) or all(text.strip().isdecimal() for text in last):
        return None  # what comes third is beside the point
    if _features(second) and _spelled(first) and _spelled(last):
        return Guess("inflect", "the second column is of features")
    asked = sum(text.rstrip().endswith("?") for text in second)
    if 2 * asked > len(rows) and _words(first) >= 2 * _words(second) and _words(last) <= SHORT:
        return Guess("answer", "a text, a question and a short answer")
    if _labels(first, last):
        return Guess("entail", f"two texts and one of {len(set(last))} labels")
    return None


def _of_two(rows: Rows) -> Guess:
    source, target = zip(*rows, strict=True)
    if _labels(source, target):
        return Guess("classify", f"answers are {len(set(target))} labels")
    if _tagged(source, target):
        return Guess("tag", "each word has its tag")
    if settle(TextSpec(), target).units != "subword" or _spelled(source):
        return USUAL
    if _words(source) >= max(LONG, 3 * _words(target)):
        return Guess("summarize", "answers are short beside their sources")
    if _replies(source, target):
        return Guess("dialog", "both sides are of one language, and answers say something else")
    return Guess("bahdanau2015-small", "both sides are sentences")


def _labels(sources: Sequence[str], targets: Sequence[str]) -> bool:
    kinds = len(set(targets))
    varied = len(set(sources)) >= RARER * kinds
    return 1 < kinds <= LABELS and len(targets) >= OFTEN * kinds and varied


def _tagged(sources: Sequence[str], targets: Sequence[str]) -> bool:
    pairs = [(a.split(), b.split()) for a, b in zip(sources, targets, strict=True)]
    if _words(sources) < 3 or any(len(a) != len(b) for a, b in pairs):
        return False
    words, tags = ({word for pair in pairs for word in pair[side]} for side in (0, 1))
    return len(tags) <= TAGS and len(words) >= RARER * len(tags)


def _replies(sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Whether words of answers are known from sources, but seldom from their own."""
    said = [set(text.lower().split()) for text in sources]
    heard = [text.lower().split() for text in targets]
    known, count = set[str]().union(*said), sum(map(len, heard))
    shared = sum(word in known for words in heard for word in words)
    own = sum(word in mine for mine, words in zip(said, heard, strict=True) for word in words)
    return shared >= KNOWN * count and own < OWN * count


def _features(texts: Sequence[str]) -> bool:
    """Whether texts are lists of marks that come again and again, as in `V;PST;3;SG`."""
    marks = {mark for text in texts for mark in text.replace(",", ";").split(";")}
    listed = sum(";" in text or "," in text for text in texts)
    return 2 * listed > len(texts) and OFTEN * len(marks) <= len(texts)


def _spelled(texts: Sequence[str]) -> bool:
    return settle(TextSpec(), texts).units == "char"


def _words(texts: Sequence[str]) -> float:
    return sum(len(text.split()) for text in texts) / max(len(texts), 1)
