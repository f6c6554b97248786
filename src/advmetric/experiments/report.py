"""The report: one self-contained HTML page that opens with the answer."""

from __future__ import annotations

import html
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy
import sklearn

from .. import __version__
from ..archive import whole_file
from . import ablation, synthetic
from .figures import (
    against_figure,
    error_figure,
    matrix,
    mechanism_figure,
    rank_figure,
    robustness_figure,
    roc_figure,
    sensitivity_figure,
    svg,
    synthetic_figure,
)
from .protocol import NCA_ROWS, PROFILES
from .store import Record, Store
from .tables import LEVEL, Table1, verification_sentences
from .verification import about

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_report"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem } h2 { margin-top: 2.2rem; border-bottom: 1px solid #ddd; font-size: 1.25rem }
h3 { font-size: 1.05rem; margin-bottom: .3rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem } .wide { overflow-x: auto }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap }
th:first-child, td:first-child { text-align: left } td.best { font-weight: 700 }
td small { color: #777; display: block; font-weight: 400 }
figure { margin: 1rem 0 } figure svg { max-width: 100%; height: auto } figcaption { color: #555; font-size: .9rem }
.answer { background: #f3f7fb; border-left: 4px solid #0072b2; padding: .6rem 1rem }
.note { color: #555; font-size: .9rem } code { background: #f4f4f4; overflow-wrap: anywhere }
@media print { body { max-width: none; margin: 0 } h2 { break-after: avoid } figure, tr { break-inside: avoid } }
"""


def write_report(folder: Path, *, notes: Sequence[str] = (), command: str = "advmetric reproduce") -> Path:
    """Write ``report.html`` (and table1.csv, table1.tex) for the results in a folder; return the page's path.

    Of several profiles or seeds in the folder, the one with most runs is shown.
    """
    everything = list(Store(folder).records().values())
    if not everything:
        raise FileNotFoundError(f"there are no results in {folder}; run `advmetric reproduce --out {folder}` first.")
    kinds = [(record.task.profile, record.task.seed) for record in everything]
    profile, seed = max(sorted(set(kinds)), key=kinds.count)
    shown = sorted(
        (r for r in everything if (r.task.profile, r.task.seed) == (profile, seed)), key=lambda record: record.task
    )
    by_name: dict[str, list[Record]] = {}
    for record in shown:
        if not record.failure:
            by_name.setdefault(record.task.experiment, []).append(record)
    table = Table1(tuple(r for r in shown if r.task.experiment == "table1"))
    if table.records:
        _write(folder / "table1.csv", table.csv())
        _write(folder / "table1.tex", table.tex())
    parts = [
        "<h1>Adversarial metric learning, re-run</h1>",
        _answer(by_name, table, profile, notes),
        *([_table1(table, profile)] if "table1" in by_name else []),
        *([_synthetic(by_name["synthetic"], seed)] if "synthetic" in by_name else []),
        *([_verification(by_name["verification"])] if "verification" in by_name else []),
        *([_sensitivity(by_name["sensitivity"])] if "sensitivity" in by_name else []),
        *_ablations(by_name),
        *([_times(table)] if "table1" in by_name else []),
        _failures([record for record in shown if record.failure]),
        _rerun(command, profile, seed),
    ]
    page = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        "<link rel='icon' href='data:,'>"
        f"<title>advmetric report</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )
    return _write(folder / "report.html", page)


def _write(target: Path, text: str) -> Path:
    with whole_file(target) as stream:
        stream.write(text.encode())
    return target


# --- pieces -----------------------------------------------------------------------------------------------


def _figure(draw: Callable[[], Figure], caption: str) -> str:
    return f"<figure>{svg(draw())}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    top = "".join(f"<th>{cell}</th>" for cell in head)
    body = "".join(
        f"<tr>{''.join(cell if cell.startswith('<td') else f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<div class='wide'><table><tr>{top}</tr>{body}</table></div>"


def _plus_minus(values: np.ndarray, digits: int = 3) -> str:
    if len(values) < 2:
        return f"{values[0]:.{digits}f}" if len(values) else "–"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


# --- sections ---------------------------------------------------------------------------------------------


def _answer(by_name: Mapping[str, list[Record]], table: Table1, profile: str, notes: Sequence[str]) -> str:
    lines = list(table.sentences()) if "table1" in by_name else []
    if "synthetic" in by_name:
        found = {m: matrix(by_name["synthetic"], "error", method=m) for m in ("GMML", "AML")}
        if all(len(values) for values in found.values()):
            lines.append(
                f"Synthetic example, {len(found['AML'])} draws: 5-NN error {_plus_minus(found['GMML'])} with GMML, "
                f"{_plus_minus(found['AML'])} with AML."
            )
    lines += verification_sentences(by_name.get("verification", []))
    if profile == "quick":
        lines.append(
            "This is the quick run: subsets, few trials, thinned grids. It shows that everything works; it does not "
            "settle differences of a hundredth."
        )
    items = "".join(f"<li>{html.escape(line)}</li>" for line in [*lines, *notes])
    return f"<div class='answer'><ul>{items}</ul></div>"


def _table1(table: Table1, profile: str) -> str:
    settings = PROFILES[profile]
    rows = []
    for m in table.methods:
        cells = [html.escape(m)]
        for d in table.datasets:
            values, paper = table.values(d, m), table.in_paper(d, m)
            beside = f"<small>{paper[0]:.3f} ± {paper[1]:.3f}</small>" if paper else "<small>&nbsp;</small>"
            mark = "†" if len(values) and table.p_values[d, m] < LEVEL else ""
            best = " class=best" if len(values) and m == table.best(d) else ""
            cells.append(f"<td{best}>{_plus_minus(values)}{mark}{beside}</td>")
        names, ranks, _ = table.ranked
        cells.append(f"{ranks[names.index(m)]:.1f}" if m in names else "–")
        rows.append(cells)
    trials = {d: len(table.trials(d)) for d in table.datasets}
    counts = ", ".join(f"{d} {n}" for d, n in trials.items()) if len(set(trials.values())) > 1 else ""
    limits = (
        f"Quick: at most {settings.max_rows} rows a set, {settings.max_pairs} pairs, every {settings.thin}nd value of "
        "each grid. "
        if settings.max_rows
        else ""
    )
    departures = table.departures()
    differ = (
        "<h3>Where this differs from the paper</h3><p class=note>Mean error here minus the paper's, where beyond two "
        "of the larger standard deviations. The paper does not say how features were scaled or reduced, nor how "
        "parameters were chosen without the test part."
        + (" Here it is mostly the subsets." if settings.max_rows else "")
        + "</p><ul>"
        + "".join(f"<li>{html.escape(line)}</li>" for line in departures)
        + "</ul>"
        if departures
        else ""
    )
    chosen = [[html.escape(m), *(html.escape(table.chosen(d, m)) for d in table.datasets)] for m in table.methods]
    return (
        "<h2>Table 1: 5-NN error</h2>"
        f"<p>Mean ± sd over {max(trials.values())} random 80/20 splits{f' ({counts})' if counts else ''}; in grey the "
        "paper's own number. Bold: lowest mean; †: significantly above it (paired Wilcoxon over the splits, Holm, "
        "5 %). Parameters by 3-fold cross-validation inside the training part (on at most "
        f"{settings.tune_rows} of its points and, but for ITML, {settings.tune_pairs} pairs); scaling, and PCA "
        "to 50 where there are over 100 features, fitted on the "
        "training part; the same splits and the same 1000c(c−1) random pairs for all methods that learn from pairs. "
        f"NCA learns from at most {NCA_ROWS} points. ERML and DRIFT are reconstructions from abstracts. {limits}</p>"
        + _rows(["method", *map(html.escape, table.datasets), "rank"], rows)
        + (
            _figure(
                lambda: rank_figure(table),
                "Average ranks; a bar joins methods that Nemenyi's test does not tell apart at 5 %.",
            )
            if table.ranked[0]
            else ""
        )
        + _figure(lambda: error_figure(table), "Every trial (dots), mean and standard deviation.")
        + differ
        + "<h3>Parameters chosen most often</h3>"
        + _rows(["method", *map(html.escape, table.datasets)], chosen)
        + "<h3>What the metric does</h3>"
        + _figure(
            lambda: mechanism_figure("vehicle"),
            "Vehicle. Left: AML flattens the top of GMML's spectrum. Right: real pairs (lines) and the adversary's "
            "(crosses). The paper's adversary pulls both kinds of pairs together; docs/paper-notes.md, erratum 4, "
            "explains why that differs from the paper's Fig. 2.",
        )
    )


def _synthetic(records: list[Record], seed: int) -> str:
    rows = [
        [
            html.escape(name),
            *(_plus_minus(matrix(records, key, method=name)) for key in ("error", "auc", "train_auc")),
        ]
        for name in synthetic.LEARNERS
    ]
    return (
        "<h2>Synthetic example (Fig. 3)</h2><p>Two classes in 10 dimensions, clean in training, overlapping in the "
        "test set; a reconstruction, since the paper gives no parameters. All draws count, not one.</p>"
        + _rows(["", "5-NN error", "pair AUC, test", "pair AUC, training"], rows)
        + _figure(
            lambda: synthetic_figure(seed), "The first draw, seen through the two leading directions of each space."
        )
    )


def _verification(records: list[Record]) -> str:
    parts = []
    for dataset in dict.fromkeys(r.task.dataset for r in records):
        here = [r for r in records if r.task.dataset == dataset]
        names = sorted({r.task.method for r in here}, key=lambda m: -matrix(here, "auc", method=m).mean())
        rows = [
            [
                html.escape(name),
                *(_mean_and_error(matrix(here, key, method=name)) for key in ("auc", "eer", "accuracy", "fpr95")),
                f"<td class=time>{matrix(here, 'tune_and_fit_seconds', method=name).mean():.1f}</td>",
            ]
            for name in names
        ]
        folds = len({r.task.trial for r in here})
        parts.append(
            f"<h3>{html.escape(dataset)}</h3><p class=note>{html.escape(about(dataset))} {folds} test folds; mean ± "
            "standard error over them.</p>"
            + _rows(["method", "AUC", "equal error", "accuracy", "false positives at 95 % recall", "seconds"], rows)
        )
    return (
        "<h2>Verification: same or different?</h2><p>Parameters by AUC on held-out training pairs (LFW: on View 1); "
        "features fitted on the images of training pairs; thresholds from training pairs.</p>"
        + "".join(parts)
        + _figure(lambda: roc_figure(records), "Mean ROC over the folds, AUC in the legend; band: standard deviation.")
    )


def _mean_and_error(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{values.mean():.3f} ± {error:.3f}"


def _sensitivity(records: list[Record]) -> str:
    lines = []
    for parameter in ("alpha", "beta"):
        test, values = matrix(records, "test", method=parameter), matrix(records, "values", method=parameter)
        if len(test):
            means = test.mean(axis=0)
            lines.append(
                f"{parameter}: the test error goes from {means.min():.4f} (at {values[0][means.argmin()]:g}) to "
                f"{means.max():.4f} (at {values[0][means.argmax()]:g})."
            )
    return (
        "<h2>Sensitivity (Fig. 5)</h2>"
        + _figure(lambda: sensitivity_figure(records), "Mean and standard deviation over the trials.")
        + f"<p>{' '.join(lines)} The paper finds an optimum near alpha = 1 and beta = 0.8.</p>"
    )


def _ablations(by_name: Mapping[str, list[Record]]) -> list[str]:
    parts = []
    if "adversary" in by_name:
        records = by_name["adversary"]
        datasets = sorted({r.task.dataset for r in records})
        rows = [
            [html.escape(name), *(_plus_minus(matrix(records, "error", dataset=d, method=name), 4) for d in datasets)]
            for name in ablation.ADVERSARIES
        ]
        parts.append(
            "<h3>The adversary as derived and as printed</h3>"
            "<p>5-NN error at the paper's t = 1/2, alpha = beta = 1.</p>"
            + _rows(["adversary", *map(html.escape, datasets)], rows)
        )
    if "solvers" in by_name:
        records = by_name["solvers"]
        rows = [
            [
                html.escape(name),
                _plus_minus(matrix(records, "error", method=name)),
                _plus_minus(matrix(records, "objective", method=name), 6),
                f"{matrix(records, 'n_iter', method=name).mean():.0f}",
                f"<td class=time>{matrix(records, 'fit_seconds', method=name).mean():.3f}</td>",
                f"{int(matrix(records, 'converged', method=name).sum())}/{len(matrix(records, 'n_iter', method=name))}",
            ]
            for name in ablation.SOLVERS
            if len(matrix(records, "error", method=name))
        ]
        parts.append(
            "<h3>Solvers</h3><p>Vehicle, 2000 pairs. “projected-gradient” is the paper's Algorithm 1, “alternating” "
            "plays the game of Eq. 5 in turns; it has no common objective to minimise, so the last "
            "number is shown.</p>"
            + _rows(["solver", "5-NN error", "objective", "iterations", "seconds", "converged"], rows)
        )
    if "few-pairs" in by_name:
        steps = [str(k) for k in ablation.FEW]
        parts.append(
            "<h3>Fewer pairs</h3>"
            + _figure(
                lambda: against_figure(by_name["few-pairs"], steps, "training pairs, times c(c − 1)"),
                "t = 1/2; AML's alpha and beta by cross-validation on the pairs.",
            )
        )
    if "noise" in by_name:
        shares = [f"{100 * share:g} %" for share in ablation.NOISE]
        parts.append(
            "<h3>Wrong labels</h3>"
            + _figure(
                lambda: against_figure(by_name["noise"], shares, "pairs with the wrong label"),
                "40 c(c − 1) pairs; t = 1/2; AML's alpha and beta by cross-validation on the noisy pairs.",
            )
        )
    if "robustness" in by_name:
        parts.append(_robustness(by_name["robustness"]))
    return ["<h2>Ablations</h2>", *parts] if parts else []


def _robustness(records: list[Record]) -> str:
    names = sorted({r.task.method for r in records})
    kinds = {
        "GMML": "GMML ",
        "AML-derived": "AML-derived ",
        "AML-printed": "AML-printed ",
        "AML-expanding": "AML-expanding ",
    }
    rows = []
    place = ablation.EPSILONS.index(0.2)
    best = [
        min((n for n in names if n.startswith(prefix)), key=lambda n: matrix(records, "error", method=n).mean())
        for prefix in kinds.values()
        if any(n.startswith(prefix) for n in names)
    ]
    for name in [*best, *(n for n in names if n not in ablation.FAMILY)]:
        rows.append(
            [
                html.escape(name),
                _plus_minus(matrix(records, "error", method=name)),
                *(
                    _plus_minus(matrix(records, key, method=name)[:, place])
                    for key in ("attacked_error", "uncertified", "worst_auc")
                ),
            ]
        )
    return (
        "<h3>Robustness</h3><p>Every test point of vehicle may move by at most eps (Euclidean, in standard "
        "deviations). Pair AUC: the exact worst case of every pair. 5-NN: errors found by projected gradient (at least "
        "so many), and the share of points without a certificate (at most so many). One row for each family: its "
        "member with the lowest clean error; eps = 0.2.</p>"
        + _rows(["metric", "clean error", "attacked error", "not certified", "worst-case AUC"], rows)
        + _figure(
            lambda: robustness_figure(records),
            "Each dot is a setting (mean over trials): AML over adversary, alpha, beta and t; GMML over t and prior; "
            "squares are the other methods, tuned for clean error.",
        )
    )


def _times(table: Table1) -> str:
    rows = []
    for m in table.methods:
        cells = [html.escape(m)]
        for d in table.datasets:
            seconds, flawed = table.values(d, m, "tune_and_fit_seconds"), table.values(d, m, "unconverged")
            note = f" ({int((flawed > 0).sum())}*)" if len(flawed) and flawed.any() else ""
            cells.append(f"<td class=time>{seconds.mean():.2f}{note}</td>" if len(seconds) else "<td>–</td>")
        rows.append(cells)
    return (
        "<h2>Time</h2><p>Seconds for tuning and fitting, mean over trials, one core. In brackets: runs in which some "
        "fit stopped before its rule was met.</p>" + _rows(["method", *map(html.escape, table.datasets)], rows)
    )


def _failures(failed: list[Record]) -> str:
    if not failed:
        return ""
    items = "".join(f"<li>{html.escape(str(r.task))}: {html.escape(r.failure)}</li>" for r in failed[:50])
    return f"<h2>Runs that failed: {len(failed)}</h2><ul>{items}</ul>"


def _rerun(command: str, profile: str, seed: int) -> str:
    versions = {"Python": platform.python_version(), "NumPy": np.__version__, "SciPy": scipy.__version__}
    versions["scikit-learn"] = sklearn.__version__
    return (
        f"<h2>How to rerun</h2><p><code>{html.escape(command)}</code></p><p class=note>Profile {profile}, seed {seed}; "
        f"advmetric {__version__}, {', '.join(f'{k} {v}' for k, v in versions.items())}, "
        f"{html.escape(platform.system())} {html.escape(platform.machine())}, {os.cpu_count()} cores. Every run is a "
        "line of results.jsonl beside this page; table1.csv and table1.tex hold the table.</p>"
    )
