"""Pictures of points and pairs, on a plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from advmetric.evaluation.planes import best_plane
from advmetric.pairs.data import Pairs
from advmetric.utils.typing import Matrix

from .axes import COLORS, MARKERS, axes_or_current

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_adversarial_pairs", "plot_embedding"]


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

    See Also
    --------
    plot_adversarial_pairs : What the adversary does to pairs.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn.datasets import load_wine
    >>> from advmetric import GMML
    >>> X, y = load_wine(return_X_y=True)
    >>> ax = plot_embedding(X, y, metric=GMML().fit(X, y), title="wine", ax=plt.figure().add_subplot())
    >>> ax.get_title(), len(ax.collections)
    ('wine', 3)
    """
    ax = axes_or_current(ax)
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

    See Also
    --------
    plot_embedding : The points alone.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from advmetric import AML, BalancedPairs, load_dataset
    >>> data = load_dataset("vehicle")
    >>> aml = AML().fit(data.X, data.y)
    >>> pairs = BalancedPairs(20).sample(data.X, data.y, random_state=0)
    >>> moved, plane = aml.adversarial_pairs(pairs, pairs.y), np.eye(2, data.X.shape[1])
    >>> ax = plot_adversarial_pairs(pairs, moved, plane, ax=plt.figure().add_subplot())
    >>> len(ax.get_legend().get_texts())
    4
    """
    ax = axes_or_current(ax)
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
