"""``advmetric verify``: same or different? Distance, decision and probability."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from advmetric.cli.options import Force, Label, MetricFile, Out, reads_tables, wrong
from advmetric.cli.output import SUFFIXES, check_output, give_back, merged
from advmetric.io.contents import Reading
from advmetric.io.samples import load_metric, read_pairs, read_points
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.pairs.data import Pairs

__all__ = ["verify"]


@reads_tables
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
    out: Out = None,
    force: Force = False,
    label: Label = None,
    *,
    reading: Reading,
) -> None:
    """Same or different? Distance, decision and probability for each pair.

    Either one file of pairs (columns a_<feature> and b_<feature>), or two files of points: row i of the one is
    compared with row i of the other, or a single row with all rows. The output is CSV on stdout, or a file: the other
    columns (of two files: a_<name> from FIRST, b_<name> from SECOND), then `distance`, `decision` (+1 same, -1
    different) and, if the metric was fitted on pairs, `probability`.
    """
    if threshold is not None and probability is not None:
        wrong("give one of the two", "--threshold / --probability")
    if threshold is not None and not threshold >= 0.0:
        wrong(f"{threshold} is not a distance, which is never negative", "--threshold")
    check_output(out, suffixes=SUFFIXES, inputs=(metric, first, second), force=force)
    learned = load_metric(metric)
    if probability is not None and learned.calibration is None:
        wrong(f"{metric} has no probabilities: fit it on pairs", "--probability")
    if second is None:
        file = read_pairs(first, None, reading, labelled=False, metric=learned)
        pairs, others = file.pairs, dict(file.others)
    else:
        pairs, others = _facing(learned, first, second, label, reading)
    columns = merged(others, judged(learned, pairs, threshold, probability), first)
    give_back(columns, out, f"{len(pairs)} pairs, {int(np.sum(columns['decision'] == 1))} of them the same.")


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
    metric: Mahalanobis, first: Path, second: Path, label: str | None, reading: Reading
) -> tuple[Pairs, dict[str, NDArray]]:
    """Pairs of the rows of two files, and the other columns of both."""
    files = [read_points(path, label, reading, metric=metric) for path in (first, second)]
    n = max(len(file.X) for file in files)
    for path, file in zip((first, second), files, strict=True):
        if len(file.X) not in (1, n):
            raise ValueError(f"{path} has {len(file.X)} rows, the other file {n}: give as many, or one.")
    rows = [np.arange(n) if len(file.X) == n else np.zeros(n, dtype=np.intp) for file in files]
    others = {
        f"{side}_{name}": values[row]
        for side, file, row in zip("ab", files, rows, strict=True)
        for name, values in file.others.items()
    }
    pairs = Pairs(np.concatenate([file.X for file in files]), rows[0], len(files[0].X) + rows[1])
    return pairs, others
