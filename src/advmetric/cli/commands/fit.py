"""``advmetric fit``: from a file to a saved metric, with its score on held-out data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from advmetric.cli import options
from advmetric.cli.output import new_output, show_json
from advmetric.io.contents import PairFile, PointFile, Reading
from advmetric.io.samples import read_pairs, read_points
from advmetric.io.sources import NPZ
from advmetric.pairs.data import LabelledPoints, Samples
from advmetric.workflows.fit import Fitted, check_classes, fit_samples
from advmetric.workflows.judge import HELPS, compare
from advmetric.workflows.parameters import parse_params
from advmetric.workflows.stages import stage
from advmetric.workflows.stream import check_streamable, fit_stream

from .evaluate import show_scores

__all__ = ["fit", "groups_of", "samples_of"]


@options.reads_tables
def fit(
    data: options.Data,
    label: options.Label = None,
    pairs: options.PairsColumn = None,
    method: options.MethodName = None,
    tune: Annotated[
        bool | None,
        typer.Option("--tune/--no-tune", help="Cross-validate parameters in the training part.  [default: tune]"),
    ] = None,
    param: options.Param = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="[default: name of DATA + .metric.npz, here]")
    ] = None,
    force: options.Force = False,
    standardize: options.Standardize = True,
    test: Annotated[
        float | None,
        typer.Option("--test", metavar="SHARE", help="Held out to evaluate; 0 for none.  [default: 0.2]"),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Save a metric fitted again on all rows, or the evaluated one.")
    ] = True,
    seed: options.Seed = 0,
    group: options.Group = None,
    category: options.Category = None,
    missing: options.Missing = "fill",
    chunk_rows: Annotated[
        int | None,
        typer.Option(
            "--chunk-rows",
            metavar="N",
            min=1,
            help="Read DATA in parts of N rows, without loading it: --no-tune --test 0.",
        ),
    ] = None,
    *,
    reading: Reading,
    as_json: options.AsJson = False,
) -> None:
    """Learn a metric, compare it with Euclidean on held-out rows, save it.

    DATA has either a column of class labels (--label) and numbers in all other columns (--drop leaves some out), or
    is pairs (--pairs): features in columns a_<name> and b_<name>, +1 (same) or -1 (different) in the column named;
    other columns are not used. An npz file has arrays X and y; or pairs of shape (N, 2, d), or (N, 2) row numbers of
    X, and y.

    By default the loss and its parameters are chosen by 5-fold cross-validation inside the training part, for 5-NN
    accuracy or, on pairs, ROC AUC; where the scores cannot be told apart, the simplest is taken. With --method, the
    parameters listed by `advmetric methods` are tuned by 3-fold cross-validation; --param takes one out. The metric
    saved is fitted with these on all rows (--no-refit: on the training part). Standard deviations are folded into it,
    so it is used on raw data.

    Columns of text are categories: one feature for each level (one in all if there are two). Missing numbers are
    filled with the mean, missing categories with the most frequent level. Levels and means are those of the rows that
    are learned from; they are saved with the metric, and used by all commands that read tables with it.

    Rows are split at random. If several rows belong to one person, say, name that column with --group: no person is
    then both learned from and judged on. For pairs, a group is that of the whole row.

    Above 10000 rows (5000 where the loss is chosen), parameters are tuned on a sample of that size; above some 15000,
    the error of nearest neighbours is that of a sample of the held-out points. The output says so.

    With --chunk-rows the file may be larger than memory (AML, GMML and Euclidean): what is saved is what --no-tune
    --test 0 saves without it, but the threshold is chosen on a sample of 10000 pairs if there are more, and the folds
    that probabilities are calibrated in are others. A table with categories or missing values is read a second time.
    """
    given = tune is False or bool(param) or chunk_rows is not None
    chosen = options.method_of(method, given=given)
    fixed = parse_params(chosen, param or [])
    if chunk_rows is not None:
        check_streamable(chosen, fixed)
        if tune or test:
            why = "the rows are read once and not kept: split the file, and use `advmetric evaluate`"
            options.wrong(f"not with --chunk-rows, {why}", "--tune" if tune else "--test")
    share = 0.2 if test is None else test
    if not 0.0 <= share < 1.0:
        options.wrong(f"{share} is not a share in [0, 1)", "--test")
    if group is not None and chunk_rows is not None:
        options.wrong("not with --chunk-rows, which splits nothing", "--group")
    target = new_output(data, out, ".metric.npz", action="a metric is saved", suffixes=NPZ, force=force)
    kind = options.kind_for(chosen, data, label, pairs)
    column = label if kind == "points" else pairs
    reading = replace(reading, group=group, categories=tuple(category or ()), fill=missing == "fill")
    if chunk_rows is not None:
        result = fit_stream(
            chosen, fixed, data, kind, column, rows=chunk_rows, standardize=standardize, seed=seed, how=reading
        )
    else:
        with stage(f"Reading {data}"):
            file = (read_points if kind == "points" else read_pairs)(data, column, reading)
        result = fit_samples(
            chosen,
            fixed,
            samples_of(data, file),
            names=file.names,
            preparation=file.preparation,
            groups=groups_of(data, file, reading),
            tuned=tune is not False,
            share=share,
            standardize=standardize,
            refit=refit,
            seed=seed,
        )
    chosen = result.method or chosen
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
                "judged": result.sampled or result.test,
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
        of = f"a random sample of {result.sampled} of " if result.sampled else ""
        print(f"On {of}{result.test} held-out {kind} (fitted on the other {result.train}, seed {seed}):")
        show_scores(result.scores)
        said = compare(result.scores, result.sampled or result.test)[1]
        if chosen.name != "Euclidean" and said != HELPS:
            print(f"No gain over the Euclidean distance is shown by these {kind}: {said}.")
    _tell_saved(target, result, kind, standardize)


def samples_of(data: Path, file: PointFile | PairFile) -> Samples:
    """The samples of a file, with classes as numbers."""
    if isinstance(file, PairFile):
        return file.pairs
    classes, codes = np.unique(file.labels, return_inverse=True)
    check_classes(data, classes, len(codes))
    return LabelledPoints(file.X, codes)


def groups_of(data: Path, file: PointFile | PairFile, reading: Reading) -> NDArray | None:
    """The group of each row, as a number."""
    if reading.group is None:
        return None
    if reading.group not in file.others:
        raise ValueError(f"{data} has no array {reading.group!r} with a group for each row.")
    return np.unique(file.others[reading.group].astype(str), return_inverse=True)[1]


def _tell_saved(target: Path, result: Fitted, things: str, scaled: bool) -> None:
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
