"""The lines of a file: unpacked, as text, with what is wrong with each."""

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import IO

from dragoman.data.quoting import Text
from dragoman.errors import UserError

STDIN = "<stdin>"
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_BUFFER = 1 << 18
_UNREADABLE: dict[type[Exception], str] = {
    FileNotFoundError: "no such file; check the path",
    IsADirectoryError: "this is a folder; name a file in it",
    PermissionError: "no permission to read it; check its access rights",
    gzip.BadGzipFile: "broken gzip file; fetch or compress it again",
    zlib.error: "broken gzip file; fetch or compress it again",
    EOFError: "gzip file is cut off before its end; fetch or compress it again",
}


@contextmanager
def _open(name: str) -> Iterator[IO[bytes]]:
    """The bytes of a file or of standard input, unpacked where they are gzip."""
    with ExitStack() as stack:
        if name == STDIN:
            stream: IO[bytes] = sys.stdin.buffer  # not ours to close
        else:
            stream = stack.enter_context(open(name, "rb", buffering=_BUFFER))
        if name.lower().endswith(".gz") or _peek(stream) == _GZIP:
            unpacked = stack.enter_context(gzip.GzipFile(fileobj=stream))
            stream = stack.enter_context(io.BufferedReader(unpacked, _BUFFER))
        yield stream


def _peek(stream: IO[bytes]) -> bytes:
    """The first two bytes, not taken; on a pipe this must not wait for more than there is."""
    if isinstance(stream, io.BufferedReader):
        return stream.peek(2)[:2]
    head = stream.read(2)
    stream.seek(-len(head), io.SEEK_CUR)
    return head


def read_lines(name: str) -> Iterator[Text]:
    """The lines of a file. Only LF and CR LF end one: `str.splitlines` would cut at U+2028 too."""
    try:
        with _open(name) as stream:
            first = (stream.readline().removeprefix(_BOM),)
            if no_text := _foreign(*first):
                raise UserError(f"{name}: {no_text}")
            for line, raw in enumerate(chain(filter(None, first), stream), 1):
                text, problem = decoded(raw.removesuffix(b"\n").removesuffix(b"\r"))
                yield line, text, problem
    except (OSError, EOFError, zlib.error) as error:
        why = _UNREADABLE.get(type(error), f"cannot be read ({error}); check the file")
        raise UserError(f"{name}: {why}") from error


def _foreign(raw: bytes) -> str:
    """What is no text in UTF-8, told by how it begins.

    >>> _foreign(b"PK\x03\x04"), _foreign("a".encode("utf-16")), _foreign(b"a")
    ('a workbook or a zip: save it as CSV or TSV', 'text in UTF-16: save it as UTF-8', '')
    """
    if raw.startswith(b"PK\x03\x04"):
        return "a workbook or a zip: save it as CSV or TSV"
    if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and b"\0" in raw[2:4]:
        return "text in UTF-16: save it as UTF-8"
    return ""


def decoded(raw: bytes) -> tuple[str, str]:
    """The text and what is wrong with it."""
    try:
        text, problem = raw.decode(), ""
    except UnicodeDecodeError:
        text, problem = raw.decode(errors="replace"), "bad UTF-8"
    if "\0" in text:
        return text.replace("\0", "\ufffd"), problem or "NUL byte"
    return text, problem
