"""Files of labelled samples in parts: never more than so many rows are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from advmetric.pairs.batches import release, slices
from advmetric.pairs.checks import check_index_pairs, check_pair_labels
from advmetric.pairs.data import Pairs
from advmetric.utils.typing import Matrix
from advmetric.utils.validation import reject_nonfinite

from .npz import Member, members
from .samples import (
    PairFile,
    PointFile,
    feature_names,
    label_array,
    pair_array,
    pair_columns,
    pairs_of_table,
    point_array,
    point_columns,
    points_of_table,
)
from .tables import NPZ, read_tables

__all__ = ["Parts", "open_parts"]

Members = Mapping[str, Member]


@dataclass(frozen=True)
class Parts:
    """A file as parts that are read once, in order. A part of pairs may have pairs of one kind only."""

    items: Iterator[PointFile | PairFile]
    total: int | None = None
    """Rows of the file, where it says how many."""
    points: Callable[[], Iterator[Matrix]] | None = None
    """For pairs of row numbers: the points that occurred in the parts so far, each once."""


@contextmanager
def open_parts(
    path: Path, kind: str, label: str | None, rows: int, drop: Sequence[str] | None, delimiter: str | None
) -> Iterator[Parts]:
    """A file of "points" or "pairs" in parts of so many rows; ``label`` names the column (or array) of the labels."""
    if path.suffix.lower() in NPZ:
        with members(path) as arrays:
            yield (_points if kind == "points" else _pairs)(path, arrays, label or "y", rows)
        return
    assert label is not None
    choose = (point_columns if kind == "points" else pair_columns)(path, label, drop)
    tables = read_tables(path, choose, delimiter, rows, keep=[label])
    if kind == "points":
        yield Parts(points_of_table(table, label, drop) for table in tables)
    else:
        yield Parts(pairs_of_table(table, label, drop, part=True) for table in tables)


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
