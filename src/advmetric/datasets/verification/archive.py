"""The ``.npz`` files of a data home that hold images and pairs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.archive import read_arrays

from .sets import Indices, check_folds, check_pairs, signs


def check_images(X: NDArray, place: str) -> None:
    """Refuse what is not (n, h, w) uint8."""
    if X.ndim != 3 or X.dtype != np.uint8 or not X.size:
        raise ValueError(f"{place}: X must be n x h x w grey images (uint8), got shape {X.shape} and dtype {X.dtype}")


def integers(values: NDArray, name: str, shape: tuple[int | None, ...], place: str) -> Indices:
    """Check dtype and shape (None: any length); return int64."""
    fits = values.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, values.shape, strict=True))
    if values.dtype.kind not in "iu" or not fits:
        wanted = " x ".join("N" if want is None else str(want) for want in shape)
        raise ValueError(f"{place}: {name} must be {wanted} integers, got shape {values.shape}, dtype {values.dtype}")
    return values.astype(np.int64)


def labelled_pairs(
    arrays: dict[str, NDArray], names: tuple[str, str], identities: Indices, place: str
) -> tuple[Indices, Indices]:
    """Check the two named arrays, labels being 1 (same) and 0 or -1 (different); return int64 pairs and labels ±1."""
    pairs = integers(arrays[names[0]], names[0], (None, 2), place)
    kinds = integers(arrays[names[1]], names[1], (len(pairs),), place)
    if not (np.isin(kinds, (0, 1)).all() or np.isin(kinds, (-1, 1)).all()):
        found = np.unique(kinds).tolist()
        raise ValueError(f"{place}: {names[1]} must be 1 (same) and 0 (different), got {found}")
    check_pairs(pairs, signs(kinds), len(identities), identities, f"{place}, {names[0]}")
    return pairs, signs(kinds)


def read_faces(
    path: Path, further: Sequence[str] = ()
) -> tuple[dict[str, NDArray], Indices, Indices, Indices, Indices]:
    """Read and check X, y, pairs, pair_labels and folds; return all arrays, then identities, pairs, labels, folds."""
    place = str(path)
    arrays = read_arrays(path, ("X", "y", "pairs", "pair_labels", "folds", *further))
    check_images(arrays["X"], place)
    identities = integers(arrays["y"], "y", (len(arrays["X"]),), place)
    pairs, labels = labelled_pairs(arrays, ("pairs", "pair_labels"), identities, place)
    folds = integers(arrays["folds"], "folds", (len(pairs),), place)
    check_folds(labels, folds, place)
    return arrays, identities, pairs, labels, folds
