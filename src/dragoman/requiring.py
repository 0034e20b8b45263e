"""What answers must contain, as the symbols that would write it."""

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import islice, permutations, product
from typing import NamedTuple

from dragoman import search
from dragoman.config import SearchSpec
from dragoman.core import UNK
from dragoman.data.fields import TextField
from dragoman.data.spelling import banned, spellings
from dragoman.errors import UserError, many

TRIED = 5_041  # orders of phrases that are looked at: all those of seven, and one more
Ways = list[list[int]]  # a phrase: any one of its spellings will do


class UnfitError(UserError):
    """An input whose own phrases its answer cannot contain."""


class Wish(NamedTuple):
    """What the answer to an input must contain, and what is known of it before it is written."""

    name: str  # of the input, for people
    own: Sequence[str]  # phrases, besides those of the options
    copied: Sequence[str]  # words that it could copy
    begun: Sequence[int]  # how it begins
    room: int | None = None  # how many symbols it has, where its source says so

    def refused(self, why: str) -> UserError:
        """Phrases that all answers must contain are no matter of one input."""
        return UnfitError(why) if self.own else UserError(why)


def required(
    field: TextField, wishes: Sequence[Wish], options: SearchSpec
) -> search.Phrases | None:
    """All phrases that the answers to some inputs must contain, if there are any."""
    items = [_fitting(_phrases(field, wish, options), wish) for wish in wishes]
    return search.Phrases(items) if any(items) else None


def fulfilled(
    field: TextField, wish: Wish, paths: Sequence[Sequence[int]], options: SearchSpec
) -> list[int]:
    """Which of the answers found contain all that is required; at least one has to. What else rules
    a search (bans, lengths) is stronger than what is required.
    """
    names = dict.fromkeys((*options.require, *wish.own))
    if not names or not paths:
        return list(range(len(paths)))
    wanted = list(zip(names, _phrases(field, wish, options), strict=True))
    lacking = [
        next((name for name, ways in wanted if ways and not _holds(path, ways)), None)
        for path in paths
    ]
    if None not in lacking:
        raise wish.refused(f"{wish.name}: no answer was found that contains '{lacking[0]}'")
    return [place for place, phrase in enumerate(lacking) if phrase is None]


def unwanted(
    field: TextField, copied: Sequence[Sequence[str]], options: SearchSpec
) -> list[list[list[int]]]:
    """What answers must not contain: for each input by the words that it could copy."""
    return [banned(field, options.ban, words) for words in copied]


def _phrases(field: TextField, wish: Wish, options: SearchSpec) -> list[Ways]:
    found = {phrase: _spelled(field, phrase, wish.copied, options) for phrase in options.require}
    for phrase in wish.own:
        try:
            found[phrase] = _spelled(field, phrase, wish.copied, options)
        except UserError as error:
            raise UnfitError(f"{wish.name}: {error}") from None
    return list(found.values())


def _spelled(
    field: TextField, phrase: str, copied: Sequence[str], options: SearchSpec
) -> list[list[int]]:
    found = spellings(field, phrase, copied)
    good = [one for one in found if UNK not in one]
    if found and not good:
        raise UserError(f"'{phrase}' cannot be required: the model has no symbols to write it with")
    bans = banned(field, options.ban, copied)
    free = [one for one in good if not any(_inside(ban, one) for ban in bans)]
    if good and not free:
        raise UserError(f"'{phrase}' is required, but it or a part of it is banned")
    return free


def _fitting(phrases: list[Ways], wish: Wish) -> list[Ways]:
    """Phrases as they are, or where an answer has no room for one after the other, as the shortest
    run of symbols that holds them all. Where not even that fits, the wish is refused.
    """
    if wish.room is None:
        return phrases
    left = wish.room - len(wish.begun)
    if left < 0:
        told = f"has {wish.room} symbols, and should begin with {len(wish.begun)}"
        raise wish.refused(f"{wish.name}: the answer {told}")
    due = [ways for ways in phrases if ways and not _holds(wish.begun, ways)]
    if sum(min(map(len, ways)) for ways in due) <= left:
        return due
    runs = list(islice(_runs(due), TRIED))
    need, run = min((len(run) - _overlap(wish.begun, run), run) for run in runs)
    if need <= left:
        return [[run]]
    if len(runs) == TRIED:
        return due  # there are more ways: the search may find one
    more = " more" if wish.begun else ""
    told = f"takes {many(need, 'symbol')}{more}; the answer has only {left}{more}"
    raise wish.refused(f"{wish.name}: what is required {told}")


def _runs(phrases: list[Ways]) -> Iterator[list[int]]:
    """Phrases one after the other, in any order, each as far inside the one before as can be.

    >>> list(_runs([[[5, 6]], [[6, 7]], [[7]]]))
    [[5, 6, 7], [6, 7, 5, 6]]
    """
    for ways in product(*phrases):
        different = [list(way) for way in dict.fromkeys(map(tuple, ways))]
        outer = [
            one for one in different if not any(_inside(one, o) for o in different if o is not one)
        ]
        for order in permutations(outer):
            yield reduce(lambda run, one: run + one[_overlap(run, one) :], order)


def _overlap(before: Sequence[int], after: Sequence[int]) -> int:
    """How many symbols at the end of one are those at the beginning of the other."""
    most = min(len(before), len(after))
    same = (n for n in range(most, 0, -1) if [*before[-n:]] == [*after[:n]])
    return next(same, 0)


def _holds(path: Sequence[int], ways: Ways) -> bool:
    return any(_inside(way, path) for way in ways)


def _inside(part: Sequence[int], whole: Sequence[int]) -> bool:
    places = range(len(whole) - len(part) + 1)
    return any([*whole[i : i + len(part)]] == [*part] for i in places)
