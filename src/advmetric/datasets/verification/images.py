"""Grey images from files, through Pillow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.optional import require

if TYPE_CHECKING:
    from PIL.Image import Image

Grey = NDArray[np.uint8]
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")
FORMATS = ("JPEG", "PNG", "BMP")


def open_image(path: Path) -> Image:
    """Open and decode all of an image file, as RGB or, if it is grey, as L; a ValueError names a file that fails."""
    Image = require("PIL.Image", "reading image files")
    if not path.is_file():
        raise FileNotFoundError(f"there is no image file {path}")
    if not path.stat().st_size:
        raise ValueError(f"image file {path} is empty")
    try:
        # Only these formats: others, such as EPS, would start further programs.
        with Image.open(path, formats=FORMATS) as image:
            if image.mode.startswith(("I", "F")):
                raise ValueError(f"mode {image.mode}: more than 8 bits a pixel")
            return image.convert("L" if image.mode in ("1", "L") else "RGB")
    # Pillow's decoders raise any of these on damaged files.
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError(f"image file {path} cannot be read ({error}); it may be damaged or cut short") from error


def read_grey(path: Path) -> Grey:
    """Read an image file as it is, in grey."""
    return grey(open_image(path))


def grey(image: Image) -> Grey:
    """Average the channels, as scikit-learn's LFW reader does, and round."""
    pixels = np.asarray(image)
    return pixels if pixels.ndim == 2 else np.rint(pixels.mean(axis=2)).astype(np.uint8)


def image_files(folder: Path) -> list[Path]:
    """The image files of a folder by name; hidden ones are left out."""
    return sorted(
        path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
    )
