"""Points for a network (tables and images) and pairs of them: checks, and how they become tensors."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from torch import Tensor

from advmetric.pairs.checks import check_index_pairs
from advmetric.utils.validation import reject_non_numbers, reject_nonfinite

__all__ = ["check_network_points", "content_digest", "form_pairs", "is_formed", "load_rows", "statistics"]

_BLOCK = 1024


def check_network_points(X: Any, name: str, expected: tuple[int, ...] | None = None) -> NDArray[Any]:
    """A table (n, d), or images (n, h, w) or (n, h, w, c) as (n, c, h, w), of finite numbers.

    Bytes and single precision stay as they are (images may be memory-mapped); other numbers become float32.

    Parameters
    ----------
    X : array-like
    name : str
        Its name, for messages.
    expected : (d,) or (c, h, w), optional
        Shape of a point that the network was trained on.
    """
    if issparse(X):
        raise TypeError(f"Sparse data was passed for {name}, but a network needs dense data; use {name}.toarray().")
    reject_non_numbers(X, name)
    points = np.asarray(X.detach().cpu() if isinstance(X, Tensor) else X)
    for size, what in (
        (len(points) if points.ndim else 1, "sample"),
        (points.shape[-1] if points.ndim else 1, "feature"),
    ):
        if size == 0:
            raise ValueError(f"Found array with 0 {what}(s) (shape={points.shape}) while a minimum of 1 is required.")
    if points.ndim not in (2, 3, 4) or 0 in points.shape:
        hint = f" Reshape your data: for one point, pass {name}[None]." if points.ndim == 1 else ""
        raise ValueError(
            f"{name} must be a table (n, d) or images (n, h, w) or (n, h, w, c), got {points.shape}.{hint}"
        )
    if points.dtype.kind == "O":
        points = points.astype(np.float32)
    if points.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} must be real.")
    if points.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numbers, got dtype {points.dtype}.")
    if points.dtype.kind == "f":
        if points.ndim == 2:
            reject_nonfinite(points, name, getattr(X, "columns", None))
        elif not np.isfinite(points).all():
            image = int(np.argwhere(~np.isfinite(points))[0][0])
            raise ValueError(f"{name} contains NaN or inf in image {image}.")
    if points.dtype not in (np.uint8, np.float32):
        with np.errstate(over="ignore"):
            single = points.astype(np.float32)
        if points.dtype.kind == "f" and not np.isfinite(single).all():
            raise ValueError(f"{name} has numbers that are too large for single precision; standardise them first.")
        points = single
    if points.ndim == 3:
        points = points[:, None]
    elif points.ndim == 4:
        points = points.transpose(0, 3, 1, 2)
    if expected is not None and points.ndim == 2 and len(expected) == 1 and points.shape[1:] != expected:
        raise ValueError(
            f"{name} has {points.shape[1]} features, but DeepAML is expecting {expected[0]} features as input."
        )
    if expected is not None and points.shape[1:] != expected:
        raise ValueError(f"{name} has points of shape {points.shape[1:]}, but the network is expecting {expected}.")
    return points


def is_formed(X: Any) -> bool:
    """Whether X is formed pairs: (N, 2, d), (N, 2, h, w) or (N, 2, h, w, c). No image is two pixels high."""
    shape = tuple(X.shape) if hasattr(X, "shape") else np.asarray(X).shape
    return len(shape) >= 3 and shape[1] == 2


def form_pairs(
    pairs: Any, preprocessor: Any, expected: tuple[int, ...] | None = None
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Points and index pairs (N, 2) into them, from formed pairs or from index pairs into ``preprocessor``."""
    if is_formed(pairs):
        formed = np.asarray(pairs)
        flat = formed.reshape(-1, *formed.shape[2:])
        return check_network_points(flat, "pairs", expected), np.arange(len(flat)).reshape(-1, 2)
    if preprocessor is None:
        raise ValueError(
            f"pairs must be formed, (N, 2, ...), or row numbers (N, 2) into preprocessor; got shape {np.shape(pairs)} "
            "and no preprocessor."
        )
    points = check_network_points(preprocessor, "preprocessor", expected)
    return points, np.column_stack(check_index_pairs(pairs, len(points))).astype(np.intp)


def load_rows(points: NDArray[Any], rows: NDArray[Any] | slice, device: torch.device) -> Tensor:
    """Points as a float32 tensor on a device."""
    return torch.from_numpy(np.ascontiguousarray(points[rows], dtype=np.float32)).to(device)


def statistics(points: NDArray[Any], rows: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of some rows: by feature (d,), or by channel (c, 1, 1). By blocks.

    Those of constant features are 0 and 1: such features are only centred.
    """
    axes = (0,) if points.ndim == 2 else (0, 2, 3)
    shape = (points.shape[1],) + (1,) * (points.ndim - 2)
    blocks = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
    per_channel = len(rows) * int(np.prod(points.shape[2:], dtype=np.int64))
    mean = sum(points[block].sum(axis=axes, dtype=np.float64) for block in blocks) / per_channel
    centred = (points[block].astype(np.float64) - mean.reshape(shape) for block in blocks)
    scale = np.sqrt(sum((block**2).sum(axis=axes) for block in centred) / per_channel)
    scale[scale <= 1e-7 * np.abs(mean)] = 1.0
    return torch.from_numpy(mean.reshape(shape)), torch.from_numpy(scale.reshape(shape))


def content_digest(*arrays: Any) -> str:
    """SHA-256 of arrays: shapes, types and bytes."""
    total = hashlib.sha256()
    for array in arrays:
        plain = np.ascontiguousarray(array)
        total.update(f"{plain.dtype.str} {plain.shape};".encode())
        total.update(plain.reshape(-1).view(np.uint8).data)
    return total.hexdigest()
