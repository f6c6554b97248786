"""Pictures: drawn on the Axes they are given, showing what they are given."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from advmetric import AML, BalancedPairs, plots


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_embedding_draws_every_point_by_class(ax):
    Z, y = np.random.default_rng(0).normal(size=(30, 3)), np.repeat([0, 1, 2], 10)
    assert plots.plot_embedding(Z, y, ax=ax) is ax
    assert [len(points.get_offsets()) for points in ax.collections] == [10, 10, 10]


def test_adversarial_pairs_are_crosses_at_the_adversary_s_places(ax):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.repeat([0, 1], 20)
    aml = AML().fit(X, y)
    pairs = BalancedPairs(10).sample(X, y, 0)
    moved = aml.adversarial_pairs(pairs, pairs.labels)
    projection = np.eye(2, 3)
    assert plots.plot_adversarial_pairs(pairs, moved, projection, ax=ax) is ax
    crosses = np.concatenate([points.get_offsets() for points in ax.collections[1::2]])
    expected = np.concatenate([moved[pairs.labels == kind].reshape(-1, 3) for kind in (1, -1)])[:, :2]
    np.testing.assert_allclose(crosses, expected)


def test_spectrum_is_scaled_to_geometric_mean_one_and_sorted(ax):
    plots.plot_spectrum({"a": np.array([1.0, 100.0, 10.0])}, ax=ax)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [10.0, 1.0, 0.1])


def test_errors_show_mean_and_trials(ax):
    plots.plot_errors(["a", "b"], [[0.1, 0.3], [0.2, 0.2]], ax=ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 0], [0.1, 0.3])


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
    values = np.array([[1.0, 2.0], [3.0, 6.0]])
    plots.plot_bands([1.0, 10.0], {"a": values}, ax=ax, log=True)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [2.0, 4.0])
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == (1.0, 6.0)
    assert ax.get_xscale() == "log"


def test_critical_difference_joins_what_cannot_be_told_apart(ax):
    plots.plot_critical_difference(["a", "b", "c", "d"], [3.9, 1.0, 2.0, 3.5], 1.2, ax=ax)
    texts = [text.get_text().strip() for text in ax.texts]
    assert {"b 1.00", "c 2.00", "d 3.50", "a 3.90", "critical difference 1.20"} <= set(texts)
    assert plots._cliques(np.array([1.0, 2.0, 3.5, 3.9]), 1.2) == [(0, 1), (2, 3)]
    assert plots._cliques(np.array([1.0, 1.5, 2.0, 3.1]), 1.2) == [(0, 2), (2, 3)]
    assert plots._cliques(np.array([1.0, 3.0]), 1.2) == []
