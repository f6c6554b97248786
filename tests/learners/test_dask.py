"""Dask: the metric of a cluster is that of one machine, whatever happens to chunks and workers."""

import os
import signal
import threading
import time
import tracemalloc
from functools import partial

import dask
import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from advmetric import AML, AMLCV, GMML, LMNN, Euclidean
from advmetric.experiments.engine.runner import _check_workers, run_tasks
from advmetric.experiments.engine.store import Store, Task
from advmetric.learners.dask import statistics
from advmetric.utils.optional import require
from reference.learned import assert_same_metric, index_pairs
from reference.waiting import wait_until

# On a machine with other work.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Creating scratch directories is taking a surprisingly long time:UserWarning"
)

SETTINGS = [AML(), AML(t=0.2, n_components=3), GMML(t=0.1), Euclidean()]
CLASSES = np.array(["bus", "opel", "saab", "van"])


@pytest.fixture(autouse=True)
def _both_workers(client):
    client.wait_for_workers(2, timeout=120)


@pytest.fixture(scope="module")
def data():
    """1000 points of 6 features far from the origin in 4 classes that come in order, so that chunks lack some."""
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(4, size=1000))
    X = rng.normal(size=(1000, 6)) @ rng.normal(size=(6, 6)) + np.eye(4, 6)[y] + 100.0
    return X, y


@pytest.fixture(scope="module")
def frame(data):
    X, y = data
    return pd.DataFrame(X, columns=list("abcdef")).assign(kind=CLASSES[y])


assert_same = partial(assert_same_metric, tol=1e-10)


# --- the same metric --------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", SETTINGS, ids=str)
@pytest.mark.parametrize(("rows", "labels"), [((130, 6), 170), ((1000, 6), 50), ((70, 4), 1000)], ids=str)
def test_points_give_the_metric_of_a_fit_in_memory(data, learner, rows, labels):
    X, y = data
    found = clone(learner).fit(da.from_array(X, chunks=rows), da.from_array(y, chunks=labels))
    assert_same(found, clone(learner).fit(X, y))
    assert found.classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("learner", SETTINGS, ids=str)
def test_pairs_give_the_metric_and_threshold_of_a_fit_in_memory(data, learner):
    X, y = data
    chosen, kinds = index_pairs(y, 3000)
    formed = da.from_array(X[chosen], chunks=(700, 1, 4))
    found = clone(learner).fit(formed, da.from_array(kinds, chunks=450))
    expected = clone(learner).fit(X[chosen], kinds)
    assert_same(found, expected)
    assert found.classes_.tolist() == [-1, 1]
    distances = found.pair_distance(formed)
    assert isinstance(distances, da.Array)
    assert distances.chunks == ((700, 700, 700, 700, 200),)
    np.testing.assert_allclose(distances, expected.pair_distance(X[chosen]), rtol=1e-9)
    np.testing.assert_array_equal(found.predict(formed).compute(), found.predict(X[chosen]))


@pytest.mark.parametrize("learner", SETTINGS, ids=str)
def test_index_pairs_share_points_that_are_in_memory(data, learner):
    X, y = data
    chosen, kinds = index_pairs(y, 3000)
    learner = clone(learner).set_params(preprocessor=X)
    lazy = da.from_array(chosen, chunks=(700, 1))
    found, expected = clone(learner).fit(lazy, kinds), clone(learner).fit(chosen, kinds)
    assert_same(found, expected)
    for _ in range(2):  # the points of the first time are let go before the second
        np.testing.assert_allclose(found.pair_distance(lazy), expected.pair_distance(chosen), rtol=1e-9)


def test_a_dataframe_with_its_label_column_or_a_series(data, frame):
    X, y = data
    table = dd.from_pandas(frame, npartitions=5)
    expected = AML().fit(X, y)
    for found in (AML().fit(table, "kind"), AML().fit(table.drop(columns="kind"), table["kind"])):
        assert_same(found, expected)
        assert found.classes_.tolist() == CLASSES.tolist()
        assert found.feature_names_in_.tolist() == list("abcdef")
    embedded = found.transform(table.drop(columns="kind"))
    np.testing.assert_allclose(embedded.compute(), found.transform(frame.drop(columns="kind")))
    with pytest.raises(ValueError, match="feature names"):
        found.transform(table.drop(columns="kind").rename(columns={"a": "z"}))


