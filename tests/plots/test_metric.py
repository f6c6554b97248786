"""Pictures of a metric and of a search."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from advmetric import AML, AMLCV, plots


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


@pytest.mark.parametrize("as_dict", [False, True])
def test_candidates_that_are_no_grid_have_a_row_each(ax, as_dict):
    X, y = load_wine(return_X_y=True)
    losses = ("euclidean", "geometric", "radius")
    search = AMLCV(losses=losses, cv=2, random_state=0).fit(StandardScaler().fit_transform(X), y)
    plots.plot_cv_results(search.cv_results_ if as_dict else search, ax=ax)
    scores = search.cv_results_["mean_test_score"]
    np.testing.assert_allclose([bar.lines[0].get_xdata()[0] for bar in ax.containers], np.sort(scores)[::-1])
    labels = ax.get_yticklabels()
    shown = [label.get_text() for label in labels]
    assert len(set(shown)) == len(scores) == 11
    assert {"euclidean", "radius", "geometric t=0.25 beta=0.1 alpha=10"} <= set(shown)
    (marked,) = [label.get_text() for label in labels if label.get_fontweight() == "bold"]
    assert marked.startswith("geometric" if as_dict else search.best_loss_)
    ax.figure.canvas.draw()
    assert min(label.get_window_extent().x0 for label in labels) >= 0


def test_of_many_candidates_the_best_and_the_chosen_have_rows(ax):
    scores = np.linspace(0.5, 0.9, 40)
    results = {"params": [{"a": i, "b": -i} for i in range(40)], "mean_test_score": scores, "std_test_score": scores}
    plots.plot_cv_results(type("Search", (), {"cv_results_": results, "best_index_": 3})(), ax=ax)
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert shown == [f"a={i} b={-i}" for i in (*range(39, 20, -1), 3)]
    assert ax.get_xlabel().endswith("best 20 of 40")


def test_the_label_of_the_colours_names_few_parameters(ax):
    params = [dict.fromkeys("abcdefg", i) for i in range(2)]
    results = {"params": params, "mean_test_score": np.array([0.5, 0.6]), "std_test_score": np.zeros(2)}
    plots.plot_cv_results(results, params=["a", "b"], ax=ax)
    assert ax.figure.axes[-1].get_ylabel() == "mean test score, best over 5 others"


def test_spectrum_is_scaled_to_geometric_mean_one_and_sorted(ax):
    plots.plot_spectrum({"a": np.array([1.0, 100.0, 10.0])}, ax=ax)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [10.0, 1.0, 0.1])
