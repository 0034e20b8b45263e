"""Clips: arrays and folders of pictures become a few frames, as in training."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .pictures import Pictures

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")
Floats = npt.NDArray[np.float32]


class Clips(Pictures):
    """A column of clips: a value is a `.npy` file, its content, or a folder of pictures."""

    def encode(self, value: str | bytes) -> Floats:
        """The frames that are looked at, (S, C, H, W), as numbers around 0."""
        if isinstance(value, str) and Path(value).is_dir():
            names = sorted(p for p in Path(value).iterdir() if p.suffix.lower() in SUFFIXES)
            chosen = [names[at] for at in self._places(len(names))]
            return np.concatenate([super(Clips, self).encode(str(name)) for name in chosen])
        content = value if isinstance(value, bytes) else Path(value).read_bytes()
        if not content.startswith(b"\x93NUMPY"):
            raise ValueError("a clip is a .npy file or a folder of pictures; cut films into frames")
        frames = np.load(io.BytesIO(content), allow_pickle=False)
        colours = frames.shape[3:] in ((), (1,), (3,))
        if frames.ndim not in (3, 4) or not colours or frames.dtype.kind not in "uf":
            raise ValueError(f"an array of shape {frames.shape} and type {frames.dtype}: no clip")
        return np.concatenate([self._frame(frames[at]) for at in self._places(len(frames))])

    def _places(self, length: int) -> list[int]:
        """The middles of equal parts."""
        if not 0 < length <= self.about["max_frames"]:
            raise ValueError(f"a clip of {length} frames")
        wanted = self.about["frames"]
        if self.about["rate"] is not None:
            seconds = length / self.about["fps"]
            wanted = min(wanted, max(1, round(self.about["rate"] * seconds)))
        count = min(wanted, length)
        return [(2 * i + 1) * length // (2 * count) for i in range(count)]

    def _frame(self, frame: npt.NDArray[Any]) -> Floats:
        """Numbers of any type as three colours of 0 to 255, brought to size."""
        from PIL import Image

        if frame.dtype.kind == "f":
            frame = np.nan_to_num(frame.astype(np.float32) * 255)
        frame = np.clip(frame, 0, 255).astype(np.uint8)
        frame = frame[..., None] if frame.ndim == 2 else frame
        whole = np.repeat(frame, 3, 2) if frame.shape[2] == 1 else frame
        return self.numbers(Image.fromarray(whole))