def test_sizes_that_dask_does_not_know_and_empty_chunks(data, frame):
    X, y = data
    table = dd.from_pandas(frame, npartitions=5)
    features = table.drop(columns="kind")
    expected = AML().fit(X, y)
    assert_same(AML().fit(features, da.from_array(y, chunks=300)), expected)
    assert_same(AML().fit(features, y), expected)
    assert_same(AML().fit(da.from_array(X, chunks=300), table["kind"]), expected)
    assert_same(AML().fit(features.repartition(npartitions=2), table["kind"]), expected)
    some = da.from_array(y, chunks=100) >= 2  # nothing is left of the first chunks
    rows, labels = da.from_array(X, chunks=100)[some], da.from_array(y, chunks=100)[some]
    found = AML().fit(rows, labels)
    assert_same(found, AML().fit(X[y >= 2], y[y >= 2]))
    assert np.isnan(rows.shape[0]), "what the user passed is not changed"
    np.testing.assert_allclose(found.transform(rows).compute(), found.transform(X[y >= 2]))


def test_nullable_columns_and_categories(frame):
    table = frame.assign(a=(10 * frame["a"]).round().astype("Int64"), kind=frame["kind"].astype("category"))
    found = AML().fit(dd.from_pandas(table, npartitions=3), "kind")
    assert_same(found, AML().fit(table.drop(columns="kind").astype(float), frame["kind"]))


def test_single_precision_accumulates_in_double(data):
    X, y = data
    single = X.astype(np.float32)
    lazy = da.from_array(single, chunks=90)
    found = AML().fit(lazy, y)
    assert_same(found, AML().fit(single.astype(np.float64), y))
    assert found.transform(lazy).dtype == found.transform(lazy).compute().dtype == np.float32


def test_without_a_cluster_dask_s_threads_do(data):
    X, y = data
    with dask.config.set(scheduler="threads"):
        found = AML().fit(da.from_array(X, chunks=100), y)
        np.testing.assert_allclose(found.transform(da.from_array(X, chunks=100)).compute(), found.transform(X))
    assert_same(found, AML().fit(X, y))


def test_fit_goes_on_with_batches_and_statistics_merge(data):
    X, y = data
    found = AML().fit(da.from_array(X[:600], chunks=100), y[:600]).partial_fit(X[600:], y[600:])
    assert_same(found, AML().fit(X, y))
    halves = [statistics(AML(), da.from_array(X[half], chunks=100), y[half]) for half in (slice(500), slice(500, None))]
    assert_same(AML().fit_statistics(halves[0].merge(halves[1])), AML().fit(X, y))


# --- what moves, and when ---------------------------------------------------------------------------------


def rows_made_on_a_worker(like, client_pid, folder=None, first=None, go_on=None, block_id=None):
    """A chunk that can only be made outside the client's process, and leaves a file behind.

    All but the ``first`` chunks wait for the file ``go_on``.
    """
    if os.getpid() == client_pid:
        raise AssertionError("a chunk was computed by the client")
    if go_on and len(os.listdir(folder)) >= first:
        wait_until(lambda: os.path.exists(go_on))
    rng = np.random.default_rng(block_id[0])
    if folder:
        with open(os.path.join(folder, f"{block_id[0]}-{time.time_ns()}-{os.getpid()}"), "x"):
            pass
    return rng.normal(size=(like.shape[0], like.shape[1])) + 1.0 * block_id[0]


def made_on_workers(n_chunks, rows, d, **how):
    empty = da.empty((n_chunks * rows, d), chunks=(rows, d))
    return empty.map_blocks(rows_made_on_a_worker, os.getpid(), dtype=float, meta=np.empty((0, 0)), **how)


def the_same_here(n_chunks, rows, d):
    return np.concatenate([np.random.default_rng(k).normal(size=(rows, d)) + k for k in range(n_chunks)])


def peak_of(function):
    """The most that one call takes in this process, in bytes."""
    function()
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_chunk_comes_to_the_client():
    X = made_on_workers(6, 40_000, 20)  # 6.4 MB a chunk
    labels = da.arange(240_000, chunks=40_000) % 3
    found = AML()
    assert peak_of(lambda: found.fit(X, labels)) < 3.2e6
    assert peak_of(lambda: found.transform(X)) < 3.2e6
    assert peak_of(lambda: X.blocks[0].compute()) > 6.4e6, "else this measures nothing"
    assert_same(found, AML().fit(the_same_here(6, 40_000, 20), labels.compute()))


