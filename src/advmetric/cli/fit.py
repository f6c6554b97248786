"""``advmetric fit``: from a file to a saved metric, with an honest number beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from .learning import (
    Samples,
    calibrated,
    chosen_params,
    find_method,
    fixed_params,
    kinds,
    learn,
    points_of,
    refuse_no_classes,
    take,
)
from .options import AsJson, Data, Delimiter, Drop, Label, PairsColumn, kind_of, wrong
from .output import check_output, show_json
from .scoring import euclidean, neighbour_error, pair_quality, scale_of
from .stream import fit_in_parts, refuse_unstreamable
from .tables import NPZ

__all__ = ["fit"]


def fit(
    data: Data,
    label: Label = None,
    pairs: PairsColumn = None,
    method: Annotated[str, typer.Option("--method", metavar="NAME", help="See `advmetric methods`.")] = "AML",
    tune: Annotated[
        bool | None,
        typer.Option("--tune/--no-tune", help="Cross-validate parameters in the training part.  [default: tune]"),
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Fix a parameter; repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="[default: name of DATA + .metric.npz, here]")
    ] = None,
    standardize: Annotated[
        bool, typer.Option("--standardize/--no-standardize", help="Divide features by their standard deviations.")
    ] = True,
    test: Annotated[
        float | None,
        typer.Option("--test", metavar="SHARE", help="Held out to evaluate; 0 for none.  [default: 0.2]"),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Save a metric fitted again on all rows, or the evaluated one.")
    ] = True,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, max=2**32 - 1, help="Of splits and random pairs.")
    ] = 0,
    chunk_rows: Annotated[
        int | None,
        typer.Option(
            "--chunk-rows",
            metavar="N",
            min=1,
            help="Read DATA once, N rows at a time, without loading it: --no-tune --test 0.",
        ),
    ] = None,
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

    With --chunk-rows the file may be larger than memory (AML, GMML and Euclidean): what is saved is what --no-tune
    --test 0 saves without it, but the threshold is chosen on a sample of 10000 pairs if there are more, and the folds
    that probabilities are calibrated in are others.
    """
    chosen = find_method(method)
    fixed = fixed_params(chosen, param or [])
    if chunk_rows is not None:
        refuse_unstreamable(chosen, fixed)
        if tune or test:
            why = "the rows are read once and not kept: split the file, and use `advmetric evaluate`"
            wrong(f"not with --chunk-rows, {why}", "--tune" if tune else "--test")
    share = 0.2 if test is None else test
    if not 0.0 <= share < 1.0:
        wrong(f"{share} is not a share in [0, 1)", "--test")
    target = Path(f"{data.stem}.metric.npz") if out is None else out
    check_output(target, suffixes=NPZ, inputs=(data,))
    kind = kind_of(data, label, pairs)
    if kind not in chosen.supervision:
        wrong(f"{chosen.name} learns from {' and '.join(chosen.supervision)}, not from {kind}", "--method")
    if chunk_rows is not None:
        result = _in_parts(
            chosen,
            fixed,
            data,
            kind,
            label if kind == "points" else pairs,
            rows=chunk_rows,
            standardize=standardize,
            seed=seed,
            drop=drop,
            delimiter=delimiter,
        )
    else:
        samples, names = _read(data, kind, label, pairs, drop, delimiter)
        result = _in_memory(chosen, fixed, samples, names, tune is not False, share, standardize, refit, seed)
    result.metric.save(target)
    if as_json:
        show_json(
            {
                "data": str(data),
                "method": chosen.name,
                "params": result.params,
                "train": result.train,
                "test": result.test,
                "seed": seed,
                "scores": result.scores,
                "metric": str(target),
                "fitted_on": result.fitted_on,
                "threshold": result.metric.threshold,
                "chunk_rows": chunk_rows,
            }
        )
        return
    classes = f", {result.classes} classes" if kind == "points" else ""
    settings = ", ".join(f"{name}={value}" for name, value in result.params.items())
    print(f"{data}: {result.train + result.test} {kind}, {result.metric.components.shape[1]} features{classes}")
    print(f"{chosen.name}: {settings or 'defaults'} ({result.how})")
    if result.scores:
        print(f"On {result.test} held-out {kind} (fitted on the other {result.train}, seed {seed}):")
        show_scores(result.scores)
        _admit(result.scores, chosen)
    _tell_saved(target, result, kind, standardize)


