"""The study of deep AML: equal terms for all, nothing of the test classes seen, and plain words about the outcome."""

import dataclasses

import numpy as np
import pytest

from advmetric.datasets import load_verification
from advmetric.deep import comparison
from advmetric.deep.comparison import CONTENDERS
from advmetric.experiments.engine.plan import Plan
from advmetric.experiments.engine.store import Record, Task
from advmetric.experiments.studies import deep

QUICK = Plan(profile="quick")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setitem(deep.STEPS, "quick", 3)
    monkeypatch.setitem(deep.SETTINGS, "quick", 1)


def test_all_contenders_take_part_with_as_many_settings():
    assert set(deep.METHODS) == set(CONTENDERS)
    tasks = deep.tasks(QUICK)
    assert {t.method for t in tasks} == set(CONTENDERS)
    assert {(t.dataset, t.trial) for t in tasks} == {("digits-unseen", 0)}
    full = deep.tasks(Plan())
    assert set(deep.OFFLINE) <= {t.dataset for t in full}
    assert len({t.trial for t in full}) >= 3


def test_without_the_packages_nothing_is_planned_and_the_report_says_so(monkeypatch):
    monkeypatch.setattr(deep, "is_installed", lambda name: name != "torch")
    assert deep.tasks(QUICK) == []
    (line,) = deep.missing(QUICK)
    assert 'torch not installed (pip install "advmetric[deep]")' in line


def test_sets_that_are_not_here_are_named(monkeypatch):
    def absent(name, data_home=None):
        raise FileNotFoundError(f"no {name} here")

    monkeypatch.setattr(deep, "load_verification", absent)
    assert {t.dataset for t in deep.tasks(Plan())} == set(deep.OFFLINE)
    assert [line.split(" ")[0] for line in deep.missing(Plan())] == ["patches", "pubfig"]
    assert deep.missing(QUICK) == []


def test_a_run_scores_unseen_classes_and_is_repeatable(short):
    task = Task("deep", "digits-unseen", "contrastive", 0, "quick")
    found = deep.run(task, None)
    again = deep.run(task, None)
    for name in (*deep.SCORES, *(f"linear_{name}" for name in deep.SCORES), "validation_auc"):
        assert 0.0 <= found[name] <= 1.0
        assert found[name] == again[name]
    assert found["linear_auc"] > 0.55


def test_test_classes_have_no_say_in_settings_and_weights(short, monkeypatch):
    """Spoiling the images of the test classes changes the score on them and nothing else."""
    task = Task("deep", "letters-unseen", "aml", 1, "quick")
    plain = deep.run(task, None)
    data = load_verification("letters-unseen")
    test = list(data.splits())[1][1]
    spoiled = data.X.copy()
    spoiled[np.isin(data.identities, data.identities[data.pairs[test]])] = 0.0
    changed = dataclasses.replace(data, X=spoiled)
    monkeypatch.setattr(deep, "load_verification", lambda name, data_home=None: changed)
    other = deep.run(task, None)
    assert (other["settings"], other["validation_auc"]) == (plain["settings"], plain["validation_auc"])
    assert other["auc"] == 0.5


def test_classes_of_a_set_without_identities_are_what_similar_pairs_link():
    letters = load_verification("letters-unseen")
    chosen = np.array([[0, 1], [1, 2], [5, 6], [2, 5]])
    unnamed = object.__new__(type(letters))
    few = {"X": letters.X[:9], "pairs": chosen, "labels": np.array([1, 1, 1, -1]), "identities": None}
    unnamed.__dict__.update(letters.__dict__ | few)
    assert deep.class_codes(unnamed).tolist() == [0, 0, 0, -1, -1, 1, 1, -1, -1]
    assert len(np.unique(deep.class_codes(letters))) == 26


def test_large_images_are_halved_and_others_left_alone():
    faces = np.arange(2 * 64 * 64, dtype=np.float64).reshape(2, 64, 64) % 251
    small = deep.reduced(faces)
    assert small.shape == (2, 32, 32)
    assert small[1, 3, 5] == faces[1, 6:8, 10:12].mean()
    for other in (faces[:, :32, :32], faces[0]):
        assert deep.reduced(other) is other