def moved_between_workers(dask_worker):
    moved = [(str(key), size) for entry in dask_worker.transfer_incoming_log for key, size in entry["keys"].items()]
    dask_worker.transfer_incoming_log.clear()
    return moved


def test_statistics_of_a_worker_are_merged_where_they_are(client):
    X = made_on_workers(40, 500, 10)
    client.run(moved_between_workers)
    AML().fit(X, (X[:, 0] > 20.0).astype(int))
    moved = [key for worker in client.run(moved_between_workers).values() for key, _ in worker]
    assert sum("statistics_of_chunk" in key or "_merged" in key for key in moved) < 12, "of 40 chunks"


def test_transform_and_pair_distance_are_lazy(data, tmp_path):
    X, y = data
    found = AML().fit(X, y)
    rows = made_on_workers(3, 10, 6, folder=str(tmp_path))
    embedded = found.transform(rows)
    distances = found.pair_distance(da.stack([rows, rows + 1.0], axis=1))
    assert isinstance(embedded, da.Array)
    assert (embedded.shape, embedded.chunks[0], distances.shape) == ((30, 6), (10, 10, 10), (30,))
    assert not os.listdir(tmp_path)
    here = the_same_here(3, 10, 6)
    np.testing.assert_allclose(embedded.compute(), found.transform(here))
    np.testing.assert_allclose(distances.compute(), found.pair_distance(np.stack([here, here + 1.0], axis=1)))
    assert len(os.listdir(tmp_path)) == 6


def test_a_worker_killed_during_the_reduction_changes_nothing(client, tmp_path):
    n = 14
    made, go_on = tmp_path / "made", tmp_path / "go on"
    made.mkdir()
    X = made_on_workers(n, 200, 5, folder=str(made), first=7, go_on=str(go_on))

    def kill():
        wait_until(lambda: len(os.listdir(made)) >= 7)
        latest = max(os.listdir(made), key=lambda name: int(name.split("-")[1]))
        os.kill(int(latest.split("-")[2]), signal.SIGKILL)  # a process of this cluster, by its id
        go_on.touch()

    thread = threading.Thread(target=kill)
    thread.start()
    labels = np.arange(200 * n) % 3
    found = AML().fit(X, labels)
    thread.join()
    chunks = [int(name.split("-")[0]) for name in os.listdir(made)]
    assert set(chunks) == set(range(n))
    assert len(chunks) > n, "some chunks were made again"
    assert_same(found, AML().fit(the_same_here(n, 200, 5), labels))
    assert found.statistics_.counts.sum() == 200 * n


# --- errors -----------------------------------------------------------------------------------------------


def test_flaws_are_named_with_their_chunk_and_row(data, frame):
    X, y = data
    flawed = X.copy()
    flawed[333, 2] = np.nan
    with pytest.raises(ValueError, match=r"chunk 3 of X \(from row 300\).*NaN at row 33, column 2"):
        AML().fit(da.from_array(flawed, chunks=100), y)
    with pytest.raises(ValueError, match=r"chunk 1 of X.*NaN at row 83, column 0"):
        AML().fit(dd.from_pandas(frame.assign(a=flawed[:, 2]), npartitions=4), "kind")
    kinds = np.where(np.arange(1000) == 999, 3, 1)
    with pytest.raises(ValueError, match=r"chunk 9.*y of pair 99 is 3"):
        AML().fit(da.from_array(np.stack([X, X], axis=1), chunks=100), kinds)
    with pytest.raises(ValueError, match=r"out of range for a preprocessor of 1000"):
        AML(preprocessor=X).fit(da.from_array(np.full((10, 2), 1000), chunks=5), np.ones(10))
    with pytest.raises(ValueError, match="NaN"):
        AML().fit(X, y).transform(da.from_array(flawed, chunks=100)).compute()


