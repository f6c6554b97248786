"""From files to points or pairs: which columns are features, which is the label, what is carried along."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.pairs.data import Pairs
from advmetric.utils.archive import damage_reported
from advmetric.utils.suggestions import did_you_mean
from advmetric.utils.typing import Vector
from advmetric.utils.warning import warn

from .arrays import pairs_of_npz, points_of_npz
from .columns import Column, column_of_array
from .contents import Arrays, PairFile, PointFile, Reading, check_both_kinds
from .preparation import Preparation, Rule, raw_matrix
from .sources import EXCEL, PARQUET, TEXT, is_npz
from .survey import Survey
from .tables import Choose, Table, read_table, read_tables

__all__ = [
    "load_metric",
    "load_preparation",
    "named",
    "pair_columns",
    "pairs_of_table",
    "point_columns",
    "points_of_table",
    "read_pairs",
    "read_points",
    "row_of_values",
    "stacked",
]


def load_metric(path: Path) -> Mahalanobis:
    """Read a saved metric; its preparation of columns is checked too."""
    suffix = path.suffix.lower()
    if suffix in (*TEXT, *PARQUET, *EXCEL) and path.is_file():
        raise ValueError(
            f"{path} is not a metric but a table. The metric, an .npz file that `advmetric fit` wrote, comes first."
        )
    metric = Mahalanobis.load(path)
    with damage_reported(path, "a metric saved by advmetric"):
        preparation = load_preparation(metric)
        if preparation is not None and preparation.feature_names != metric.feature_names:
            raise ValueError("the features are not those of the columns")
    return metric


def load_preparation(metric: Mahalanobis | None) -> Preparation | None:
    """Return how a metric prepares the columns of a table; None if it keeps nothing about them."""
    if metric is None or metric.preparation is None:
        return None
    return Preparation.of_facts(metric.preparation)


def _columns_of(metric: Mahalanobis | None) -> tuple[str, ...] | None:
    """Names of the columns that a metric needs, if it keeps them."""
    preparation = load_preparation(metric)
    if preparation is not None:
        return preparation.names
    return None if metric is None else metric.feature_names


def named(path: Path, how: Reading) -> Reading:
    """Return how a table is read, with "a,b" taken as two columns unless there is one of that name."""
    if is_npz(path) or not any("," in name for name in (*how.drop, *how.categories)):
        return how
    header: list[str] = []

    def note(names: list[str]) -> Sequence[str]:
        header.extend(names)
        return ()

    next(read_tables(path, note, how.form, rows=1, keep=()))
    whole = {*header, *(name[2:] for name in header if name.startswith(("a_", "b_")))}

    def split(given: Sequence[str]) -> tuple[str, ...]:
        parts = ([name] if name in whole else name.split(",") for name in given)
        return tuple(part.strip() for some in parts for part in some)

    return replace(how, drop=split(how.drop), categories=split(how.categories))


def read_points(
    path: Path, label: str | None, reading: Reading | None = None, *, metric: Mahalanobis | None = None
) -> PointFile:
    """Read points: the columns that ``metric`` has names of, or all but the label and the dropped ones.

    With a metric, the points are features of that metric. Without, they come with a preparation (tables only).
    """
    how = named(path, reading or Reading())
    if is_npz(path):
        found = points_of_npz(path, label)
    else:
        table = read_table(path, point_columns(path, label, how, metric), how.form)
        preparation, suspicions = _preparation(table, how, metric)
        found = points_of_table(table, label, how, preparation)
        for sentence in suspicions:
            warn(f"{table.name}: {sentence}")
        if metric is not None:
            found = replace(found, X=preparation.encode(found.X), preparation=None)
    _check_width(path, found.X.shape[1], metric)
    return found


def _preparation(table: Table, how: Reading, metric: Mahalanobis | None) -> tuple[Preparation, list[str]]:
    """The preparation of a metric, or one for the table at hand, with sentences about odd columns."""
    known = load_preparation(metric)
    if known is not None:
        return known, []
    if metric is not None:
        return Preparation(tuple(Rule(name) for name in table.features)), []
    survey = Survey(how.categories).update(table)
    return survey.preparation(fill=how.fill), survey.suspicions()


def point_columns(path: Path, label: str | None, how: Reading, metric: Mahalanobis | None = None) -> Choose:
    """Which columns of a table are the features of points."""

    def choose(header: list[str]) -> Sequence[str]:
        _require(path, header, [*([label] if label else []), *how.needed])
        names = _columns_of(metric)
        if names is not None:
            _require(path, header, names, "which the metric needs", others=(label, *names))
            if label in names:
                raise ValueError(f"the label {label!r} is a feature of the metric.")
            return names
        return [name for name in header if how.is_feature(name, label)]

    return choose


def points_of_table(
    table: Table, label: str | None, how: Reading, preparation: Preparation, *, quiet: bool = False
) -> PointFile:
    """The points of a table, or of a part of one, as they are in it; ``quiet``: no warning of what is filled."""
    if not table.features:
        raise ValueError(f"{table.name} has no feature columns.")
    y = None if label is None else _labels(table, label)
    raw, notes = raw_matrix(table, preparation)
    for note in [] if quiet else notes:
        warn(note)
    return PointFile(raw, y, preparation.feature_names, _carried(table, how), preparation)


def read_pairs(
    path: Path,
    label: str | None,
    reading: Reading | None = None,
    *,
    labelled: bool = True,
    metric: Mahalanobis | None = None,
) -> PairFile:
    """Read pairs: features in columns a_<name> and b_<name>, or the arrays of an npz file; else as for points."""
    how = named(path, reading or Reading())
    if is_npz(path):
        found = pairs_of_npz(path, label, labelled)
    else:
        table = read_table(path, pair_columns(path, label, how, metric), how.form)
        preparation, suspicions = _preparation(stacked(table), how, metric)
        found = pairs_of_table(table, label if labelled else None, how, preparation)
        for sentence in suspicions:
            warn(f"{table.name}: {sentence}")
        if metric is not None:
            pairs = replace(found.pairs, X=preparation.encode(found.pairs.X))
            found = replace(found, pairs=pairs, preparation=None)
    _check_width(path, found.pairs.X.shape[1], metric)
    return found


def pair_columns(path: Path, label: str | None, how: Reading, metric: Mahalanobis | None = None) -> Choose:
    """Which columns of a table are the features of pairs: those of the first points, then those of the second."""

    def choose(header: list[str]) -> Sequence[str]:
        _require(path, header, [*([label] if label else []), *how.drop, *([how.group] if how.group else [])])
        names: Sequence[str] | None = _columns_of(metric)
        if names is None:
            used = [name for name in header if how.is_feature(name, label)]
            names = list(dict.fromkeys(name[2:] for name in used if name.startswith(("a_", "b_"))))
        both = [f"{side}_{name}" for side in "ab" for name in names]
        _require(path, header, both, "the other half of a feature", others=(label, *both))
        if not both:
            raise ValueError(f"{path} has no pairs: their features are in columns a_<name> and b_<name>.")
        return both

    return choose


@dataclass(frozen=True)
class _Stacked(Table):
    """The first points of pairs above the second ones, under the names of the features."""

    pairs: int = 0

    def place(self, row: int, column: str) -> str:
        side, row = ("a", row) if row < self.pairs else ("b", row - self.pairs)
        return super().place(row, f"{side}_{column}")


def stacked(table: Table) -> Table:
    """Return the points of a table of pairs as one table: first points, then second ones."""
    names = [name[2:] for name in list(table.features)[: len(table.features) // 2]]
    features = {}
    for name in names:
        a, b = (table.features[f"{side}_{name}"] for side in "ab")
        text = None if a.text is None and b.text is None else np.concatenate([a.as_text(), b.as_text()])
        features[name] = Column(np.concatenate([a.numbers, b.numbers]), text, a.rounded or b.rounded)
    return _Stacked(table.name, features, {}, table.first, table.line, table.decimal, len(table))


def pairs_of_table(
    table: Table, label: str | None, how: Reading, preparation: Preparation, *, part: bool = False
) -> PairFile:
    """The pairs of a table, as they are in it; a ``part`` of one may have pairs of one kind only, and is quiet."""
    y = None if label is None else _kinds(table, label, both=not part)
    raw, notes = raw_matrix(stacked(table), preparation)
    for note in [] if part else notes:
        warn(note)
    points = np.stack(np.split(raw, 2), axis=1)
    return PairFile(Pairs.formed(points, y), preparation.feature_names, _carried(table, how), preparation)


def _carried(table: Table, how: Reading) -> Arrays:
    return {name: values for name, values in table.others.items() if name not in how.drop}


def _require(
    path: Path, header: Sequence[str], names: Sequence[str], why: str = "", others: Sequence[str | None] = ()
) -> None:
    """Refuse a table that lacks a column; columns with another use (``others``) are not suggested."""
    present = set(header)
    missing = [name for name in names if name not in present]
    if not missing:
        return
    more = f" (nor {len(missing) - 1} others)" if len(missing) > 1 else ""
    reason = f", {why}" if why else ""
    hint = did_you_mean(missing[0], [name for name in header if name not in others])
    numbers = sum(name.replace(".", "", 1).lstrip("+-").isdecimal() for name in header)
    if 2 * numbers >= len(header):
        hint = " The first line is taken for the names of the columns; if it is data, give --no-header."
    elif len(header) == 1 and re.search(r"[,;\t|]", header[0]):
        hint = f" The header was read as one column, {header[0][:60]!r}: correct --delimiter or --decimal."
    elif not hint and not why:
        shown = ", ".join(header[:8]) + (" …" if len(header) > 8 else "")
        hint = f" It has {shown}."
    name = "standard input" if str(path) == "-" else path
    raise ValueError(f"{name} has no column {missing[0]!r}{more}{reason}.{hint}")


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
    if both:
        check_both_kinds(table.name, kinds)
    return kinds


def row_of_values(values: Sequence[str], metric: Mahalanobis) -> Vector:
    """Return the features of one point that is given by the values of its columns, in the order of the metric."""
    preparation = load_preparation(metric)
    names = [str(j + 1) for j in range(metric.components.shape[1])] if preparation is None else preparation.names
    if len(values) != len(names):
        raise ValueError(f"{len(values)} values given, the metric is for {len(names)}")
    rules = preparation or Preparation(tuple(Rule(name) for name in names))
    features = {
        name: column_of_array(np.array([value], dtype=object), "") for name, value in zip(names, values, strict=True)
    }
    raw, notes = raw_matrix(Table("the values", features, {}), rules)
    for note in notes:
        warn(note)
    point: Vector = rules.encode(raw)[0]
    return point
