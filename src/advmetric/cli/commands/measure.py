"""``advmetric transform`` and ``advmetric distance``: a saved metric at work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from advmetric.cli.options import Data, Force, Label, MetricFile, Out, reads_tables, wrong
from advmetric.cli.output import SUFFIXES, check_output, give_back, merged
from advmetric.io.contents import Reading
from advmetric.io.samples import load_metric, read_pairs, read_points, row_of_values
from advmetric.io.sources import is_npz
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.utils.typing import Vector

__all__ = ["distance", "transform"]


@reads_tables
def transform(
    metric: MetricFile, data: Data, out: Out = None, force: Force = False, label: Label = None, *, reading: Reading
) -> None:
    """Embed points: there the Euclidean distance is the learned one.

    DATA is raw, as for `fit`. Columns are found by the names that the metric keeps; the others (label, id) are
    carried through, before the new columns z0, z1 ... A metric without names (fitted on npz) takes all columns but
    --label and --drop, in their order. An npz output has the points in X and the label in y. Categories are encoded
    and missing values filled as `fit` learned it.
    """
    check_output(out, suffixes=SUFFIXES, inputs=(metric, data), force=force)
    learned = load_metric(metric)
    points = read_points(data, label, reading, metric=learned)
    Z = learned.transform(points.X)
    kept = dict(points.others)
    if out is not None and is_npz(out):
        if label is not None and label != "y":
            kept = merged({name: values for name, values in kept.items() if name != label}, {"y": kept[label]}, data)
        columns = merged(kept, {"X": Z}, data)
    else:
        columns = merged(kept, {f"z{i}": Z[:, i] for i in range(Z.shape[1])}, data)
    give_back(columns, out, f"{len(Z)} points in {Z.shape[1]} dimensions.")


@reads_tables
def distance(
    metric: MetricFile,
    data: Annotated[
        Path | None, typer.Argument(metavar="PAIRS", help="File of pairs; of points with --a and --b.")
    ] = None,
    a: Annotated[str | None, typer.Option("--a", metavar="ROW", help="Row number, or values without a file.")] = None,
    b: Annotated[str | None, typer.Option("--b", metavar="ROW", help="Row number, or values without a file.")] = None,
    out: Out = None,
    force: Force = False,
    label: Label = None,
    *,
    reading: Reading,
) -> None:
    """Distances of pairs, with decisions if the metric has a threshold.

    PAIRS has columns a_<feature> and b_<feature> (npz: an array pairs of shape (N, 2, d), or (N, 2) row numbers of
    X). The output is CSV on stdout, or a file: the other columns of PAIRS, then `distance`, then `decision`, +1
    (same) or -1 (different). Metrics fitted on pairs have a threshold.

    With --a and --b, one distance: of two rows of a file of points (counted from 1, without the header), or without
    a file, of two lists of values such as 5.1,3.5.
    """
    if (a is None) != (b is None):
        wrong("a distance has two ends: give both", "--a / --b")
    if data is None and a is None:
        wrong("give a file of pairs, or --a and --b", "PAIRS")
    if a is not None and out is not None:
        wrong("it is for files of pairs; one distance is printed", "--out")
    check_output(out, suffixes=SUFFIXES, inputs=(metric, data), force=force)
    learned = load_metric(metric)
    if a is not None and b is not None:
        if data is None:
            ends = [_values(text, option, learned) for text, option in ((a, "--a"), (b, "--b"))]
        else:
            points = read_points(data, label, reading, metric=learned)
            ends = [points.X[_row(text, option, len(points.X))] for text, option in ((a, "--a"), (b, "--b"))]
        found = learned(ends[0], ends[1])
        print(f"distance {found!r}")
        if learned.threshold is not None:
            print(f"decision {'+1 (same)' if found <= learned.threshold else '-1 (different)'}")
        return
    assert data is not None
    pairs = read_pairs(data, None, reading, labelled=False, metric=learned)
    distances = learned.pair_distance(pairs.pairs)
    added: dict[str, NDArray] = {"distance": distances}
    if learned.threshold is not None:
        added["decision"] = np.where(distances <= learned.threshold, 1, -1)
    columns = merged(pairs.others, added, data)
    give_back(columns, out, f"{len(distances)} distances.")


def _values(text: str, option: str, metric: Mahalanobis) -> Vector:
    """A point given as values with commas between."""
    try:
        return row_of_values(text.split(","), metric)
    except ValueError as error:
        wrong(str(error), option)


def _row(text: str, option: str, n: int) -> int:
    """A row number, counted from 1, as an index."""
    if not text.isdecimal() or not 1 <= int(text) <= n:
        wrong(f"{text!r} is not a row number from 1 to {n}", option)
    return int(text) - 1
