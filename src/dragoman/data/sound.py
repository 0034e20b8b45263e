"""Columns of sound: files of any kind become bands of pitch, a hundred times a second."""

import io
from collections.abc import Callable, Iterable
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field as Bound
from torch import Tensor

from dragoman.core import Padded
from dragoman.data.columns import Arrays, Column, Ints, Rows
from dragoman.data.files import Place, UnreadableError, content
from dragoman.data.media import Array, Media, unread
from dragoman.data.seen import Seen
from dragoman.data.spectra import log_mel
from dragoman.data.waves import Heard, hear
from dragoman.errors import UserError
from dragoman.spec import Spec

LOOK = 2000  # as many sounds are listened to to learn how loud each band is
QUIET = 1e-3  # a band that varies less than this says nothing
Floats = npt.NDArray[np.float32]


class SoundSpec(Spec):
    """How sounds are read."""

    kind: Literal["sound"] = "sound"
    rate: Annotated[int, Bound(ge=1000, le=192_000)] = 16_000  # samples a second
    bands: Annotated[int, Bound(ge=1, le=512)] = 40  # of pitch
    window: Annotated[float, Bound(gt=0, le=1)] = 0.025  # seconds that a frame looks at
    hop: Annotated[float, Bound(ge=0.001, le=1)] = 0.010  # seconds between two frames
    max_seconds: Annotated[float, Bound(gt=0, le=3600)] = 30.0  # no more is read
    normalize: Literal["utterance", "global", "none"] = "utterance"  # bands to mean 0, variance 1
    mean: tuple[float, ...] | None = None  # global: per band, of the training sounds ...
    std: tuple[float, ...] | None = None  # ... when not given


class Sounds(Arrays):
    """Rows of bands (S, bands) that come out as numbers around 0."""

    spec: SoundSpec

    @classmethod
    def of_spec(cls, rows: Arrays, spec: SoundSpec) -> Self:
        made = cls(rows.flat, rows.offsets)
        made.spec = spec
        return made

    def select(self, rows: Rows) -> Self:
        return type(self).of_spec(super().select(rows), self.spec)

    def pad(self, rows: Rows) -> Padded:
        """The given rows side by side, normalised; padding is 0."""
        values, mask = super().pad(rows)
        real = mask.unsqueeze(-1)
        mean, spread = self._around(values.float(), real)
        return Padded((values.float() - mean) / spread * real, mask)

    def _around(self, values: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        spec = self.spec
        if spec.normalize == "utterance":
            count = real.sum(1, keepdim=True).clamp(min=1)
            mean = (values * real).sum(1, keepdim=True) / count
            square = ((values - mean).square() * real).sum(1, keepdim=True) / count
            return mean, square.sqrt().clamp(min=QUIET)
        if spec.normalize == "global" and spec.mean and spec.std:
            return torch.tensor(spec.mean), torch.tensor(spec.std)
        return torch.zeros(()), torch.ones(())


class SoundField(Media):
    """A column of sounds. `size` is the number of bands."""

    options = SoundSpec
    spec: SoundSpec

    def __init__(self, spec: SoundSpec) -> None:
        self.spec, self.size, self.hop = spec, spec.bands, spec.hop
        for one in (spec.mean, spec.std):
            if one is not None and len(one) != spec.bands:
                raise UserError(f"mean and std of sounds: {spec.bands} numbers, not {len(one)}")

    @classmethod
    def learn(cls, spec: SoundSpec, values: Iterable[str]) -> Self:
        """How loud each band is and how much that varies, from some of the sounds."""
        if spec.normalize != "global" or (spec.mean and spec.std):
            return cls(spec)
        names = list(dict.fromkeys(values))
        seen, wrong = cls(spec).read(names[:: max(1, len(names) // LOOK)])
        held = [np.asarray(seen[row], np.float64) for row in range(len(seen)) if len(seen[row])]
        if not held:
            raise unread(names, wrong, "sounds")
        count = sum(map(len, held))
        mean = sum(one.sum(0) for one in held) / count
        square = sum(np.square(one - mean).sum(0) for one in held) / count
        told = {
            "mean": spec.mean or tuple(np.round(mean, 4).tolist()),
            "std": spec.std or tuple(np.maximum(np.sqrt(square), QUIET).round(4).tolist()),
        }
        return cls(spec.model_copy(update=told))

    @classmethod
    def load(cls, spec: SoundSpec, read: Callable[[str], bytes]) -> Self:
        if spec.normalize == "global" and not (spec.mean and spec.std):
            raise UserError("the model's config has no mean and std: it was not written by train")
        return cls(spec)

    def describe(self) -> str:
        spec = self.spec
        return f"sound at {spec.rate:,} Hz, {spec.bands} bands every {1000 * spec.hop:g} ms"

    def seen(self, row: Array) -> Seen:
        return Seen(self.spec.kind, row, len(row) * self.spec.hop)

    def none(self) -> Array:
        return np.zeros((0, self.size), np.float16)

    def arrays(self, flat: Array, offsets: Ints) -> Column:
        return Sounds.of_spec(Arrays(flat, offsets), self.spec)

    def decode(self, content: bytes) -> Array:
        """One sound, (S, bands); one that is too long is cut."""
        return self._bands(self._heard(content))

    def attempt(self, place: Place | str) -> tuple[Array, str]:
        """As `decode`; but nothing can be learned from a text and half of its sound."""
        if isinstance(place, str):
            return self.none(), place
        try:
            heard = self._heard(content(place, self.most))
        except UnreadableError as error:
            return self.none(), str(error)
        if heard.longer:
            return self.none(), f"longer than max_seconds={self.spec.max_seconds:g}"
        return self._bands(heard), ""

    def _heard(self, content: bytes) -> Heard:
        return hear(io.BytesIO(content), self.spec.rate, self.spec.max_seconds)

    def _bands(self, heard: Heard) -> Array:
        spec = self.spec
        bands = log_mel(heard.samples, spec.rate, spec.bands, spec.window, spec.hop)
        return bands.astype(np.float16)
