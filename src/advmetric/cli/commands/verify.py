"""``advmetric verify``: same or different? Distance, decision and probability."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from advmetric.cli.options import Delimiter, Drop, Label, MetricFile, wrong
from advmetric.cli.output import check_output, merged, write_columns, write_csv
from advmetric.io.samples import load_metric, read_pairs, read_points
from advmetric.io.tables import NPZ, PARQUET, TEXT
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.pairs.data import Pairs

__all__ = ["verify"]


def verify(
    metric: MetricFile,
    first: Annotated[Path, typer.Argument(metavar="PAIRS|FIRST", help="A file of pairs, or of points.")],
    second: Annotated[
        Path | None, typer.Argument(metavar="[SECOND]", help="A second file of points, for FIRST's rows in turn.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Distance up to which a pair is the same, instead of its own.")
    ] = None,
    probability: Annotated[
        float | None, typer.Option("--probability", min=0.0, max=1.0, help="Call a pair the same from this one on.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="CSV, Parquet or npz.")] = None,
    label: Label = None,
    drop: Drop = None,
    delimiter: Delimiter = None,
) -> None:
    """Same or different? Distance, decision and probability for each pair.

    Either one file of pairs (columns a_<feature> and b_<feature>), or two files of points: row i of the one is
    compared with row i of the other, or a single row with all rows. The output is CSV on stdout, or a file: the other
    columns, then `distance`, `decision` (+1 same, -1 different) and, if the metric was fitted on pairs,
    `probability`.
    """
    if threshold is not None and probability is not None:
        wrong("give one of the two", "--threshold / --probability")
    if out is not None:
        check_output(out, suffixes=(*TEXT, *PARQUET, *NPZ), inputs=(metric, first, second))
    learned = load_metric(metric)
    if probability is not None and learned.calibration is None:
        wrong(f"{metric} has no probabilities: fit it on pairs", "--probability")
    if second is None:
        file = read_pairs(first, None, labelled=False, drop=drop, delimiter=delimiter, metric=learned)
        pairs, others = file.pairs, dict(file.others)
    else:
        pairs, others = _facing(learned, first, second, label, drop, delimiter), {}
    columns = merged(others, judged(learned, pairs, threshold, probability), first)
    if out is None:
        write_csv(sys.stdout, columns)
    else:
        write_columns(out, columns)
        print(f"Wrote {out}: {len(pairs)} pairs, {int(np.sum(columns['decision'] == 1))} of them the same.")


def judged(metric: Mahalanobis, pairs: Pairs, threshold: float | None, probability: float | None) -> dict[str, NDArray]:
    """Distance, decision and, where there is a calibration, probability of each pair."""
    distances = metric.pair_distance(pairs)
    found: dict[str, NDArray] = {"distance": distances}
    limit = metric.threshold if threshold is None else threshold
    if probability is not None:
        found["decision"] = np.where(metric.probability(distances) >= probability, 1, -1)
    elif limit is not None:
        found["decision"] = np.where(distances <= limit, 1, -1)
    else:
        raise ValueError("the metric has no threshold (it was fitted on points): give --threshold.")
    if metric.calibration is not None:
        found["probability"] = metric.probability(distances)
    return found


def _facing(
    metric: Mahalanobis, first: Path, second: Path, label: str | None, drop: list[str] | None, delimiter: str | None
) -> Pairs:
    """Pairs of the rows of two files."""
    ends = [read_points(path, label, drop=drop, delimiter=delimiter, metric=metric).X for path in (first, second)]
    n = max(len(X) for X in ends)
    for path, X in zip((first, second), ends, strict=True):
        if len(X) not in (1, n):
            raise ValueError(f"{path} has {len(X)} rows, the other file {n}: give as many, or one.")
    rows = [np.arange(n) if len(X) == n else np.zeros(n, dtype=np.intp) for X in ends]
    return Pairs(np.concatenate(ends), rows[0], len(ends[0]) + rows[1])
