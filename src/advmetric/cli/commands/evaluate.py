"""``advmetric evaluate``: a saved metric beside the Euclidean distance, on data of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from advmetric.cli.options import AsJson, Data, Delimiter, Drop, Label, MetricFile, PairsColumn, kind_of
from advmetric.cli.output import show, show_json
from advmetric.evaluation.scores import euclidean, leave_one_out_error, neighbor_error, pair_quality, scale_of
from advmetric.io.samples import load_metric, read_pairs, read_points
from advmetric.metric.mahalanobis import Mahalanobis

__all__ = ["evaluate", "show_scores"]

HEADERS = {"error": "5-NN error", "roc_auc": "ROC AUC", "accuracy": "accuracy"}


def evaluate(
    metric: MetricFile,
    data: Data,
    label: Label = None,
    pairs: PairsColumn = None,
    train: Annotated[
        Path | None,
        typer.Option("--train", metavar="FILE", help="Points to find neighbours among; pairs to set thresholds on."),
    ] = None,
    drop: Drop = None,
    delimiter: Delimiter = None,
    as_json: AsJson = False,
) -> None:
    """Measure a metric on labelled data, beside the Euclidean distance.

    Points: the error of 5 nearest neighbours, leave-one-out, or among the rows of --train. Pairs: area under the ROC
    curve, and accuracy at the threshold saved with the metric; with --train, at the threshold that is best there, for
    every distance. The numbers are meaningful only for rows that the metric was not fitted on.

    Two Euclidean distances are shown: of the raw features, and of features standardised by --train or else DATA.
    """
    learned = load_metric(metric)
    options: dict[str, Any] = {"drop": drop, "delimiter": delimiter, "metric": learned}
    if kind_of(data, label, pairs) == "points":
        points = read_points(data, label, **options)
        others = None if train is None else read_points(train, label, **options)
        scale = scale_of(points.X if others is None else others.X)

        def score(ruler: Mahalanobis) -> dict[str, Any]:
            if others is None:
                return {"error": leave_one_out_error(ruler, points.X, points.labels)}
            return {"error": neighbor_error(ruler, others.X, others.labels, points.X, points.labels)}

        how = "leave-one-out" if others is None else f"neighbours among {len(others.X)} rows of {train}"
        title = f"{len(points.X)} points of {data}, {how}"
    else:
        found = read_pairs(data, pairs, **options).pairs
        known = None if train is None else read_pairs(train, pairs, **options).pairs
        scale = scale_of((found if known is None else known).X)

        def score(ruler: Mahalanobis) -> dict[str, Any]:
            return pair_quality(ruler, found, known)

        how = "saved with the metric" if known is None else f"best on {len(known)} pairs of {train}"
        title = f"{len(found)} pairs of {data}, threshold {how}"
    rulers = {
        "learned": learned,
        "Euclidean, standardised": euclidean(scale),
        "Euclidean, raw": euclidean(np.ones_like(scale)),
    }
    scores = {name: score(ruler) for name, ruler in rulers.items()}
    if as_json:
        show_json({"data": str(data), "metric": str(metric), "how": how, "scores": scores})
        return
    print(title)
    show_scores(scores)


def show_scores(scores: dict[str, dict[str, Any]]) -> None:
    """Print a row for each distance and a column for each number that it has."""
    columns = list(next(iter(scores.values())))
    show(
        ("distance", *(HEADERS[column] for column in columns)),
        [(name, *("-" if row[column] is None else row[column] for column in columns)) for name, row in scores.items()],
    )
