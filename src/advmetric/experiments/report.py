"""The report: one self-contained HTML page that opens with the answer."""

from __future__ import annotations

import html
import io
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import __version__
from ..aml import AML
from ..baselines.gmml import GMML
from ..datasets import load_dataset
from ..plots import plot_adversarial_pairs, plot_embedding, plot_errors, plot_spectrum
from ..supervision import BalancedPairs
from .protocol import Run, split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_report"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem } h2 { margin-top: 2.2rem; border-bottom: 1px solid #ddd; font-size: 1.25rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } .wide { overflow-x: auto }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #eee; white-space: nowrap }
th:first-child, td:first-child { text-align: left } td.best { font-weight: 700 }
figure { margin: 1rem 0 } figure svg { max-width: 100%; height: auto } figcaption { color: #555; font-size: .9rem }
.answer { background: #f3f7fb; border-left: 4px solid #0072b2; padding: .6rem 1rem } code { background: #f4f4f4 }
@media print { body { max-width: none; margin: 0 } h2 { break-after: avoid } figure { break-inside: avoid } }
"""


def write_report(runs: Sequence[Run], folder: Path, *, command: str, note: str = "") -> Path:
    """Write ``report.html`` and ``results.csv`` for finished runs; return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_csv(runs, folder / "results.csv")
    datasets = sorted({run.dataset for run in runs})
    names = list(dict.fromkeys(run.method for run in runs))
    trials = len({run.trial for run in runs})
    example = "vehicle" if "vehicle" in datasets else datasets[0]
    parts = [
        "<h1>Adversarial metric learning: a first comparison</h1>",
        f"<div class='answer'>{_answer(runs, datasets, names)}</div>",
        "<h2>5-NN error</h2>",
        f"<p>Mean ± sd over {trials} random 80/20 splits; parameters chosen by 3-fold cross-validation inside each "
        "training part; features standardised (sets with over 100 features also reduced to 50 principal components) by "
        f"the training part. Bold: lowest mean. {html.escape(note)}</p>",
        _table(runs, datasets, names),
        _figure(lambda: _error_figure(runs, datasets, names), "Every trial (dots), mean and standard deviation."),
        "<h2>What the metric does</h2>",
        _figure(
            lambda: _embedding_figure(example),
            f"Test points of {example} before and after learning: the two leading directions of each space.",
        ),
        _figure(
            lambda: _mechanism_figure(example),
            f"Left: on {example}, AML flattens the top of GMML's spectrum. Right: real pairs (lines) and the "
            "adversary's (crosses). The paper's adversary pulls both kinds of pairs together; "
            "docs/paper-notes.md, erratum 4, explains why that differs from the paper's Fig. 2.",
        ),
        "<h2>Time</h2>",
        _timings(runs, names),
        "<h2>How to rerun</h2>",
        f"<p><code>{html.escape(command)}</code> with advmetric {__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {html.escape(platform.platform())}. Every run: results.csv, beside this page.</p>",
    ]
    page = (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>advmetric report</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )
    target = folder / "report.html"
    target.write_text(page, encoding="utf-8")
    return target


def _errors(runs: Sequence[Run], dataset: str, method: str) -> np.ndarray:
    chosen = sorted((run.trial, run.error) for run in runs if run.dataset == dataset and run.method == method)
    return np.array([error for _, error in chosen])


def _answer(runs: Sequence[Run], datasets: list[str], names: list[str]) -> str:
    means = {d: {m: float(_errors(runs, d, m).mean()) for m in names} for d in datasets}
    wins = {m: [d for d in datasets if means[d][m] <= min(means[d].values())] for m in names}
    lines = [f"<b>{m}</b> is best (or tied) on {len(wins[m])} of {len(datasets)} sets" for m in names if wins[m]]
    text = "; ".join(lines) + "."
    for rival in ("Euclidean", "GMML"):
        if {"AML", rival} <= set(names):
            differences = [means[d]["AML"] - means[d][rival] for d in datasets]
            text += (
                f" AML against {rival}: error {np.mean(differences):+.4f} on average, "
                f"from {min(differences):+.4f} to {max(differences):+.4f}."
            )
    return text + " (Differences of a few thousandths on so few splits are within noise.)"


def _table(runs: Sequence[Run], datasets: list[str], names: list[str]) -> str:
    rows = [f"<tr><th>set</th>{''.join(f'<th>{html.escape(m)}</th>' for m in names)}</tr>"]
    for dataset in datasets:
        found = {m: _errors(runs, dataset, m) for m in names}
        best = min(values.mean() for values in found.values())
        cells = "".join(
            f"<td{' class=best' if values.mean() <= best else ''}>{values.mean():.3f} ± {values.std(ddof=1):.3f}</td>"
            for values in found.values()
        )
        rows.append(f"<tr><td>{html.escape(dataset)}</td>{cells}</tr>")
    return f"<div class='wide'><table>{''.join(rows)}</table></div>"


def _timings(runs: Sequence[Run], names: list[str]) -> str:
    cells = []
    for name in names:
        seconds = np.array([run.seconds for run in runs if run.method == name])
        notes = sum(bool(run.note) for run in runs if run.method == name)
        cells.append(
            f"<tr><td>{html.escape(name)}</td><td>{seconds.mean():.2f}</td><td>{seconds.max():.2f}</td><td>{notes}</td></tr>"
        )
    head = "<tr><th>method</th><th>mean s (tuning + fit)</th><th>max s</th><th>runs that did not converge</th></tr>"
    return f"<div class='wide'><table>{head}{''.join(cells)}</table></div>"


# --- figures --------------------------------------------------------------------------------------------


def _figure(draw: Callable[[], Figure], caption: str) -> str:
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    with mpl.rc_context({"svg.hashsalt": "advmetric", "font.size": 9}):
        figure = draw()
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
    svg = buffer.getvalue()
    return f"<figure>{svg[svg.index('<svg') :]}<figcaption>{html.escape(caption)}</figcaption></figure>"


def _subplots(n: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-n // columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(n)]


def _error_figure(runs: Sequence[Run], datasets: list[str], names: list[str]) -> Figure:
    figure, axes = _subplots(len(datasets), 3, (3.1, 0.6 + 0.3 * len(names)))
    for ax, dataset in zip(axes, datasets, strict=True):
        plot_errors(names, [_errors(runs, dataset, m).tolist() for m in names], ax=ax, title=dataset)
    return figure


def _embedding_figure(dataset: str) -> Figure:
    parts = split(dataset, 0)
    learner = AML(t=0.1).fit(parts.X_train, parts.y_train)
    directions = np.linalg.svd(parts.X_train - parts.X_train.mean(axis=0), full_matrices=False)[2]
    Z = learner.transform(parts.X_train)
    learned = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[2]
    names = load_dataset(dataset).target_names
    labels = np.asarray(names)[parts.y_test]
    figure, axes = _subplots(2, 2, (4.4, 3.6))
    plot_embedding(parts.X_test @ directions[:2].T, labels, ax=axes[0], title="Euclidean")
    plot_embedding(learner.transform(parts.X_test) @ learned[:2].T, labels, ax=axes[1], title="AML (t = 0.1)")
    axes[1].legend(frameon=False, fontsize="small")
    return figure


def _mechanism_figure(dataset: str) -> Figure:
    parts = split(dataset, 0)
    settings = {"GMML": GMML(), "AML, alpha = 1": AML(), "AML, alpha = 100": AML(alpha=100.0)}
    spectra = {
        name: np.linalg.svd(learner.fit(parts.X_train, parts.y_train).components_, compute_uv=False) ** 2
        for name, learner in settings.items()
    }
    aml = AML().fit(parts.X_train, parts.y_train)
    pairs = BalancedPairs(24).sample(parts.X_train, parts.y_train, 0)
    moved = aml.adversarial_pairs(pairs, pairs.labels)
    directions = np.linalg.svd(parts.X_train - parts.X_train.mean(axis=0), full_matrices=False)[2]
    figure, axes = _subplots(2, 2, (4.4, 3.6))
    plot_spectrum(spectra, ax=axes[0], title="spectrum of M")
    plot_adversarial_pairs(pairs, moved, directions[:2], ax=axes[1], title="pairs and adversarial pairs")
    return figure


def _write_csv(runs: Sequence[Run], path: Path) -> None:
    lines = ["dataset,method,trial,error,seconds,params,note"]
    for run in sorted(runs, key=lambda r: (r.dataset, r.method, r.trial)):
        params = " ".join(f"{name}={value}" for name, value in run.params.items())
        lines.append(f"{run.dataset},{run.method},{run.trial},{run.error:.6f},{run.seconds:.3f},{params},{run.note}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
