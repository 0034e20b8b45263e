"""What answers must contain, as the symbols that would write it."""

from collections.abc import Sequence

from dragoman import search
from dragoman.config import SearchSpec
from dragoman.core import UNK
from dragoman.data.fields import TextField
from dragoman.data.spelling import banned, spellings
from dragoman.errors import UserError


def required(
    field: TextField,
    inputs: Sequence[tuple[Sequence[str], Sequence[str]]],  # their own phrases, words to copy
    options: SearchSpec,
) -> search.Phrases | None:
    """All phrases that the answers of some inputs must contain, if there are any."""
    items = []
    for asked, copied in inputs:
        phrases = dict.fromkeys((*options.require, *asked))
        items.append([_spelled(field, phrase, copied, options) for phrase in phrases])
    return search.Phrases(items) if any(items) else None


def unwanted(
    field: TextField, copied: Sequence[Sequence[str]], options: SearchSpec
) -> list[list[list[int]]]:
    """What answers must not contain: for each input by the words that it could copy."""
    return [banned(field, options.ban, words) for words in copied]


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


def _inside(part: list[int], whole: list[int]) -> bool:
    places = range(len(whole) - len(part) + 1)
    return any(whole[i : i + len(part)] == part for i in places)
