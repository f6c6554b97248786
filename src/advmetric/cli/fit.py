"""``advmetric fit``: from a file to a saved metric, with an honest number beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from ..learner import LabelledPoints
from ..metric import Mahalanobis
from ..registry import Method
from ..supervision import Pairs
from .data import read_pairs, read_points
from .evaluate import show_scores
from .learning import Samples, calibrated, chosen_params, find_method, fixed_params, kinds, learn, points_of, take
from .options import AsJson, Data, Delimiter, Drop, Label, PairsColumn, kind_of, wrong
from .output import check_output, show_json
from .scoring import euclidean, neighbour_error, pair_quality, scale_of
from .tables import NPZ

__all__ = ["fit"]


def fit(
    data: Data,
    label: Label = None,
    pairs: PairsColumn = None,
    method: Annotated[str, typer.Option("--method", metavar="NAME", help="See `advmetric methods`.")] = "AML",
    tune: Annotated[
        bool, typer.Option("--tune/--no-tune", help="Choose parameters by cross-validation in the training part.")
    ] = True,
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Fix a parameter; repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="[default: name of DATA + .metric.npz, here]")
    ] = None,
    standardize: Annotated[
        bool, typer.Option("--standardize/--no-standardize", help="Divide features by their standard deviations.")
    ] = True,
    test: Annotated[float, typer.Option("--test", metavar="SHARE", help="Held out to evaluate; 0 for none.")] = 0.2,
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Save a metric fitted again on all rows, or the evaluated one.")
    ] = True,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**32 - 1, help="Of splits and random pairs.")
    ] = 0,
    drop: Drop = None,
    delimiter: Delimiter = None,
    as_json: AsJson = False,
) -> None:
    """Learn a metric, compare it with Euclidean on held-out rows, save it.

    DATA has either a column of class labels (--label) and numbers in all other columns (--drop leaves some out), or
    is pairs (--pairs): features in columns a_<name> and b_<name>, +1 (same) or -1 (different) in the column named;
    other columns are not used. An npz file has arrays X and y; or pairs of shape (N, 2, d), or (N, 2) row numbers of
    X, and y.

    The parameters listed by `advmetric methods` are tuned by 3-fold cross-validation inside the training part, for
    5-NN accuracy or, on pairs, ROC AUC; --param takes one out. The metric saved is fitted with these on all rows
    (--no-refit: on the training part). Standard deviations are folded into it, so it is used on raw data.

    Pairs are split at random: if the same point is in many pairs, split the file yourself (by person, say), fit with
    --test 0 and use `advmetric evaluate`.
    """
    chosen = find_method(method)
    fixed = fixed_params(chosen, param or [])
    if not 0.0 <= test < 1.0:
        wrong(f"{test} is not a share in [0, 1)", "--test")
    target = Path(f"{data.stem}.metric.npz") if out is None else out
    check_output(target, suffixes=NPZ, inputs=(data,))
    kind = kind_of(data, label, pairs)
    if kind not in chosen.supervision:
        wrong(f"{chosen.name} learns from {' and '.join(chosen.supervision)}, not from {kind}", "--method")
    samples, names = _read(data, kind, label, pairs, drop, delimiter)
    train, held_out = _split(kinds(samples), test, seed)
    training = take(samples, train)
    params, how = chosen_params(chosen, fixed, training, standardize, seed) if tune else (fixed, "as given")
    metric = learn(chosen, params, training, standardize, seed)
    scores = {}
    if len(held_out):
        scores = _scores(chosen, metric, training, take(samples, held_out), standardize)
    if refit and len(held_out):
        metric = learn(chosen, params, samples, standardize, seed)
    saved_on = len(kinds(samples)) if refit or not len(held_out) else len(train)
    metric = Mahalanobis(metric.components, metric.threshold, names)
    if isinstance(samples, Pairs):
        metric = calibrated(metric, chosen, params, samples, standardize, seed)
    metric.save(target)
    if as_json:
        show_json(
            {
                "data": str(data),
                "method": chosen.name,
                "params": params,
                "train": len(train),
                "test": len(held_out),
                "seed": seed,
                "scores": scores,
                "metric": str(target),
                "fitted_on": saved_on,
                "threshold": metric.threshold,
            }
        )
        return
    things = "points" if kind == "points" else "pairs"
    classes = f", {len(np.unique(kinds(samples)))} classes" if kind == "points" else ""
    print(f"{data}: {len(kinds(samples))} {things}, {metric.components.shape[1]} features{classes}")
    print(f"{chosen.name}: {', '.join(f'{name}={value}' for name, value in params.items()) or 'defaults'} ({how})")
    if scores:
        print(f"On {len(held_out)} held-out {things} (fitted on the other {len(train)}, seed {seed}):")
        show_scores(scores)
        _admit(scores, chosen)
    _tell_saved(target, metric, saved_on, things, standardize, refit and bool(len(held_out)))


def _read(
    data: Path, kind: str, label: str | None, pairs: str | None, drop: list[str] | None, delimiter: str | None
) -> tuple[Samples, tuple[str, ...] | None]:
    """The samples of a file, and the names of their features."""
    if kind == "pairs":
        file = read_pairs(data, pairs, drop=drop, delimiter=delimiter)
        return file.pairs, file.names
    points = read_points(data, label, drop=drop, delimiter=delimiter)
    classes, codes = np.unique(points.labels, return_inverse=True)
    if len(classes) == len(codes) > 2 or (len(classes) > len(codes) / 2 and _fractions(classes)):
        raise ValueError(
            f"{data}: the label has {len(classes)} different values in {len(codes)} rows, so these are no classes."
        )
    if len(classes) < 2:
        raise ValueError(f"{data} has only one class ({classes[0]}); at least two are needed to learn a metric.")
    return LabelledPoints(points.X, codes), points.names


def _fractions(classes: NDArray[np.str_]) -> bool:
    """Whether labels are numbers that are not whole: a quantity, not a class."""
    try:
        return bool(np.any(classes.astype(float) % 1 != 0))
    except ValueError:
        return False


def _split(y: NDArray[np.integer], test: float, seed: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Rows of the training and of the held-out part, stratified where there is enough of every class."""
    rows = np.arange(len(y))
    if test == 0.0:
        return rows, rows[:0]
    sizes = np.unique(y, return_counts=True)[1]
    room = min(int(np.ceil(test * len(y))), len(y) - int(np.ceil(test * len(y))))
    stratified = sizes.min() >= 2 and room >= len(sizes)
    train, held_out = train_test_split(rows, test_size=test, stratify=y if stratified else None, random_state=seed)
    return train, held_out


