"""Checks of image arrays, and the normalisation of patches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_grey_images", "check_uint8_images", "normalise_patches"]


def check_grey_images(images: Any, name: str = "images") -> NDArray[Any]:
    """Grey images (n, h, w), n >= 1, of finite numbers, as an array of their own dtype."""
    if not isinstance(images, np.ndarray):
        images = _stack(images, name)
    if images.ndim != 3:
        hint = " Colour images must be turned to grey first." if images.ndim == 4 else ""
        hint = f" For one image, pass {name}[None]." if images.ndim == 2 else hint
        raise ValueError(f"{name} must have shape (n, height, width), got {images.shape}.{hint}")
    if 0 in images.shape:
        raise ValueError(f"{name} is empty: its shape is {images.shape}.")
    if images.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numbers, got dtype {images.dtype}.")
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        image, row, column = np.argwhere(~np.isfinite(images))[0]
        value = images[image, row, column]
        raise ValueError(f"{name} contains {value} at image {image}, row {row}, column {column}.")
    return images


def check_uint8_images(images: Any, name: str = "images") -> NDArray[np.uint8]:
    """Grey images (n, h, w) of bytes."""
    checked = check_grey_images(images, name)
    if checked.dtype != np.uint8:
        raise TypeError(
            f"{name} must be grey levels 0 to 255 of dtype uint8, got {checked.dtype}; "
            f"scale to 0..255 and convert with {name}.astype('uint8')."
        )
    return checked


def _stack(images: Any, name: str) -> NDArray[Any]:
    """A sequence of images as one array; the first of another size is named."""
    if not isinstance(images, (list, tuple)):
        return np.asarray(images)
    arrays = [np.asarray(image) for image in images]
    for place, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise ValueError(
                f"{name} differ in size: image {place} is {array.shape}, image 0 is {arrays[0].shape}; "
                "bring them to one size first."
            )
    return np.asarray(arrays)


def normalise_patches(images: NDArray[Any]) -> NDArray[np.float32]:
    """Each image with mean 0 and variance 1: brightness and contrast removed. A constant image becomes 0."""
    patches = images.astype(np.float32)
    # By the largest value first: squares of huge pixels would overflow float32.
    largest = np.abs(patches).max(axis=(1, 2), keepdims=True)
    patches /= np.where(largest > 0, largest, 1)
    patches -= patches.mean(axis=(1, 2), keepdims=True)
    spread = patches.std(axis=(1, 2), keepdims=True)
    flat = spread < 1e-5  # what rounding leaves of a constant
    patches /= np.where(flat, 1, spread)
    patches *= ~flat
    return patches
