"""The comparison: every contender learns, has as many settings, and sees the same network and batches."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from advmetric.deep.comparison import CONTENDERS, Budget, penultimate, train_contender, tune
from advmetric.deep.evaluation import embedded_distances, retrieval_scores
from advmetric.deep.learner import embed

SMALL = Budget(steps=30, batch_size=40, per_class=8, embedding=8, lr=5e-3, trials=1)


@pytest.fixture(scope="module")
def table():
    """Eight classes in three of nine columns."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 25)
    X = 2.0 * rng.normal(size=(200, 9)).astype(np.float32)
    X[:, :3] = 3.0 * rng.normal(size=(8, 3))[y] + 0.3 * rng.normal(size=(200, 3))
    return X, y


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_learns_its_training_classes(table, name):
    X, y = table
    contender = CONTENDERS[name]
    learner = train_contender(contender, contender.settings[1], X, y, SMALL, seed=0)
    assert retrieval_scores(embed(learner, X), y)["auc"] > retrieval_scores(X, y)["auc"] + 0.05


def test_all_have_the_same_number_of_settings():
    assert {len(contender.settings) for contender in CONTENDERS.values()} == {4}


def test_the_adversary_is_the_only_difference_of_aml_without_it():
    assert [{**s, "alpha": 0.0} for s in CONTENDERS["aml"].settings] == list(CONTENDERS["aml, no adversary"].settings)


def test_tuning_orders_settings_and_sees_no_test_class(table):
    X, y = table
    codes = np.where(y < 6, y, -1)
    budget = Budget(steps=5, batch_size=40, embedding=8, trials=2)
    scored = tune(CONTENDERS["aml"], X, codes, budget, seed=0)
    assert len(scored) == 2
    assert scored[0][1] >= scored[1][1]
    spoiled = X.copy()
    spoiled[y >= 6] = 1e6
    assert tune(CONTENDERS["aml"], spoiled, codes, budget, seed=0) == scored


def test_scores_are_what_they_say(table):
    X, y = table
    left, right = np.triu_indices(200, 1)
    distances = embedded_distances(X, np.column_stack([left, right]))
    scores = retrieval_scores(X, y)
    assert scores["auc"] == pytest.approx(roc_auc_score(y[left] == y[right], -distances))
    square = np.full((200, 200), np.inf)
    square[left, right] = square[right, left] = distances
    assert scores["recall_at_1"] == pytest.approx(np.mean(y[square.argmin(axis=1)] == y))
    hits = y[np.argsort(square, axis=1)[:, :24]] == y[:, None]  # R = 24 others of the class
    precision = np.cumsum(hits, axis=1) / np.arange(1, 25)
    assert scores["map_at_r"] == pytest.approx(np.mean((precision * hits).sum(axis=1) / 24), rel=1e-5)


def test_embeddings_of_library_losses_have_length_one(table):
    X, y = table
    learner = train_contender(CONTENDERS["supcon"], {"temperature": 0.1}, X, y, SMALL, seed=0)
    np.testing.assert_allclose(np.linalg.norm(embed(learner, X), axis=1), 1.0, rtol=1e-5)


def test_penultimate_features_are_what_the_last_layer_sees(table):
    X, y = table
    learner = train_contender(CONTENDERS["contrastive"], {"neg_margin": 1.0}, X, y, SMALL, seed=0)
    last = learner.network[-1]
    seen = penultimate(learner, X) @ last.weight.detach().numpy().T + last.bias.detach().numpy()
    unit = seen / np.linalg.norm(seen, axis=1, keepdims=True)
    np.testing.assert_allclose(unit, embed(learner, X), atol=1e-5)
