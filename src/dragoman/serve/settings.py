"""What a server allows."""

from dataclasses import dataclass

MAX_INPUTS = 256  # of one request
MAX_TEXT = 20_000  # characters of one text
MAX_BEAM = 64  # paths, answers, symbols per place
MAX_LENGTH = 2_000  # symbols of an answer
MAX_PATHS = 32_000  # the same on all paths: a beam of 16 may write 2,000, one of 64 only 500
MAX_PHRASES = 32  # that are banned, or required
MAX_PHRASE = 200  # characters of one of them
MAX_PHRASED = 500  # characters of all of them: required ones make an answer longer than its limit


@dataclass(frozen=True)
class Settings:
    """The bounds of a server. Sizes are in bytes, times in seconds."""

    token: str | None = None  # clients must name it
    hosts: tuple[str, ...] = ()  # further names by which clients may call the server
    body: int = 1 << 20  # of a JSON request
    media: int = 32 << 20  # of a picture or a sound
    timeout: float = 30.0  # for an answer
    patience: float = 10.0  # for a request to arrive
    queue: int = 512  # inputs that may wait for a model
    batch: int = 32  # inputs that are decoded together
    clients: int = 256  # requests at a time
