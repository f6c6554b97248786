"""The report's figures: from records to matplotlib figures, and from those to inline SVG."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..aml import AML
from ..baselines.gmml import GMML
from ..linalg import Matrix
from ..plots import (
    COLORS,
    plot_adversarial_pairs,
    plot_bands,
    plot_critical_difference,
    plot_embedding,
    plot_errors,
    plot_spectrum,
)
from ..supervision import BalancedPairs
from . import ablation, synthetic
from .protocol import split
from .store import Record
from .tables import Table1
from .verification import RATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["svg"]


def svg(figure: Figure) -> str:
    """The figure as an SVG element, the same for the same figure."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "advmetric", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def subplots(n: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure that needs no display, with n axes."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    mpl.rcParams["font.size"] = 9
    rows = -(-n // columns)
    figure = Figure(figsize=(size[0] * min(n, columns), size[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, min(n, columns), i + 1) for i in range(n)]


def matrix(records: Iterable[Record], key: str, **wanted: str) -> NDArray[np.float64]:
    """Values of one key of the matching records by trial: (trials,) or (trials, length)."""
    chosen = [r for r in records if all(getattr(r.task, name) == value for name, value in wanted.items())]
    return np.array([r.result[key] for r in sorted(chosen, key=lambda r: r.task.trial)], dtype=float)


# --- Table 1 ----------------------------------------------------------------------------------------------


def error_figure(table: Table1) -> Figure:
    figure, axes = subplots(len(table.datasets), 3, (3.1, 0.7 + 0.22 * len(table.methods)))
    for ax, dataset in zip(axes, table.datasets, strict=True):
        present = [m for m in table.methods if len(table.values(dataset, m))]
        plot_errors(present, [table.values(dataset, m).tolist() for m in present], ax=ax, title=dataset)
    return figure


def rank_figure(table: Table1) -> Figure:
    names, ranks, difference = table.ranked
    figure, axes = subplots(1, 1, (7.2, 2.9))
    plot_critical_difference(names, ranks.tolist(), difference, ax=axes[0])
    return figure


def mechanism_figure(dataset: str) -> Figure:
    """What the adversary does to the spectrum of M and to pairs."""
    parts = split(dataset, 0, max_rows=2000)
    settings = {"GMML": GMML(), "AML, alpha = 1": AML(), "AML, alpha = 100": AML(alpha=100.0)}
    spectra = {
        name: np.linalg.svd(learner.fit(parts.X_train, parts.y_train).components_, compute_uv=False) ** 2
        for name, learner in settings.items()
    }
    pairs = BalancedPairs(24).sample(parts.X_train, parts.y_train, 0)
    moved = AML().fit(parts.X_train, parts.y_train).adversarial_pairs(pairs, pairs.labels)
    figure, axes = subplots(2, 2, (4.4, 3.4))
    plot_spectrum(spectra, ax=axes[0], title="spectrum of M")
    plot_adversarial_pairs(pairs, moved, _leading(parts.X_train), ax=axes[1], title="pairs and adversarial pairs")
    return figure


def _leading(X: Matrix) -> Matrix:
    """The two leading principal directions."""
    axes: Matrix = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:2]
    return axes


# --- synthetic --------------------------------------------------------------------------------------------


def synthetic_figure(seed: int) -> Figure:
    """The paper's Fig. 3 for the first draw: training and test set before and after GMML and AML."""
    parts = synthetic.draw(0, seed)
    figure, axes = subplots(6, 3, (3.0, 2.6))
    names = np.array(["class 1", "class 2"])
    spaces: dict[str, Any] = {"as drawn": None, "GMML": GMML(), "AML": AML()}
    for column, (title, learner) in enumerate(spaces.items()):
        L = np.eye(10) if learner is None else learner.fit(parts.X_train, parts.y_train).components_
        view = _leading(parts.X_train @ L.T) @ L
        for row, (what, X, y) in enumerate(
            (("training", parts.X_train, parts.y_train), ("test", parts.X_test, parts.y_test))
        ):
            plot_embedding(X @ view.T, names[y], ax=axes[3 * row + column], title=f"{title}, {what}")
    pairs = BalancedPairs(30).sample(parts.X_train, parts.y_train, 0)
    moved = spaces["AML"].adversarial_pairs(pairs, pairs.labels).reshape(-1, 10) @ _leading(parts.X_train).T
    axes[0].scatter(moved[:, 0], moved[:, 1], marker="x", s=14, color="black", linewidths=0.7, label="adversarial")
    axes[0].legend(frameon=False, fontsize="x-small")
    return figure


# --- verification -----------------------------------------------------------------------------------------


def roc_figure(records: Sequence[Record]) -> Figure:
    """Mean ROC curves over the folds, a panel a set, the best first; a band for AML and for Euclidean."""
    datasets = list(dict.fromkeys(r.task.dataset for r in records))
    figure, axes = subplots(len(datasets), 2, (4.6, 3.9))
    for ax, dataset in zip(axes, datasets, strict=True):
        names = {r.task.method for r in records if r.task.dataset == dataset}
        auc = {name: matrix(records, "auc", dataset=dataset, method=name).mean() for name in names}
        for place, name in enumerate(sorted(auc, key=lambda name: -auc[name])):
            curves = matrix(records, "roc", dataset=dataset, method=name)
            color = {"AML": COLORS[1], "Euclidean": "#000000"}.get(name, COLORS[(0, 2, 3, 4, 5, 6)[place % 6]])
            wide = name in ("AML", "Euclidean")
            ax.plot(
                RATES, curves.mean(axis=0), color=color, linewidth=1.8 if wide else 0.9, label=f"{name} {auc[name]:.3f}"
            )
            if wide and len(curves) > 1:
                low, high = (curves.mean(axis=0) + sign * curves.std(axis=0) for sign in (-1, 1))
                ax.fill_between(RATES, low, high, color=color, alpha=0.12, linewidth=0)
        ax.set(title=dataset, xlabel="false positives", ylabel="true positives", xlim=(0, 1), ylim=(0, 1.01))
        ax.legend(frameon=False, fontsize="x-small", loc="lower right")
    return figure


# --- sensitivity and ablations ----------------------------------------------------------------------------


def sensitivity_figure(records: Sequence[Record]) -> Figure:
    figure, axes = subplots(2, 2, (4.3, 3.0))
    for ax, parameter in zip(axes, ("alpha", "beta"), strict=True):
        values = matrix(records, "values", method=parameter)
        if not len(values):
            continue
        curves = {kind: matrix(records, kind, method=parameter) for kind in ("train", "test")}
        plot_bands(values[0].tolist(), curves, ax=ax, log=True, title=f"MNIST: {parameter}, the other being 1")
        ax.set(xlabel=parameter, ylabel="5-NN error")
    return figure


def against_figure(records: Sequence[Record], steps: Sequence[str], label: str) -> Figure:
    """GMML beside AML over a ladder of steps, a panel a set."""
    datasets = sorted({r.task.dataset for r in records})
    figure, axes = subplots(len(datasets), 2, (4.3, 2.8))
    for ax, dataset in zip(axes, datasets, strict=True):
        for name, color in (("GMML", COLORS[1]), ("AML", COLORS[0])):
            found = [matrix(records, "error", dataset=dataset, method=f"{name} {step}") for step in steps]
            means = [v.mean() if len(v) else np.nan for v in found]
            spread = [v.std() if len(v) else np.nan for v in found]
            ax.errorbar(range(len(steps)), means, yerr=spread, marker="o", capsize=3, color=color, label=name)
        ax.set(title=dataset, xlabel=label, ylabel="5-NN error", xticks=range(len(steps)), xticklabels=list(steps))
        ax.legend(frameon=False)
    return figure


def robustness_figure(records: Sequence[Record], at: float = 0.2) -> Figure:
    """Clean error against attacked error and worst-case AUC at one eps; and AUC over eps for some."""
    place = ablation.EPSILONS.index(at)
    figure, axes = subplots(2, 2, (4.5, 3.6))
    names = sorted({r.task.method for r in records})
    kinds = ("GMML", "AML-derived", "AML-printed", "AML-expanding")
    for name in names:
        kind = name.split(" ")[0]
        clean = matrix(records, "error", method=name).mean()
        attacked = matrix(records, "attacked_error", method=name)[:, place].mean()
        auc = matrix(records, "worst_auc", method=name)[:, place].mean()
        color = COLORS[kinds.index(kind)] if kind in kinds else "#999999"
        marker = "o" if kind in kinds else "s"
        for ax, value in ((axes[0], attacked), (axes[1], auc)):
            ax.scatter(clean, value, s=22, marker=marker, color=color, alpha=0.8, linewidths=0)
            if kind not in kinds:
                ax.annotate(name, (clean, value), fontsize=6, xytext=(3, 2), textcoords="offset points")
    for kind, color in zip(kinds, COLORS, strict=False):
        axes[0].scatter([], [], color=color, label=kind, s=22)
    axes[0].legend(frameon=False, fontsize="x-small")
    axes[0].set(xlabel="5-NN error, nothing moved", ylabel=f"5-NN error under attack, eps = {at:g}")
    axes[1].set(xlabel="5-NN error, nothing moved", ylabel=f"pair AUC, worst case, eps = {at:g}")
    return figure
