"""Clips to frames: a few frames of video files, folders of pictures and arrays, spread evenly.

What a file costs is known before it is decoded: a header that promises too much is refused, and
decoding holds a bounded number of small frames, however long the clip turns out to be.
"""

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.data.files import UnreadableError
from dragoman.errors import UserError

Frame = npt.NDArray[np.uint8]  # (H, W, 3)
Fit = Callable[[Frame], Frame]  # brings a frame to the size that a model reads

SPARE = 8  # times as many frames are held while the end of a clip is not known
PIXELS = 50_000_000  # of a frame: more are refused before decoding
MISSING = 0.1  # a clip that holds so much less than its header says was cut off


class Sampling(NamedTuple):
    """Which frames of a clip are looked at."""

    frames: int = 16  # at most so many, spread evenly ...
    rate: float | None = None  # ... fewer, where so many a second are enough
    most: int = 20_000  # frames of a clip: longer ones are refused

    def take(self, length: int, fps: float) -> int:
        """How many frames of a clip of so many are taken.

        >>> Sampling(16).take(100, 25), Sampling(16, rate=2).take(100, 25)
        (16, 8)
        """
        wanted = self.frames
        if self.rate is not None:
            wanted = min(wanted, max(1, round(self.rate * length / fps)))
        return min(wanted, length)

    def places(self, length: int, fps: float) -> list[int]:
        """Their places: the middles of equal parts.

        >>> Sampling(4).places(40, 25)
        [5, 15, 25, 35]
        """
        count = self.take(length, fps)
        return [(2 * i + 1) * length // (2 * count) for i in range(count)]

    def check(self, length: int) -> int:
        """The length of a clip, if it can be read."""
        if length < 1:
            raise UnreadableError("a clip of 0 frames")
        if length > self.most:
            raise UnreadableError(
                f"a clip of {length:,} frames, more than max_frames={self.most:,}"
            )
        return length


def from_array(file: BinaryIO, sampling: Sampling, fit: Fit, fps: float) -> list[Frame]:
    """Frames of a `.npy` file of shape (frames, height, width) or (frames, height, width, colours);
    whole numbers up to 255, or shares of one. Only the frames that are taken are read.

    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.zeros((100, 4, 5), np.uint8))
    >>> [frame.shape for frame in from_array(file, Sampling(2), lambda frame: frame, 25.0)]
    [(4, 5, 3), (4, 5, 3)]
    """
    shape, kind, begin = _array_header(file)
    size = int(np.prod(shape[1:], dtype=np.int64)) * kind.itemsize
    taken = []
    for place in sampling.places(sampling.check(shape[0]), fps):
        file.seek(begin + place * size)
        content = file.read(size)
        if len(content) < size:
            raise UnreadableError(f"the array ends before frame {place} of {shape[0]}")
        taken.append(fit(_coloured(np.frombuffer(content, kind).reshape(shape[1:]))))
    return taken


def _array_header(file: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and where the numbers begin; nothing but plain numbers is accepted."""
    file.seek(0)
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, fortran, kind = read(file)
    except (ValueError, OSError) as error:
        raise UnreadableError(f"not an array of frames: {error}") from None
    colours = shape[3:] in ((), (1,), (3,))
    if len(shape) not in (3, 4) or not colours or fortran or kind.kind not in "uf":
        raise UnreadableError(
            f"an array of shape {shape} and type {kind}: frames are (frames, height, width) or "
            "(frames, height, width, 3), of type uint8 or float"
        )
    if shape[1] * shape[2] > PIXELS or not shape[1] * shape[2]:
        raise UnreadableError(f"frames of {shape[2]} x {shape[1]} pixels")
    return shape, kind, file.tell()


def _coloured(frame: npt.NDArray[Any]) -> Frame:
    """Numbers of any type as three colours of 0 to 255."""
    if frame.dtype.kind == "f":
        frame = np.nan_to_num(frame.astype(np.float32) * 255)
    frame = np.clip(frame, 0, 255).astype(np.uint8)
    frame = frame[..., None] if frame.ndim == 2 else frame
    return np.repeat(frame, 3, 2) if frame.shape[2] == 1 else frame


def from_video(file: BinaryIO, sampling: Sampling, fit: Fit) -> list[Frame]:
    """Frames of a video file of any kind that FFmpeg reads."""
    av = _av()
    try:
        with av.open(file) as container:
            if not container.streams.video:
                raise UnreadableError("no pictures in this file")
            stream = container.streams.video[0]
            fps = float(stream.average_rate or stream.guessed_rate or 25)
            promised = _promised(container, stream, fps)
            return _decode(container.decode(stream), promised, fps, sampling, fit)
    except (av.FFmpegError, OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableError(f"no clip that can be read: {reason}") from None


def _promised(container: Any, stream: Any, fps: float) -> int:
    """How many frames the header speaks of; 0 where it does not say."""
    context = stream.codec_context
    if context.width * context.height > PIXELS:
        raise UnreadableError(f"frames of {context.width} x {context.height} pixels")
    context.thread_count = 1  # files, not frames, are decoded side by side
    if stream.frames:
        return int(stream.frames)
    if stream.duration and stream.time_base:
        return round(float(stream.duration * stream.time_base) * fps)
    return round(container.duration / 1_000_000 * fps) if container.duration else 0


def _decode(
    frames: Iterator[Any], promised: int, fps: float, sampling: Sampling, fit: Fit
) -> list[Frame]:
    """A few of the frames, spread evenly: those that the header's length asks for and, should it
    be wrong, ever sparser ones, of which the nearest are taken at the end.
    """
    hoped = set(sampling.places(sampling.check(promised), fps)) if promised else set()
    held: dict[int, Frame] = {}
    stride, length = 1, 0
    for frame in frames:
        if length in hoped or length % stride == 0:
            held[length] = fit(frame.to_ndarray(format="rgb24"))
        length += 1
        if length > sampling.most:
            sampling.check(length)
        if len(held) > SPARE * sampling.frames:
            stride *= 2
            held = {place: f for place, f in held.items() if place in hoped or place % stride == 0}
    sampling.check(length)
    if length + 1 < promised * (1 - MISSING):
        raise UnreadableError(f"the clip ends after {length} of {promised} frames")
    wanted = sampling.places(length, fps)
    return [held[min(held, key=lambda place: abs(place - want))] for want in wanted]


def _av() -> Any:
    try:
        import av
    except ImportError:
        raise UserError("clips need PyAV: pip install 'dragoman[video]'") from None
    return av
