"""Verification: features and parameters come from training pairs only, judged on folds of people never learned from."""

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import LeaveOneGroupOut

from advmetric import AML, AMLCV, GMML
from advmetric.datasets import load_verification
from advmetric.datasets.verification import Development
from advmetric.experiments import verification_protocol as protocol
from advmetric.experiments.protocol import contenders


def test_features_are_fitted_on_training_images_only():
    data = load_verification("digits-unseen")
    train, _ = next(iter(data.splits()))
    pairs = data.pairs[train[:200]]
    F = protocol.features(data, pairs, data.labels[train[:200]])
    rows = np.unique(pairs)
    assert F.shape == (len(data.X), 50)
    np.testing.assert_allclose(F[rows].mean(axis=0), 0.0, atol=1e-8)
    others = np.setdiff1d(np.arange(len(F)), rows)
    assert np.abs(F[others].mean(axis=0)).max() > 0.1


def test_learned_metrics_come_from_index_pairs():
    data = load_verification("letters-unseen")
    train, _ = next(iter(data.splits()))
    chosen = train[:300]
    F = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    samples = protocol.samples_of(contenders()["AML"], data, F, chosen, 0, 100)
    found = protocol.learn(AML(), samples)
    expected = AML(preprocessor=F).fit(data.pairs[chosen], data.labels[chosen])
    np.testing.assert_allclose(found.components, expected.components_)


def test_a_search_of_its_own_keeps_folds_apart():
    data = load_verification("letters-unseen")
    train = np.random.default_rng(0).permutation(next(iter(data.splits()))[0])[:400]
    folds = data.folds[train]
    F = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    samples = protocol.samples_of(contenders()["AMLCV"], data, F, train, 0, 100)
    search = AMLCV(losses=["geometric"])
    protocol.learn(search, samples, folds)
    parts = LeaveOneGroupOut().split(samples.indices, groups=folds)
    expected = AMLCV(losses=["geometric"], preprocessor=F, cv=parts).fit(samples.indices, samples.labels)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])


def test_a_view_for_development_decides_once_for_all_folds(monkeypatch):
    letters = load_verification("letters-unseen")
    (train, test), (other, _) = list(letters.splits())[:2]
    view = Development(
        letters.pairs[train[::20]], letters.labels[train[::20]], letters.pairs[test[::4]], letters.labels[test[::4]]
    )
    data = dataclasses.replace(letters, development=view)
    monkeypatch.setattr(protocol, "load_verification", lambda name, data_home=None: data)
    protocol._choose_on_view.cache_clear()
    method = contenders()["GMML"]
    F = protocol.features(data, view.train_pairs, view.train_labels)
    aucs = {
        t: roc_auc_score(
            view.test_labels,
            -GMML(t=t, preprocessor=F).fit(view.train_pairs, view.train_labels).pair_distance(view.test_pairs),
        )
        for t in method.grid["t"]
    }
    assert protocol.choose_params(data, method, train, 0, 1, None) == {"t": max(aucs, key=aucs.get)}
    monkeypatch.setattr(protocol, "_best", None)  # looking again would fail
    assert protocol.choose_params(data, method, other, 1, 1, None) == {"t": max(aucs, key=aucs.get)}
    protocol._choose_on_view.cache_clear()


@pytest.mark.parametrize("fold", [0, 3])
def test_parameters_are_chosen_on_three_folds_of_the_training_pairs(fold):
    data = load_verification("letters-unseen")
    train, test = list(data.splits())[fold]
    parts = protocol.tuning_parts(data, contenders()["GMML"], train, fold)
    assert len(parts) == protocol.HELD_OUT
    judged = [set(map(tuple, judging.indices.tolist())) for _, judging in parts]
    assert len(set.union(*judged)) == sum(map(len, judged))
    forbidden = set(data.identities[np.unique(data.pairs[test])])
    for learning, judging in parts:
        letters = [set(data.identities[np.unique(part.indices)]) for part in (learning, judging)]
        assert not letters[0] & letters[1]
        assert not (letters[0] | letters[1]) & forbidden
        assert len(learning.labels) + len(judging.labels) == len(train)


def test_slow_methods_are_tuned_on_fewer_pairs_unless_their_number_matters(monkeypatch):
    monkeypatch.setattr(protocol, "TUNE_PAIRS", 500)
    data = load_verification("letters-unseen")
    train, _ = next(iter(data.splits()))
    sizes = {
        name: {len(learning.labels) for learning, _ in protocol.tuning_parts(data, contenders()[name], train, 0)}
        for name in ("FlatGeo", "PairAML", "GMML")
    }
    assert sizes["FlatGeo"] == {500}
    assert sizes["PairAML"] == sizes["GMML"] == {len(train) * 3 // 4}


def test_where_there_is_one_fold_a_quarter_is_held_out():
    (held,) = protocol._held_out(np.zeros(100, dtype=int), 2)
    assert held.sum() == 25
