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
