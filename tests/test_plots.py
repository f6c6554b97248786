"""Pictures: drawn on the Axes they are given, showing what they are given."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

mpl.use("Agg")
import matplotlib.pyplot as plt

from advmetric import AML, AMLCV, BalancedPairs, plots


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


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


def test_the_metric_is_drawn_by_feature_name(ax):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 3)), columns=["width", "height", "age"])
    learned = AML().fit(X, np.arange(30) % 2)
    plots.plot_metric(learned, ax=ax)
    np.testing.assert_array_equal(ax.images[0].get_array(), learned.get_mahalanobis_matrix())
    assert [label.get_text() for label in ax.get_xticklabels()] == ["width", "height", "age"]
    low, high = ax.images[0].get_clim()
    assert low == -high


def test_the_metric_may_be_a_matrix_with_many_features(ax):
    plots.plot_metric(np.eye(100), ax=ax)
    assert len(ax.get_xticks()) <= 20
    with pytest.raises(ValueError, match="feature_names has 2 names for 3 features"):
        plots.plot_metric(np.eye(3), feature_names=["a", "b"], ax=ax)
    with pytest.raises(ValueError, match=r"got shape \(2, 3\)"):
        plots.plot_metric(np.ones((2, 3)), ax=ax)


@pytest.fixture
def search():
    X, y = load_wine(return_X_y=True)
    grid = {"t": [0.1, 0.5], "alpha": [0, 1, 10], "average": [True]}
    return GridSearchCV(AML(), grid, cv=2).fit(StandardScaler().fit_transform(X), y)


def test_cv_results_over_two_parameters_are_a_picture(ax, search):
    plots.plot_cv_results(search, params=["t", "alpha"], ax=ax)
    np.testing.assert_allclose(
        ax.images[0].get_array(), search.cv_results_["mean_test_score"].reshape(3, 2).T
    )  # the grid varies its last name fastest, and sorts them
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("t", "alpha")
    column, row = ax.collections[0].get_offsets()[0]
    assert [0.1, 0.5][int(row)] == search.best_params_["t"]
    assert [0, 1, 10][int(column)] == search.best_params_["alpha"]


def test_cv_results_over_one_parameter_are_a_curve_of_the_best(ax, search):
    plots.plot_cv_results(search.cv_results_, params=["t"], ax=ax)
    scores = search.cv_results_["mean_test_score"].reshape(3, 2)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), scores.max(axis=0))
    assert ax.get_xlabel() == "t  (best over alpha)"
    with pytest.raises(ValueError, match="params has 'beta', which the search does not vary"):
        plots.plot_cv_results(search, params=["beta"], ax=ax)


def test_cv_results_of_amlcv_can_be_drawn(ax):
    X, y = load_wine(return_X_y=True)
    search = AMLCV(alphas=(0.0, 1.0), betas=(1.0,), ts=(0.25, 0.5), cv=2).fit(StandardScaler().fit_transform(X), y)
    plots.plot_cv_results(search, ax=ax)
    assert np.nanmax(ax.images[0].get_array()) == pytest.approx(search.best_score_)


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
