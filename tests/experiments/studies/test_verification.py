"""Verification: measures, protocol, and that nothing of the test fold is seen before it is judged."""

import re

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from advmetric.datasets import load_verification
from advmetric.evaluation.roc import RATES, roc_measures
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.protocol import contenders
from advmetric.experiments.studies import verification


def test_measures_are_those_of_their_definitions():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(2000) < 0.5, 1, -1)
    distance = rng.normal(size=2000) - 0.8 * y + 5.0
    found = roc_measures(y, distance, 5.0)
    assert found["auc"] == pytest.approx(roc_auc_score(y, -distance))
    assert found["accuracy"] == pytest.approx(np.mean(np.where(distance <= 5.0, 1, -1) == y))
    threshold = np.quantile(distance[y == 1], 0.95, method="inverted_cdf")
    assert found["fpr95"] == pytest.approx(np.mean(distance[y == -1] <= threshold))
    # At the equal error rate as many similar pairs are missed as dissimilar ones let through.
    gaps = [abs(np.mean(distance[y == 1] > t) - np.mean(distance[y == -1] <= t)) for t in distance]
    best = distance[int(np.argmin(gaps))]
    assert found["eer"] == pytest.approx(np.mean(distance[y == -1] <= best), abs=2e-3)
    false, true, _ = roc_curve(y, -distance)
    np.testing.assert_allclose(found["roc"], np.interp(RATES, false, true), atol=1e-3)


def test_a_perfect_and_a_useless_distance():
    y = np.repeat([1, -1], 50)
    perfect = roc_measures(y, np.where(y == 1, 1.0, 2.0), 1.5)
    assert (perfect["auc"], perfect["eer"], perfect["accuracy"], perfect["fpr95"]) == (1.0, 0.0, 1.0, 0.0)
    constant = roc_measures(y, np.ones(100), 2.0)
    assert (constant["auc"], constant["eer"], constant["accuracy"]) == (0.5, 0.5, 0.5)


def test_methods_that_need_labels_stay_away_where_there_are_none():
    known = contenders()
    assert verification.applies(known["AML"], "lfw")
    assert not verification.applies(known["LMNN"], "lfw")
    assert not verification.applies(known["NCA"], "patches")
    assert verification.applies(known["LMNN"], "letters-unseen")
    tasks = verification.tasks(Plan(profile="quick"))
    assert {t.dataset for t in tasks} == set(verification.OFFLINE)
    assert {t.trial for t in tasks} == {0, 1, 2}


@pytest.mark.parametrize("method", ["Euclidean", "GMML", "RVML"])
def test_a_run_beats_chance_on_classes_never_seen_and_is_reproducible(method):
    task = Task("verification", "letters-unseen", method, 0, "quick")
    found = verification.run(task, None)
    assert 0.65 < found["auc"] < 0.9
    assert 0.5 < found["accuracy"] < 0.9
    assert len(found["roc"]) == len(RATES)
    assert np.all(np.diff(found["roc"]) >= 0.0)
    assert verification.run(task, None)["auc"] == found["auc"]


def test_test_pairs_have_no_say_in_features_parameters_or_metric(monkeypatch):
    """Turning the labels of the test fold round turns the AUC round, and changes nothing else."""
    task = Task("verification", "letters-unseen", "GMML", 0, "quick")
    plain = verification.run(task, None)
    data = load_verification("letters-unseen")
    _, test = next(iter(data.splits()))
    turned = data.labels.copy()
    turned[test] *= -1
    # The set checks labels against identities, so the copy is made behind its back.
    changed = object.__new__(type(data))
    changed.__dict__.update(data.__dict__ | {"labels": turned})
    monkeypatch.setattr(verification, "load_verification", lambda name, data_home=None: changed)
    other = verification.run(task, None)
    assert other["params"] == plain["params"]
    assert other["auc"] == pytest.approx(1.0 - plain["auc"])


def test_verification_is_summed_up_with_its_significance():
    def record(method, fold, auc):
        return Record(Task("verification", "lfw", method, fold), {"auc": auc})

    names = {"AML": 0.9, "GMML": 0.95, "Euclidean": 0.8}
    records = [record(m, fold, auc + 0.001 * fold) for m, auc in names.items() for fold in range(10)]
    (text,) = verification._sentences(records)
    assert (
        text.startswith("Verification, lfw: AUC 0.904 with AML, 0.805 with Euclidean") or "0.804 with Euclidean" in text
    )
    assert re.search(r"; the highest is GMML's 0\.95[45], significantly above AML's\.$", text)
    close = [r for r in records if r.task.method != "GMML"]
    assert verification._sentences(close)[0].endswith("with Euclidean; the highest of all.")
    # A rival that is better on some folds and worse on others.
    mixed = [record("GMML", fold, 0.9 + 0.001 * fold + (0.012 if fold % 2 else -0.01)) for fold in range(10)]
    assert verification._sentences([*close, *mixed])[0].endswith("0.906, not significantly above AML's.") or (
        "0.905, not significantly" in verification._sentences([*close, *mixed])[0]
    )
    assert verification._sentences([]) == []
