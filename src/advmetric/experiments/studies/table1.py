"""Table 1: all methods on seven sets, 5-NN error over random 80/20 splits."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import ConvergenceWarning

from advmetric.datasets import list_datasets, load_dataset
from advmetric.experiments.engine.plan import PROFILES, Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.engine.study import Section, Study
from advmetric.experiments.protocol import (
    ALL,
    NCA_ROWS,
    contenders,
    fit_tuned,
    knn_error,
    reason_missing,
    set_names,
    split_of,
)
from advmetric.experiments.report.comparison import LEVEL, Comparison
from advmetric.experiments.report.content import Bullets, Cell, Drawing, Heading, Paragraph, Table, mean_and_sd
from advmetric.experiments.report.drawing import subplots
from advmetric.plots import plot_critical_difference, plot_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DATASETS", "STUDY", "available", "compare"]

DATASETS = ("breast-cancer", "vehicle", "german-credit", "image-segment", "isolet", "letters", "mnist-4000")
"""The paper's seven sets. German credit in its numeric form (24 columns, as the paper's) where it can be had."""


def available(
    names: Sequence[str] = DATASETS, *, bundled_only: bool = False, data_home: Path | None = None
) -> tuple[list[str], dict[str, str]]:
    """Return the names that can be loaded here, and why the others cannot."""
    bundled = {info.name for info in list_datasets() if info.bundled}
    found, missing = [], {}
    for name in names:
        candidates = ["german-credit-numeric", name] if name == "german-credit" and not bundled_only else [name]
        for candidate in candidates:
            if candidate in bundled:
                found.append(candidate)
                break
            if bundled_only:
                missing[name] = "not bundled: left out of the quick run"
                break
            why = reason_missing(load_dataset, candidate, data_home)
            if why is None:
                found.append(candidate)
                break
            missing[name] = why
    return found, {name: why for name, why in missing.items() if name not in found}


def missing(plan: Plan) -> list[str]:
    """Return a sentence for each of the paper's sets that the table goes without."""
    if plan.datasets:
        return []
    _, absent = available(bundled_only=plan.profile == "quick", data_home=plan.data_home)
    return [f"{name} is not in Table 1: {why}" for name, why in absent.items()]


def tasks(plan: Plan) -> list[Task]:
    """Return a task per method, set and split."""
    known = set_names()
    chosen = None if plan.datasets is None else [name for name in plan.datasets if name in known]
    quick = plan.profile == "quick"
    datasets = available(bundled_only=quick, data_home=plan.data_home)[0] if chosen is None else chosen
    return plan.tasks("table1", datasets, plan.methods or list(contenders()))


def run(task: Task, data_home: Path | None) -> dict[str, Any]:
    """Tune and fit one method on one split."""
    parts = split_of(task, data_home)
    started = time.process_time()  # other load on the machine is not the method's
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        learner, params = fit_tuned(contenders()[task.method], parts, task)
    seconds = time.process_time() - started
    return {
        "error": knn_error(learner, parts),
        "params": params,
        "tune_and_fit_seconds": seconds,
        "unconverged": sum(issubclass(w.category, ConvergenceWarning) for w in caught),
        "n_train": len(parts.X_train),
        "d": parts.X_train.shape[1],
    }


def compare(records: Sequence[Record]) -> Comparison:
    """Return the comparison of all methods on all sets."""
    order = tuple(name for d in DATASETS for name in (d, f"{d}-numeric", f"{d}{ALL}"))
    return Comparison(tuple(records), order, tuple(contenders()))


