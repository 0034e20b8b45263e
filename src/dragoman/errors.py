"""The errors people see: what is wrong, where, and what to do. The command line prints them in one
line.
"""


class DragomanError(Exception):
    """A failure that is not the user's mistake (a full disk, a loss that is not a number): exit
    code 1.
    """

    exit_code = 1


class UserError(DragomanError):
    """The user's mistake: a wrong file, line, option or setting. Exit code 2."""

    exit_code = 2


def did_you_mean(word: str, known: list[str]) -> str:
    """A hint for a misspelt name, or nothing.

    >>> did_you_mean("hiden", ["hidden", "layers"])
    " (did you mean 'hidden'?)"
    >>> did_you_mean("zebra", ["hidden", "layers"])
    ''
    """
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


def many(count: int, thing: str) -> str:
    """A number of things, for people.

    >>> many(1, "row"), many(2000, "dev row")
    ('1 row', '2,000 dev rows')
    """
    return f"{count:,} {thing}" + ("" if count == 1 else "s")
