"""Sound files to samples: any rate and number of channels become one channel at the rate wanted.

What a file costs is known before it is decoded: no more is read than the limit asks for. Sizes in
headers are not trusted: streams and recorders that were cut off write zero, or all ones.
"""

import io
import math
import struct
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.data.files import UnreadableError
from dragoman.errors import UserError

Floats = npt.NDArray[np.float32]

BLOCK = 1 << 16  # samples decoded at once
ROOM = 1 << 25  # bytes of a file that may be header, tags and pictures
ZEROS = 32  # of the sinc, on each side: how long the resampling filter is
KEPT = 0.95  # share of the band below the lower Nyquist frequency that the filter lets through
BETA = 12.0  # of the Kaiser window: ripples below -100 dB
TABLE = 1 << 23  # weights of a table of filters; for odder ratios they are computed as they come


class Heard(NamedTuple):
    """What was read of a sound."""

    samples: Floats  # (n,) one channel, at the rate asked for
    longer: bool  # the file goes on where reading stopped


def hear(file: BinaryIO, rate: int, seconds: float) -> Heard:
    """The first `seconds` of a sound file as one channel of `rate` samples a second.

    >>> import soundfile
    >>> stereo = io.BytesIO()
    >>> soundfile.write(stereo, np.full((800, 2), 0.5), 8000, format="WAV")
    >>> heard = hear(io.BytesIO(stereo.getvalue()), 16000, seconds=30)
    >>> len(heard.samples), round(float(heard.samples[800]), 2), heard.longer
    (1600, 0.5, False)
    """
    soundfile = _soundfile()
    try:
        with _open(file) as header:
            have, wide = int(header.samplerate), int(header.channels)
        most = math.ceil(seconds * have)
        file.seek(0)
        content = file.read(ROOM + 8 * most * wide)  # no format spends more than 8 bytes a sample
        with _open(io.BytesIO(honest(content))) as stream:
            samples = _mono(stream, most + 1)
    except (soundfile.SoundFileError, RuntimeError, OSError, ValueError, OverflowError) as error:
        raise UnreadableError(f"no sound that can be read: {_reason(error)}") from None
    if not len(samples):
        raise UnreadableError("a sound of 0 samples")
    if not np.isfinite(samples).all():
        raise UnreadableError("a sound with samples that are not numbers")
    return Heard(resample(samples[:most], have, rate), len(samples) > most)


def _open(file: BinaryIO) -> Any:
    """A sound file to be read from beginning to end. soundfile seeks after each block where it
    can, which fails where a header promises more than there is: it is told that it cannot.
    """
    sound = _soundfile().SoundFile(file)
    sound.seekable = lambda: False
    return sound


def _mono(sound: Any, most: int) -> Floats:
    """At most so many samples, the mean of all channels; memory is that of one channel."""
    blocks: list[Floats] = []
    left = most
    while left > 0:
        block = sound.read(min(BLOCK, left), dtype="float32", always_2d=True)
        blocks.append(block.mean(1))
        left -= len(block)
        if len(block) < BLOCK:
            break
    return np.concatenate(blocks) if blocks else np.empty(0, np.float32)


def honest(content: bytes) -> bytes:
    """A file whose header does not promise fewer samples than there are: decoders stop where a
    header says. That of a FLAC then says `unknown`, that of a WAV `to the end`.

    >>> wav = b"RIFF\\0\\0\\0\\0WAVEdata" + struct.pack("<I", 0) + bytes(8)
    >>> honest(wav)[16:20].hex()
    'ffffffff'
    """
    if content[:4] == b"fLaC" and len(content) > 26:
        fixed = bytearray(content)
        fixed[21] &= 0xF0  # STREAMINFO: 36 bits, the number of samples
        fixed[22:26] = bytes(4)
        return bytes(fixed)
    if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
        at = _lying_chunk(content)
        if at is not None:
            return content[: at + 4] + b"\xff\xff\xff\xff" + content[at + 8 :]
    return content


def _lying_chunk(content: bytes) -> int | None:
    """Where the data chunk of a WAV begins, if what follows its end is not another chunk."""
    at = 12
    data = None
    while at + 8 <= len(content):
        name, size = content[at : at + 4], struct.unpack_from("<I", content, at + 4)[0]
        if not all(32 <= letter < 127 for letter in name):
            return data
        data = at if name == b"data" else data
        if name == b"data" and size == 0:
            return at
        at += 8 + size + size % 2
    return None


def resample(samples: Floats, have: int, want: int) -> Floats:
    """Sound at another rate, by a sinc under a Kaiser window, one filter for each phase.

    >>> resample(np.ones(441, np.float32), 44100, 16000).shape
    (160,)
    """
    if have == want:
        return samples
    common = math.gcd(have, want)
    up, down = want // common, have // common
    band = min(1.0, want / have) * KEPT
    half = math.ceil(ZEROS / band)
    table = _table(up, band, half) if 2 * half * up <= TABLE else None
    count = -(-len(samples) * up // down)
    padded = np.pad(samples, half)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half)
    result = np.empty(count, np.float32)
    step = max(1, (1 << 20) // (2 * half))
    for begin in range(0, count, step):
        places = np.arange(begin, min(begin + step, count), dtype=np.int64) * down
        whole, phase = places // up, places % up
        filters = _filters(phase / up, band, half) if table is None else table[phase]
        result[begin : begin + len(places)] = np.einsum("nt,nt->n", windows[whole + 1], filters)
    return result


@lru_cache(maxsize=8)
def _table(phases: int, band: float, half: int) -> Floats:
    return _filters(np.arange(phases) / phases, band, half)


def _filters(phases: npt.NDArray[np.float64], band: float, half: int) -> Floats:
    """The filter (P, 2 * half) that reads the sound a share of a sample after the middle."""
    places = np.arange(1 - half, half + 1) - phases[:, None]
    window = np.i0(BETA * np.sqrt(np.clip(1 - (places / half) ** 2, 0, None))) / np.i0(BETA)
    return (band * np.sinc(band * places) * window).astype(np.float32)


def _reason(error: Exception) -> str:
    return str(error).rpartition(": ")[2].strip().rstrip(".") or type(error).__name__


def _soundfile() -> Any:
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: the library that it calls is missing
        raise UserError("sound needs soundfile: pip install 'dragoman[audio]'") from None
    return soundfile