@dataclass(frozen=True)
class _Result:
    """What was learned, and from what."""

    metric: Mahalanobis
    params: dict[str, Any]
    how: str
    """Where the parameters come from."""
    classes: int
    train: int
    test: int
    fitted_on: int
    scores: dict[str, Any] = field(default_factory=dict)
    judged: int | None = None
    """How many of the pairs the threshold was chosen on, if not all."""


def _in_memory(
    method: Method,
    fixed: dict[str, Any],
    samples: Samples,
    names: tuple[str, ...] | None,
    tune: bool,
    share: float,
    standardize: bool,
    refit: bool,
    seed: int,
) -> _Result:
    """Tune, learn, evaluate on held-out rows, and learn again on all of them."""
    train, held_out = _split(kinds(samples), share, seed)
    training = take(samples, train)
    params, how = chosen_params(method, fixed, training, standardize, seed) if tune else (fixed, "as given")
    metric = learn(method, params, training, standardize, seed)
    scores = {}
    if len(held_out):
        scores = _scores(method, metric, training, take(samples, held_out), standardize)
    if refit and len(held_out):
        metric = learn(method, params, samples, standardize, seed)
    metric = Mahalanobis(metric.components, metric.threshold, names)
    if isinstance(samples, Pairs):
        metric = calibrated(metric, method, params, samples, standardize, seed)
    classes = len(np.unique(kinds(samples)))
    fitted_on = len(train) + len(held_out) if refit else len(train)
    return _Result(metric, params, how, classes, len(train), len(held_out), fitted_on, scores)


def _in_parts(method: Method, fixed: dict[str, Any], data: Path, kind: str, label: str | None, **how: Any) -> _Result:
    """Learn from a file that is never in memory as a whole."""
    found = fit_in_parts(method, fixed, data, kind, label, **how)
    judged = found.judged if kind == "pairs" and found.judged < found.rows else None
    return _Result(found.metric, fixed, "as given", found.classes, found.rows, 0, found.rows, judged=judged)


def _read(
    data: Path, kind: str, label: str | None, pairs: str | None, drop: list[str] | None, delimiter: str | None
) -> tuple[Samples, tuple[str, ...] | None]:
    """The samples of a file, and the names of their features."""
    if kind == "pairs":
        file = read_pairs(data, pairs, drop=drop, delimiter=delimiter)
        return file.pairs, file.names
    points = read_points(data, label, drop=drop, delimiter=delimiter)
    classes, codes = np.unique(points.labels, return_inverse=True)
    refuse_no_classes(data, classes, len(codes))
    return LabelledPoints(points.X, codes), points.names


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


def _tell_saved(target: Path, result: _Result, things: str, scaled: bool) -> None:
    metric, n = result.metric, result.fitted_on
    r, d = metric.components.shape
    fitted = f"fitted again on all {n} {things}" if n > result.train else f"fitted on {n} {things}"
    print(f"Saved {target}: {d} features to {r} dimensions, {fitted}.")
    if scaled:
        print("The standard deviations are folded into it: use it on raw data, not on standardised.")
    if metric.threshold is not None:
        chosen = "" if result.judged is None else f" (chosen on a random sample of {result.judged})"
        print(f"Pairs up to a distance of {metric.threshold:.6g} are called the same{chosen}.")
    if metric.calibration is not None:
        print("`advmetric verify` gives probabilities, calibrated on pairs out of the fold they are judged by.")
