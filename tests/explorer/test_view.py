"""What the page shows is what NumPy, SciPy and scikit-learn say of the metric that `fit` learns."""

import base64
import json

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from advmetric import GMML, LMNN
from advmetric.explorer import view as module
from advmetric.explorer.view import make_view
from advmetric.workflows.parameters import find_method
from advmetric.workflows.splits import hold_out


def floats(text, columns=1):
    return np.frombuffer(base64.b64decode(text), dtype="<f4").reshape(-1, columns)


@pytest.fixture(scope="module")
def reference(cars):
    """Train and held-out rows, standardised, and GMML's metric of the former."""
    train, held_out = hold_out(cars.y, 0.2, 0)
    scaler = StandardScaler().fit(cars.X[train])
    X = scaler.transform(cars.X)
    return train, held_out, X, GMML(t=0.1).fit(X[train], cars.y[train]).components_


def test_the_view_is_json_and_says_what_learning_is_worth(point_view, pair_view):
    for view in (point_view, pair_view):
        assert json.loads(json.dumps(view, allow_nan=False)) == view
    assert "On 60 held-out rows" in point_view["answer"]
    assert "On 80 held-out pairs" in pair_view["answer"]
    assert point_view["answer"].endswith("the difference may be chance.")  # 16 against 21 errors


@pytest.mark.parametrize("name", ["learned", "euclidean"])
def test_neighbours_are_the_nearest_points(point_view, reference, name):
    _, _, X, L = reference
    Z = X @ L.T if name == "learned" else X
    distances = cdist(Z, Z)
    np.fill_diagonal(distances, np.inf)
    found = point_view["points"][name]
    np.testing.assert_allclose(floats(found["distances"], 8), np.sort(distances, axis=1)[:, :8], rtol=1e-5)
    shown = np.take_along_axis(distances, np.array(found["nearest"]), axis=1)
    np.testing.assert_allclose(shown, np.sort(distances, axis=1)[:, :8], rtol=1e-9)


@pytest.mark.parametrize("name", ["learned", "euclidean"])
def test_the_confusion_matrix_is_scikit_learn_s(point_view, cars, reference, name):
    train, held_out, X, L = reference
    Z = X @ L.T if name == "learned" else X
    said = KNeighborsClassifier(5).fit(Z[train], cars.y[train]).predict(Z[held_out])
    confusion = point_view["confusion"]
    np.testing.assert_array_equal(confusion["tables"][name], confusion_matrix(cars.y[held_out], said))
    np.testing.assert_array_equal(np.array(confusion["predicted"][name])[held_out], said)
    assert set(np.array(confusion["predicted"][name])[train]) == {-1}


def test_distances_and_area_of_the_held_out_pairs(pair_view, matches):
    pairs = pair_view["pairs"]
    kinds = np.array(pairs["kinds"])
    train, held_out = hold_out(matches.y, 0.2, 0)
    assert sorted(kinds) == sorted(matches.y[held_out])
    for name in ("learned", "euclidean"):
        distances = floats(pairs[name]["distances"])[:, 0]
        assert pairs[name]["auc"] == pytest.approx(roc_auc_score(kinds, -distances), abs=1e-6)
    values = floats(pair_view["features"]["values"], 18)
    L = floats(pair_view["features"]["components"], 18)
    gap = values[pairs["left"]] - values[pairs["right"]]
    np.testing.assert_allclose(
        np.linalg.norm(gap @ L.T, axis=1), floats(pairs["learned"]["distances"])[:, 0], rtol=1e-4, atol=1e-5
    )
    assert len(train) + len(held_out) == 400


def test_weights_and_matrix_are_those_of_standardised_features(point_view, reference):
    M = reference[3].T @ reference[3]
    features = point_view["features"]
    order = np.argsort(-np.diag(M))
    np.testing.assert_allclose(features["weights"], np.diag(M)[order] / np.mean(np.diag(M)), rtol=1e-9)
    np.testing.assert_allclose(features["matrix"]["M"], M, rtol=1e-9, atol=1e-12)
    assert np.mean(features["weights"]) == pytest.approx(1.0)


def test_the_plane_after_is_learned_for_two_dimensions(point_view, cars, reference):
    train, _, X, _ = reference
    L = GMML(t=0.1, n_components=2).fit(X[train], cars.y[train]).components_
    plane = point_view["planes"]["after"]
    assert plane["how"] == "GMML learned for two dimensions"
    shown = np.hstack([floats(plane[axis]) for axis in "xy"])
    np.testing.assert_allclose(cdist(shown, shown), cdist(X @ L.T, X @ L.T), atol=2e-5)


def test_a_method_without_planes_shows_the_best_of_its_embedding(cars):
    view = make_view(find_method("RVML"), {}, cars, title="", classes=list("abcd"), tuned=False)
    assert "plane of the learned embedding" in view["planes"]["after"]["how"]


@pytest.mark.parametrize("d", [1, 2])
def test_one_and_two_features(cars, d):
    few = type(cars)(cars.X[:, :d], cars.y)
    view = make_view(find_method("GMML"), {}, few, title="", classes=list("abcd"), tuned=False)
    assert np.isfinite(floats(view["planes"]["after"]["y"])).all()


def test_limits_are_kept_and_said(cars, monkeypatch):
    monkeypatch.setattr(module, "POINTS", 100)
    monkeypatch.setattr(module, "FEATURES", 7)
    monkeypatch.setattr(module, "MATRIX", 5)
    monkeypatch.setattr(module, "TABLE", 2)
    view = make_view(find_method("GMML"), {}, cars, title="", classes=list("abcd"), tuned=False)
    assert len(view["points"]["names"]) == 100
    assert len(view["features"]["names"]) == 7
    assert np.shape(view["features"]["matrix"]["M"]) == (5, 5)
    assert np.shape(view["confusion"]["tables"]["learned"]) == (2, 2)
    assert any("300 points, a random sample of 100" in fact for fact in view["facts"])
    assert any("18 features, the 7" in fact for fact in view["facts"])


def test_a_chosen_method_is_named(cars):
    view = make_view(find_method("LMNN"), {"n_neighbors": 1}, cars, title="", classes=list("abcd"), tuned=False)
    assert view["method"] == LMNN.__name__
    assert "LMNN: n_neighbors=1" in view["facts"][0]


def test_the_answer_names_the_better_of_the_two_euclidean_distances(cars):
    noise = np.random.default_rng(0).normal(size=(300, 40)) / 1000  # standardised, it drowns the one that matters
    few = type(cars)(np.column_stack([10.0 * cars.y, noise]), cars.y)
    view = make_view(find_method("Euclidean"), {}, few, title="", classes=list("abcd"), tuned=False)
    assert "under the Euclidean distance of raw features in 0.0 %: learning does not help here." in view["answer"]