def _scores(method: Method, metric: Mahalanobis, train: Samples, test: Samples, scaled: bool) -> dict[str, Any]:
    """The numbers of the learned distance and of the Euclidean ones, on held-out samples."""
    scale = scale_of(points_of(train))
    rulers = {method.name: metric}
    if scaled:
        rulers["Euclidean, standardised"] = euclidean(scale)
    rulers["Euclidean, raw"] = euclidean(np.ones_like(scale))
    if isinstance(train, Pairs) and isinstance(test, Pairs):
        return {name: pair_quality(ruler, test, train) for name, ruler in rulers.items()}
    assert isinstance(train, LabelledPoints)
    assert isinstance(test, LabelledPoints)
    return {name: {"error": neighbour_error(ruler, train.X, train.y, test.X, test.y)} for name, ruler in rulers.items()}


def _admit(scores: dict[str, Any], method: Method) -> None:
    """Say so if the learned distance is no better than the best Euclidean one."""
    others = [row for name, row in scores.items() if name != method.name]
    mine = scores[method.name]
    if method.name != "Euclidean" and (
        mine["error"] >= min(row["error"] for row in others)
        if "error" in mine
        else mine["roc_auc"] <= max(row["roc_auc"] for row in others)
    ):
        print("No gain over the Euclidean distance on these rows.")


def _tell_saved(target: Path, metric: Mahalanobis, n: int, things: str, scaled: bool, again: bool) -> None:
    r, d = metric.components.shape
    fitted = f"fitted again on all {n} {things}" if again else f"fitted on {n} {things}"
    print(f"Saved {target}: {d} features to {r} dimensions, {fitted}.")
    if scaled:
        print("The standard deviations are folded into it: use it on raw data, not on standardised.")
    if metric.threshold is not None:
        print(f"Pairs up to a distance of {metric.threshold:.6g} are called the same.")
    if metric.calibration is not None:
        print("`advmetric verify` gives probabilities, calibrated on pairs out of the fold they are judged by.")
