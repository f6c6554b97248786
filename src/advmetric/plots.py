"""Pictures of a metric: functions that take and return a matplotlib Axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .linalg import Matrix
from .supervision import Pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_adversarial_pairs", "plot_embedding", "plot_errors", "plot_spectrum"]

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


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.gca()
