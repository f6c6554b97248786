"""PairAML and NeighborAML on a cluster: the metric of one machine, whatever happens to chunks and workers."""

import os
import signal
from dataclasses import replace

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from advmetric import NeighborAML, PairAML
from advmetric.algorithms.discriminative.losses import LogisticPairs
from advmetric.algorithms.discriminative.parted import PartedProblem, median_of_squares
from advmetric.algorithms.discriminative.problem import Problem
from advmetric.algorithms.discriminative.whitening import Whitened
from advmetric.learners.parts import Parts
from advmetric.pairs.graph import PairGraph
from reference.learned import assert_same_metric, index_pairs

pytestmark = pytest.mark.filterwarnings(
    "ignore:Creating scratch directories is taking a surprisingly long time:UserWarning"
)


@pytest.fixture(scope="module")
def data():
    """Points far from the origin in 4 classes that come in order, so that chunks lack some."""
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(4, size=300))
    return rng.normal(size=(300, 5)) @ rng.normal(size=(5, 5)) + 2.0 * np.eye(4, 5)[y] + 100.0, y


def assert_same(found, expected):
    assert_same_metric(found, expected, tol=1e-8)
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    assert found.n_iter_ == expected.n_iter_


POINTS = [
    PairAML(random_state=0, tol=1e-2),
    PairAML(random_state=0, tol=1e-2, n_components=2, pairs=500, alpha=0.0),
    NeighborAML(n_refresh=1),
    NeighborAML(loss="margin", n_anchors=80, random_state=0, n_components=3),
    NeighborAML(n_refresh=1, n_components=3, subspace="principal"),
    NeighborAML(loss="radius", n_refresh=1),
]

FEW = [PairAML(random_state=0, tol=1e-2), NeighborAML(loss="margin", n_refresh=1)]


@pytest.mark.parametrize("learner", POINTS, ids=str)
def test_points_give_the_metric_of_a_fit_in_memory(data, learner):
    X, y = data
    with dask.config.set(scheduler="sync"):
        found = clone(learner).fit(da.from_array(X, chunks=(70, 3)), da.from_array(y, chunks=110))
        assert_same(found, clone(learner).fit(X, y))
        assert found.transform(da.from_array(X, chunks=50)).compute() == pytest.approx(found.transform(X))


def test_formed_and_index_pairs_give_the_metric_and_threshold_of_a_fit_in_memory(data):
    X, y = data
    pairs, kinds = index_pairs(y, 1000)
    with dask.config.set(scheduler="sync"):
        formed = PairAML(tol=1e-2).fit(da.from_array(X[pairs], chunks=(300, 1, 5)), da.from_array(kinds, chunks=450))
        by_index = PairAML(tol=1e-2, preprocessor=X).fit(da.from_array(pairs, chunks=(400, 2)), kinds)
    expected = PairAML(tol=1e-2).fit(X[pairs], kinds)
    for found in (formed, by_index):
        assert_same(found, expected)
        assert found.squared_threshold_ == pytest.approx(expected.squared_threshold_, rel=1e-8)
    np.testing.assert_allclose(formed.predict_proba(X[pairs]), expected.predict_proba(X[pairs]), atol=1e-7)


@pytest.mark.parametrize("learner", FEW, ids=str)
def test_dataframes_in_single_precision_with_names_and_empty_chunks(data, learner):
    X, y = data
    single = X.astype(np.float32)
    frame = pd.DataFrame(single, columns=list("abcde")).assign(kind=np.array(["s", "t", "u", "v"])[y])
    table = dd.from_pandas(frame, npartitions=4)
    table = table[table["kind"] != "s"]  # nothing is left of the first part
    left = frame[frame["kind"] != "s"]
    with dask.config.set(scheduler="sync"):
        found = clone(learner).fit(table, "kind")
    assert_same(found, clone(learner).fit(left.drop(columns="kind"), left["kind"]))
    assert found.feature_names_in_.tolist() == list("abcde")


@pytest.mark.slow
@pytest.mark.parametrize("learner", FEW, ids=str)
def test_a_worker_killed_between_two_evaluations_changes_nothing(client, data, learner, monkeypatch):
    X, y = data
    client.wait_for_workers(2, timeout=120)
    evaluate, calls = PartedProblem.evaluate, []

    def kill_one(self, L, b):
        calls.append(0)
        if len(calls) == 3:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)  # a process of this cluster, by its id
        return evaluate(self, L, b)

    monkeypatch.setattr(PartedProblem, "evaluate", kill_one)
    found = clone(learner).fit(da.from_array(X, chunks=(60, 5)), y)
    assert len(calls) > 3
    assert_same(found, clone(learner).fit(X, y))
    client.wait_for_workers(2, timeout=120)


def test_flaws_are_named_with_their_chunk(data):
    X, y = data
    flawed = X.copy()
    flawed[133, 2] = np.nan
    with dask.config.set(scheduler="sync"):
        for learner in (PairAML(), NeighborAML()):
            with pytest.raises(ValueError, match=r"chunk 1 of X \(from row 100\).*NaN at row 33, column 2"):
                learner.fit(da.from_array(flawed, chunks=(100, 5)), y)
            with pytest.raises(ValueError, match="at least two classes"):
                learner.fit(da.from_array(X, chunks=(100, 5)), np.zeros(300))
            with pytest.raises(ValueError, match="y is None"):
                learner.fit(da.from_array(X, chunks=(100, 5)), None)
        with pytest.raises(TypeError, match="pairs='neighbors' needs all points at once"):
            PairAML(pairs="neighbors").fit(da.from_array(X, chunks=(100, 5)), y)
        with pytest.raises(ValueError, match="n_components=6"):
            NeighborAML(n_components=6).fit(da.from_array(X, chunks=(100, 5)), y)
        with pytest.raises(ValueError, match="prior='covariance' needs the points"):
            NeighborAML(prior="covariance").fit(da.from_array(X, chunks=(100, 5)), y)


@pytest.mark.parametrize("N", [1, 2, 7, 100])
@pytest.mark.parametrize("zeros", [0, 60])
def test_the_median_over_parts_is_that_of_all(N, zeros):
    Z = np.random.default_rng(N).lognormal(sigma=20.0, size=(N, 1))
    Z[: min(zeros, N)] = 0.0
    start = Whitened(Z, np.ones(1), 2.0, np.eye(1), np.eye(1), 0.0, None, 1)

    def part(rows):
        k, m = len(rows) // 2, len(rows)
        edges = PairGraph(m, rows=slice(0, k)), PairGraph(m, rows=slice(k, m))
        return Problem(replace(start, Z=rows), *edges, LogisticPairs(), 0.0, 1.0, 0.0)

    parts = Parts([part(rows) for rows in np.array_split(Z, 3)])
    with dask.config.set(scheduler="sync"):
        found = median_of_squares(parts.map(lambda problem: problem), N)
    squares = Z[:, 0] ** 2
    assert found == pytest.approx(np.median(squares) or squares.mean(), rel=1e-15)
