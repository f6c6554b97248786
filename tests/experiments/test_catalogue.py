"""The experiments themselves: what they measure is what they say."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from advmetric import AML
from advmetric.experiments.catalogue import GROUPS, STUDIES, plan_tasks, run_task
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Task
from advmetric.experiments.protocol import contenders, split_of
from advmetric.experiments.report.paper import TABLE_1
from advmetric.experiments.studies import ladder, sensitivity, synthetic, table1, wrong_labels

QUICK = Plan(profile="quick")


def test_every_group_has_runs_and_every_run_has_a_worker():
    tasks = plan_tasks(QUICK)
    assert len(tasks) == len(set(tasks))
    assert {STUDIES[t.experiment].group for t in tasks} == set(GROUPS)
    assert {t.experiment for t in plan_tasks(QUICK, ["synthetic"])} == {"synthetic", "mechanism"}


def test_the_quick_table_has_the_bundled_sets_and_all_methods():
    tasks = table1.tasks(QUICK)
    assert {t.dataset for t in tasks} == set(table1.DATASETS) - {"isolet"}
    assert len({t.method for t in tasks}) == 16
    assert {t.trial for t in tasks} == {0, 1, 2}


def test_the_full_table_prefers_the_papers_german_credit_and_says_what_is_missing(tmp_path, monkeypatch):
    from advmetric.datasets import openml

    def refuse(*_, **__):
        raise OSError("no network")

    monkeypatch.setenv("ADVMETRIC_DATA", str(tmp_path))
    monkeypatch.setattr(openml, "fetch_openml", refuse, raising=False)
    found, missing = table1.available(("german-credit", "vehicle"))
    assert found == ["german-credit", "vehicle"]
    assert missing == {} or set(missing) == {"german-credit"}


@pytest.mark.parametrize("method", ["Euclidean", "RVML", "GMML", "AML", "ITML"])
def test_a_run_of_the_table_reports_error_and_parameters(method):
    result = table1.run(Task("table1", "breast-cancer", method, 0, "quick"), None)
    assert 0.0 <= result["error"] < 0.1
    assert set(result["params"]) == set(contenders()[method].grid)
    assert result["n_train"] == 546


def test_the_error_is_scikit_learns_five_nearest_neighbours():
    task = Task("table1", "vehicle", "Euclidean", 0, "quick")
    parts = split_of(task, None)
    expected = 1 - KNeighborsClassifier(5).fit(parts.X_train, parts.y_train).score(parts.X_test, parts.y_test)
    assert table1.run(task, None)["error"] == pytest.approx(expected)


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
        result = sensitivity.run(Task("sensitivity", "mnist-4000", f"AML {name}", 0, "quick"), None)
        assert len(result["train"]) == len(result["test"]) == 3
        parts_of[name] = result
    # At 1 both are the same model.
    assert parts_of["alpha"]["test"][1] == parts_of["beta"]["test"][1]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["PairAML 10", "AMLCV 10"])
def test_full_runs_on_pairs_have_the_discriminative_losses(method):
    tasks = STUDIES["few-pairs"].tasks(Plan())
    task = next(task for task in tasks if (task.dataset, task.method) == ("vehicle", method))
    result = run_task(task)
    assert result["params"]["loss"] == "pairs" or method == "AMLCV 10"
    assert 0.0 < result["error"] < 0.5


@pytest.mark.parametrize("name", ["adversary", "solvers", "few-pairs", "noise", "robustness"])
def test_a_run_of_each_ablation(name):
    first = STUDIES[name].tasks(QUICK)[0]
    result = run_task(first)
    assert 0.0 <= result["error"] < 0.5
    assert run_task(first)["error"] == result["error"]


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
    Spy.y = split_of(task, None).y_train
    monkeypatch.setattr(ladder, "GMML", Spy)
    wrong_labels.run(task, None)
    assert seen["share"] == pytest.approx(0.2, abs=0.002)


def test_the_papers_table_is_as_printed():
    assert len(TABLE_1) == 63
    assert TABLE_1["Vehicle", "AML"] == (0.203, 0.021)
    assert TABLE_1["Letters", "ITML"] == (0.062, 0.002)
    assert TABLE_1["MNIST", "DRIFT"] == (0.127, 0.034)
