"""Files of labelled samples in parts: never more than a given number of rows is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from advmetric.pairs.batches import release, slices
from advmetric.pairs.checks import check_index_pairs, check_pair_labels
from advmetric.pairs.data import Pairs
from advmetric.utils.typing import Matrix
from advmetric.utils.validation import reject_nonfinite

from .arrays import feature_names, label_array, pair_array, point_array
from .contents import PairFile, PointFile, Reading
from .npz import Member, members
from .preparation import Preparation, Rule
from .samples import named, pair_columns, pairs_of_table, point_columns, points_of_table, stacked
from .sources import is_npz
from .survey import Survey
from .tables import Table, read_tables

__all__ = ["Parts", "open_parts", "survey_parts"]

Members = Mapping[str, Member]


@dataclass(frozen=True)
class Parts:
    """A file as parts that are read once, in order. A part of pairs may have pairs of one kind only."""

    items: Iterator[PointFile | PairFile]
    total: int | None = None
    """Rows of the file, where it says how many."""
    points: Callable[[], Iterator[Matrix]] | None = None
    """For pairs of row numbers: the points that occurred in the parts so far, each once."""
    survey: Survey | None = None
    """Of a table: what its columns held in the parts so far."""


@contextmanager
def open_parts(
    path: Path,
    kind: str,
    label: str | None,
    rows: int,
    how: Reading,
    preparation: Preparation | None = None,
) -> Iterator[Parts]:
    """A file of "points" or "pairs" in parts of ``rows`` rows; ``label`` names the column (or array) of the labels.

    The parts are features, prepared as given. Without a preparation, a table with text or missing values ends in an
    UnpreparedError; :func:`survey_parts` finds out how to prepare it.
    """
    if is_npz(path):
        with members(path) as arrays:
            yield (_points if kind == "points" else _pairs)(path, arrays, label or "y", rows)
        return
    assert label is not None
    how = named(path, how)
    survey = Survey(how.categories)

    def items() -> Iterator[PointFile | PairFile]:
        for table in _tables(path, kind, label, rows, how):
            survey.update(table if kind == "points" else stacked(table))
            rules = preparation or Preparation(tuple(Rule(name) for name in _names(table, kind)))
            if kind == "points":
                points = points_of_table(table, label, how, rules, quiet=True)
                yield replace(points, X=rules.encode(points.X))
            else:
                found = pairs_of_table(table, label, how, rules, part=True)
                yield replace(found, pairs=replace(found.pairs, X=rules.encode(found.pairs.X)))

    yield Parts(items(), survey=survey)


def survey_parts(path: Path, kind: str, label: str, rows: int, how: Reading) -> Survey:
    """Read a table once (twice where a category begins with numbers) to find out what its columns hold."""
    how = named(path, how)
    categories = set(how.categories)
    while True:
        survey = Survey(categories)
        for table in _tables(path, kind, label, rows, how):
            survey.update(table if kind == "points" else stacked(table))
        more = set(survey.uncounted())
        if more <= categories:
            return survey
        categories |= more


def _tables(path: Path, kind: str, label: str, rows: int, how: Reading) -> Iterator[Table]:
    choose = (point_columns if kind == "points" else pair_columns)(path, label, how)
    return read_tables(path, choose, how.form, rows, keep=[label])


def _names(table: Table, kind: str) -> list[str]:
    names = list(table.features)
    return names if kind == "points" else [name[2:] for name in names[: len(names) // 2]]


# --- npz ----------------------------------------------------------------------------------------------------


def _points(path: Path, arrays: Members, label: str, rows: int) -> Parts:
    X = point_array(path, arrays)
    y = label_array(path, arrays, label, X.shape[0])
    names = feature_names(arrays, X.shape[1])

    def items() -> Iterator[PointFile]:
        for (_, block), labels in zip(_checked(path, "X", X, rows), y.blocks(rows), strict=True):
            yield PointFile(block, labels.astype(str), names, {})

    return Parts(items(), X.shape[0])


def _pairs(path: Path, arrays: Members, label: str, rows: int) -> Parts:
    pairs = pair_array(path, arrays)
    if len(pairs.shape) == 2:
        return _index_pairs(path, arrays, label, rows)
    y = label_array(path, arrays, label, pairs.shape[0])
    names = feature_names(arrays, pairs.shape[2])

    def items() -> Iterator[PairFile]:
        for (first, block), labels in zip(_checked(path, "pairs", pairs, rows), y.blocks(rows), strict=True):
            kinds = check_pair_labels(labels, len(block), both=False, first=first)
            yield PairFile(Pairs.formed(block, kinds), names, {})

    return Parts(items(), pairs.shape[0])


def _index_pairs(path: Path, arrays: Members, label: str, rows: int) -> Parts:
    """Pairs of row numbers are read in order, the points that they need from wherever in the file these are."""
    pairs, X = arrays["pairs"], point_array(path, arrays)
    y = label_array(path, arrays, label, pairs.shape[0])
    names = feature_names(arrays, X.shape[1])
    points = X.on_disk()
    occurs = np.zeros(len(points), dtype=bool)

    def items() -> Iterator[PairFile]:
        for _ in _checked(path, "X", X, rows):
            pass  # also the points of no pair must be numbers, as in memory
        first = 0
        for block, labels in zip(pairs.blocks(rows), y.blocks(rows), strict=True):
            left, right = check_index_pairs(block, len(points), first)
            needed, places = np.unique(np.concatenate([left, right]), return_inverse=True)
            occurs[needed] = True
            kinds = check_pair_labels(labels, len(block), both=False, first=first)
            near = Pairs(points[needed].astype(np.float64), places[: len(block)], places[len(block) :], kinds)
            yield PairFile(near, names, {})
            release(points)
            first += len(block)

    def occurring() -> Iterator[Matrix]:
        for block, mask in slices(points, occurs, rows):
            if mask.any():
                yield block[mask].astype(np.float64)

    return Parts(items(), pairs.shape[0], occurring)


def _checked(path: Path, name: str, array: Member, rows: int) -> Iterator[tuple[int, Matrix]]:
    """Blocks of an array in double precision, with the number of rows before each; NaN and inf are refused."""
    first = 0
    for block in array.blocks(rows):
        reject_nonfinite(block, f"{path}, {name}", first=first)
        yield first, block.astype(np.float64)
        first += len(block)
