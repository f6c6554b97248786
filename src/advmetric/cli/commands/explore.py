"""``advmetric explore``: one HTML page to look at a learned metric."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from advmetric.cli import options
from advmetric.cli.output import new_output
from advmetric.explorer.page import plotting_library, write_page
from advmetric.explorer.view import make_view
from advmetric.io.contents import PointFile, Reading
from advmetric.io.samples import read_pairs, read_points
from advmetric.io.sources import STDIN
from advmetric.workflows.parameters import parse_params
from advmetric.workflows.stages import stage

from .fit import groups_of, samples_of

__all__ = ["explore"]


@options.reads_tables
def explore(
    data: options.Data,
    label: options.Label = None,
    pairs: options.PairsColumn = None,
    method: options.MethodName = None,
    tune: Annotated[
        bool, typer.Option("--tune/--no-tune", help="Cross-validate parameters in the training part.")
    ] = True,
    param: options.Param = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="[default: name of DATA + .explore.html, here]")
    ] = None,
    force: options.Force = False,
    standardize: options.Standardize = True,
    test: Annotated[float, typer.Option("--test", metavar="SHARE", help="Held out, to look at and judge on.")] = 0.2,
    seed: options.Seed = 0,
    group: options.Group = None,
    category: options.Category = None,
    missing: options.Missing = "fill",
    *,
    reading: Reading,
) -> None:
    """Learn a metric and write one HTML page to look at it.

    The page opens in any browser, without a server or network. It shows the points before and after, on a plane
    learned for two dimensions; the neighbours of a point under both distances, with the differences of their
    features; M and the weights of the features; the confusion matrix; the ROC curve of held-out pairs with a
    threshold to move; and the hardest pairs.

    DATA and the way a metric is learned are as for `advmetric fit`, but the metric is not learned again on all rows:
    held-out ones stay so. Of more than 5000 points a random sample is shown. The page contains the rows it shows.
    """
    chosen = options.method_of(method, given=not tune or bool(param))
    fixed = parse_params(chosen, param or [])
    if not 0.0 < test < 1.0:
        options.wrong(f"{test} is not a share in (0, 1): the page shows held-out rows", "--test")
    target = new_output(data, out, ".explore.html", action="a page is written", suffixes=(".html", ".htm"), force=force)
    plotting_library()  # before the work, if it is missing
    kind = options.kind_for(chosen, data, label, pairs)
    reading = replace(reading, group=group, categories=tuple(category or ()), fill=missing == "fill")
    with stage(f"Reading {data}"):
        file = (read_points if kind == "points" else read_pairs)(data, label if kind == "points" else pairs, reading)
    view = make_view(
        chosen,
        fixed,
        samples_of(data, file),
        title=f"The metric of {'standard input' if data == STDIN else data.name}",
        names=file.names,
        classes=np.unique(file.labels).tolist() if isinstance(file, PointFile) else None,
        preparation=file.preparation,
        groups=groups_of(data, file, reading),
        tuned=tune,
        share=test,
        standardize=standardize,
        seed=seed,
    )
    write_page(view, target)
    print(view["answer"])
    print(f"Wrote {target} ({target.stat().st_size / 1e6:.1f} MB): open it in a browser.")
