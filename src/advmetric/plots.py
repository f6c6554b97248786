"""Pictures of a metric: functions that take and return a matplotlib Axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .pairs.data import Pairs
from .utils.optional import require
from .utils.typing import Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_adversarial_pairs",
    "plot_bands",
    "plot_critical_difference",
    "plot_embedding",
    "plot_errors",
    "plot_roc",
    "plot_spectrum",
]

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")
"""Okabe and Ito's palette, told apart by colour-blind readers too."""


def plot_embedding(Z: Matrix, y: NDArray, *, ax: Axes | None = None, title: str = "") -> Axes:
    """Scatter the first two coordinates of transformed points, coloured by class."""
    ax = _axes(ax)
    for i, label in enumerate(np.unique(y)):
        color = COLORS[i % len(COLORS)]
        chosen = y == label
        ax.scatter(Z[chosen, 0], Z[chosen, 1], s=9, alpha=0.7, color=color, label=str(label), linewidths=0)
    ax.set(title=title, xticks=[], yticks=[])
    return ax


def plot_adversarial_pairs(
    pairs: Pairs, adversarial: Matrix, projection: Matrix, *, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Draw pairs as lines and the adversary's pairs as crosses, seen through a (2, d) projection."""
    ax = _axes(ax)
    for kind, label, color in ((1, "similar", COLORS[0]), (-1, "dissimilar", COLORS[1])):
        chosen = np.flatnonzero(pairs.labels == kind)
        ends = np.stack([pairs.X[pairs.left[chosen]], pairs.X[pairs.right[chosen]]]) @ projection.T
        moved = adversarial[chosen] @ projection.T
        ax.plot(ends[..., 0], ends[..., 1], color=color, alpha=0.35, linewidth=0.8)
        ax.scatter(ends[..., 0], ends[..., 1], s=8, color=color, linewidths=0)
        ax.scatter(
            moved[..., 0], moved[..., 1], s=22, marker="x", color=color, linewidths=1.0, label=f"adversarial, {label}"
        )
    ax.legend(frameon=False, fontsize="small")
    ax.set(title=title, xticks=[], yticks=[])
    return ax


def plot_spectrum(spectra: Mapping[str, NDArray[np.floating]], *, ax: Axes | None = None, title: str = "") -> Axes:
    """Eigenvalues of several metrics, each divided by its geometric mean, from large to small."""
    ax = _axes(ax)
    for i, (name, values) in enumerate(spectra.items()):
        ordered = np.sort(values[values > 0])[::-1]
        ordered = ordered / np.exp(np.mean(np.log(ordered)))
        ax.semilogy(
            np.arange(1, len(ordered) + 1), ordered, marker="o", markersize=3, color=COLORS[i % len(COLORS)], label=name
        )
    ax.set(title=title, xlabel="direction", ylabel="eigenvalue of M (scaled)")
    ax.legend(frameon=False)
    return ax


def plot_errors(
    names: Sequence[str], errors: Sequence[Sequence[float]], *, ax: Axes | None = None, title: str = "", **marks: Any
) -> Axes:
    """Mean and standard deviation of each method's error, with every trial as a faint dot."""
    ax = _axes(ax)
    for i, (name, values) in enumerate(zip(names, errors, strict=True)):
        color = COLORS[i % len(COLORS)]
        ax.scatter(values, np.full(len(values), i), s=10, alpha=0.35, color=color, linewidths=0)
        ax.errorbar(np.mean(values), i, xerr=np.std(values), fmt="o", color=color, capsize=3, label=name, **marks)
    ax.set(title=title, yticks=range(len(names)), yticklabels=list(names), xlabel="5-NN error")
    ax.margins(y=0.3)
    ax.invert_yaxis()
    return ax


def plot_roc(
    y: NDArray, scores: Mapping[str, NDArray[np.floating]], *, ax: Axes | None = None, title: str = ""
) -> Axes:
    """ROC curves of several scores of the same pairs (y is +1 or -1), with the area in the legend."""
    from sklearn.metrics import roc_auc_score, roc_curve

    ax = _axes(ax)
    for i, (name, values) in enumerate(scores.items()):
        false_positive, true_positive, _ = roc_curve(y, values)
        label = f"{name} ({roc_auc_score(y, values):.3f})"
        ax.plot(false_positive, true_positive, color=COLORS[i % len(COLORS)], linewidth=1.3, label=label)
    ax.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=0.8, linestyle=":")
    ax.set(title=title, xlabel="false positives", ylabel="true positives", xlim=(0, 1), ylim=(0, 1.01))
    ax.legend(frameon=False, fontsize="small", loc="lower right")
    return ax


def plot_bands(
    x: Sequence[float],
    curves: Mapping[str, NDArray[np.floating]],
    *,
    ax: Axes | None = None,
    title: str = "",
    log: bool = False,
) -> Axes:
    """Curves over x with a band of one standard deviation: each is an array (trials, len(x))."""
    ax = _axes(ax)
    for i, (name, values) in enumerate(curves.items()):
        mean, spread, color = values.mean(axis=0), values.std(axis=0), COLORS[i % len(COLORS)]
        ax.plot(x, mean, marker="o", markersize=3, color=color, label=name)
        ax.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.15, linewidth=0)
    if log:
        ax.set_xscale("log")
    ax.set(title=title)
    ax.legend(frameon=False, fontsize="small")
    return ax


def plot_critical_difference(
    names: Sequence[str], ranks: Sequence[float], difference: float, *, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Average ranks on a line (1 is best, left); bars join methods that Nemenyi's test cannot tell apart."""
    ax = _axes(ax)
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


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    return require("matplotlib.pyplot", "plotting").gca()
