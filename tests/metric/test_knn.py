"""k nearest neighbours by blocks, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from advmetric.datasets import load_dataset
from advmetric.metric import knn as neighbors
from advmetric.metric.knn import knn_judge, knn_predict


def split(name):
    data = load_dataset(name)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data.X))[:1500]
    X = StandardScaler().fit_transform(data.X)[rows]
    # Equal rows and equal distances are ordered by rounding: a little noise makes the answer unique.
    X += 1e-6 * rng.normal(size=X.shape)
    half = len(rows) // 2
    return X[:half], data.y[rows][:half], X[half:]


@pytest.mark.parametrize("name", ["breast-cancer", "vehicle", "german-credit", "image-segment", "letters"])
@pytest.mark.parametrize("k", [1, 5, 10])
def test_predictions_are_those_of_scikit_learn(name, k):
    X, y, queries = split(name)
    expected = KNeighborsClassifier(k, algorithm="brute").fit(X, y).predict(queries)
    np.testing.assert_array_equal(knn_predict(X, y, queries, k), expected)


@pytest.mark.parametrize("block", [1, 1000, 1 << 14])
def test_blocks_change_nothing(monkeypatch, block):
    X, y, queries = split("vehicle")
    expected = knn_predict(X, y, queries)
    assert len(queries) * len(X) <= neighbors._BLOCK
    monkeypatch.setattr(neighbors, "_BLOCK", block)
    np.testing.assert_array_equal(knn_predict(X, y, queries), expected)


def test_ties_of_votes_go_to_the_smaller_label():
    X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), np.array([2, 0, 1, 1])
    np.testing.assert_array_equal(knn_predict(X, y, np.array([[0.4], [0.6]]), k=2), [0, 0])
    expected = KNeighborsClassifier(2, algorithm="brute").fit(X, y).predict([[0.4], [0.6]])
    np.testing.assert_array_equal(expected, [0, 0])


def test_all_points_vote_when_k_is_their_number():
    X, y = np.arange(5.0)[:, None], np.array([1, 1, 1, 0, 0])
    np.testing.assert_array_equal(knn_predict(X, y, np.array([[100.0]]), k=5), [1])


def test_the_judge_counts_right_predictions_and_right_neighbours():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), rng.integers(3, size=90)
    queries, labels = rng.normal(size=(40, 3)), rng.integers(4, size=40)  # class 3 is not among the points
    neighbours = y[KNeighborsClassifier(5, algorithm="brute").fit(X, y).kneighbors(queries, return_distance=False)]
    accuracy, share = knn_judge(X, y, queries, labels, 5)
    assert accuracy == np.mean(knn_predict(X, y, queries, 5) == labels)
    assert share == pytest.approx(np.mean(neighbours == labels[:, None]))
