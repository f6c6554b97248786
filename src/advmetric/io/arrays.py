"""Points and pairs from npz files: which arrays there must be, and of which shape."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from advmetric.pairs.checks import check_index_pairs, check_pair_labels
from advmetric.pairs.data import Pairs
from advmetric.utils.archive import open_npz, read_arrays
from advmetric.utils.suggestions import did_you_mean
from advmetric.utils.typing import Matrix
from advmetric.utils.validation import reject_nonfinite

from .contents import Arrays, PairFile, PointFile, check_both_kinds

__all__ = [
    "feature_names",
    "holds_pairs",
    "label_array",
    "pair_array",
    "pairs_of_npz",
    "point_array",
    "points_of_npz",
]


def holds_pairs(path: Path) -> bool:
    """Return whether an npz file has an array ``pairs``."""
    with open_npz(path) as archive:
        return "pairs" in archive.files


def points_of_npz(path: Path, label: str | None) -> PointFile:
    arrays = read_arrays(path)
    X = _matrix(path, arrays)
    name = "y" if label is None and "y" in arrays else label
    y = None if name is None else label_array(path, arrays, name, len(X)).astype(str)
    others = {key: values for key, values in arrays.items() if key != "X" and values.shape == (len(X),)}
    return PointFile(X, y, feature_names(arrays, X.shape[1]), others)


def pairs_of_npz(path: Path, label: str | None, labelled: bool) -> PairFile:
    arrays = read_arrays(path)
    pairs = pair_array(path, arrays)
    if pairs.ndim == 3:
        formed = pairs.astype(np.float64)
        reject_nonfinite(formed, f"{path}, pairs")
        view = Pairs.formed(formed)
    else:
        X = _matrix(path, arrays)
        view = Pairs(X, *check_index_pairs(pairs, len(X)))
    if labelled:
        y = label_array(path, arrays, label or "y", len(pairs))
        kinds = check_pair_labels(y, len(pairs), both=False)
        check_both_kinds(str(path), kinds)
        view = Pairs(view.X, view.left, view.right, kinds)
    others = {key: values for key, values in arrays.items() if values.shape == (len(pairs),)}
    return PairFile(view, feature_names(arrays, view.X.shape[1]), others)


def _matrix(path: Path, arrays: Arrays) -> Matrix:
    X = point_array(path, arrays)
    reject_nonfinite(X, f"{path}, X")
    # In one order of memory, so that the same numbers give the same metric whatever the file.
    return np.ascontiguousarray(X, dtype=np.float64)


def point_array(path: Path, arrays: Mapping[str, Any]) -> Any:
    """The array X, which must hold numbers; its rows may be still in the file."""
    X = arrays.get("X")
    if X is None or len(X.shape) != 2 or X.dtype.kind not in "biuf" or not X.shape[0]:
        raise ValueError(f"{path} has no array X of numbers with shape (n, d) and n > 0.")
    if not X.shape[1]:
        raise ValueError(f"{path} has no feature columns.")
    return X


def pair_array(path: Path, arrays: Mapping[str, Any]) -> Any:
    """The array ``pairs``, formed (then of numbers) or of row numbers; its rows may be still in the file."""
    pairs = arrays.get("pairs")
    if pairs is None or pairs.shape[1:2] != (2,) or len(pairs.shape) not in (2, 3) or not pairs.shape[0]:
        raise ValueError(f"{path} has no array pairs of shape (N, 2, d) and N > 0, or (N, 2) with the points in X.")
    if len(pairs.shape) == 3 and pairs.dtype.kind not in "biuf":
        raise ValueError(f"{path}: the array pairs is not of numbers.")
    return pairs


def label_array(path: Path, arrays: Mapping[str, Any], name: str, n: int) -> Any:
    """The array of the labels, one per row; they may be still in the file."""
    if name not in arrays or arrays[name].shape != (n,):
        raise ValueError(f"{path} has no array {name!r} of {n} labels.{did_you_mean(name, arrays)}")
    return arrays[name]


def feature_names(arrays: Mapping[str, Any], d: int) -> tuple[str, ...] | None:
    """The array ``feature_names``, if it has a name for each feature."""
    names = arrays.get("feature_names")
    return None if names is None or names.shape != (d,) else tuple(map(str, names.tolist()))
