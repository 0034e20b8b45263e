"""What a model sees of a column that is no text, and pictures of it that any browser shows."""

import base64
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SIDE, STRIP, LONG = 384, 96, 1200  # pixels: of a picture, of the height of a frame, of a sound
# The colours of a spectrogram: ever lighter, so that they are read in grey as well
HEAT = np.array(
    [[0, 0, 4], [59, 15, 112], [140, 41, 129], [222, 73, 104], [254, 159, 109], [252, 253, 191]],
    float,
)


class Seen(NamedTuple):
    """A column as its model reads it: smaller, cut, with as many frames as it looks at."""

    kind: str  # image, video, sound, points
    values: Array  # (frames, C, H, W) bytes, (S, bands), or points (S, D)
    seconds: float | None = None  # of a sound
    whole: bool = True  # whether a picture is all there, with nothing around it

    def png(self) -> bytes:
        """One picture of it: the picture, its frames side by side, or the spectrogram."""
        return png(_sound(self.values) if self.kind == "sound" else _strip(self.values))

    def tree(self) -> dict[str, Any]:
        """What JSON holds of it."""
        told: dict[str, Any] = {"kind": self.kind, "frames": len(self.values), "whole": self.whole}
        told |= {"seconds": round(self.seconds, 4)} if self.seconds else {}
        return told | {"picture": data_url(self.png())}


def png(pixels: Array) -> bytes:
    """Bytes (H, W, 3), or (H, W, 4) with how much is seen of each, as a PNG file.

    >>> png(np.zeros((2, 3, 3), np.uint8))[1:4]
    b'PNG'
    """
    tall, wide, channels = pixels.shape
    lines = np.ascontiguousarray(pixels, np.uint8).reshape(tall, wide * channels)
    filtered = np.concatenate([np.zeros((tall, 1), np.uint8), lines], 1).tobytes()
    head = struct.pack(">IIBBBBB", wide, tall, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(filtered)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )


def data_url(content: bytes) -> str:
    """A PNG file as an address that holds all of it."""
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _strip(frames: Array) -> Array:
    """(F, C, H, W) bytes as one picture, (H, F * W, 3)."""
    most = SIDE if len(frames) == 1 else STRIP
    every = max(1, -(-max(frames.shape[2:]) // most))
    small = np.asarray(frames)[:, :, ::every, ::every]
    colours = np.broadcast_to(small, (len(small), 3, *small.shape[2:])) if len(small) else small
    return np.concatenate([frame.transpose(1, 2, 0) for frame in colours], 1)


def _sound(bands: Array) -> Array:
    """(S, bands) as a spectrogram, low pitch below."""
    loud = np.asarray(bands, float)
    every = -(-len(loud) // LONG)
    loud = np.add.reduceat(loud, range(0, len(loud), every)) / every
    low, high = np.percentile(loud, [2, 99.5])
    share = np.clip((loud - low) / max(high - low, 1e-6), 0, 1).T[::-1]
    at = np.linspace(0, 1, len(HEAT))
    colours = [np.interp(share, at, HEAT[:, channel]) for channel in range(3)]
    return np.stack(colours, -1).astype(np.uint8)
