"""AMLCV against an explicit loop over folds and candidates, and what it shares between them."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, f1_score, get_scorer, make_scorer, recall_score, roc_auc_score
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from advmetric import AML, AMLCV, Euclidean, NeighborAML, PairAML
from advmetric.algorithms import amlcv as amlcv_module
from advmetric.algorithms.aml import estimator as estimator_module
from advmetric.learners import moments as moments_module
from advmetric.learners.span import in_span
from advmetric.learners.tuning import simplest_within_one_standard_error
from advmetric.pairs.data import LabelledPoints
from advmetric.pairs.samplers import AllPairs
from reference.vehicle import labelled_vehicle

GRID = {"alphas": [0.0, 1.0, 100.0], "betas": [0.01, 1.0], "ts": [0.1, 0.5]}
PRIOR = np.diag(np.linspace(1.0, 2.0, 18))


@pytest.fixture(scope="module")
def vehicle():
    """A third of vehicle: each test compares dozens of candidates."""
    return labelled_vehicle(every=3)


@pytest.fixture
def exact(monkeypatch):
    """Candidates solved as closely as single fits, so that the two can be compared to the last digit."""
    monkeypatch.setattr(estimator_module, "_SEARCH_TOL", 0.0)


def by_hand(vehicle, kind, params, folds, score, **settings):
    """Mean score of one candidate: fit AML anew in each fold."""
    data, y = getattr(vehicle, kind), vehicle.y if kind == "X" else vehicle.kinds
    scores = []
    for train, test in folds.split(data, y):
        learned = AML(**params, tol=1e-9, **settings).fit(data[train], y[train])
        scores.append(score(learned, data[train], y[train], data[test], y[test]))
    return scores


def five_neighbours(learned, X, y, X_test, y_test, scorer=None):
    classifier = KNeighborsClassifier(5, algorithm="brute").fit(learned.transform(X), y)
    if scorer is not None:
        return scorer(classifier, learned.transform(X_test), y_test)
    return classifier.score(learned.transform(X_test), y_test)


def auc(learned, pairs, y, pairs_test, y_test):
    return roc_auc_score(y_test, -learned.pair_distance(pairs_test))


def scores_of(search):
    results = search.cv_results_
    names = sorted(name for name in results if name.startswith("split"))
    return np.column_stack([results[name] for name in names])


# --- equal to a loop ------------------------------------------------------------------------------------


def test_on_labels_every_score_is_that_of_a_loop_over_aml_and_neighbours(vehicle, exact):
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    search = AMLCV(**GRID, n_components=[None, 6], cv=folds, tol=1e-9).fit(vehicle.X, vehicle.y)
    expected = [by_hand(vehicle, "X", params, folds, five_neighbours) for params in search.cv_results_["params"]]
    np.testing.assert_allclose(scores_of(search), expected, atol=1e-12)
    assert len(expected) == 24


def test_on_pairs_every_score_is_the_auc_of_a_loop(vehicle, exact):
    folds = StratifiedKFold(3)
    search = AMLCV(**GRID, cv=folds, tol=1e-9).fit(vehicle.formed, vehicle.kinds)
    expected = [by_hand(vehicle, "formed", params, folds, auc) for params in search.cv_results_["params"]]
    np.testing.assert_allclose(scores_of(search), expected, atol=1e-4)
    indexed = AMLCV(**GRID, cv=folds, tol=1e-9, preprocessor=vehicle.X).fit(vehicle.indices, vehicle.kinds)
    np.testing.assert_allclose(scores_of(indexed), scores_of(search), atol=1e-4)


def test_the_looser_tolerance_of_the_search_changes_scores_by_next_to_nothing(vehicle):
    folds = StratifiedKFold(3)
    search = AMLCV(**GRID, cv=folds).fit(vehicle.X, vehicle.y)
    expected = [by_hand(vehicle, "X", params, folds, five_neighbours) for params in search.cv_results_["params"]]
    assert np.abs(scores_of(search) - expected).max() <= 2 / 94 + 1e-12


def test_the_best_of_each_degree_of_simplicity_are_compared_on_further_folds(vehicle, exact):
    settings = {"losses": ["euclidean", "geometric"], "alphas": [0.0, 1.0], "betas": [1.0], "ts": [0.25, 0.5]}
    search = AMLCV(**settings, cv=2, tol=1e-9).fit(vehicle.X, vehicle.y)
    repeated = search.cv_results_["repeated_test_score"]
    compared = np.flatnonzero(np.isfinite(repeated))
    assert compared[0] == 0
    assert len(compared) == 2  # Euclidean, and the best of the paper's model
    splitters = [StratifiedKFold(2), *(StratifiedKFold(2, shuffle=True, random_state=seed) for seed in (0, 1))]
    names = ("t", "alpha", "beta", "reg", "n_components", "prior")
    for index in compared[1:]:
        params = {name: search.cv_results_[f"param_{name}"][index] for name in names}
        scores = [by_hand(vehicle, "X", params, splitter, five_neighbours) for splitter in splitters]
        assert repeated[index] == pytest.approx(np.mean(scores), abs=1e-12)
    assert search.best_score_ == repeated[search.best_index_]


@pytest.mark.parametrize("given", [{"scoring": "accuracy"}, {"cv": StratifiedKFold(2)}, {"groups": True}])
def test_further_folds_are_for_numbers_of_folds_and_the_default_score(vehicle, given):
    groups = np.arange(len(vehicle.y)) // 2 if given.pop("groups", False) else None
    search = AMLCV(losses=["euclidean", "geometric"], alphas=1.0, betas=1.0, ts=[0.5], **{"cv": 2} | given)
    search.fit(vehicle.X, vehicle.y, groups=groups)
    assert "repeated_test_score" not in search.cv_results_
    assert search.best_score_ == search.cv_results_["mean_test_score"][search.best_index_]


def test_candidates_are_all_combinations_each_once(vehicle):
    search = AMLCV(**GRID, n_components=[None, 2], regs=[1e-3, 0.1], cv=2).fit(vehicle.X, vehicle.y)
    found = [
        tuple(params[name] for name in ("alpha", "beta", "t", "n_components", "reg"))
        for params in search.cv_results_["params"]
    ]
    expected = set(product(GRID["alphas"], GRID["betas"], GRID["ts"], [None, 2], [1e-3, 0.1]))
    assert len(found) == len(expected)
    assert set(found) == expected


@pytest.mark.parametrize("kind", ["X", "formed"])
def test_the_best_candidate_is_fitted_on_all_data(vehicle, kind):
    data, y = getattr(vehicle, kind), vehicle.y if kind == "X" else vehicle.kinds
    search = AMLCV(**GRID, cv=3).fit(data, y)
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    alone = AML(**search.best_params_).fit(data, y)
    np.testing.assert_array_equal(search.components_, alone.components_)
    np.testing.assert_array_equal(search.best_estimator_.components_, alone.components_)
    assert search.best_estimator_.get_params() == alone.get_params()
    np.testing.assert_array_equal(search.objective_, alone.objective_)
    assert (search.n_iter_, search.converged_) == (alone.n_iter_, alone.converged_)
    if kind == "formed":
        assert search.threshold_ == search.best_estimator_.threshold_ == alone.threshold_
        np.testing.assert_array_equal(search.best_estimator_.predict(data), alone.predict(data))
    np.testing.assert_array_equal(search.best_estimator_.transform(vehicle.X), alone.transform(vehicle.X))


@pytest.mark.slow
def test_the_winner_beats_the_default_on_vehicle(vehicle):
    search = AMLCV(cv=3).fit(vehicle.X, vehicle.y)
    default = by_hand(vehicle, "X", {}, StratifiedKFold(3), five_neighbours)
    assert search.best_score_ > np.mean(default) + 0.02


# --- results --------------------------------------------------------------------------------------------


def test_cv_results_make_a_table(vehicle):
    search = AMLCV(**GRID, cv=3, priors=["identity", PRIOR]).fit(vehicle.X, vehicle.y)
    table = pd.DataFrame(search.cv_results_)
    assert len(table) == 24
    assert {f"param_{name}" for name in search.best_params_} <= set(table.columns)
    splits = table[["split0_test_score", "split1_test_score", "split2_test_score"]]
    np.testing.assert_allclose(table["mean_test_score"], splits.mean(axis=1))
    np.testing.assert_allclose(table["std_test_score"], splits.std(axis=1, ddof=0))
    assert (table["n_iter"] >= 0).all()
    assert table.loc[search.best_index_, "rank_test_score"] == 1
    assert table.loc[table["rank_test_score"].idxmin(), "mean_test_score"] == table["mean_test_score"].max()
    pivot = table[table["param_prior"].map(lambda prior: isinstance(prior, str))].pivot_table(
        index="param_alpha", columns="param_t", values="mean_test_score"
    )
    assert pivot.shape == (3, 2)


# --- what is shared -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["X", "formed"])
def test_the_scatter_is_computed_once_a_fold(vehicle, kind, monkeypatch):
    calls = []
    count = moments_module.scatter_of

    def counting(*arguments, **options):
        calls.append(1)
        return count(*arguments, **options)

    monkeypatch.setattr(moments_module, "scatter_of", counting)
    y = vehicle.y if kind == "X" else vehicle.kinds
    AMLCV(**GRID, cv=3).fit(getattr(vehicle, kind), y)
    assert len(calls) == 4  # a call per fold, and one for the winner
    calls.clear()
    AMLCV(**GRID, cv=3, n_components=[None, 2], regs=[1e-3, 1e-2]).fit(getattr(vehicle, kind), y)
    assert len(calls) == 4


def test_solutions_start_from_their_neighbours_within_one_t(vehicle, monkeypatch):
    started = []
    solve = estimator_module.solve

    def watching(moments, adversary, *, t, start=None, **options):
        started.append((t, start is not None))
        return solve(moments, adversary, t=t, start=start, **options)

    monkeypatch.setattr(estimator_module, "solve", watching)
    AMLCV(**GRID, cv=2).fit(vehicle.X, vehicle.y)
    per_fold = ([(0.1, False)] + [(0.1, True)] * 5) + ([(0.5, False)] + [(0.5, True)] * 5)
    assert started[:-1] == 2 * per_fold  # the last fit is that of the winner


# --- settings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "f1_macro", "neg_log_loss"])
def test_scorers_by_name_on_labels_judge_the_neighbour_classifier(vehicle, scoring, exact):
    folds = StratifiedKFold(2)
    search = AMLCV(alphas=[1.0], betas=[1.0], ts=[0.1, 0.5], cv=folds, scoring=scoring, tol=1e-9)
    search.fit(vehicle.X, vehicle.y)
    scorer = get_scorer(scoring)
    expected = [
        by_hand(vehicle, "X", params, folds, lambda *data: five_neighbours(*data, scorer=scorer))
        for params in search.cv_results_["params"]
    ]
    np.testing.assert_allclose(scores_of(search), expected, atol=1e-10)


@pytest.mark.parametrize("scoring", ["roc_auc", "accuracy", "f1", "balanced_accuracy", "average_precision"])
@pytest.mark.parametrize("kind", ["formed", "indices"])
def test_scorers_by_name_on_pairs_judge_the_learner(vehicle, scoring, kind, exact):
    folds = StratifiedKFold(2)
    settings = {} if kind == "formed" else {"preprocessor": vehicle.X}
    search = AMLCV(alphas=[1.0], betas=[1.0], ts=[0.1, 0.5], cv=folds, scoring=scoring, tol=1e-9, **settings)
    search.fit(getattr(vehicle, kind), vehicle.kinds)
    scorer = get_scorer(scoring)
    expected = [
        by_hand(vehicle, kind, params, folds, lambda m, _, __, pairs, y: scorer(m, pairs, y), **settings)
        for params in search.cv_results_["params"]
    ]
    np.testing.assert_allclose(scores_of(search), expected, atol=1e-4)


def test_callables_score_labels_and_pairs(vehicle, exact):
    def on_labels(classifier, Z, y):
        return balanced_accuracy_score(y, classifier.predict(Z))

    named = AMLCV(alphas=[0, 1], betas=[1.0], ts=[0.5], cv=2, scoring="balanced_accuracy").fit(vehicle.X, vehicle.y)
    called = clone(named).set_params(scoring=on_labels).fit(vehicle.X, vehicle.y)
    np.testing.assert_array_equal(scores_of(called), scores_of(named))

    def on_pairs(learner, pairs, y):
        return f1_score(y, learner.predict(pairs))

    named = clone(named).set_params(scoring="f1").fit(vehicle.formed, vehicle.kinds)
    called = clone(named).set_params(scoring=on_pairs).fit(vehicle.formed, vehicle.kinds)
    np.testing.assert_array_equal(scores_of(called), scores_of(named))


@pytest.mark.parametrize(
    ("priors", "n"),
    [
        ("identity", 1),
        (["identity"], 1),
        (PRIOR, 1),
        ([PRIOR], 1),
        ([PRIOR, 2 * PRIOR], 2),
        (["identity", PRIOR], 2),
        (np.stack([PRIOR, 2 * PRIOR]), 2),
    ],
    ids=["name", "names", "array", "arrays of one", "arrays", "mixed", "stack"],
)
def test_priors_may_be_names_or_arrays(vehicle, priors, n):
    search = AMLCV(alphas=1.0, betas=1.0, ts=0.5, regs=[0.1], priors=priors, cv=2).fit(vehicle.X, vehicle.y)
    assert len(search.cv_results_["params"]) == n
    assert len(pd.DataFrame(search.cv_results_)) == n
    alone = AML(prior=search.best_params_["prior"], reg=0.1).fit(vehicle.X, vehicle.y)
    np.testing.assert_array_equal(search.components_, alone.components_)


def test_a_prior_enters_the_scores(vehicle, exact):
    folds = StratifiedKFold(2)
    strong = np.diag(10.0 ** np.linspace(-3, 3, 18))
    settings = {"alphas": 1.0, "betas": 1.0, "ts": 0.5, "regs": 1.0}
    search = AMLCV(**settings, priors=["identity", strong], cv=folds, tol=1e-9).fit(vehicle.X, vehicle.y)
    expected = [by_hand(vehicle, "X", params, folds, five_neighbours) for params in search.cv_results_["params"]]
    np.testing.assert_allclose(scores_of(search), expected, atol=1e-12)
    assert expected[0] != expected[1]


@pytest.mark.parametrize("value", [0.5, np.float64(0.5), (0.5,), np.array([0.5])])
def test_a_single_value_stands_for_a_list_of_one(vehicle, value):
    search = AMLCV(alphas=1, betas=1.0, ts=value, n_components=3, regs=1e-3, cv=2).fit(vehicle.X, vehicle.y)
    assert search.best_params_ == {
        "prior": "identity",
        "reg": 1e-3,
        "n_components": 3,
        "t": 0.5,
        "beta": 1.0,
        "alpha": 1,
    }


def test_folds_may_be_a_number_a_splitter_or_a_list(vehicle):
    settings = {"alphas": 1, "betas": 1, "ts": 0.5}
    expected = scores_of(AMLCV(**settings, cv=3).fit(vehicle.X, vehicle.y))
    assert expected.shape == (1, 3)
    given = list(StratifiedKFold(3).split(vehicle.X, vehicle.y))
    for cv in (StratifiedKFold(3), given):
        np.testing.assert_array_equal(scores_of(AMLCV(**settings, cv=cv).fit(vehicle.X, vehicle.y)), expected)
    assert scores_of(AMLCV(**settings, cv=KFold(4)).fit(vehicle.X, vehicle.y)).shape == (1, 4)
    assert scores_of(AMLCV(**settings).fit(vehicle.X, vehicle.y)).shape == (1, 5)


def test_folds_of_pairs_hold_both_kinds_even_when_one_is_rare(vehicle):
    similar, dissimilar = np.flatnonzero(vehicle.kinds == 1)[:60], np.flatnonzero(vehicle.kinds == -1)[:3]
    rows = np.concatenate([dissimilar, similar])
    search = AMLCV(alphas=[0, 1], betas=1, ts=0.5).fit(vehicle.formed[rows], vehicle.kinds[rows])
    assert scores_of(search).shape == (2, 3)
    assert np.isfinite(scores_of(search)).all()


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_classes_smaller_than_the_number_of_folds_are_allowed(vehicle):
    rows = np.concatenate([np.flatnonzero(vehicle.y == c)[: (3 if c else 4)] for c in range(4)])
    search = AMLCV(alphas=1, betas=1, ts=0.5, cv=10).fit(vehicle.X[rows], vehicle.y[rows])
    assert scores_of(search).shape == (1, 4)


def test_n_neighbors_sets_the_k_of_the_judge(vehicle, exact):
    folds = StratifiedKFold(2)
    search = AMLCV(alphas=1, betas=1, ts=0.5, n_neighbors=1, cv=folds, tol=1e-9).fit(vehicle.X, vehicle.y)

    def one_neighbour(learned, X, y, X_test, y_test):
        classifier = KNeighborsClassifier(1, algorithm="brute").fit(learned.transform(X), y)
        return classifier.score(learned.transform(X_test), y_test)

    expected = by_hand(vehicle, "X", {}, folds, one_neighbour)
    np.testing.assert_allclose(scores_of(search)[0], expected, atol=1e-12)


@pytest.mark.parametrize("adversary", ["printed", "expanding"])
def test_the_other_adversaries_can_be_searched(vehicle, adversary, exact):
    folds = StratifiedKFold(2)
    search = AMLCV(alphas=[0.1, 1.0], betas=[1.0], ts=[0.5], adversary=adversary, cv=folds, tol=1e-9)
    search.fit(vehicle.X, vehicle.y)
    expected = [
        by_hand(vehicle, "X", params, folds, five_neighbours, adversary=adversary)
        for params in search.cv_results_["params"]
    ]
    np.testing.assert_allclose(scores_of(search), expected, atol=1e-12)


def test_sampled_pairs_are_drawn_alike_for_all_candidates_of_a_fold(vehicle, exact):
    folds = StratifiedKFold(2)
    settings = {"pairs": 500, "random_state": 7}
    search = AMLCV(alphas=[0, 1], betas=1, ts=0.5, n_components=[None, 4], cv=folds, tol=1e-9, **settings)
    search.fit(vehicle.X, vehicle.y)
    expected = [
        by_hand(vehicle, "X", params, folds, five_neighbours, **settings) for params in search.cv_results_["params"]
    ]
    np.testing.assert_allclose(scores_of(search), expected, atol=1e-12)


# --- the loss ---------------------------------------------------------------------------------------------


def test_by_default_the_losses_that_the_data_allow_are_compared(vehicle):
    rows = np.arange(0, 282, 2)
    on_points = AMLCV(cv=2, random_state=0).fit(vehicle.X[rows], vehicle.y[rows])
    assert set(on_points.cv_results_["param_loss"]) == set(amlcv_module.LOSSES)
    assert {3, 5, None} == set(on_points.cv_results_["param_n_components"])  # four classes
    on_pairs = AMLCV(cv=2, random_state=0).fit(vehicle.formed, vehicle.kinds)
    assert set(on_pairs.cv_results_["param_loss"]) == {"euclidean", "geometric", "pairs"}
    for search, X in ((on_points, vehicle.X[rows]), (on_pairs, vehicle.formed)):
        row = {name[6:]: values[search.best_index_] for name, values in search.cv_results_.items() if "param_" in name}
        assert row["loss"] == search.best_loss_
        assert {name: row[name] for name in search.best_params_} == search.best_params_
        np.testing.assert_array_equal(search.components_, search.best_estimator_.components_)
        assert np.isfinite(search.score(X, vehicle.y[rows] if X.ndim == 2 else vehicle.kinds))
    assert on_pairs.threshold_ == on_pairs.best_estimator_.threshold_
    np.testing.assert_allclose(
        on_pairs.predict_proba(vehicle.formed), on_pairs.best_estimator_.predict_proba(vehicle.formed)
    )


def test_the_margin_loss_is_tried_in_all_dimensions_only_where_it_is_asked_for(vehicle):
    rows = np.arange(0, 282, 2)
    for losses, expected in ((None, {3, 5}), (["margin"], {3, 5, None})):
        table = AMLCV(losses=losses, cv=2, random_state=0).fit(vehicle.X[rows], vehicle.y[rows]).cv_results_
        assert set(table["param_n_components"][table["param_loss"] == "margin"]) == expected
    two = AMLCV(losses=["margin"], cv=2, random_state=0).fit(vehicle.X[rows, :2], vehicle.y[rows])
    assert two.best_loss_ == "margin"


def test_a_chosen_loss_gives_the_metric_of_its_own_estimator(vehicle):
    rows = np.arange(0, 282, 2)
    search = AMLCV(losses=["softmax"], cv=2, random_state=0).fit(vehicle.X[rows], vehicle.y[rows])
    own = NeighborAML(loss="softmax", random_state=0, **search.best_params_).fit(vehicle.X[rows], vehicle.y[rows])
    np.testing.assert_allclose(search.components_, own.components_)
    pairs = AMLCV(losses="pairs", cv=2, preprocessor=vehicle.X).fit(vehicle.indices, vehicle.kinds)
    other = PairAML(preprocessor=vehicle.X, **pairs.best_params_).fit(vehicle.indices, vehicle.kinds)
    np.testing.assert_allclose(pairs.components_, other.components_)


def test_noise_does_not_beat_the_euclidean_distance():
    """Round classes at the corners of a triangle: no metric can help, so what is best by chance gives way."""
    corners = 1.5 * np.array([[1.0, 0.0], [-0.5, np.sqrt(0.75)], [-0.5, -np.sqrt(0.75)]])
    chosen = []
    for seed in range(4):
        y = np.arange(240) % 3
        X = np.random.RandomState(seed).randn(240, 2) + corners[y]
        chosen.append(AMLCV(losses=["euclidean", "geometric"], random_state=seed).fit(X, y).best_loss_)
    assert chosen.count("euclidean") >= 3


def test_the_simplest_candidate_within_one_standard_error_is_taken():
    scores = np.array([[0.70, 0.90, 0.91], [0.70, 0.90, 0.89], [0.70, 0.90, 0.92]])
    levels = np.array([0, 1, 2])
    assert simplest_within_one_standard_error(scores, levels) == 1
    assert simplest_within_one_standard_error(scores[:, [0, 2]], levels[[0, 2]]) == 1
    assert simplest_within_one_standard_error(scores[:1], levels) == 2  # a single split tells no error


def test_the_steady_score_decides_between_candidates_that_the_score_cannot_tell_apart():
    scores = np.array([[0.70, 0.80, 0.81], [0.71, 0.82, 0.80], [0.70, 0.81, 0.82]])
    steady = np.tile([0.8, 0.7, 0.6], (3, 1))
    levels = np.array([1, 1, 1])
    assert simplest_within_one_standard_error(scores, levels, steady) == 1, "not 0, which is clearly worse"
    assert simplest_within_one_standard_error(scores, levels, steady[:, [0, 2, 1]]) == 2
    assert simplest_within_one_standard_error(scores, np.array([1, 2, 0]), steady) == 2, "the simpler one is as good"
    assert simplest_within_one_standard_error(scores, np.array([0, 2, 1]), steady) == 2


@pytest.fixture
def seen(monkeypatch):
    """The parts that candidates are compared on, of each search."""
    found, original = [], amlcv_module.score_candidates

    def watching(learner, parts, *args, **options):
        found.append(parts)
        return original(learner, parts, *args, **options)

    monkeypatch.setattr(amlcv_module, "score_candidates", watching)
    return found


def test_many_rows_are_compared_on_a_stratified_subset(vehicle, seen):
    search = AMLCV(**GRID, cv=2, max_rows=200, random_state=0).fit(vehicle.X, vehicle.y)
    counts = sum(np.bincount(judged.labels) for _, judged in seen[0])
    assert counts.sum() == 200
    np.testing.assert_allclose(counts, np.bincount(vehicle.y) * 200 / 282, atol=1.0)
    assert len(search.best_estimator_.classes_) == 4
    for few in (280, 281):  # fewer rows are left out than there are classes
        AMLCV(**GRID, cv=2, max_rows=few).fit(vehicle.X, vehicle.y)


def test_candidates_learn_from_few_anchors_and_the_choice_from_all(vehicle, monkeypatch):
    monkeypatch.setattr(amlcv_module, "_ANCHORS", 60)
    few, again = (AMLCV(losses=["softmax"]).fit(vehicle.X, vehicle.y) for _ in range(2))
    first, anew = (search.cv_results_["mean_test_score"] for search in (few, again))
    assert np.array_equal(first, anew), "the anchors are the same without random_state"
    monkeypatch.setattr(amlcv_module, "_ANCHORS", 1000)
    assert not np.array_equal(first, AMLCV(losses=["softmax"]).fit(vehicle.X, vehicle.y).cv_results_["mean_test_score"])
    alone = NeighborAML(loss="softmax", **{n: v for n, v in few.best_params_.items() if n != "loss"})
    assert np.array_equal(few.components_, alone.fit(vehicle.X, vehicle.y).components_)


def test_given_folds_judge_the_rows_that_they_name_where_not_all_rows_are_compared(vehicle, seen):
    rows = np.arange(282)
    folds = [(rows[rows % 3 != fold], rows[rows % 3 == fold]) for fold in range(3)]
    AMLCV(**GRID, cv=folds, max_rows=200, random_state=0).fit(vehicle.X, vehicle.y)
    assert sum(len(judged) for _, judged in seen[0]) == 200
    for (train, test), part in zip(folds, seen[0], strict=True):
        for allowed, used in zip((train, test), part, strict=True):
            named = {tuple(row) for row in vehicle.X[allowed]}
            assert {tuple(row) for row in used.X} <= named


@pytest.mark.parametrize("names", [[1, 2], ["a", "b"]])
def test_a_scorer_sees_the_labels_that_were_given(vehicle, names):
    y = np.array(names)[np.where(vehicle.y == 0, 0, 1)]
    folds = list(StratifiedKFold(3).split(vehicle.X, y))
    scorer = make_scorer(recall_score, pos_label=names[0])
    search = AMLCV(losses=["euclidean"], cv=folds, scoring=scorer).fit(vehicle.X, y)
    expected = cross_val_score(KNeighborsClassifier(5), vehicle.X, y, cv=folds, scoring=scorer).mean()
    assert search.best_score_ == pytest.approx(expected)


def test_a_score_that_is_not_finite_is_refused(vehicle):
    with pytest.raises(ValueError, match="scoring returned nan; a search compares finite scores only"):
        AMLCV(**GRID, cv=2, scoring=lambda *_: np.nan).fit(vehicle.X, vehicle.y)


def test_folds_with_one_kind_of_pair_are_left_out(vehicle):
    order = np.argsort(vehicle.kinds, kind="stable")
    kinds = vehicle.kinds[order]
    groups = np.where(kinds == -1, np.arange(len(kinds)) % 2, 2 + np.arange(len(kinds)) % 4)
    groups[::5] = 6
    search = AMLCV(**GRID).fit(vehicle.formed[order], kinds, groups=groups)
    assert np.isfinite(scores_of(search)).all()
    with pytest.raises(ValueError, match="no fold has both kinds on both sides"):
        AMLCV(**GRID, cv=[(np.flatnonzero(kinds == 1), np.arange(10))]).fit(vehicle.formed[order], kinds)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_generator_gives_one_choice_for_any_number_of_processes(vehicle, n_jobs):
    settings = {**GRID, "cv": 2, "pairs": 200, "random_state": np.random.RandomState(0)}
    found = AMLCV(**settings, n_jobs=n_jobs).fit(vehicle.X, vehicle.y)
    same = AMLCV(**{**settings, "random_state": np.random.RandomState(0).randint(2**31 - 1)}).fit(vehicle.X, vehicle.y)
    np.testing.assert_array_equal(found.components_, same.components_)


def test_rows_of_a_group_stay_together(vehicle):
    groups = np.arange(282) // 6
    search = AMLCV(**GRID, cv=3).fit(vehicle.X, vehicle.y, groups=groups)
    folds = list(StratifiedGroupKFold(3).split(vehicle.X, vehicle.y, groups))
    np.testing.assert_array_equal(scores_of(search), scores_of(AMLCV(**GRID, cv=folds).fit(vehicle.X, vehicle.y)))


def test_few_groups_allow_few_folds(vehicle):
    groups = np.arange(282) % 3
    search = AMLCV(**GRID, cv=5).fit(vehicle.X, vehicle.y, groups=groups)
    assert scores_of(search).shape[1] == 3
    with pytest.raises(ValueError, match="at least two groups"):
        AMLCV(**GRID).fit(vehicle.X, vehicle.y, groups=np.zeros(282))


def test_pairs_of_whitened_features_are_compared_in_all_dimensions():
    """Which of 110 features of equal variance tell pairs apart, their variance does not say."""
    rng = np.random.RandomState(0)
    classes = np.arange(400) % 100
    X = rng.randn(400, 110)
    X[:, :5] += 3 * rng.randn(100, 5)[classes]
    X /= X.std(axis=0)
    indices = np.concatenate([np.argsort(classes, kind="stable").reshape(-1, 2), rng.randint(0, 400, (300, 2))])
    same = np.where(classes[indices[:, 0]] == classes[indices[:, 1]], 1, -1)
    search = AMLCV(losses=["geometric", "pairs"], preprocessor=X, cv=2, random_state=0).fit(indices, same)
    table = search.cv_results_
    rank, loss = np.array(table["param_n_components"], dtype=object), np.array(table["param_loss"])
    assert set(rank[loss == "pairs"]) == {None}
    assert set(rank[loss == "geometric"]) == {None, 60}
    best = {r: np.max(table["mean_test_score"][rank == r]) for r in (None, 60)}
    assert best[None] > best[60]
    given = AMLCV(losses=["pairs"], n_components=[20], preprocessor=X, cv=2, random_state=0).fit(indices, same)
    assert set(given.cv_results_["param_n_components"]) == {20}


def test_points_of_many_features_are_learned_from_in_principal_components_and_in_few_dimensions():
    rng = np.random.RandomState(0)
    X, y = rng.randn(80, 160), np.arange(80) % 4
    search = AMLCV(losses=["margin", "softmax"], cv=2, random_state=0).fit(X, y)
    table = search.cv_results_
    found = {(table["param_subspace"][i], table["param_n_components"][i]) for i in range(len(table["params"]))}
    assert found == {("principal", 150), (None, 5), (None, 60)}
    given = AMLCV(losses=["softmax"], n_components=[20], cv=2, random_state=0).fit(X, y)
    assert "param_subspace" not in given.cv_results_
    assert set(given.cv_results_["param_n_components"]) == {20}


SPANNED = [
    (Euclidean(), {}),
    (AML(), {"t": 0.1, "alpha": 10.0, "beta": 1.0}),
    (AML(), {"n_components": 20}),
    (AML(pairs="random", random_state=0), {"t": 0.25}),
    (PairAML(random_state=0), {"beta": 1.0, "gamma": 0.1}),
    (NeighborAML(loss="margin"), {"beta": 1.0}),
    (NeighborAML(), {"n_components": 30, "subspace": "principal"}),
    (NeighborAML(), {"n_components": 5, "reg": 0.1}),
]


@pytest.mark.numerical
@pytest.mark.parametrize(("learner", "params"), SPANNED, ids=lambda value: str(value))
def test_candidates_in_the_span_of_few_points_are_those_of_all_features(learner, params):
    rng = np.random.RandomState(0)
    y = np.arange(60) % 3
    points = LabelledPoints(rng.randn(60, 90) + 2.0 * rng.randn(3, 90)[y], y)
    spanned = in_span(points)
    assert spanned.X.shape == (60, 59)
    assert spanned.n_features == spanned.take(np.arange(5)).n_features == 90
    learning = np.flatnonzero(np.arange(60) % 4)  # the others are outside the span of these
    distances = []
    for data in (points, spanned):
        ((metric, _),) = learner._candidate_metrics([params], data.take(learning))
        distances.append(pdist(metric.transform(data.X)))
    np.testing.assert_allclose(*distances, rtol=1e-6)


@pytest.mark.parametrize("given", [{}, {"priors": np.eye(90)}, {"pairs": AllPairs()}])
def test_few_points_of_many_features_are_searched_in_their_span(given, seen):
    X, y = np.random.RandomState(0).randn(40, 90), np.arange(40) % 2
    search = AMLCV(losses=["geometric"], alphas=1.0, betas=1.0, cv=2, **given).fit(X, y)
    assert seen[0][0][0].X.shape[1] == (90 if given else 39)
    assert search.components_.shape == (90, 90)


def test_losses_that_the_data_do_not_allow_are_refused(vehicle):
    with pytest.raises(ValueError, match="'margin' learns from points with class labels"):
        AMLCV(losses=["margin"]).fit(vehicle.formed, vehicle.kinds)
    with pytest.raises(ValueError, match="losses='hinge' is not known"):
        AMLCV(losses=["hinge"]).fit(vehicle.X, vehicle.y)
