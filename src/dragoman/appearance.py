"""What columns of texts look like: labels, tags, questions, features, names of files."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from dragoman.data.fields import TextSpec, settle

LABELS = 200  # no more answers than this are labels
OFTEN = 5  # times that each of them comes, on average
MARKS = 20  # times that a mark comes in a column of features
RARER = 5  # sources, or words of them, are so many times as many as answers, or words of answers
TAGS = 500  # different tags at the most
ASTRAY = 0.02  # share of rows that may have another number of tags than words
DIGITS = 20  # no more numbers than this may be labels; more are counts
LONG = 60  # words of a source that is summed up
SHORT = 3  # words of an answer to a question, on average; no text of fewer is a sentence, or tagged
KNOWN, OWN = 0.8, 0.5  # shares of a reply's words: in any source, and less than this in its own
FOREIGN = 0.3  # a smaller share of words that the other side has, too, is of another language
SEVERAL = 0.05  # share of answers that are several labels
ENOUGH, MOST = 100, 400  # rows that tell whether answers follow their sources; no more are asked
FIRST = 50  # symbols of a text that are looked at for that
LONGEST = 100  # no table with longer texts is read off from left to right: it would take memory
IN_ORDER = 0.9  # share of pairs of symbols whose places do not cross
_ID = re.compile(r"[A-Za-z_.#/-]*\d+|[0-9a-f-]{32,36}")
_WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff]|[^\\s\u3040-\u30ff\u3400-\u9fff]+")
_MARK = re.compile(r"[^;,|()\s]+")
PICTURES = (".jpg", ".jpeg", ".png", ".webp")
SOUNDS = (".flac", ".wav", ".ogg", ".mp3")
CLIPS = (".mp4", ".mkv", ".webm", ".mov", ".avi")
Texts = Sequence[str]


def name_files(texts: Texts, endings: tuple[str, ...]) -> bool:
    """Whether all texts name files of a kind.

    >>> name_files(["a.JPG", "b/c.png"], PICTURES), name_files(["see a.jpg", "none"], PICTURES)
    (True, False)
    """
    return bool(texts) and all(text.strip().lower().endswith(endings) for text in texts)


def points(sources: Texts, targets: Texts) -> bool:
    """Whether sources are points in the plane, and answers which of them, in some order.

    >>> points(["0.1 0.9 0.4 0.2"], ["2 1"]), points(["0.1 0.9"], ["3"]), points(["12 11"], ["a"])
    (True, False, False)
    """
    try:
        given = [[float(number) for number in text.split()] for text in sources]
        wanted = [[int(place) for place in text.split()] for text in targets]
    except ValueError:
        return False
    pairs, plane = zip(given, wanted, strict=True), all("." in text for text in sources)
    return plane and all(b and set(b) <= {*range(1, len(a) // 2 + 1)} for a, b in pairs)


def ids(first: Texts, second: Texts, third: Texts) -> bool:
    """Whether the first texts only number the rows, and a sentence or what has a label follows."""
    if len(set(first)) < len(first) or not all(_ID.fullmatch(text.strip()) for text in first):
        return False
    return length(second) >= SHORT or labels(second, third)


def labels(sources: Texts, targets: Texts) -> bool:
    kinds = len(set(targets))
    varied = len(set(sources)) >= RARER * kinds
    return 1 < kinds <= LABELS and len(targets) >= OFTEN * kinds and varied


def several(sources: Texts, targets: Texts, mark: str | None = None) -> bool:
    """Whether answers are sets of labels: those of more than one are made of ones that also stand
    alone, none comes twice in one, and the same sets come again and again.
    """
    sets = [[label.strip() for label in text.split(mark)] for text in targets]
    alone = {one[0] for one in sets if len(one) == 1}
    more = [one for one in sets if len(one) > 1]
    if not alone or len(more) < SEVERAL * len(sets) or len(targets) < OFTEN * len(set(targets)):
        return False
    varied = len(set(sources)) >= RARER * len(alone) and len(alone) <= LABELS
    return varied and all(len(set(one)) == len(one) and alone.issuperset(one) for one in more)


def counts(first: Texts, second: Texts, last: Texts) -> bool:
    """Whether what stands beside two texts are numbers that count something, and no labels."""
    if not all(text.strip().isdecimal() for text in last):
        return False
    return len(set(last)) > DIGITS or min(length(first), length(second)) < SHORT


def asked(texts: Texts, questions: Texts, answers: Texts) -> bool:
    asked = sum(text.rstrip().endswith(("?", "？")) for text in questions)
    brief = length(answers) <= SHORT and length(texts) >= 2 * length(questions)
    return 2 * asked > len(questions) and brief


def tagged(sources: Texts, targets: Texts, more: int = 0) -> bool:
    """Whether each word has its tag, and so many come after, in nearly all rows: training names
    those that are amiss. Words are what blanks part, in any script, as they are for a tagger.
    """
    pairs = [(a.split(), b.split()) for a, b in zip(sources, targets, strict=True)]
    even = [(a, b) for a, b in pairs if len(a) + more == len(b)]
    brief = sum(len(a) for a, _ in pairs) < SHORT * len(pairs)
    if brief or len(even) < (1 - ASTRAY) * len(pairs):
        return False
    words, tags = ({word for pair in even for word in pair[side]} for side in (0, 1))
    return len(tags) <= TAGS and len(words) >= RARER * len(tags)


def foreign(first: Texts, second: Texts) -> bool:
    """Whether two columns are sentences of which one's words are seldom known to the other."""
    if min(length(first), length(second)) < SHORT:
        return False
    known = {word for text in first for word in _WORD.findall(text.lower())}
    heard = [word for text in second for word in _WORD.findall(text.lower())]
    return sum(word in known for word in heard) < FOREIGN * len(heard)


