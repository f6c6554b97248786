"""``advmetric evaluate``: a saved metric beside the Euclidean distance, on data of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from advmetric.cli.options import AsJson, Data, Label, MetricFile, PairsColumn, kind_of, reads_tables
from advmetric.cli.output import show, show_json
from advmetric.io.contents import Reading
from advmetric.io.samples import load_metric, read_pairs, read_points
from advmetric.pairs.data import LabelledPoints, Samples
from advmetric.workflows.judge import judge, rulers_beside
from advmetric.workflows.stages import stage

__all__ = ["evaluate", "show_scores"]

HEADERS = {"error": "5-NN error", "roc_auc": "ROC AUC", "accuracy": "accuracy"}


@reads_tables
def evaluate(
    metric: MetricFile,
    data: Data,
    label: Label = None,
    pairs: PairsColumn = None,
    train: Annotated[
        Path | None,
        typer.Option("--train", metavar="FILE", help="Points to find neighbours among; pairs to set thresholds on."),
    ] = None,
    *,
    reading: Reading,
    as_json: AsJson = False,
) -> None:
    """Measure a metric on labelled data, beside the Euclidean distance.

    Points: the error of 5 nearest neighbours, leave-one-out, or among the rows of --train (leave-one-out as well if
    these are the same rows). Pairs: area under the ROC curve, and accuracy at the threshold saved with the metric;
    with --train, at the threshold that is best there, for every distance. The numbers are meaningful only for rows that
    the metric was not fitted on. Of many points, a random sample is judged, and the output says so.

    Two Euclidean distances are shown: of the raw features, and of features standardised by --train or else DATA.
    """
    kind, learned = kind_of(data, label, pairs), load_metric(metric)

    def samples_of(path: Path) -> Samples:
        with stage(f"Reading {path}"):
            if kind == "pairs":
                return read_pairs(path, pairs, reading, metric=learned).pairs
            points = read_points(path, label, reading, metric=learned)
            return LabelledPoints(points.X, points.labels)  # type: ignore[arg-type]  # names of classes serve as well

    test, known = samples_of(data), None if train is None else samples_of(train)
    same = known is not None and np.array_equal(test.X, known.X) and np.array_equal(test.labels, known.labels)
    if kind == "points":
        how = "leave-one-out" if known is None else f"neighbours among {len(known)} rows of {train}"
        how = f"leave-one-out (the rows of {train} are the same)" if same else how
    elif known is None:
        how = (
            "no threshold is saved with the metric" if learned.threshold is None else "threshold saved with the metric"
        )
    else:
        how = f"threshold best on {len(known)} pairs of {train}{', the very same ones' if same else ''}"
    rulers = rulers_beside("learned", learned, (test if known is None else known).X)
    found = judge(rulers, test, None if same and kind == "points" else known)
    if as_json:
        result = {"data": str(data), "metric": str(metric), "how": how, "judged": found.sampled or len(test)}
        show_json({**result, "scores": found.scores})
        return
    of = f"a random sample of {found.sampled} of " if found.sampled else ""
    print(f"{of}{len(test)} {kind} of {data}, {how}")
    show_scores(found.scores)


def show_scores(scores: dict[str, dict[str, Any]]) -> None:
    """Print a row for each distance and a column for each number that it has."""
    columns = list(next(iter(scores.values())))
    show(
        ("distance", *(HEADERS[column] for column in columns)),
        [(name, *("-" if row[column] is None else row[column] for column in columns)) for name, row in scores.items()],
    )
