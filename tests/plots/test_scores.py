"""Pictures of distances, errors, curves and ranks."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from advmetric import plots
from advmetric.plots import scores


def offsets(ax):
    return [np.asarray(points.get_offsets()) for points in ax.collections]


def test_distances_show_both_kinds_and_the_threshold(ax):
    distances, y = np.array([1.0, 2.0, 3.0, 2.5, 4.0, 5.0, 6.0]), np.array([1, 1, 1, -1, -1, -1, -1])
    plots.plot_distances(distances, y, threshold=2.75, ax=ax)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert sorted(texts) == ["different (4): 75.0 % above", "same (3): 66.7 % below", "threshold 2.75"]
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(2.0)
    assert list(ax.lines[0].get_xdata()) == [2.75, 2.75]


def test_distances_of_one_kind_and_all_equal_can_be_drawn(ax):
    plots.plot_distances([2.0, 2.0], [1, 1], ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["same (2)"]
    with pytest.raises(ValueError, match=r"y must be \+1 for same and -1"):
        plots.plot_distances([1.0, 2.0], [0, 1], ax=ax)
    with pytest.raises(ValueError, match="vectors of one length"):
        plots.plot_distances([1.0, 2.0], [1], ax=ax)


def test_errors_show_mean_and_trials(ax):
    plots.plot_errors(["a", "b"], [[0.1, 0.3], [0.2, 0.2]], ax=ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 0], [0.1, 0.3])
    low, high = ax.containers[0].lines[2][0].get_segments()[0][:, 0]
    assert (low, high) == pytest.approx((0.2 - np.sqrt(0.02), 0.2 + np.sqrt(0.02)))


def test_without_axes_the_current_ones_are_used(ax):
    plt.sca(ax)
    assert plots.plot_spectrum({"a": np.array([1.0, 2.0])}) is ax


def test_roc_curves_carry_their_area_and_end_in_the_corners(ax):
    from sklearn.metrics import roc_auc_score

    rng = np.random.default_rng(0)
    y = np.where(rng.random(200) < 0.5, 1, -1)
    scores = {"good": y + rng.normal(size=200), "chance": rng.normal(size=200)}
    assert plots.plot_roc(y, scores, ax=ax) is ax
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [f"{name} ({roc_auc_score(y, values):.3f})" for name, values in scores.items()]
    for line in ax.lines[:2]:
        assert (line.get_xdata()[0], line.get_ydata()[0]) == (0.0, 0.0)
        assert (line.get_xdata()[-1], line.get_ydata()[-1]) == (1.0, 1.0)


def test_bands_show_mean_and_one_standard_deviation(ax):
    values = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    plots.plot_bands([1.0, 10.0], {"a": values}, ax=ax, log=True)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [2.0, 4.0])
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (1.0, 6.0)  # sd 1 and 2
    assert ax.get_xscale() == "log"


def test_critical_difference_joins_what_cannot_be_told_apart(ax):
    plots.plot_critical_difference(["a", "b", "c", "d"], [3.9, 1.0, 2.0, 3.5], 1.2, ax=ax)
    texts = [text.get_text().strip() for text in ax.texts]
    assert {"b 1.00", "c 2.00", "d 3.50", "a 3.90", "critical difference 1.20"} <= set(texts)
    assert scores._cliques(np.array([1.0, 2.0, 3.5, 3.9]), 1.2) == [(0, 1), (2, 3)]
    assert scores._cliques(np.array([1.0, 1.5, 2.0, 3.1]), 1.2) == [(0, 2), (2, 3)]
    assert scores._cliques(np.array([1.0, 3.0]), 1.2) == []
