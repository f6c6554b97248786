"""Pictures of a metric: functions that take and return a matplotlib Axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .evaluation.planes import best_plane
from .pairs.data import Pairs
from .utils.optional import require
from .utils.typing import Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "plot_adversarial_pairs",
    "plot_bands",
    "plot_critical_difference",
    "plot_cv_results",
    "plot_distances",
    "plot_embedding",
    "plot_errors",
    "plot_metric",
    "plot_roc",
    "plot_spectrum",
]

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")
"""Okabe and Ito's palette, told apart by colour-blind readers too."""
MARKERS = ("o", "^", "s", "P", "X", "D", "v", "*")
"""For the first eight classes, the next eight, and so on."""


def plot_embedding(
    Z: Any,
    y: ArrayLike,
    *,
    metric: Any = None,
    plane: str = "best",
    legend: bool = True,
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Scatter embedded points by class, on the plane where the classes are best told apart; the axes name it.

    Parameters
    ----------
    Z : array or frame of shape (n, r)
        Points, already embedded, or to be embedded by ``metric``. One column is drawn as a row of points per class.
    y : array-like of shape (n,)
        Labels: told apart by colour and, from the ninth on, by marker.
    metric : fitted learner or Mahalanobis, optional
        Embeds Z first.
    plane : {"best", "discriminant", "components", "principal"}
        With three columns and more: see :func:`~advmetric.evaluation.planes.best_plane`. A learner with
        ``n_components=2`` learns for a plane, which is shown as it is.
    legend : bool
        List the classes.
    """
    ax = _axes(ax)
    points, names = _embedded(Z, metric)
    labels = np.asarray(y)
    if len(labels) != len(points):
        raise ValueError(f"y has {len(labels)} labels for {len(points)} points.")
    classes = np.unique(labels)
    if points.shape[1] > 2:
        chosen = best_plane(points, labels, plane)
        points = points @ chosen.axes.T
        names = list(names[:2]) if chosen.name == "components" else [f"{chosen.name} axis {axis}" for axis in (1, 2)]
        names[0] += f"  (5-NN error on this plane {chosen.error:.2f})"
    if points.shape[1] == 1:
        # In rows by class; the height within a row has no meaning.
        height = np.searchsorted(classes, labels) + 0.6 * (np.random.RandomState(0).rand(len(labels)) - 0.5)
        points, names = np.column_stack([points[:, 0], height]), [names[0], ""]
        ax.set_yticks(np.arange(len(classes)), [str(label) for label in classes])
    else:
        ax.set_yticks([])
    for i, label in enumerate(classes):
        color, marker = COLORS[i % len(COLORS)], MARKERS[i // len(COLORS) % len(MARKERS)]
        x, height = points[labels == label].T
        size = 9 if marker == "o" else 13
        ax.scatter(x, height, s=size, alpha=0.7, color=color, marker=marker, label=str(label), linewidths=0)
    ax.set(title=title, xticks=[], xlabel=names[0], ylabel=names[1])
    if legend:
        _class_legend(ax, len(classes))
    return ax


def _embedded(Z: Any, metric: Any) -> tuple[Matrix, list[str]]:
    """Return points as an array, embedded by the metric if there is one, and the names of the coordinates."""
    names = getattr(Z, "columns", None)
    if metric is not None:
        checked = Z if hasattr(metric, "fit") else np.asarray(Z, dtype=float)
        Z = metric.transform(checked)
        names = getattr(Z, "columns", None)
    points = np.asarray(Z.toarray() if hasattr(Z, "toarray") else Z, dtype=float)
    points = points[:, None] if points.ndim == 1 else points
    if points.ndim != 2 or 0 in points.shape:
        raise ValueError(f"Z must have shape (n, r) with n, r >= 1, got {points.shape}.")
    return points, [f"component {j + 1}" for j in range(points.shape[1])] if names is None else [str(n) for n in names]


def _class_legend(ax: Axes, n_classes: int) -> None:
    """List the classes: inside where there are few, beside the axes where there are many, 20 at most in a column."""
    marks: dict[str, Any] = {"frameon": False, "fontsize": "small", "handletextpad": 0.1}
    if n_classes > 6:
        marks |= {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "ncols": -(-n_classes // 20), "borderaxespad": 0.0}
    handles: Any = ax.legend(**marks).legend_handles
    for handle in handles:
        handle.set_alpha(1.0)
        handle.set_sizes([25.0])


def plot_adversarial_pairs(
    pairs: Pairs,
    adversarial: Matrix,
    projection: Matrix,
    *,
    max_pairs: int = 50,
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw pairs as lines and the adversary's pairs as crosses joined by dashed lines, through a (2, d) projection.

    Of more than ``max_pairs``, that many are drawn, evenly spread over both kinds, before a faint background of all
    points; the legend says so.
    """
    ax = _axes(ax)
    shown = len(pairs) if len(pairs) <= max_pairs else max_pairs
    if shown < len(pairs):
        used = np.union1d(pairs.left, pairs.right)
        used = used[np.linspace(0, len(used) - 1, min(len(used), 4000)).astype(int)]
        behind = pairs.X[used] @ projection.T
        ax.scatter(behind[:, 0], behind[:, 1], s=3, color="#dddddd", linewidths=0, zorder=0)
    for kind, label, color in ((1, "similar", COLORS[0]), (-1, "dissimilar", COLORS[1])):
        chosen = np.flatnonzero(pairs.labels == kind)
        total = len(chosen)
        if shown < len(pairs):
            count = min(total, max(1, round(shown / 2)))
            chosen = chosen[np.linspace(0, total - 1, count).astype(int)] if total else chosen
        ends = np.stack([pairs.X[pairs.left[chosen]], pairs.X[pairs.right[chosen]]]) @ projection.T
        moved = adversarial[chosen] @ projection.T
        ax.plot(ends[..., 0], ends[..., 1], color=color, alpha=0.45, linewidth=0.9)
        ax.plot(moved[..., 0].T, moved[..., 1].T, color=color, alpha=0.45, linewidth=0.7, linestyle=":")
        name = f"{label}, {len(chosen)} of {total}" if len(chosen) < total else label
        ax.scatter(ends[..., 0], ends[..., 1], s=8, color=color, linewidths=0, label=name)
        ax.scatter(
            moved[..., 0], moved[..., 1], s=22, marker="x", color=color, linewidths=1.0, label=f"adversarial, {label}"
        )
    ax.legend(frameon=False, fontsize="small")
    ax.set(title=title, xticks=[], yticks=[])
    return ax


def plot_distances(
    distances: ArrayLike, y: ArrayLike, *, threshold: float | None = None, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Histograms of the distances of same (+1) and different (-1) pairs, with the threshold.

    The legend gives the share of each kind on its side of the threshold. The bars of each kind add up to 1.
    """
    ax = _axes(ax)
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


def plot_metric(
    metric: Any, *, feature_names: Sequence[str] | None = None, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Draw M as a picture: blue entries are negative, red ones positive, by feature name.

    Parameters
    ----------
    metric : fitted learner, Mahalanobis, or (d, d) array
        Names of features come from it if they are not given.
    """
    ax = _axes(ax)
    learned = metric.get_metric() if hasattr(metric, "get_metric") else metric
    M = np.asarray(getattr(learned, "matrix", learned), dtype=float)
    if M.ndim != 2 or M.shape[0] != M.shape[1]:
        raise ValueError(f"metric must be a learner, a Mahalanobis or a (d, d) array, got shape {M.shape}.")
    names = feature_names if feature_names is not None else getattr(learned, "feature_names", None)
    labels = [str(name) for name in names] if names is not None else [str(j) for j in range(len(M))]
    if len(labels) != len(M):
        raise ValueError(f"feature_names has {len(labels)} names for {len(M)} features.")
    limit = float(np.abs(M).max()) or 1.0
    image = ax.imshow(M, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    shown = np.arange(0, len(M), max(1, -(-len(M) // 20)))
    turned: dict[str, Any] = {"rotation": 90} if max(len(labels[j]) for j in shown) > 2 else {}
    ax.set_xticks(shown, [labels[j] for j in shown], fontsize="small", **turned)
    ax.set_yticks(shown, [labels[j] for j in shown], fontsize="small")
    ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04, label="entry of M")
    ax.set(title=title)
    return ax


def plot_cv_results(
    search: Any, *, params: Sequence[str] | None = None, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Scores of a search by its parameters: a curve over one parameter, a picture over two.

    Parameters
    ----------
    search : fitted AMLCV or GridSearchCV, or a dict of the form of ``cv_results_``
    params : one or two names of parameters, optional
        By default the two over whose values the best score varies most. Of the other parameters, the best values are
        taken, and the axes say so.
    """
    ax = _axes(ax)
    results = search if isinstance(search, Mapping) else search.cv_results_
    scores, spread = (np.asarray(results[f"{name}_test_score"], dtype=float) for name in ("mean", "std"))
    settings = [dict(candidate) for candidate in results["params"]]
    names = list(dict.fromkeys(name for candidate in settings for name in candidate))
    values = {name: _ordered({candidate.get(name) for candidate in settings}) for name in names}
    varied = [name for name in names if len(values[name]) > 1] or names[:1]
    for name in params or ():
        if name not in values:
            raise ValueError(f"params has {name!r}, which the search does not vary; use {', '.join(varied)}.")

    def best(*chosen: tuple[str, Any]) -> int:
        rows = [i for i, found in enumerate(settings) if all(found.get(name) == value for name, value in chosen)]
        return max(rows, key=lambda i: np.nan_to_num(scores[i], nan=-np.inf)) if rows else -1

    effect = {name: np.ptp([scores[best((name, value))] for value in values[name]]) for name in varied}
    axes = list(params or sorted(varied, key=lambda name: -effect[name])[:2])[:2]
    rest = [name for name in varied if name not in axes]
    note = f"best over {', '.join(rest)}" if rest else ""
    if len(axes) == 1:
        (name,) = axes
        rows, place = [best((name, value)) for value in values[name]], np.arange(len(values[name]))
        ax.errorbar(place, scores[rows], yerr=spread[rows], marker="o", markersize=4, color=COLORS[0], capsize=3)
        ax.set_xticks(place, [_brief(value) for value in values[name]])
        ax.set(title=title, xlabel=f"{name}  ({note})" if note else name, ylabel="mean test score")
        return ax
    first, second = axes
    table = [[best((first, a), (second, b)) for b in values[second]] for a in values[first]]
    grid = np.array([[scores[i] if i >= 0 else np.nan for i in row] for row in table])
    image = ax.imshow(grid, cmap="viridis", aspect="auto", origin="lower")
    top = int(np.nanargmax(np.where(np.isfinite(grid), grid, -np.inf)))
    ax.scatter(top % grid.shape[1], top // grid.shape[1], marker="*", s=90, color="white", edgecolors="black")
    ax.set_xticks(range(len(values[second])), [_brief(value) for value in values[second]])
    ax.set_yticks(range(len(values[first])), [_brief(value) for value in values[first]])
    ax.figure.colorbar(image, ax=ax, label="mean test score" + (f", {note}" if note else ""))
    ax.set(title=title, xlabel=second, ylabel=first)
    return ax


def _ordered(values: set[Any]) -> list[Any]:
    """Sort numbers by size, others by name, None first."""
    return sorted(
        values, key=lambda v: (v is not None, isinstance(v, str), v if isinstance(v, (int, float)) else str(v))
    )


def _brief(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


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