def replies(sources: Texts, targets: Texts) -> bool:
    """Whether words of answers are known from sources, but seldom from their own."""
    said = [set(text.lower().split()) for text in sources]
    heard = [text.lower().split() for text in targets]
    known, count = set[str]().union(*said), sum(map(len, heard))
    shared = sum(word in known for words in heard for word in words)
    own = sum(word in mine for mine, words in zip(said, heard, strict=True) for word in words)
    return shared >= KNOWN * count and own < OWN * count


def features(texts: Texts) -> bool:
    """Whether texts are lists of marks that come again and again, as in `V;PST;3;SG`."""
    marks = [mark for text in texts for mark in _MARK.findall(text)]
    listed = sum(";" in text or "," in text for text in texts)
    return 2 * listed > len(texts) and MARKS * len(set(marks)) <= len(marks)


def spelled(texts: Texts) -> bool:
    return settle(TextSpec(), texts).units == "char"


def in_order(sources: Texts, targets: Texts) -> bool:
    """Whether answers follow their sources from left to right, symbol by symbol: as sounds follow
    letters, and not as dates in one form follow those in another.
    """
    if len(sources) < ENOUGH or max(map(len, (*sources, *targets))) > LONGEST:
        return False
    whole = settle(TextSpec(), targets).units == "word"
    wanted = [(text.split() if whole else list(text))[:FIRST] for text in targets[:MOST]]
    given = [list(text[:FIRST]) for text in sources[:MOST]]
    pairs = list(zip(given, wanted, strict=True))
    chances, straight, crossed = translations(pairs), 0, 0
    for source, target in pairs:
        places = _places(source, target, chances)
        for k, place in enumerate(places):
            straight += sum(before < place for before in places[:k])
            crossed += sum(before > place for before in places[:k])
    return straight > 0 and straight >= IN_ORDER * (straight + crossed)


def translations(
    pairs: Iterable[tuple[Sequence[str], Sequence[str]]], rounds: int = 4
) -> dict[tuple[str, str], float]:
    """p(target symbol | source symbol) by expectation and maximisation (Brown et al. 1993, model
    1); the empty source symbol stands for none of them.

    >>> chances = translations([("ab", "AB"), ("b", "B"), ("a", "A")])
    >>> chances["a", "A"] > 0.9 > chances["a", "B"]
    True
    """
    chances: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        counts = defaultdict[tuple[str, str], float](float)
        totals = defaultdict[str, float](float)
        for source, target in pairs:
            givers = [*source, ""]
            for symbol in target:
                weights = [chances.get((giver, symbol), 1.0) for giver in givers]
                whole = sum(weights)
                for giver, weight in zip(givers, weights, strict=True):
                    counts[giver, symbol] += weight / whole
                    totals[giver] += weight / whole
        chances = {pair: count / totals[pair[0]] for pair, count in counts.items()}
    return chances


def _places(
    source: Sequence[str], target: Sequence[str], chances: dict[tuple[str, str], float]
) -> list[int]:
    """Where target symbols come from, those for which that is clear."""
    found = []
    for symbol in target:
        weights = [chances[giver, symbol] for giver in source]
        top = max(weights, default=0.0)
        if weights.count(top) == 1 and top > chances["", symbol]:
            found.append(weights.index(top))
    return found


def length(texts: Texts) -> float:
    """Words of a text, on average; where none are told apart, each letter is one."""
    return sum(len(_WORD.findall(text)) for text in texts) / max(len(texts), 1)
