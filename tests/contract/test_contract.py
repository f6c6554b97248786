"""The estimator contract: names, shapes and meanings that every method shares, whatever it was fitted on."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from advmetric import (
    AML,
    AMLCV,
    DRML,
    ERML,
    GMML,
    ITML,
    AllPairs,
    BalancedPairs,
    FlatGeo,
    Mahalanobis,
    NeighborAML,
    NeighborPairs,
    PairAML,
    RandomPairs,
    load_dataset,
)
from advmetric.pairs.data import Pairs

# --- after fit ------------------------------------------------------------------------------------------


def assert_metric(M):
    assert np.isfinite(M).all()
    np.testing.assert_array_equal(M, M.T)
    assert np.linalg.eigvalsh(M)[0] >= -1e-10 * np.linalg.eigvalsh(M)[-1]


def test_attributes_after_points(point_learner, vehicle):
    assert point_learner.fit(vehicle.X, vehicle.y) is point_learner
    r, d = point_learner.components_.shape
    assert d == point_learner.n_features_in_ == 18
    assert 1 <= r <= d
    np.testing.assert_array_equal(point_learner.classes_, np.unique(vehicle.y))
    assert not hasattr(point_learner, "threshold_")
    assert not hasattr(point_learner, "feature_names_in_")
    assert not is_classifier(point_learner)
    assert not get_tags(point_learner).input_tags.three_d_array
    assert_metric(point_learner.get_mahalanobis_matrix())


@pytest.mark.parametrize("kind", ["formed", "indices"])
def test_attributes_after_pairs(pair_learner, vehicle, kind):
    if kind == "indices":
        pair_learner.set_params(preprocessor=vehicle.X)
    assert pair_learner.fit(getattr(vehicle, kind), vehicle.kinds) is pair_learner
    assert pair_learner.components_.shape[1] == pair_learner.n_features_in_ == 18
    np.testing.assert_array_equal(pair_learner.classes_, [-1, 1])
    assert isinstance(pair_learner.threshold_, float)
    assert np.isfinite(pair_learner.threshold_)
    assert is_classifier(pair_learner)
    tags = get_tags(pair_learner)
    assert tags.input_tags.three_d_array
    assert not tags.classifier_tags.multi_class
    assert_metric(pair_learner.get_mahalanobis_matrix())


def test_tags_before_fit_are_those_of_a_supervised_transformer(learner):
    tags = get_tags(learner)
    assert not is_classifier(learner)
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    assert tags.target_tags.required


def test_string_labels_of_points_are_kept_in_classes(point_learner, vehicle):
    names = np.array(["bus", "opel", "saab", "van"])
    point_learner.fit(vehicle.X, names[vehicle.y])
    np.testing.assert_array_equal(point_learner.classes_, names)
    coded = clone(point_learner).fit(vehicle.X, vehicle.y)
    np.testing.assert_array_equal(point_learner.components_, coded.components_)


def test_the_constructor_takes_keywords_only_and_stores_what_it_gets(learner):
    with pytest.raises(TypeError, match="positional"):
        type(learner)(np.eye(3))
    for name, value in learner.get_params(deep=False).items():
        assert getattr(learner, name) is value


# --- refitting ------------------------------------------------------------------------------------------


def test_refitting_on_the_other_kind_of_data_clears_what_belonged_to_the_first(learner, vehicle):
    if not {"points", "pairs"} <= set(learner.supervision):
        pytest.skip(f"{type(learner).__name__} learns from {learner.supervision} only")
    frame = pd.DataFrame(vehicle.X, columns=[f"f{i}" for i in range(18)])
    learner.fit(frame, vehicle.y)
    assert list(learner.feature_names_in_) == list(frame.columns)
    assert len(learner.classes_) == 4

    learner.fit(vehicle.formed[:, :, :5], vehicle.kinds)
    assert is_classifier(learner)
    assert np.isfinite(learner.threshold_)
    assert learner.n_features_in_ == 5
    assert not hasattr(learner, "feature_names_in_")
    np.testing.assert_array_equal(learner.classes_, [-1, 1])

    learner.fit(vehicle.X, vehicle.y)
    assert not is_classifier(learner)
    assert not hasattr(learner, "threshold_")
    assert not hasattr(learner, "predict")
    assert learner.n_features_in_ == 18
    assert len(learner.classes_) == 4
    np.testing.assert_array_equal(learner.components_, clone(learner).fit(vehicle.X, vehicle.y).components_)


# --- distances ------------------------------------------------------------------------------------------


def test_pair_distance_is_the_mahalanobis_distance_not_squared(learner, vehicle):
    learner.fit(vehicle.X, vehicle.y)
    M = learner.get_mahalanobis_matrix()
    np.testing.assert_allclose(M, learner.components_.T @ learner.components_, atol=1e-12 * np.abs(M).max())
    V = vehicle.formed[:, 0] - vehicle.formed[:, 1]
    expected = np.sqrt(np.einsum("ij,jk,ik->i", V, M, V))
    distances = learner.pair_distance(vehicle.formed)
    np.testing.assert_allclose(distances, expected, rtol=1e-9)
    np.testing.assert_array_equal(learner.pair_score(vehicle.formed), -distances)
    Z = learner.transform(vehicle.X)
    embedded = np.linalg.norm(Z[vehicle.indices[:, 0]] - Z[vehicle.indices[:, 1]], axis=1)
    np.testing.assert_allclose(distances, embedded, rtol=1e-9)
    metric = learner.get_metric()
    assert isinstance(metric, Mahalanobis)
    for (u, v), distance in zip(vehicle.formed[:20], distances, strict=False):
        assert metric(u, v) == pytest.approx(distance, rel=1e-12)
        assert metric(u, v, squared=True) == pytest.approx(distance**2, rel=1e-12)
        assert metric(list(v), list(u)) == metric(u, v)


def test_the_distance_of_a_point_to_itself_is_exactly_zero(learner):
    data = load_dataset("breast-cancer")
    X, y = data.X, data.y
    learner.fit(X, y)
    _, inverse = np.unique(X, axis=0, return_inverse=True)
    first = {}
    twins = np.array([(first[k], i) for i, k in enumerate(inverse) if first.setdefault(k, i) != i])
    assert len(twins) > 100
    assert np.all(learner.pair_distance(X[twins]) == 0.0)
    assert np.all(learner.pair_distance(np.stack([X, X], axis=1)) == 0.0)
    learner.set_params(preprocessor=X)
    assert np.all(learner.pair_distance(twins) == 0.0)
    assert np.all(learner.pair_distance(np.column_stack([np.arange(len(X))] * 2)) == 0.0)
    metric = learner.get_metric()
    assert all(metric(x, x.copy()) == 0.0 for x in X[:50])


def test_distances_of_index_pairs_are_those_of_formed_pairs(fitted_on_pairs, vehicle):
    formed = fitted_on_pairs.pair_distance(vehicle.formed)
    fitted_on_pairs.set_params(preprocessor=vehicle.X)
    np.testing.assert_allclose(fitted_on_pairs.pair_distance(vehicle.indices), formed, rtol=1e-13)
    np.testing.assert_allclose(fitted_on_pairs.pair_distance(vehicle.formed), formed, rtol=0)


def test_everything_follows_from_components(fitted_on_pairs, vehicle):
    """Nothing is cached beside components_: replace it and every answer changes accordingly."""
    before = fitted_on_pairs.pair_distance(vehicle.formed)
    threshold = fitted_on_pairs.threshold_
    fitted_on_pairs.components_ = L = np.diag(np.arange(1.0, 19.0))[:7]
    after = np.linalg.norm((vehicle.formed[:, 0] - vehicle.formed[:, 1]) @ L.T, axis=1)
    assert not np.allclose(before, after)
    np.testing.assert_allclose(fitted_on_pairs.pair_distance(vehicle.formed), after)
    np.testing.assert_allclose(fitted_on_pairs.pair_score(vehicle.formed), -after)
    np.testing.assert_allclose(fitted_on_pairs.decision_function(vehicle.formed), threshold - after)
    np.testing.assert_array_equal(fitted_on_pairs.predict(vehicle.formed), np.where(after <= threshold, 1, -1))
    assert fitted_on_pairs.score(vehicle.formed, vehicle.kinds) == pytest.approx(roc_auc_score(vehicle.kinds, -after))
    np.testing.assert_allclose(fitted_on_pairs.transform(vehicle.X), vehicle.X @ L.T)
    np.testing.assert_allclose(fitted_on_pairs.get_mahalanobis_matrix(), L.T @ L)
    np.testing.assert_array_equal(fitted_on_pairs.get_metric().components, L)
    assert len(fitted_on_pairs.get_feature_names_out()) == 7


def test_get_metric_carries_the_threshold_and_the_names(point_learner, vehicle):
    frame = pd.DataFrame(vehicle.X, columns=[f"f{i}" for i in range(18)])
    metric = point_learner.fit(frame, vehicle.y).get_metric()
    assert metric.threshold is None
    assert metric.feature_names == tuple(frame.columns)
    point_learner.set_threshold(2.5)
    assert point_learner.get_metric().threshold == 2.5


# --- decisions ------------------------------------------------------------------------------------------


def test_the_sign_of_the_decision_function_agrees_with_predict(fitted_on_pairs, vehicle):
    decisions, predicted = fitted_on_pairs.decision_function(vehicle.formed), fitted_on_pairs.predict(vehicle.formed)
    np.testing.assert_array_equal(predicted, np.where(decisions >= 0, 1, -1))
    np.testing.assert_allclose(decisions, fitted_on_pairs.threshold_ - fitted_on_pairs.pair_distance(vehicle.formed))
    assert set(predicted) == {-1, 1}
    # A pair right at the threshold is similar.
    fitted_on_pairs.set_threshold(fitted_on_pairs.pair_distance(vehicle.formed[:1])[0])
    assert fitted_on_pairs.predict(vehicle.formed[:1])[0] == 1


def test_score_is_the_area_under_the_roc_curve(pair_learner, vehicle):
    train, test = slice(0, 200), slice(200, None)
    pair_learner.fit(vehicle.formed[train], vehicle.kinds[train])
    auc = roc_auc_score(vehicle.kinds[test], -pair_learner.pair_distance(vehicle.formed[test]))
    assert pair_learner.score(vehicle.formed[test], vehicle.kinds[test]) == pytest.approx(auc, abs=1e-15)


def test_score_of_many_points_comes_from_a_draw_close_to_the_exact_auc():
    data = load_dataset("image-segment")
    learned = GMML().fit(data.X, data.y)
    assert len(data.X) > 1500
    some = np.random.default_rng(0).choice(len(data.X), 1000, replace=False)
    exact = learned.score(data.X[some], data.y[some])
    assert learned.score(data.X, data.y) == pytest.approx(exact, abs=0.01)


def test_fit_on_pairs_calibrates_the_threshold_for_accuracy(fitted_on_pairs, vehicle):
    distances = fitted_on_pairs.pair_distance(vehicle.formed)
    candidates = np.concatenate([[-1.0], distances])
    best = max(np.mean(np.where(distances <= t, 1, -1) == vehicle.kinds) for t in candidates)
    found = np.mean(fitted_on_pairs.predict(vehicle.formed) == vehicle.kinds)
    if hasattr(fitted_on_pairs, "squared_threshold_"):  # part of what was learned, for likelihood instead of accuracy
        assert fitted_on_pairs.threshold_**2 == pytest.approx(fitted_on_pairs.squared_threshold_)
        assert best - 0.05 <= found <= best
    else:
        assert found == pytest.approx(best)


@pytest.mark.parametrize("kind", ["formed", "indices"])
@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("accuracy", {}),
        ("f_beta", {}),
        ("f_beta", {"beta": 2.0}),
        ("max_tpr", {"min_rate": 0.8}),
        ("max_tnr", {"min_rate": 0.8}),
    ],
)
def test_calibrate_threshold_finds_the_best_of_all_thresholds(vehicle, strategy, options, kind):
    learned = GMML(preprocessor=vehicle.X).fit(vehicle.indices[:200], vehicle.kinds[:200])
    y = vehicle.kinds[200:]
    assert learned.calibrate_threshold(getattr(vehicle, kind)[200:], y, strategy, **options) is learned
    distances = learned.pair_distance(vehicle.indices[200:])

    def merit(threshold):
        similar = distances <= threshold
        tp, fp = np.sum(similar & (y == 1)), np.sum(similar & (y == -1))
        fn, tn = np.sum(y == 1) - tp, np.sum(y == -1) - fp
        tpr, tnr = tp / (tp + fn), tn / (tn + fp)
        if strategy == "accuracy":
            return (tp + tn) / len(y)
        if strategy == "f_beta":
            w = options.get("beta", 1.0) ** 2
            return (1 + w) * tp / ((1 + w) * tp + w * fn + fp)
        wanted, kept = (tpr, tnr) if strategy == "max_tpr" else (tnr, tpr)
        return wanted if kept >= options["min_rate"] else -1.0

    brute = max(merit(t) for t in np.concatenate([[-1.0], distances]))
    assert brute > 0
    assert merit(learned.threshold_) == pytest.approx(brute)


def test_set_threshold_returns_the_learner_and_moves_the_cut(fitted_on_pairs, vehicle):
    assert fitted_on_pairs.set_threshold(-1) is fitted_on_pairs
    assert fitted_on_pairs.threshold_ == -1.0
    assert np.all(fitted_on_pairs.predict(vehicle.formed) == -1)
    assert np.all(fitted_on_pairs.set_threshold(1e9).predict(vehicle.formed) == 1)


def test_components_have_names(fitted_on_points, vehicle):
    names = fitted_on_points.get_feature_names_out()
    assert len(names) == len(fitted_on_points.components_)
    assert names[0] == f"{type(fitted_on_points).__name__.lower()}0"


# --- the same pairs in three forms ----------------------------------------------------------------------


def all_pairs(X, y):
    pairs = AllPairs().sample(X, y)
    return np.column_stack([pairs.left, pairs.right]), pairs.y


@pytest.mark.parametrize(
    "settings",
    [
        AML(),
        AML(t=0.2, alpha=10.0, beta=0.1),
        AML(adversary="expanding"),
        AML(n_components=4),
        AML(average=False),
        GMML(),
        GMML(t=0.1),
    ],
    ids=repr,
)
def test_points_formed_pairs_and_index_pairs_give_the_same_metric(settings, vehicle):
    X, y = vehicle.X[:120] + 5.0, vehicle.y[:120]
    indices, kinds = all_pairs(X, y)
    expected = clone(settings).fit(X, y).get_mahalanobis_matrix()
    for learned in (
        clone(settings).fit(X[indices], kinds),
        clone(settings).set_params(preprocessor=X).fit(indices, kinds),
        clone(settings).set_params(pairs=AllPairs()).fit(X, y),
    ):
        np.testing.assert_allclose(learned.get_mahalanobis_matrix(), expected, atol=1e-8 * np.abs(expected).max())


def test_formed_and_index_pairs_give_the_same_metric_and_threshold(pair_learner, vehicle):
    formed = clone(pair_learner).fit(vehicle.formed, vehicle.kinds)
    indexed = clone(pair_learner).set_params(preprocessor=vehicle.X).fit(vehicle.indices, vehicle.kinds)
    expected = formed.get_mahalanobis_matrix()
    np.testing.assert_allclose(indexed.get_mahalanobis_matrix(), expected, atol=1e-8 * np.abs(expected).max())
    assert indexed.threshold_ == pytest.approx(formed.threshold_, rel=1e-8)


def test_the_preprocessor_may_be_a_frame_or_a_list_and_indices_of_any_integer_type(vehicle):
    expected = GMML(preprocessor=vehicle.X).fit(vehicle.indices, vehicle.kinds).components_
    frame = pd.DataFrame(vehicle.X)
    for preprocessor in (frame, vehicle.X.tolist()):
        np.testing.assert_array_equal(
            GMML(preprocessor=preprocessor).fit(vehicle.indices.tolist(), list(vehicle.kinds)).components_, expected
        )
    for dtype in (np.int16, np.uint16, np.uint64):
        found = GMML(preprocessor=vehicle.X).fit(vehicle.indices.astype(dtype), vehicle.kinds).components_
        np.testing.assert_array_equal(found, expected)


def test_index_pairs_are_never_expanded():
    rng = np.random.default_rng(0)
    n, d, N = 500, 200, 100_000
    X, indices = rng.normal(size=(n, d)), rng.integers(n, size=(N, 2))
    y = np.where(rng.random(N) < 0.5, 1, -1)
    formed = 2 * N * d * 8
    learned = AML(preprocessor=X)
    tracemalloc.start()
    try:
        learned.fit(indices, y)
        learned.pair_distance(indices)
        learned.predict(indices)
        learned.score(indices, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Blocks of differences take 32 MB twice or thrice; the pairs formed would take 320 MB.
    assert formed == 320_000_000
    assert peak < 0.45 * formed


def test_methods_take_the_pairs_of_a_sampler(vehicle):
    pairs = BalancedPairs(300).sample(vehicle.X, vehicle.y, 0)
    assert isinstance(pairs, Pairs)
    learned = GMML().fit(vehicle.formed, vehicle.kinds)
    expected = learned.pair_distance(np.stack([pairs.X[pairs.left], pairs.X[pairs.right]], axis=1))
    np.testing.assert_array_equal(learned.pair_distance(pairs), expected)
    assert learned.score(pairs, pairs.y) == pytest.approx(roc_auc_score(pairs.y, -expected))


@pytest.mark.numerical
def test_fit_takes_the_pairs_of_a_sampler(pair_learner, vehicle):
    pairs = BalancedPairs(200).sample(vehicle.X, vehicle.y, 0)
    expected = clone(pair_learner).fit(np.stack([pairs.X[pairs.left], pairs.X[pairs.right]], axis=1), pairs.y)
    found = pair_learner.fit(pairs, pairs.y)
    assert found.n_features_in_ == 18
    M = expected.get_mahalanobis_matrix()
    # Points are summed in another order, and iterations end where tol is met; other pairs would change all of M.
    np.testing.assert_allclose(found.get_mahalanobis_matrix(), M, rtol=0, atol=1e-3 * np.abs(M).max())
    with pytest.raises(ValueError, match="pairs have 17 features"):
        found.pair_distance(Pairs(vehicle.X[:, 1:], pairs.left, pairs.right))


# --- iterations, randomness, warnings -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["X", "formed"])
@pytest.mark.parametrize("make", [AML, lambda **s: AMLCV(alphas=1, betas=1, ts=0.5, cv=2, **s)], ids=["AML", "AMLCV"])
def test_iterative_learners_report_how_they_ended(make, vehicle, kind):
    learned = make().fit(getattr(vehicle, kind), vehicle.y if kind == "X" else vehicle.kinds)
    assert learned.converged_ is True
    assert learned.n_iter_ >= 1
    assert learned.objective_.ndim == 1
    assert np.all(np.diff(learned.objective_) <= 0)


@pytest.mark.parametrize("kind", ["X", "formed"])
def test_stopping_at_max_iter_warns_always_and_where_the_user_called(vehicle, kind):
    learner = AML(solver="projected-gradient", max_iter=2, verbose=0)
    y = vehicle.y if kind == "X" else vehicle.kinds
    for _ in range(2):
        with pytest.warns(
            ConvergenceWarning, match=r"AML did not converge in 2 iterations.*[Rr]aise max_iter"
        ) as caught:
            learner.fit(getattr(vehicle, kind), y)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert learner.converged_ is False
        assert learner.n_iter_ == 2
        assert len(learner.objective_) == 3
        assert_metric(learner.get_mahalanobis_matrix())


@pytest.mark.parametrize("sampler", ["random", "balanced", "neighbors", 500, RandomPairs(700), NeighborPairs(2, 4)])
@pytest.mark.parametrize("make", [AML, GMML, lambda **s: AMLCV(alphas=1, betas=1, ts=0.5, cv=2, **s)])
def test_samplers_are_deterministic_under_random_state(make, sampler, vehicle):
    def learn(seed):
        return make(pairs=sampler, random_state=seed).fit(vehicle.X[::3], vehicle.y[::3]).components_

    first = learn(3)
    np.testing.assert_array_equal(learn(3), first)
    np.testing.assert_array_equal(learn(np.random.RandomState(3)), learn(np.random.RandomState(3)))
    draws = not (sampler == "neighbors" or isinstance(sampler, NeighborPairs))
    assert np.array_equal(first, learn(4)) != draws


@pytest.mark.parametrize("make", [ITML, FlatGeo, DRML, ERML])
def test_the_random_state_decides_everything(make, vehicle):
    first, again, other = (
        make(pairs=300, random_state=seed).fit(vehicle.X[::3], vehicle.y[::3]).components_ for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first.T @ first, other.T @ other)


def test_default_learners_are_deterministic(learner):
    X, y = load_wine(return_X_y=True)
    np.testing.assert_array_equal(learner.fit(X, y).components_, clone(learner).fit(X, y).components_)


# --- data that just works -------------------------------------------------------------------------------


def awkward(name):
    """Real data with the flaws that real data has."""
    rng = np.random.default_rng(0)
    if name == "constant column":
        data = load_dataset("image-segment")
        assert (data.X.std(axis=0) == 0).any()
        return data.X[::15], data.y[::15]
    if name == "constant pixels, n < d":
        data = load_dataset("mnist-4000")
        rows = rng.choice(len(data.X), 60, replace=False)
        X = data.X[rows].reshape(-1, 28, 28)[:, ::3, ::3].reshape(len(rows), -1) / 255.0
        assert X.shape[0] < X.shape[1]
        assert (X.std(axis=0) == 0).sum() > 20
        return X, data.y[rows]
    data = load_dataset("vehicle")
    X, y = data.X[:120], data.y[:120]
    if name == "duplicates":
        return np.repeat(X, 2, axis=0), np.repeat(y, 2)
    if name == "the same points in every class":
        return np.tile(X[:20], (4, 1)), np.repeat(np.arange(4), 20)
    if name == "all points equal":
        return np.ones((12, 4)), np.arange(12) % 3
    if name == "collinear columns":
        return np.hstack([X, X @ rng.normal(size=(X.shape[1], 5)), X[:, :1]]), y
    if name == "one feature":
        return X[:, :1], y
    if name == "a class with one member":
        return X, np.where(np.arange(120) == 17, 99, y)
    if name == "columns of very different scale":
        return X * 10.0 ** np.linspace(-12, 12, X.shape[1]), y
    raise KeyError(name)


AWKWARD = [
    "constant column",
    "constant pixels, n < d",
    "duplicates",
    "the same points in every class",
    "all points equal",
    "collinear columns",
    "one feature",
    "a class with one member",
    "columns of very different scale",
]


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_data_just_works(learner, name):
    X, y = awkward(name)
    learner.fit(X, y)
    assert_metric(learner.get_mahalanobis_matrix())
    assert np.isfinite(learner.transform(X)).all()
    rows = np.arange(len(X))
    pairs = np.stack([X, X[np.roll(rows, 1)]], axis=1)
    assert np.isfinite(learner.pair_distance(pairs)).all()


@pytest.mark.slow
def test_300_digits_of_784_pixels_just_work():
    data = load_dataset("mnist-4000")
    X, y = data.X[::13][:300], data.y[::13][:300]
    assert (X.std(axis=0) == 0).sum() > 100
    learned = AML().fit(X, y)
    assert_metric(learned.get_mahalanobis_matrix())
    assert learned.score(X, y) > 0.8


@pytest.mark.parametrize("name", [name for name in AWKWARD if name != "a class with one member"])
def test_awkward_pairs_just_work(pair_learner, name):
    X, y = awkward(name)
    indices, kinds = all_pairs(X, y)
    some = np.random.default_rng(0).choice(len(indices), min(len(indices), 500), replace=False)
    pair_learner.set_params(preprocessor=X).fit(indices[some], kinds[some])
    assert_metric(pair_learner.get_mahalanobis_matrix())
    assert np.isfinite(pair_learner.threshold_)
    assert np.isfinite(pair_learner.decision_function(indices[some])).all()


@pytest.mark.parametrize("name", AWKWARD[:6])
@pytest.mark.parametrize("settings", [{"adversary": "expanding"}, {"adversary": "printed"}, {"t": 0.1}, {"t": 0.75}])
def test_awkward_data_works_with_other_settings_of_aml(settings, name):
    X, y = awkward(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert_metric(AML(**settings).fit(X, y).get_mahalanobis_matrix())


@pytest.mark.parametrize("scale", [1e-100, 1e-30, 1e30, 1e100])
@pytest.mark.parametrize("kind", ["X", "formed"])
@pytest.mark.parametrize(
    "settings",
    [
        AML(),
        AML(adversary="printed"),
        AML(adversary="expanding"),
        AML(solver="alternating"),
        AML(n_components=3),
        GMML(),
    ],
    ids=repr,
)
def test_at_t_one_half_the_metric_does_not_depend_on_the_scale_of_the_data(settings, scale, kind, vehicle):
    data, y = getattr(vehicle, kind), vehicle.y if kind == "X" else vehicle.kinds
    expected = clone(settings).fit(data, y).get_mahalanobis_matrix()
    found = clone(settings).fit(scale * data, y)
    np.testing.assert_allclose(found.get_mahalanobis_matrix(), expected, atol=1e-6 * np.abs(expected).max())
    assert np.isfinite(found.pair_distance(scale * vehicle.formed)).all()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_learners_work_at_any_scale(learner, scale, vehicle):
    learner.fit(scale * vehicle.X, vehicle.y)
    assert_metric(learner.get_mahalanobis_matrix())


@pytest.mark.parametrize("scale", [1e160, 1e200])
def test_squares_that_overflow_are_refused(scale, vehicle):
    for make in (AML, GMML):
        with pytest.raises(ValueError, match="squares of some features of X overflow; rescale"):
            make().fit(scale * vehicle.X, vehicle.y)
        with pytest.raises(ValueError, match="squares of some features of X overflow; rescale"):
            make().fit(scale * vehicle.formed, vehicle.kinds)


@pytest.mark.parametrize("t", [0.0, 0.1, 0.9, 1.0])
def test_a_metric_out_of_the_range_of_floats_is_refused(t, vehicle):
    with pytest.raises(ValueError, match=r"AML finds no finite metric.*Standardise"):
        AML(t=t).fit(1e140 * vehicle.X, vehicle.y)


def test_float32_in_gives_float32_out(learner, vehicle):
    X = vehicle.X.astype(np.float32)
    learner.fit(X, vehicle.y)
    assert learner.transform(X).dtype == np.float32
    assert learner.components_.dtype == np.float64
    double = clone(learner).fit(X.astype(np.float64), vehicle.y)
    np.testing.assert_allclose(
        learner.get_mahalanobis_matrix(),
        double.get_mahalanobis_matrix(),
        atol=1e-4 * np.abs(double.get_mahalanobis_matrix()).max(),
    )


def test_float32_pairs_work(pair_learner, vehicle):
    pair_learner.fit(vehicle.formed.astype(np.float32), vehicle.kinds)
    assert_metric(pair_learner.get_mahalanobis_matrix())
    assert np.isfinite(pair_learner.decision_function(vehicle.formed.astype(np.float32))).all()


def test_lists_and_frames_and_integers_work_like_arrays(point_learner):
    X = np.round(10 * load_dataset("vehicle").X[:80]).astype(int)
    y = load_dataset("vehicle").y[:80]
    expected = clone(point_learner).fit(X.astype(float), y).components_
    for given, labels in ((X.tolist(), y.tolist()), (pd.DataFrame(X), pd.Series(y)), (X, y), (X.astype(object), y)):
        np.testing.assert_array_equal(clone(point_learner).fit(given, labels).components_, expected)


def test_lists_of_pairs_work_like_arrays(pair_learner, vehicle):
    expected = clone(pair_learner).fit(vehicle.formed, vehicle.kinds)
    found = clone(pair_learner).fit(vehicle.formed.tolist(), vehicle.kinds.tolist())
    np.testing.assert_array_equal(found.components_, expected.components_)
    np.testing.assert_array_equal(found.predict(vehicle.formed.tolist()), expected.predict(vehicle.formed))
    fortran = clone(pair_learner).fit(np.asfortranarray(vehicle.formed), vehicle.kinds)
    np.testing.assert_allclose(fortran.get_mahalanobis_matrix(), expected.get_mahalanobis_matrix(), atol=1e-12)


def test_the_input_is_never_changed(learner, vehicle):
    X, y = vehicle.X.copy(), vehicle.y.copy()
    X.setflags(write=False)
    learner.fit(X, y).transform(X)
    np.testing.assert_array_equal(X, vehicle.X)


@pytest.mark.parametrize("learner", [GMML, AML, PairAML, NeighborAML])
@pytest.mark.parametrize("more", ["constant", "copy"])
def test_no_component_is_spent_on_a_feature_that_tells_nothing_new(learner, more):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 4
    X = StandardScaler().fit_transform(rng.normal(size=(200, 2)) + np.column_stack([20 * (y % 2), 4 * (y // 2)]))
    wider = np.column_stack([X, np.zeros(200) if more == "constant" else X[:, 0]])
    fewer, components = (learner(n_components=2).fit(points, y).components_ for points in (X, wider))
    assert np.linalg.matrix_rank(components @ wider.T, tol=1e-3 * np.linalg.norm(components @ wider.T)) == 2
    scores = [
        cross_val_score(KNeighborsClassifier(5), points @ L.T, y, cv=5).mean()
        for points, L in ((X, fewer), (wider, components))
    ]
    assert scores[1] > scores[0] - 0.02