def test_what_is_not_there_is_named(data, frame):
    X, y = data
    rows = da.from_array(X, chunks=100)
    table = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(ValueError, match="at least two classes"):
        AML().fit(rows, np.zeros(1000))
    with pytest.raises(ValueError, match="a dissimilar pair"):
        AML().fit(da.stack([rows, rows], axis=1), np.ones(1000))
    with pytest.raises(ValueError, match="two members"):
        AML().fit(rows, np.arange(1000))
    with pytest.raises(ValueError, match="1000 rows, but y has 999"):
        AML().fit(rows, da.from_array(y[:-1], chunks=100))
    with pytest.raises(ValueError, match="y is None"):
        AML().fit(rows, None)
    with pytest.raises(ValueError, match="column 'kind' of X holds str"):
        AML().fit(table, y)
    with pytest.raises(ValueError, match="'sort' is not a column of X"):
        AML().fit(table, "sort")
    with pytest.raises(ValueError, match=r"expecting .* 6 features"):
        AML().fit(rows, y).transform(rows[:, :5])
    with pytest.raises(TypeError, match="X is in memory"):
        AML().fit(X, da.from_array(y, chunks=100))
    with pytest.raises(TypeError, match=r"preprocessor=X\.compute"):
        AML(preprocessor=rows).fit(da.zeros((10, 2), dtype=int), np.ones(10))


def test_a_failed_fit_leaves_the_learner_as_it_was(data):
    X, y = data
    found = AML().fit(X, y)
    with pytest.raises(ValueError, match="two classes"):
        found.fit(da.from_array(X, chunks=100), np.zeros(1000))
    assert_same(found, AML().fit(X, y))


def test_who_cannot_learn_on_a_cluster_says_who_can(data):
    X, y = data
    rows = da.from_array(X, chunks=100)
    for learner in (LMNN(), AMLCV()):
        with pytest.raises(TypeError, match=r"AML, PairAML, NeighborAML, GMML and Euclidean.*compute\(\)"):
            learner.fit(rows, y)
    with pytest.raises(ValueError, match="pairs='all' only"):
        AML(pairs=100).fit(rows, y)
    found = LMNN(max_iter=5000).fit(X[::10], y[::10])
    np.testing.assert_allclose(found.transform(rows).compute(), found.transform(X))
    for gathers in (lambda: found.score(rows, y), lambda: AML().partial_fit(rows, y)):
        with pytest.raises(TypeError, match="no Dask collection"):
            gathers()
    with pytest.raises(ValueError, match="would gather"):
        found.set_output(transform="pandas").transform(rows)


def test_the_extra_is_named():
    with pytest.raises(ImportError, match=r'pip install "advmetric\[dask\]"'):
        require("dask.no_such_module")


# --- searches and experiments on a cluster ------------------------------------------------------------------


def test_amlcv_runs_on_the_cluster_through_joblib(data):
    X, y = data
    search = AMLCV(alphas=(0.0, 1.0), betas=(1.0,), ts=(0.25, 0.5), cv=2, n_jobs=-1)
    with joblib.parallel_config("dask"):
        found = clone(search).fit(X, y)
    expected = clone(search).set_params(n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert_same(found, expected)


def experiment(task, data_home=""):
    if task.method == "bad":
        raise ValueError(f"trial {task.trial} is bad")
    return {"pid": os.getpid(), "home": data_home}


def test_experiments_run_on_the_workers_of_a_cluster(client, tmp_path):
    tasks = [Task("any", "data", method, trial) for trial in range(3) for method in ("good", "bad")]
    store = Store(tmp_path / "results")
    work = partial(experiment, data_home="/there")
    assert run_tasks(tasks, work, store, dask=client.scheduler.address) == 6
    records = store.records()
    assert sum(bool(record.failure) for record in records.values()) == 3
    good = [record.result for record in records.values() if not record.failure]
    assert os.getpid() not in {result["pid"] for result in good}
    assert {result["home"] for result in good} == {"/there"}
    assert run_tasks(tasks, work, store, dask=client.scheduler.address) == 0


class FakeCluster:
    def __init__(self, threads, sees):
        self.threads, self.sees = threads, sees

    def nthreads(self):
        return {"tcp://one": 1, "tcp://two": self.threads}

    def run(self, function, path):
        return {"tcp://one": function(path), "tcp://two": function(path) and self.sees}


def test_workers_that_would_lose_results_are_refused(tmp_path):
    store = Store(tmp_path / "results")
    _check_workers(FakeCluster(1, True), store)
    with pytest.raises(ValueError, match="--nthreads 1"):
        _check_workers(FakeCluster(2, True), store)
    with pytest.raises(ValueError, match="must be shared: tcp://two"):
        _check_workers(FakeCluster(1, False), store)
