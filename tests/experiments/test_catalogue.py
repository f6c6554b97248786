"""The experiments themselves: what they measure is what they say."""

import numpy as np
import pytest
from scipy.stats import wilcoxon
from sklearn.neighbors import KNeighborsClassifier

from advmetric import AML
from advmetric.evaluation.significance import average_ranks, holm, p_values_against_best
from advmetric.experiments.catalogue import GROUPS, plan_tasks
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Task
from advmetric.experiments.protocol import split_of
from advmetric.experiments.report.paper import TABLE_1
from advmetric.experiments.studies import ablation, sensitivity, synthetic
from advmetric.experiments.studies import table1 as classification

QUICK = Plan(profile="quick")


def test_every_group_has_runs_and_every_run_has_a_worker():
    tasks = plan_tasks(QUICK)
    assert len(tasks) == len(set(tasks))
    assert {EXPERIMENTS[t.experiment].group for t in tasks} == set(GROUPS)
    assert {t.experiment for t in plan_tasks(QUICK, ["synthetic"])} == {"synthetic"}


def test_the_quick_table_has_the_bundled_sets_and_all_methods():
    tasks = classification.tasks(QUICK)
    assert {t.dataset for t in tasks} == set(classification.DATASETS) - {"isolet"}
    assert len({t.method for t in tasks}) == 11
    assert {t.trial for t in tasks} == {0, 1, 2}


def test_the_full_table_prefers_the_papers_german_credit_and_says_what_is_missing(tmp_path, monkeypatch):
    from advmetric.datasets import openml

    def refuse(*_, **__):
        raise OSError("no network")

    monkeypatch.setenv("ADVMETRIC_DATA", str(tmp_path))
    monkeypatch.setattr(openml, "fetch_openml", refuse, raising=False)
    found, missing = classification.available(("german-credit", "vehicle"))
    assert found == ["german-credit", "vehicle"]
    assert missing == {} or set(missing) == {"german-credit"}


@pytest.mark.parametrize("method", ["Euclidean", "RVML", "GMML", "AML", "ITML"])
def test_a_run_of_the_table_reports_error_and_parameters(method):
    result = classification.run(Task("table1", "breast-cancer", method, 0, "quick"))
    assert 0.0 <= result["error"] < 0.1
    assert set(result["params"]) == set(classification.contenders()[method].grid)
    assert result["n_train"] == 546


def test_the_error_is_scikit_learns_five_nearest_neighbours():
    task = Task("table1", "vehicle", "Euclidean", 0, "quick")
    parts = split_of(task)
    expected = 1 - KNeighborsClassifier(5).fit(parts.X_train, parts.y_train).score(parts.X_test, parts.y_test)
    assert classification.run(task)["error"] == pytest.approx(expected)


def test_synthetic_draws_are_clean_in_training_and_overlap_in_the_test_set():
    errors = []
    for trial in range(5):
        parts = synthetic.draw(trial)
        assert parts.X_train.shape == parts.X_test.shape == (200, 10)
        inside = synthetic.pair_auc(AML().fit(parts.X_train, parts.y_train).get_metric(), parts.X_train, parts.y_train)
        outside = synthetic.pair_auc(AML().fit(parts.X_train, parts.y_train).get_metric(), parts.X_test, parts.y_test)
        errors.append((inside, outside))
    inside, outside = np.mean(errors, axis=0)
    assert inside > 0.98
    assert 0.6 < outside < 0.95
    assert not np.array_equal(synthetic.draw(0).X_test, synthetic.draw(1).X_test)
    np.testing.assert_array_equal(synthetic.draw(2).X_test, synthetic.draw(2).X_test)


def test_sensitivity_varies_one_parameter(monkeypatch):
    monkeypatch.setattr(sensitivity, "VALUES", (1e-3, 1.0, 1e3))
    parts_of = {}
    for name in ("alpha", "beta"):
        result = sensitivity.run(Task("sensitivity", "mnist-4000", name, 0, "quick"))
        assert len(result["train"]) == len(result["test"]) == 3
        parts_of[name] = result
    # At 1 both are the same model.
    assert parts_of["alpha"]["test"][1] == parts_of["beta"]["test"][1]


@pytest.mark.parametrize("name", ["adversary", "solvers", "few-pairs", "noise", "robustness"])
def test_a_run_of_each_ablation(name):
    tasks, _ = ablation.EXPERIMENTS[name]
    first = tasks(QUICK)[0]
    result = work(first)
    assert 0.0 <= result["error"] < 0.5
    assert work(first)["error"] == result["error"]


def test_noise_flips_the_asked_share_of_labels(monkeypatch):
    seen = {}

    class Spy:
        def __init__(self, preprocessor):
            self.X = preprocessor

        def fit(self, index, labels):
            truth = np.where(self.y[index[:, 0]] == self.y[index[:, 1]], 1, -1)
            seen["share"] = np.mean(truth != labels)
            return self

        def transform(self, X):
            return X

    task = Task("noise", "vehicle", "GMML 20 %", 0, "quick")
    Spy.y = split_of(task).y_train
    monkeypatch.setattr(ablation, "GMML", Spy)
    ablation.run_noise(task)
    assert seen["share"] == pytest.approx(0.2, abs=0.002)


def test_holm_is_never_below_the_raw_values_and_in_their_order():
    p = np.array([0.001, 0.2, 0.04, 0.03])
    adjusted = holm(p)
    np.testing.assert_allclose(adjusted, [0.004, 0.2, 0.09, 0.09])


def test_p_values_are_those_of_scipy_adjusted():
    rng = np.random.default_rng(0)
    errors = {"a": rng.random(20), "b": rng.random(20) + 0.5, "c": rng.random(20) + 0.1}
    found = p_values_against_best(errors)
    raw = [wilcoxon(errors[m], errors["a"]).pvalue for m in ("b", "c")]
    assert found["a"] == 1.0
    assert found["b"] == pytest.approx(2 * raw[0])
    assert found["c"] == pytest.approx(max(2 * raw[0], raw[1]))
    assert p_values_against_best({"a": np.zeros(5), "b": np.zeros(5)}) == {"a": 1.0, "b": 1.0}


def test_ranks_average_over_sets():
    np.testing.assert_allclose(average_ranks(np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])), [1.0, 2.5, 2.5])


def test_the_papers_table_is_as_printed():
    assert len(TABLE_1) == 63
    assert TABLE_1["Vehicle", "AML"] == (0.203, 0.021)
    assert TABLE_1["Letters", "ITML"] == (0.062, 0.002)
    assert TABLE_1["MNIST", "DRIFT"] == (0.127, 0.034)
