"""Pictures: files, or their bytes, brought to the size and the colours that a model reads."""

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FORMS = ["JPEG", "PNG", "WEBP"]


class Pictures:
    """A column of pictures: a value is the name of a file, or its content."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about

    def encode(self, value: str | bytes) -> npt.NDArray[np.float32]:
        """One picture as numbers around 0: (1, C, H, W)."""
        from PIL import Image

        content = value if isinstance(value, bytes) else Path(value).read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image: Any = Image.open(io.BytesIO(content), formats=FORMS)
        if image.width * image.height > self.about["max_pixels"]:
            raise ValueError(f"a picture of {image.width} x {image.height} pixels is too large")
        if image.format == "JPEG":
            image.draft(None, (2 * self.about["width"], 2 * self.about["height"]))
        return self.numbers(_plain(image))

    def numbers(self, image: Any) -> npt.NDArray[np.float32]:
        """A picture brought to size, as numbers around 0."""
        pixels = np.asarray(self._fitted(image), np.float32)
        sides = (self.about["height"], self.about["width"], self.about["size"])
        planes = pixels.reshape(sides).transpose(2, 0, 1)[None]
        mean, std = (
            np.array(self.about[name], np.float32)[:, None, None] for name in ("mean", "std")
        )
        found: npt.NDArray[np.float32] = (planes - 255 * mean) / (255 * std)
        return found

    def _fitted(self, image: Any) -> Any:
        from PIL import Image, ImageOps

        smooth, size = Image.Resampling.BILINEAR, (self.about["width"], self.about["height"])
        image = image.convert("RGB" if self.about["colour"] == "rgb" else "L")
        if self.about["aspect"] == "crop":
            return ImageOps.fit(image, size, smooth)
        if self.about["aspect"] == "stretch":
            return image.resize(size, smooth) if image.size != size else image
        if image.width > size[0] or image.height > size[1]:
            image = ImageOps.contain(image, size, smooth)
        blank = Image.new(image.mode, size, (self.about["fill"],) * len(image.getbands()))
        blank.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
        return blank


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
