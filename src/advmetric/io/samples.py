"""From files to points or pairs: which columns are features, which is the label, what is carried along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.pairs.checks import check_index_pairs, check_pair_labels
from advmetric.pairs.data import Pairs
from advmetric.utils.archive import open_npz, read_arrays
from advmetric.utils.suggestions import did_you_mean
from advmetric.utils.typing import Matrix
from advmetric.utils.validation import reject_nonfinite

from .tables import NPZ, Choose, Table, read_table

__all__ = [
    "PairFile",
    "PointFile",
    "feature_names",
    "holds_pairs",
    "label_array",
    "load_metric",
    "pair_array",
    "pair_columns",
    "pairs_of_table",
    "point_array",
    "point_columns",
    "points_of_table",
    "read_pairs",
    "read_points",
]

Arrays = dict[str, NDArray]


@dataclass(frozen=True)
class PointFile:
    """Points, their labels (as text) if asked for, and the other columns."""

    X: Matrix
    y: NDArray[np.str_] | None
    names: tuple[str, ...] | None
    others: Arrays

    @property
    def labels(self) -> NDArray[np.str_]:
        """``y``, which must be there."""
        if self.y is None:
            raise ValueError("the file has no array y; name the one with the labels by --label.")
        return self.y


@dataclass(frozen=True)
class PairFile:
    """Pairs (with labels if asked for), and the other columns."""

    pairs: Pairs
    names: tuple[str, ...] | None
    others: Arrays


def load_metric(path: Path) -> Mahalanobis:
    """Read a saved metric."""
    return Mahalanobis.load(path)


def read_points(
    path: Path,
    label: str | None,
    *,
    drop: Sequence[str] | None = None,
    delimiter: str | None = None,
    metric: Mahalanobis | None = None,
) -> PointFile:
    """Read points: the columns that ``metric`` has names of, or all but the label and the dropped ones."""
    if path.suffix.lower() in NPZ:
        found = _points_of_npz(path, label)
    else:
        found = points_of_table(read_table(path, point_columns(path, label, drop, metric), delimiter), label, drop)
    _check_width(path, found.X.shape[1], metric)
    return found


def point_columns(
    path: Path, label: str | None, drop: Sequence[str] | None, metric: Mahalanobis | None = None
) -> Choose:
    """Which columns of a table are the features of points."""

    def choose(header: list[str]) -> Sequence[str]:
        _require(path, header, [*([label] if label else []), *(drop or ())])
        if metric is not None and metric.feature_names is not None:
            _require(path, header, metric.feature_names, "which the metric needs")
            if label in metric.feature_names:
                raise ValueError(f"the label {label!r} is a feature of the metric.")
            return metric.feature_names
        return [name for name in header if name != label and name not in (drop or ())]

    return choose


def points_of_table(table: Table, label: str | None, drop: Sequence[str] | None) -> PointFile:
    """The points of a table, or of a part of one."""
    if not table.names:
        raise ValueError(f"{table.path} has no feature columns.")
    y = None if label is None else _labels(table, label)
    return PointFile(table.numbers, y, table.names, _carried(table, drop))


def read_pairs(
    path: Path,
    label: str | None,
    *,
    labelled: bool = True,
    drop: Sequence[str] | None = None,
    delimiter: str | None = None,
    metric: Mahalanobis | None = None,
) -> PairFile:
    """Read pairs: features in columns a_<name> and b_<name>, or the arrays of an npz file."""
    if path.suffix.lower() in NPZ:
        found = _pairs_of_npz(path, label, labelled)
    else:
        table = read_table(path, pair_columns(path, label, drop, metric), delimiter)
        found = pairs_of_table(table, label if labelled else None, drop)
    _check_width(path, found.pairs.X.shape[1], metric)
    return found


def pair_columns(
    path: Path, label: str | None, drop: Sequence[str] | None, metric: Mahalanobis | None = None
) -> Choose:
    """Which columns of a table are the features of pairs: those of the first points, then those of the second."""

    def choose(header: list[str]) -> Sequence[str]:
        _require(path, header, [*([label] if label else []), *(drop or ())])
        if metric is not None and metric.feature_names is not None:
            names: Sequence[str] = metric.feature_names
        else:
            used = [name for name in header if name != label and name not in (drop or ())]
            names = list(dict.fromkeys(name[2:] for name in used if name.startswith(("a_", "b_"))))
        both = [f"{side}_{name}" for side in "ab" for name in names]
        _require(path, header, both, "the other half of a feature")
        if not both:
            raise ValueError(f"{path} has no pairs: their features are in columns a_<name> and b_<name>.")
        return both

    return choose


def pairs_of_table(table: Table, label: str | None, drop: Sequence[str] | None, *, part: bool = False) -> PairFile:
    """The pairs of a table; a ``part`` of one may have pairs of one kind only."""
    d = len(table.names) // 2
    y = None if label is None else _kinds(table, label, both=not part)
    formed = Pairs.formed(table.numbers.reshape(-1, 2, d), y)
    return PairFile(formed, tuple(name[2:] for name in table.names[:d]), _carried(table, drop))


def _carried(table: Table, drop: Sequence[str] | None) -> Arrays:
    return {name: values for name, values in table.others.items() if name not in (drop or ())}


def _require(path: Path, header: Sequence[str], names: Sequence[str], why: str = "") -> None:
    missing = [name for name in names if name not in set(header)]
    if missing:
        more = f" (nor {len(missing) - 1} others)" if len(missing) > 1 else ""
        reason = f", {why}" if why else ""
        raise ValueError(f"{path} has no column {missing[0]!r}{more}{reason}.{did_you_mean(missing[0], header)}")


def _check_width(path: Path, d: int, metric: Mahalanobis | None) -> None:
    if metric is not None and d != metric.components.shape[1]:
        raise ValueError(
            f"{path} has {d} features, but the metric is for {metric.components.shape[1]}. "
            "(--label and --drop say which columns are none.)"
        )


def _labels(table: Table, column: str) -> NDArray[np.str_]:
    """Class labels as text; none may be missing."""
    values = table.others[column]
    for row, value in enumerate(values.tolist()):
        if value is None or value == "" or value != value:
            raise ValueError(f"{table.place(row, column)}: the label is missing. Fill in or remove such rows first.")
    return values.astype(str)


def _kinds(table: Table, column: str, both: bool) -> NDArray[np.integer]:
    """Labels of pairs, +1 and -1."""
    values = table.others[column]
    kinds = np.empty(len(values), dtype=np.int8)
    for row, value in enumerate(values.tolist()):
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = np.nan
        if number not in (1.0, -1.0):
            raise ValueError(
                f"{table.place(row, column)}: the label of a pair must be +1 (same) or -1 (different), got {value!r}."
            )
        kinds[row] = number
    return check_pair_labels(kinds, len(kinds), both=both)


# --- npz ----------------------------------------------------------------------------------------------------


def holds_pairs(path: Path) -> bool:
    """Return whether an npz file has an array ``pairs``."""
    with open_npz(path) as archive:
        return "pairs" in archive.files


def _points_of_npz(path: Path, label: str | None) -> PointFile:
    arrays = read_arrays(path)
    X = _matrix(path, arrays)
    name = "y" if label is None and "y" in arrays else label
    y = None if name is None else label_array(path, arrays, name, len(X)).astype(str)
    others = {key: values for key, values in arrays.items() if key != "X" and values.shape == (len(X),)}
    return PointFile(X, y, feature_names(arrays, X.shape[1]), others)


def _pairs_of_npz(path: Path, label: str | None, labelled: bool) -> PairFile:
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
        view = Pairs(view.X, view.left, view.right, check_pair_labels(y, len(pairs)))
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
