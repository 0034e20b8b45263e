"""Pictures: JPEG, PNG or WEBP files, brought to one size, one range of colours and upright."""

import io
import struct
import warnings
import zlib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field as Bound

from dragoman.core import Padded
from dragoman.data.columns import Arrays, Column, Ints, Rows
from dragoman.data.files import UnreadableError
from dragoman.data.media import Array, Media, unread
from dragoman.data.seen import Seen
from dragoman.errors import UserError
from dragoman.spec import Spec

Side = Annotated[int, Bound(ge=1, le=4096)]
Bytes = npt.NDArray[np.uint8]
LOOK = 256  # as many pictures are looked at to learn how bright they are
_BEGINNINGS = {"JPEG": b"\xff\xd8\xff", "PNG": b"\x89PNG\r\n\x1a\n", "WEBP": b"RIFF"}
_BROKEN = (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error)


class ImageSpec(Spec):
    """How pictures are read."""

    kind: Literal["image"] = "image"
    height: Side = 64
    width: Side = 64
    aspect: Literal["stretch", "pad", "crop"] = "stretch"  # pad: whole, never enlarged, on `fill`
    fill: Annotated[int, Bound(ge=0, le=255)] = 255
    colour: Literal["rgb", "grey"] = "rgb"
    max_pixels: Annotated[int, Bound(ge=1)] = 50_000_000  # larger ones are refused unread
    mean: tuple[float, ...] | None = None  # per channel, of 0..1; of the training pictures ...
    std: tuple[float, ...] | None = None  # ... when not given


class Pictures(Arrays):
    """Rows of pictures as bytes (1, C, H, W) that come out as numbers around 0."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def around(cls, rows: Arrays, mean: tuple[float, ...], std: tuple[float, ...]) -> Self:
        made = cls(rows.flat, rows.offsets)
        made.mean, made.std = mean, std
        return made

    def select(self, rows: Rows) -> Self:
        return type(self).around(super().select(rows), self.mean, self.std)

    def pad(self, rows: Rows) -> Padded:
        """The given rows side by side, normalised; padding is 0."""
        values, mask = super().pad(rows)
        mean, std = (torch.tensor(one).view(-1, 1, 1) for one in (self.mean, self.std))
        numbers = values.float().sub_(255 * mean).div_(255 * std)
        return Padded(numbers * mask.view(*mask.shape, 1, 1, 1), mask)


class ImageField(Media):
    """A column of pictures. `size` is the number of channels."""

    options = ImageSpec
    spec: ImageSpec

    def __init__(self, spec: ImageSpec) -> None:
        self.spec, self.size = spec, 3 if spec.colour == "rgb" else 1
        for one in (spec.mean, spec.std):
            if one is not None and len(one) != self.size:
                raise UserError(f"mean and std of pictures: {self.size} numbers, not {len(one)}")

    @classmethod
    def learn(cls, spec: ImageSpec, values: Iterable[str]) -> Self:
        """How bright the pictures are and how much that varies, from some of them."""
        field = cls(spec)
        if spec.mean is not None and spec.std is not None:
            return field
        names = list(dict.fromkeys(values))
        some = islice(names, 0, None, max(1, len(names) // LOOK))
        seen, wrong = field.read(list(some))
        held = [seen[row] for row in range(len(seen)) if len(seen[row])]
        if not held:
            raise unread(names, wrong, "pictures")
        means = np.array([one.mean((0, 2, 3)) / 255 for one in held])
        squares = np.array([np.square(one / 255.0).mean((0, 2, 3)) for one in held])
        mean = means.mean(0)
        std = np.sqrt(np.maximum(squares.mean(0) - mean**2, 1e-4))
        told = {
            "mean": spec.mean or tuple(mean.round(4).tolist()),
            "std": spec.std or tuple(std.round(4).tolist()),
        }
        return cls(spec.model_copy(update=told))

    @classmethod
    def load(cls, spec: ImageSpec, read: Callable[[str], bytes]) -> Self:
        if spec.mean is None or spec.std is None:
            raise UserError("the model's config has no mean and std: it was not written by train")
        return cls(spec)

    def describe(self) -> str:
        return f"pictures of {self.spec.height} × {self.spec.width}, {self.spec.colour}"

    def seen(self, row: Array) -> Seen:
        return Seen(self.spec.kind, row, whole=self.spec.aspect == "stretch")

    def none(self) -> Array:
        return np.zeros((0, self.size, self.spec.height, self.spec.width), np.uint8)

    def arrays(self, flat: Array, offsets: Ints) -> Column:
        spec, rows = self.spec, Arrays(flat, offsets)
        blank, even = (0.0,) * self.size, (1.0,) * self.size
        return Pictures.around(rows, spec.mean or blank, spec.std or even)

    def decode(self, content: bytes) -> Array:
        """One picture, (1, C, H, W) bytes."""
        from PIL import Image

        form = _form(content)
        try:
            with _opened(content, form) as image:
                if image.width * image.height > self.spec.max_pixels:
                    raise UnreadableError(
                        f"{image.width} × {image.height} pixels; no more than "
                        f"{self.spec.max_pixels:,} are read"
                    )
                if form == "JPEG":  # a smaller one is faster read at a lower resolution
                    image.draft(None, (2 * self.spec.width, 2 * self.spec.height))
                return self._fitted(_plain(image))
        except Image.DecompressionBombError as error:
            raise UnreadableError(str(error)) from None
        except _BROKEN as error:
            raise UnreadableError(f"a broken {form} file ({error})") from None

    def _fitted(self, image: Any) -> Array:
        """Brought to the size and the colours of the column."""
        from PIL import Image, ImageOps

        spec, smooth = self.spec, Image.Resampling.BILINEAR
        image = image.convert("RGB" if spec.colour == "rgb" else "L")
        size = (spec.width, spec.height)
        if spec.aspect == "crop":
            image = ImageOps.fit(image, size, smooth)
        elif spec.aspect == "stretch":
            image = image.resize(size, smooth) if image.size != size else image
        else:
            if image.width > size[0] or image.height > size[1]:
                image = ImageOps.contain(image, size, smooth)
            blank = Image.new(image.mode, size, (spec.fill,) * len(image.getbands()))
            blank.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
            image = blank
        pixels: Bytes = np.asarray(image, np.uint8).reshape(spec.height, spec.width, self.size)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))[None]


def _opened(content: bytes, form: str) -> Any:
    """A picture whose header alone is read; Pillow's own warning of bombs is ours to give."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        return Image.open(io.BytesIO(content), formats=[form])


def _form(content: bytes) -> str:
    """The format that the first bytes tell; any but three is refused before it is looked at."""
    for form, beginning in _BEGINNINGS.items():
        if content.startswith(beginning) and (form != "WEBP" or content[8:12] == b"WEBP"):
            return form
    raise UnreadableError("not a JPEG, PNG or WEBP file" if content else "an empty file")


def _plain(image: Any) -> Any:
    """Upright, eight bits a channel, nothing to see through."""
    from PIL import Image, ImageOps

    image.load()
    try:
        image = ImageOps.exif_transpose(image)
    except Exception:  # whatever is in its notes, the picture itself is good
        image = image.copy()
    if image.mode.startswith("I") or image.mode == "F":
        numbers = np.asarray(image).astype(np.float64)
        most = 65535.0 if numbers.max(initial=0) > 255 else 255.0
        return Image.fromarray((numbers.clip(0, most) * (255 / most)).astype(np.uint8), "L")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image).convert("RGB")
    return image
