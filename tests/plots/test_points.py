"""Pictures of points and pairs: drawn on the Axes they are given, showing what they are given."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from advmetric import AML, BalancedPairs, plots


def offsets(ax):
    return [np.asarray(points.get_offsets()) for points in ax.collections]


def test_embedding_draws_every_point_by_class(ax):
    Z, y = np.random.default_rng(0).normal(size=(30, 3)), np.repeat([0, 1, 2], 10)
    assert plots.plot_embedding(Z, y, ax=ax) is ax
    assert [len(points) for points in offsets(ax)] == [10, 10, 10]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1", "2"]


def test_embedding_in_two_dimensions_is_drawn_as_it_is(ax):
    Z, y = np.random.default_rng(0).normal(size=(30, 2)), np.repeat(["a", "b"], 15)
    plots.plot_embedding(Z, y, ax=ax, legend=False)
    np.testing.assert_array_equal(np.concatenate(offsets(ax)), Z)
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_legend()) == ("component 1", "component 2", None)


def test_embedding_of_many_dimensions_shows_the_best_plane_and_names_it(ax):
    X, y = load_digits(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:900], y[:900]
    learned = AML().fit(X, y)
    plots.plot_embedding(X, y, metric=learned, ax=ax)
    shown = np.concatenate(offsets(ax))
    labels = np.repeat(np.unique(y), np.bincount(y))
    for_a_plane = AML(n_components=2).fit(X, y).transform(X)
    errors = [
        1 - cross_val_score(KNeighborsClassifier(5), Z, codes, cv=5).mean()
        for Z, codes in ((shown, labels), (learned.transform(X)[:, :2], y), (for_a_plane, y))
    ]
    assert errors[0] <= errors[1]
    assert errors[0] <= 1.1 * errors[2]
    assert ax.get_xlabel().startswith("discriminant axis 1  (5-NN error on this plane 0.")
    assert ax.get_ylabel() == "discriminant axis 2"


def test_embedding_takes_frames_and_metrics(ax):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    y = pd.Series(np.repeat(["x", "y"], 20), index=range(100, 140))
    learned = AML(n_components=2).set_output(transform="pandas").fit(X, y.to_numpy())
    plots.plot_embedding(learned.transform(X), y, ax=ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("aml0", "aml1")
    shown = np.concatenate(offsets(ax))
    ax.clear()
    plots.plot_embedding(X, y, metric=learned.get_metric(), ax=ax)
    np.testing.assert_allclose(np.concatenate(offsets(ax)), shown)


def test_embedding_of_one_column_has_a_row_for_each_class(ax):
    z, y = np.arange(30.0), np.repeat(["a", "b", "c"], 10)
    plots.plot_embedding(z, y, ax=ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c"]
    for row, points in enumerate(offsets(ax)):
        np.testing.assert_array_equal(points[:, 0], z[10 * row : 10 * row + 10])
        assert np.all(np.abs(points[:, 1] - row) <= 0.3)


def test_more_than_eight_classes_differ_by_marker(ax):
    y = np.repeat(np.arange(20), 3)
    plots.plot_embedding(np.random.default_rng(0).normal(size=(60, 2)), y, ax=ax)
    looks = {
        (tuple(points.get_facecolor()[0][:3]), points.get_paths()[0].vertices.tobytes()) for points in ax.collections
    }
    assert len(looks) == 20
    assert len(ax.get_legend().get_texts()) == 20


def test_embeddings_that_cannot_be_drawn_are_refused(ax):
    with pytest.raises(ValueError, match="y has 2 labels for 3 points"):
        plots.plot_embedding(np.eye(3), [0, 1], ax=ax)
    with pytest.raises(ValueError, match=r"Z must have shape \(n, r\)"):
        plots.plot_embedding(np.zeros((2, 2, 2)), [0, 1], ax=ax)
    with pytest.raises(ValueError, match="plane='nice' is not known"):
        plots.plot_embedding(np.eye(3), [0, 1, 1], plane="nice", ax=ax)


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


def test_of_many_adversarial_pairs_some_are_drawn_and_the_legend_says_how_many(ax):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), np.repeat([0, 1], 200)
    pairs = BalancedPairs(3000).sample(X, y, 0)
    plots.plot_adversarial_pairs(pairs, pairs.X[pairs.indices], np.eye(2), max_pairs=40, ax=ax)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["similar, 20 of 1500", "adversarial, similar", "dissimilar, 20 of 1500", "adversarial, dissimilar"]
    assert len(ax.lines) == 80
    assert len(ax.collections[0].get_offsets()) == 400  # the points behind
