"""Columns of clips: video files, arrays and folders of pictures become a few frames each."""

import io
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field as Bound

from dragoman.data.clips import Frame, Sampling, from_array, from_video
from dragoman.data.files import Place, UnreadableError, content, locate
from dragoman.data.media import Array
from dragoman.data.pictures import ImageField, ImageSpec
from dragoman.spec import Positive

PICTURES = (".jpg", ".jpeg", ".png", ".webp")
ARRAY = b"\x93NUMPY"  # how a .npy file begins


class VideoSpec(ImageSpec):
    """How clips are read: frames as pictures are."""

    kind: Literal["video"] = "video"  # type: ignore[assignment]
    frames: Annotated[int, Bound(ge=1, le=4096)] = 16  # of each clip, at most, spread evenly
    rate: Positive | None = None  # fewer, where so many a second are enough
    max_frames: Annotated[int, Bound(ge=1, le=1_000_000)] = 20_000  # longer clips are refused
    fps: Positive = 25.0  # of arrays and folders, which do not say


class VideoField(ImageField):
    """A column of clips. `size` is the number of channels."""

    options = VideoSpec
    spec: VideoSpec

    def describe(self) -> str:
        spec = self.spec
        return f"clips of up to {spec.frames} frames of {spec.height} × {spec.width}, {spec.colour}"

    def find(self, value: str) -> Place:
        """A folder is a clip, too: of the pictures in it, in the order of their names."""
        path = Path(value)
        return Place(path, None, 0, path.stat().st_mtime_ns) if path.is_dir() else locate(value)

    def open(self, place: Place) -> Array:
        if place.member is not None or not place.path.is_dir():
            return super().open(place)
        names = sorted(p for p in place.path.iterdir() if p.suffix.lower() in PICTURES)
        chosen = self._sampling.places(self._sampling.check(len(names)), self.spec.fps)
        frames = []
        for at in chosen:
            try:
                frames.append(super().decode(content(locate(str(names[at])), self.most)))
            except UnreadableError as error:
                raise UnreadableError(f"{names[at].name}: {error}") from None
        return np.concatenate(frames)

    def decode(self, content: bytes) -> Array:
        """One clip, (frames, C, H, W) bytes."""
        file = io.BytesIO(content)
        if content.startswith(ARRAY):
            frames = from_array(file, self._sampling, self._small, self.spec.fps)
        else:
            frames = from_video(file, self._sampling, self._small)
        return np.concatenate(frames)

    @property
    def _sampling(self) -> Sampling:
        return Sampling(self.spec.frames, self.spec.rate, self.spec.max_frames)

    def _small(self, frame: Frame) -> Array:
        from PIL import Image

        return self._fitted(Image.fromarray(frame))