def section(records: Sequence[Record]) -> Section:
    """Return the table, its figures, departures from the paper, chosen parameters and times."""
    table = compare(records)
    settings = PROFILES[records[0].task.profile]
    names, ranks, difference = table.ranked
    rows = []
    for m in table.methods:
        cells: list[Cell | str] = [m]
        for d in table.datasets:
            values, paper = table.values(d, m), table.in_paper(d, m)
            below = f"{paper[0]:.3f} ± {paper[1]:.3f}" if paper else ""
            mark = "†" if len(values) and table.p_values[d, m] < LEVEL else ""
            cells.append(Cell(mean_and_sd(values), bool(len(values)) and m in table.best(d), mark, below))
        rows.append([*cells, f"{ranks[names.index(m)]:.1f}" if m in names else "–"])
    blocks: list[Any] = [
        Paragraph(_explanation(table, settings)),
        Table(["method", *table.datasets, "rank"], rows),
    ]
    if names:
        caption = "Average ranks; a bar joins methods that Nemenyi's test does not tell apart at 5 %."
        blocks.append(Drawing(lambda: _rank_figure(names, ranks.tolist(), difference), caption))
    blocks.append(Drawing(lambda: _error_figure(table), "Every trial (dots), mean and standard deviation."))
    if table.departures():
        subsets = " Here it is mostly the subsets." if settings.max_rows else ""
        blocks += [
            Heading("Where this differs from the paper"),
            Paragraph(
                "Mean error here minus the paper's, where beyond two of the larger standard deviations. The paper does "
                "not say how features were scaled or reduced, nor how parameters were chosen without the test part."
                + subsets,
                note=True,
            ),
            Bullets(table.departures()),
        ]
    chosen = [[m, *(table.chosen(d, m) for d in table.datasets)] for m in table.methods]
    blocks += [
        Heading("Parameters chosen most often"),
        Table(["method", *table.datasets], chosen),
        Heading("Time"),
        Paragraph(
            "Seconds of the processor for tuning and fitting, mean over trials, one core. In brackets: runs in which "
            "some fit stopped before its rule was met."
        ),
        Table(["method", *table.datasets], [_times(table, m) for m in table.methods]),
    ]
    files = {"table1.csv": table.csv(), "table1.tex": table.tex()}
    return Section("Table 1: 5-NN error", blocks, table.sentences(), files, table.headline())


def _explanation(table: Comparison, settings: Any) -> str:
    trials = {d: len(table.trials(d)) for d in table.datasets}
    counts = ", ".join(f"{d} {n}" for d, n in trials.items()) if len(set(trials.values())) > 1 else ""
    limits = (
        f" Quick: at most {settings.max_rows} rows per set, {settings.max_pairs} pairs, every {settings.thin}nd value "
        "of each grid."
        if settings.max_rows
        else ""
    )
    return (
        f"Mean ± sd over {max(trials.values())} random 80/20 splits{f' ({counts})' if counts else ''}; below it the "
        "paper's own number. Bold: lowest mean; †: significantly above it (paired Wilcoxon over the splits, Holm, 5 %)."
        " The average rank is over the sets that most methods have; methods that lack one of these are not ranked."
        f" Parameters by 3-fold cross-validation inside the training part (on at most {settings.tune_rows} points "
        f"and, but for ITML, {settings.tune_pairs} pairs; AMLCV by its own {settings.search_folds}-fold search); "
        "scaling, and PCA to 50 where there are over 100 features (not in sets named /all), fitted on the training "
        "part; the same splits for all methods, and the same 1000c(c−1) random pairs for all that learn from pairs "
        "but PairAML and AMLCV, which draw their own (by default ten per point). NCA learns from at most "
        f"{NCA_ROWS} points. ERML and DRIFT are reconstructions from abstracts." + limits
    )


def _times(table: Comparison, method: str) -> list[Cell | str]:
    cells: list[Cell | str] = [method]
    for d in table.datasets:
        seconds, late = table.values(d, method, "tune_and_fit_seconds"), table.values(d, method, "unconverged")
        note = f" ({int((late > 0).sum())}*)" if len(late) and late.any() else ""
        cells.append(Cell(f"{seconds.mean():.2f}{note}" if len(seconds) else "–", timing=True))
    return cells


def _error_figure(table: Comparison) -> Figure:
    figure, axes = subplots(len(table.datasets), 3, (3.1, 0.7 + 0.22 * len(table.methods)))
    for ax, dataset in zip(axes, table.datasets, strict=True):
        present = [m for m in table.methods if len(table.values(dataset, m))]
        plot_errors(present, [table.values(dataset, m).tolist() for m in present], ax=ax, title=dataset)
    return figure


def _rank_figure(names: Sequence[str], ranks: Sequence[float], difference: float) -> Figure:
    figure, axes = subplots(1, 1, (7.2, 2.9))
    plot_critical_difference(names, ranks, difference, ax=axes[0])
    return figure


STUDY = Study("table1", "table1", tasks, run, section, missing)