def test_settings_are_tried_with_fewer_steps_where_training_is_slow(short, monkeypatch):
    text = deep.section(records(EVEN, dataset="patches")).blocks[0].text
    assert "On patches, settings are tried with 50 steps, and the best is trained with 100." in text
    assert "are tried with" not in deep.section(records(EVEN)).blocks[0].text
    monkeypatch.setitem(deep.FEWER_STEPS, "digits-unseen", (2, 5))
    seen = []

    def spy(contender, points, codes, budget, seed):
        seen.append(budget.steps)
        return [({"temperature": 0.1}, 0.5)]

    def spy_training(contender, settings, points, codes, budget, seed):
        seen.append(budget.steps)
        return trained(contender, settings, points, codes, budget, seed)

    trained = comparison.train_contender
    monkeypatch.setattr(comparison, "tune", spy)
    monkeypatch.setattr(comparison, "train_contender", spy_training)
    deep.run(Task("deep", "digits-unseen", "supcon", 0, "quick"), None)
    assert seen == [2, 3]  # never more than the profile's


# --- the report -------------------------------------------------------------------------------------------


def records(aucs, trials=4, dataset="digits-unseen"):
    scores = {"recall_at_1": 0.9, "map_at_r": 0.5, "tune_and_fit_seconds": 1.0, "linear_seconds": 1.0}
    linear = {f"linear_{name}": 0.7 for name in deep.SCORES}
    return [
        Record(Task("deep", dataset, name, t), {"auc": auc + 0.01 * t, "validation_auc": auc - 0.1, **scores, **linear})
        for name, auc in aucs.items()
        for t in range(trials)
    ]


EVEN = dict.fromkeys(deep.METHODS, 0.8)


def test_the_section_says_whether_aml_is_as_good_and_whether_the_adversary_helps():
    good = deep.section(records(EVEN | {"aml": 0.86, "supcon": 0.865}))
    as_good, adversary = good.answers
    assert "aml has AUC 0.875 ± 0.013" in as_good
    assert "(supcon) 0.880 ± 0.013: AML is at least as good within one standard deviation" in as_good
    assert "paired difference -0.005 ± 0.000" in as_good
    assert adversary.startswith("The adversary helps deep AML on average: AUC +0.0300")
    bad = deep.section(records(EVEN | {"aml, no adversary": 0.82, "supcon": 0.9}))
    assert "AML is not at least as good" in bad.answers[0]
    assert bad.answers[1].startswith("The adversary harms deep AML on average: AUC -0.0100")
    assert "aml -0.0200, aml softmax +0.0000" in bad.answers[1]
    rng = np.random.default_rng(0)
    noisy = [Record(r.task, r.result | {"auc": r.result["auc"] + 0.01 * rng.normal()}) for r in records(EVEN, trials=8)]
    unclear = deep.section(noisy).answers[1]
    assert unclear.startswith("The adversary makes no clear difference to deep AML on average")
    assert "over 8 trials (t-test, p = " in unclear
    once = deep.section(records(EVEN, trials=1))
    assert "over 1 trial (" in once.answers[1]
    assert once.answers[1].endswith("too few to tell.")
    assert "in one trial, which decides nothing" in once.answers[0]


def test_the_section_counts_the_sets_where_aml_is_as_good():
    both = [*records(EVEN | {"supcon": 0.9}), *records(EVEN, dataset="letters-unseen")]
    overall = deep.section(both).answers[2]
    assert "within one standard deviation on 1 of 2 sets." in overall
    assert overall.endswith("ahead on average on 1 of 2.")


def test_only_trials_that_all_finished_are_compared():
    kept = [r for r in records(EVEN) if (r.task.method, r.task.trial) != ("aml", 3)]
    assert any("never revised. This favours AML" in getattr(block, "text", "") for block in deep.section(kept).blocks)
    headings = [block.text for block in deep.section(kept).blocks if hasattr(block, "text")]
    assert "digits-unseen (3 trials)" in headings
    assert deep.section([]).answers == []
