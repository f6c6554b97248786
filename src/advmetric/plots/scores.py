"""Pictures of how good distances are: distances of pairs, ROC curves, errors, ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from advmetric.evaluation.significance import spread

from .axes import COLORS, axes_or_current

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_bands", "plot_critical_difference", "plot_distances", "plot_errors", "plot_roc"]


def plot_distances(
    distances: ArrayLike, y: ArrayLike, *, threshold: float | None = None, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Histograms of the distances of same (+1) and different (-1) pairs, with the threshold.

    The legend gives the share of each kind on its side of the threshold. The bars of each kind add up to 1.

    See Also
    --------
    plot_roc : All thresholds at once.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = plot_distances([0.5, 1.0, 2.0, 3.0], [1, 1, -1, -1], threshold=1.5, ax=plt.figure().add_subplot())
    >>> ax.get_legend().get_texts()[0].get_text()
    'same (2): 100.0 % below'
    """
    ax = axes_or_current(ax)
    values, labels = np.asarray(distances, dtype=float), np.asarray(y)
    if values.shape != labels.shape or values.ndim != 1 or not len(values):
        raise ValueError(
            f"distances and y must be vectors of one length, got shapes {values.shape} and {labels.shape}."
        )
    if not np.isin(labels, (-1, 1)).all():
        raise ValueError("y must be +1 for same and -1 for different pairs.")
    edges = np.linspace(values.min(), values.max() if values.max() > values.min() else values.min() + 1.0, 41)
    for kind, name, color in ((1, "same", COLORS[0]), (-1, "different", COLORS[1])):
        part = values[labels == kind]
        if not len(part):
            continue
        name = f"{name} ({len(part)})"
        if threshold is not None:
            right = np.mean((part <= threshold) == (kind == 1))
            name += f": {100 * right:.1f} % {'below' if kind == 1 else 'above'}"
        ax.hist(part, edges.tolist(), weights=np.full(len(part), 1.0 / len(part)), color=color, alpha=0.55, label=name)
    if threshold is not None:
        ax.axvline(threshold, color="black", linewidth=1.0, linestyle="--", label=f"threshold {threshold:.3g}")
    ax.set(title=title, xlabel="distance", ylabel="share of pairs")
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_roc(
    y: NDArray, scores: Mapping[str, NDArray[np.floating]], *, ax: Axes | None = None, title: str = ""
) -> Axes:
    """ROC curves of several scores of the same pairs (y is +1 or -1), with the area in the legend.

    See Also
    --------
    plot_distances : One threshold.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> ax = plot_roc(np.array([1, 1, -1, -1]), {"AML": np.array([4.0, 3.0, 2.0, 1.0])}, ax=plt.figure().add_subplot())
    >>> ax.get_legend().get_texts()[0].get_text()
    'AML (1.000)'
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    ax = axes_or_current(ax)
    for i, (name, values) in enumerate(scores.items()):
        false_positive, true_positive, _ = roc_curve(y, values)
        label = f"{name} ({roc_auc_score(y, values):.3f})"
        ax.plot(false_positive, true_positive, color=COLORS[i % len(COLORS)], linewidth=1.3, label=label)
    ax.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=0.8, linestyle=":")
    ax.set(title=title, xlabel="false positives", ylabel="true positives", xlim=(0, 1), ylim=(0, 1.01))
    ax.legend(frameon=False, fontsize="small", loc="lower right")
    return ax


def plot_errors(
    names: Sequence[str], errors: Sequence[Sequence[float]], *, ax: Axes | None = None, title: str = "", **marks: Any
) -> Axes:
    """Mean and standard deviation (n - 1) of each method's error, with every trial as a faint dot.

    See Also
    --------
    plot_critical_difference : Ranks over many sets.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = plot_errors(["Euclidean", "AML"], [[0.30, 0.28], [0.20, 0.22]], ax=plt.figure().add_subplot())
    >>> ax.get_xlabel()
    '5-NN error'
    """
    ax = axes_or_current(ax)
    for i, (name, values) in enumerate(zip(names, errors, strict=True)):
        color = COLORS[i % len(COLORS)]
        ax.scatter(values, np.full(len(values), i), s=10, alpha=0.35, color=color, linewidths=0)
        ax.errorbar(np.mean(values), i, xerr=spread(values), fmt="o", color=color, capsize=3, label=name, **marks)
    ax.set(title=title, yticks=range(len(names)), yticklabels=list(names), xlabel="5-NN error")
    ax.margins(y=0.3)
    ax.invert_yaxis()
    return ax


def plot_bands(
    x: Sequence[float],
    curves: Mapping[str, NDArray[np.floating]],
    *,
    ax: Axes | None = None,
    title: str = "",
    log: bool = False,
) -> Axes:
    """Curves over x with a band of one standard deviation (n - 1): each is an array (trials, len(x)).

    See Also
    --------
    plot_errors : Errors at one setting.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> ax = plot_bands([0.1, 1], {"AML": np.array([[0.2, 0.3], [0.2, 0.4]])}, log=True, ax=plt.figure().add_subplot())
    >>> ax.get_xscale()
    'log'
    """
    ax = axes_or_current(ax)
    for i, (name, values) in enumerate(curves.items()):
        mean, sd, color = values.mean(axis=0), spread(values), COLORS[i % len(COLORS)]
        ax.plot(x, mean, marker="o", markersize=3, color=color, label=name)
        ax.fill_between(x, mean - sd, mean + sd, color=color, alpha=0.15, linewidth=0)
    if log:
        ax.set_xscale("log")
    ax.set(title=title)
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_critical_difference(
    names: Sequence[str], ranks: Sequence[float], difference: float, *, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Average ranks on a line (1 is best, left); bars join methods that Nemenyi's test cannot tell apart.

    See Also
    --------
    plot_errors : The errors behind the ranks.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = plot_critical_difference(["AML", "GMML", "Euclidean"], [1.2, 1.8, 3.0], 0.9, ax=plt.figure().add_subplot())
    >>> any("AML 1.20" in text.get_text() for text in ax.texts)
    True
    """
    ax = axes_or_current(ax)
    order = np.argsort(ranks, kind="stable")
    ordered = np.asarray(ranks, dtype=float)[order]
    half = (len(order) + 1) // 2
    low, high = 0.5, len(order) + 0.5
    ax.hlines(0, low, high, color="black", linewidth=1)
    ax.vlines(np.arange(1, len(order) + 1), -0.12, 0.12, color="black", linewidth=0.8)
    for tick in range(1, len(order) + 1):
        ax.text(tick, 0.25, str(tick), ha="center", va="bottom", fontsize="small")
    bars = _cliques(ordered, difference)
    depth = 0.45 + 0.3 * len(bars)
    for level, (first, last) in enumerate(bars):
        ax.hlines(-0.45 - 0.3 * level, ordered[first] - 0.06, ordered[last] + 0.06, color="#555555", linewidth=3)
    for place, index in enumerate(order):
        left = place < half
        row = place if left else len(order) - 1 - place
        y, end = -depth - 0.45 * (row + 1), low if left else high
        ax.plot([ordered[place], ordered[place], end], [0, y, y], color=COLORS[0], linewidth=0.9)
        label = f"{names[index]} {ordered[place]:.2f}"
        ax.text(end, y, f"{label} " if left else f" {label}", ha="right" if left else "left", va="center")
    ax.hlines(0.95, 1, 1 + difference, color="#d55e00", linewidth=2)
    ax.text(1, 1.05, f"critical difference {difference:.2f}", ha="left", va="bottom", fontsize="small")
    ax.set(title=title, xlim=(low - 2.2, high + 2.2), ylim=(-depth - 0.45 * (half + 1), 1.7))
    ax.axis("off")
    return ax


def _cliques(ordered: NDArray[np.floating], difference: float) -> list[tuple[int, int]]:
    """Longest stretches (first, last) of sorted ranks that lie within the difference."""
    found: list[tuple[int, int]] = []
    for first in range(len(ordered)):
        last = int(np.searchsorted(ordered, ordered[first] + difference, side="right")) - 1
        if last > first and not (found and last <= found[-1][1]):
            found.append((first, last))
    return found
