"""Pictures of a metric and of how its parameters were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.typing import Vector

from .axes import COLORS, axes_or_current

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_cv_results", "plot_metric", "plot_spectrum"]

ROWS = 20
"""Candidates that have a row of their own at most."""


def plot_metric(
    metric: Any, *, feature_names: Sequence[str] | None = None, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Draw M as a picture: blue entries are negative, red ones positive, by feature name.

    Parameters
    ----------
    metric : fitted learner, Mahalanobis, or (d, d) array
        Names of features come from it if they are not given.

    See Also
    --------
    plot_spectrum : The eigenvalues of M.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = plot_metric([[1.0, 0.5], [0.5, 2.0]], feature_names=["length", "width"], ax=plt.figure().add_subplot())
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['length', 'width']
    """
    ax = axes_or_current(ax)
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


def plot_spectrum(spectra: Mapping[str, NDArray[np.floating]], *, ax: Axes | None = None, title: str = "") -> Axes:
    """Eigenvalues of several metrics, each divided by its geometric mean, from large to small.

    See Also
    --------
    plot_metric : The entries of M.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> ax = plot_spectrum({"GMML": np.array([4.0, 1.0]), "AML": np.array([2.0, 1.0])}, ax=plt.figure().add_subplot())
    >>> ax.get_yscale()
    'log'
    """
    ax = axes_or_current(ax)
    for i, (name, values) in enumerate(spectra.items()):
        ordered = np.sort(values[values > 0])[::-1]
        ordered = ordered / np.exp(np.mean(np.log(ordered)))
        ax.semilogy(
            np.arange(1, len(ordered) + 1), ordered, marker="o", markersize=3, color=COLORS[i % len(COLORS)], label=name
        )
    ax.set(title=title, xlabel="direction", ylabel="eigenvalue of M (scaled)")
    ax.legend(frameon=False)
    return ax


def plot_cv_results(
    search: Any, *, params: Sequence[str] | None = None, ax: Axes | None = None, title: str = ""
) -> Axes:
    """Scores of a search by its parameters: a curve over one, a picture over two, a row for each candidate otherwise.

    Parameters
    ----------
    search : fitted AMLCV or GridSearchCV, or a dict of the form of ``cv_results_``
    params : one or two names of parameters, optional
        Of the other parameters, the best values are taken, and the axes say so. By default the two over whose values
        the best score varies most, if the candidates are all combinations of their values. If they are not, as those
        of a default AMLCV, the best 20 have a row each, with ``std_test_score``.

    See Also
    --------
    advmetric.AMLCV : A search whose results it draws.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> scores = {"mean_test_score": np.array([0.7, 0.9]), "std_test_score": np.array([0.1, 0.1])}
    >>> ax = plot_cv_results({"params": [{"t": 0.1}, {"t": 0.5}], **scores}, ax=plt.figure().add_subplot())
    >>> ax.get_xlabel()
    't'
    """
    ax = axes_or_current(ax)
    results = search if isinstance(search, Mapping) else search.cv_results_
    scores, spread = (np.asarray(results[f"{name}_test_score"], dtype=float) for name in ("mean", "std"))
    settings = [dict(candidate) for candidate in results["params"]]
    names = list(dict.fromkeys(name for candidate in settings for name in candidate))
    values = {name: _ordered({candidate.get(name) for candidate in settings}) for name in names}
    varied = [name for name in names if len(values[name]) > 1] or names[:1]
    for name in params or ():
        if name not in values:
            raise ValueError(f"params has {name!r}, which the search does not vary; use {', '.join(varied)}.")

    if not params and np.prod([len(values[name]) for name in varied]) > len(settings):
        chosen = getattr(search, "best_index_", int(np.argmax(np.nan_to_num(scores, nan=-np.inf))))
        return _plot_candidates(settings, scores, spread, chosen, ax, title)

    def best(*chosen: tuple[str, Any]) -> int:
        rows = [i for i, found in enumerate(settings) if all(found.get(name) == value for name, value in chosen)]
        return max(rows, key=lambda i: np.nan_to_num(scores[i], nan=-np.inf)) if rows else -1

    effect = {name: np.ptp([scores[best((name, value))] for value in values[name]]) for name in varied}
    axes = list(params or sorted(varied, key=lambda name: -effect[name])[:2])[:2]
    rest = [name for name in varied if name not in axes]
    note = "" if not rest else f"best over {', '.join(rest) if len(rest) < 4 else f'{len(rest)} others'}"
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


def _plot_candidates(
    settings: list[dict[str, Any]], scores: Vector, spread: Vector, chosen: int, ax: Axes, title: str
) -> Axes:
    """Draw the best candidates as rows, the chosen one in another colour."""
    order = np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")
    rows = order[:ROWS].tolist()
    if chosen not in rows:
        rows[-1] = chosen
    for place, i in enumerate(rows):
        color = COLORS[1] if i == chosen else COLORS[0]
        ax.errorbar(scores[i], place, xerr=spread[i], marker="o", markersize=4, color=color, capsize=2)
    ax.set_yticks(range(len(rows)), [_label(settings[i], settings) for i in rows], fontsize="small")
    ax.get_yticklabels()[rows.index(chosen)].set(color=COLORS[1], fontweight="bold")
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.4)
    shown = f", best {len(rows)} of {len(order)}" if len(rows) < len(order) else ""
    ax.set(title=title, xlabel=f"mean_test_score ± std_test_score{shown}")
    figure = ax.figure.canvas.figure
    if figure.get_layout_engine() is None:  # the labels are longer than the usual margin
        figure.set_layout_engine("constrained")
    return ax


def _label(candidate: dict[str, Any], settings: list[dict[str, Any]]) -> str:
    """Return the loss of a candidate, and its parameters that differ among those of this loss."""
    loss = candidate.get("loss")
    alike = [other for other in settings if other.get("loss") == loss]
    varied = [name for name, value in candidate.items() if any(other.get(name) != value for other in alike)]
    parts = [f"{name}={_brief(candidate[name])}" for name in varied]
    return " ".join(parts if loss is None else [str(loss), *parts])


def _ordered(values: set[Any]) -> list[Any]:
    """Sort numbers by size, others by name, None first."""
    return sorted(
        values, key=lambda v: (v is not None, isinstance(v, str), v if isinstance(v, (int, float)) else str(v))
    )


def _brief(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
