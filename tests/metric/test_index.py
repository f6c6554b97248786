"""Neighbours under a learned metric: exact ones are those of brute force, approximate ones nearly so."""

import json
import re
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.preprocessing import StandardScaler

from advmetric import AML, Euclidean, KernelRVML, Mahalanobis, MetricIndex, load_dataset
from advmetric.metric import faiss_stage
from advmetric.metric import knn as neighbors
from advmetric.metric.knn import certified_nearest, exhaustive_nearest, knn_predict, majority, rounded_squares
from reference.damage import flip_bytes

try:
    faiss_stage.faiss_module()
    FAISS = True
except ImportError:
    FAISS = False

needs_faiss = pytest.mark.skipif(not FAISS, reason="faiss is not installed")
ENGINES = ["sklearn", pytest.param("faiss", marks=needs_faiss)]
ALL = [("exact", "sklearn"), *(pytest.param(kind, "faiss", marks=needs_faiss) for kind in ("exact", "ivf", "hnsw"))]


@pytest.fixture(autouse=True)
def one_thread():
    """The machine's cores are for the other tests."""
    if FAISS:
        faiss_stage.faiss_module().omp_set_num_threads(1)


@pytest.fixture
def no_faiss(monkeypatch):
    """As if faiss were not installed."""
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(faiss_stage, "faiss_module", faiss_stage.faiss_module.__wrapped__)


@pytest.fixture(scope="module", params=["vehicle", "letters"])
def learned(request):
    """A learned metric, points and queries. A little noise makes the neighbours unique: both sets have equal rows."""
    data = load_dataset(request.param)
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(data.X))[:4000]
    X = StandardScaler().fit_transform(data.X)[rows] + 1e-3 * rng.standard_normal((len(rows), data.X.shape[1]))
    y = data.y[rows]
    cut = 3 * len(rows) // 4
    return AML(t=0.1).fit(X[:cut], y[:cut]), X[:cut], y[:cut], X[cut:]


def cloud(n, d=8, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def oblique(d=8, r=None, seed=5):
    return Mahalanobis(np.random.default_rng(seed).standard_normal((r or d, d)))


def plain(metric, X, Q, k):
    """Brute force with the differences themselves."""
    D = cdist(metric.transform(np.asarray(Q)), metric.transform(np.asarray(X)))
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(D, order, axis=1), order


# --- exact -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("d", "r"), [(8, 8), (50, 3), (200, 200)])
def test_ties_do_not_depend_on_batches(engine, d, r):
    X = np.repeat(cloud(100, d), 3, axis=0)
    index = MetricIndex(oblique(d, r), engine=engine)
    for part in np.split(X, [1, 2, 9, 42, 250]):
        index.add(part)
    expected = np.arange(300) // 3 * 3
    for step in (1, 2, 3, 7, 33, 300):
        found = [index.query(X[start : start + step], k=3) for start in range(0, 300, step)]
        assert_array_equal(np.concatenate([distances for distances, _ in found]), 0.0)
        assert_array_equal(np.concatenate([indices for _, indices in found]), expected[:, None] + np.arange(3))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("k", [1, 7, 50])
def test_exact_neighbours_are_those_of_scikit_learn_s_brute_force(learned, engine, k):
    aml, X, _, Q = learned
    brute = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(aml.transform(X))
    expected, places = brute.kneighbors(aml.transform(Q))
    distances, indices = MetricIndex(aml, engine=engine).add(X).query(Q, k)
    assert_array_equal(indices, places)
    assert_allclose(distances, expected, rtol=1e-9, atol=1e-9)
    assert distances.dtype == np.float64
    assert indices.dtype == np.int64


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("offset", [1e4, -1e8])
def test_an_offset_changes_nothing(learned, engine, offset):
    aml, X, _, Q = learned
    expected, places = plain(aml.get_metric(), X, Q, 10)
    distances, indices = MetricIndex(aml, engine=engine).add(X + offset).query(Q + offset, 10)
    assert_array_equal(indices, places)
    assert_allclose(distances, expected, rtol=1e-12 * abs(offset), atol=1e-13 * abs(offset))


@pytest.mark.parametrize("engine", ENGINES)
def test_equal_points_are_found_at_no_distance(engine):
    X = np.repeat(cloud(40), 60, axis=0) + 1e4
    distances, indices = MetricIndex(oblique(), engine=engine).add(X).query(X[::60], 60)
    assert_array_equal(np.sort(indices, axis=1), np.arange(2400).reshape(40, 60))
    assert_allclose(distances, 0, atol=1e-11)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_dense_crowd_far_from_the_centre_is_still_told_apart(engine):
    # Single precision cannot: the crowd's distances are 1e-9 of its own from the centre.
    rng = np.random.default_rng(0)
    X = np.concatenate([cloud(500), 1e3 + 1e-6 * rng.standard_normal((500, 8))])
    Q = 1e3 + 1e-6 * rng.standard_normal((30, 8))
    index = MetricIndex(Mahalanobis(np.eye(8)), engine=engine).add(X)
    distances, indices = index.query(Q, 5)
    expected, places = plain(index.metric, X, Q, 5)
    assert_array_equal(indices, places)
    assert_allclose(distances, expected, rtol=1e-6)


@needs_faiss
def test_the_rounded_search_alone_would_get_the_crowd_wrong(monkeypatch):
    # The certificate is what the test above rests on: without it the answer is wrong.
    rng = np.random.default_rng(0)
    X = np.concatenate([cloud(500), 1e3 + 1e-6 * rng.standard_normal((500, 8))])
    index = MetricIndex(Mahalanobis(np.eye(8))).add(X)
    monkeypatch.setattr("advmetric.metric.index.rounded_squares", lambda norms, *rest: np.full(len(norms), -1.0))
    assert np.any(index.query(X[500:530], 1)[1][:, 0] != np.arange(500, 530))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e120])
def test_large_and_tiny_numbers(engine, scale):
    X, Q, metric = cloud(300), cloud(20, seed=1), oblique()
    expected, places = plain(metric, X, Q, 4)
    if engine == "faiss" and not 1e-36 < scale < 1e36:
        metric_of_scale = Mahalanobis(metric.components)  # L as it is: only distances are out of float32's range
    else:
        metric_of_scale = Mahalanobis(metric.components / scale)
        expected = expected / scale
    distances, indices = MetricIndex(metric_of_scale, engine=engine).add(scale * X).query(scale * Q, 4)
    assert_array_equal(indices, places)
    assert_allclose(distances, scale * expected, rtol=1e-9)


@pytest.mark.parametrize(("kind", "engine"), ALL)
def test_a_metric_of_low_rank(kind, engine):
    X, Q, metric = cloud(500), cloud(50, seed=1), oblique(r=2)
    expected, places = plain(metric, X, Q, 3)
    index = MetricIndex(metric, kind=kind, engine=engine, nprobe=100, ef_search=500).add(X)
    distances, indices = index.query(Q, 3)
    assert_array_equal(indices, places)
    assert_allclose(distances, expected, rtol=1e-4 if kind != "exact" else 1e-9, atol=1e-5)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_metric_that_sees_nothing_gives_distances_of_zero(engine):
    distances, indices = MetricIndex(Mahalanobis(np.zeros((2, 8))), engine=engine).add(cloud(300)).query(cloud(3), 4)
    assert_array_equal(distances, 0)
    assert all(len(set(row)) == 4 for row in indices.tolist())


@pytest.mark.parametrize("engine", ENGINES)
def test_float32_points_and_frames_and_memory_maps_are_taken_as_they_are(engine, tmp_path):
    X, Q, metric = cloud(400).astype(np.float32), cloud(30, seed=1).astype(np.float32), oblique()
    expected, places = plain(metric, X.astype(float), Q.astype(float), 5)
    np.save(tmp_path / "X.npy", X)
    for points in (X, pd.DataFrame(X), np.load(tmp_path / "X.npy", mmap_mode="r"), X.tolist()):
        distances, indices = MetricIndex(metric, engine=engine).add(points).query(Q, 5)
        assert_array_equal(indices, places)
        assert_allclose(distances, expected, rtol=1e-9)


@pytest.mark.parametrize(("kind", "engine"), ALL)
def test_repeated_adds_are_one_add(kind, engine):
    X, Q, metric = cloud(1500), cloud(40, seed=1), oblique()
    whole = MetricIndex(metric, kind=kind, engine=engine, nprobe=1000, ef_search=1500).add(X)
    parts = MetricIndex(metric, kind=kind, engine=engine, nprobe=1000, ef_search=1500).train(X)
    for start in range(0, len(X), 70):
        assert parts.add(X[start : start + 70]) is parts
    assert len(parts) == len(whole) == 1500
    assert_array_equal(parts.query(Q, 6)[1], whole.query(Q, 6)[1])


@pytest.mark.parametrize(("kind", "engine"), ALL)
def test_k_may_be_the_number_of_points(kind, engine):
    X = cloud(120)
    index = MetricIndex(oblique(), kind=kind, engine=engine, nprobe=1, nlist=10).add(X)
    _, indices = index.query(X[:5], 120)
    assert_array_equal(np.sort(indices, axis=1), np.tile(np.arange(120), (5, 1)))


def test_blocks_change_nothing(monkeypatch):
    X, Q = cloud(700), cloud(90, seed=1)
    expected = MetricIndex(oblique(), engine="sklearn").add(X).query(Q, 4)
    monkeypatch.setattr("advmetric.metric.index._ROWS", 64)
    monkeypatch.setattr(neighbors, "_BLOCK", 100)
    found = MetricIndex(oblique(), engine="sklearn").add(X).query(Q, 4)
    assert_array_equal(found[1], expected[1])
    assert_allclose(found[0], expected[0], rtol=1e-12)


# --- the certificate ----------------------------------------------------------------------------------------


def test_proposals_that_miss_a_neighbour_are_not_taken_for_exact():
    X, Q = cloud(2000), cloud(20, seed=1)
    widths = []

    def noisy(rows, width):
        # A search with errors of up to 1 in the squares, and honest about them.
        widths.append(width)
        squares = cdist(Q[rows], X, "sqeuclidean") + np.random.default_rng(2).uniform(-1, 1, (len(rows), len(X)))
        order = np.argsort(squares, axis=1)[:, :width]
        return np.take_along_axis(squares, order, axis=1), order

    distances, indices = certified_nearest(X, Q, 3, noisy, lambda rows, radii: radii**2 + 1)
    expected, places = plain(Mahalanobis(np.eye(8)), X, Q, 3)
    assert_array_equal(indices, places)
    assert_allclose(distances, expected, rtol=1e-12)
    assert len(widths) == 2
    assert np.any(noisy(np.arange(20), 3)[1] != places), "the search alone is wrong"


def test_the_bound_on_rounded_squares_holds():
    rng = np.random.default_rng(0)
    for r in (2, 30, 400):
        Z = rng.standard_normal((300, r)).astype(np.float32)
        Q = (Z[:100] + 1e-3 * rng.standard_normal((100, r))).astype(np.float32)
        rounded = (Z**2).sum(1) - 2 * Q @ Z.T + (Q**2).sum(1)[:, None]
        exact = cdist(Q.astype(float), Z.astype(float))
        norms = np.linalg.norm(Q.astype(float), axis=1)
        for column in range(300):
            assert np.all(rounded[:, column] <= rounded_squares(norms, exact[:, column], r, np.float32))
    slack = rounded_squares(np.ones(1), np.ones(1), 30, np.float32)[0] - 1
    assert 0 < slack < 1e-4


def test_the_exhaustive_search_is_plain_brute_force(monkeypatch):
    X, Q = cloud(1000), cloud(37, seed=1)
    expected, places = plain(Mahalanobis(np.eye(8)), X, Q, 12)
    for block in (1, 999, 1 << 19):
        monkeypatch.setattr(neighbors, "_BLOCK", block)
        distances, indices = exhaustive_nearest(X, Q, 12)
        assert_array_equal(indices, places)
        assert_allclose(distances, expected, rtol=1e-12)


# --- approximate --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clustered():
    """20 000 points round 200 centres, far from the origin, and their exact neighbours."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.standard_normal((200, 32))
    X = centres[rng.integers(200, size=20_500)] + rng.standard_normal((20_500, 32)) + 1e4
    metric = oblique(32)
    return metric, X[:20_000], X[20_000:], MetricIndex(metric).add(X[:20_000]).query(X[20_000:], 10)


def recall(found, expected):
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), expected.tolist(), strict=True)])


@needs_faiss
@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_approximate_neighbours_are_nearly_all_right(clustered, kind):
    metric, X, Q, (expected, places) = clustered
    distances, indices = MetricIndex(metric, kind=kind).add(X).query(Q, 10)
    assert recall(indices, places) >= 0.95
    shared = indices == places
    assert shared.mean() > 0.9
    assert_allclose(distances[shared], expected[shared], rtol=1e-5)
    assert np.all(np.diff(distances) >= 0)


@needs_faiss
def test_looking_into_more_cells_finds_more(clustered):
    metric, X, Q, (_, places) = clustered
    index = MetricIndex(metric, kind="ivf", nprobe=1).add(X)
    little = recall(index.query(Q, 10)[1], places)
    index.nprobe = 10**6  # all of them
    assert little < recall(index.query(Q, 10)[1], places) > 0.999


@needs_faiss
def test_a_wider_walk_finds_more():
    X, Q, metric = cloud(3000, 24), cloud(200, 24, seed=1), oblique(24)
    places = plain(metric, X, Q, 5)[1]
    index = MetricIndex(metric, kind="hnsw", ef_search=5, n_links=8).add(X)
    little = recall(index.query(Q, 5)[1], places)
    index.ef_search = 400
    assert little < recall(index.query(Q, 5)[1], places) > 0.95


@needs_faiss
def test_raw_vectors_go_through_faiss_s_linear_transform(clustered):
    metric, X, _, _ = clustered
    faiss = faiss_stage.faiss_module()
    index = MetricIndex(metric, kind="ivf").add(X[:2000])._index
    stage = faiss.downcast_VectorTransform(index.chain.at(0))
    assert isinstance(stage, faiss.LinearTransform)
    assert_allclose(faiss.vector_to_array(stage.A).reshape(32, 32), metric.components, rtol=1e-6)
    assert index.d == 32


@needs_faiss
def test_faiss_s_switch_is_put_back():
    switches = faiss_stage.faiss_module().cvar
    before = switches.distance_compute_blas_threshold
    MetricIndex(oblique()).add(cloud(200)).query(cloud(100), 3)
    assert switches.distance_compute_blas_threshold == before


def test_scikit_learn_is_exact_whatever_the_kind():
    X, Q = cloud(300), cloud(20, seed=1)
    for kind in ("ivf", "hnsw"):
        found = MetricIndex(oblique(), kind=kind, engine="sklearn").add(X).query(Q, 4)[1]
        assert_array_equal(found, plain(oblique(), X, Q, 4)[1])


# --- classes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("k", [1, 5, 10])
def test_classes_are_those_of_knn_predict_and_scikit_learn(learned, engine, k):
    aml, X, y, Q = learned
    predicted = MetricIndex(aml, engine=engine).add(X).classify(Q, y, k)
    assert_array_equal(predicted, knn_predict(aml.transform(X), y, aml.transform(Q), k))
    brute = KNeighborsClassifier(k, algorithm="brute").fit(aml.transform(X), y)
    assert_array_equal(predicted, brute.predict(aml.transform(Q)))


def test_ties_go_to_the_smaller_label_and_labels_may_be_text():
    index = MetricIndex(Mahalanobis(np.eye(1)), engine="sklearn").add([[0.0], [1.0], [3.0], [4.0]])
    assert index.classify([[0.4], [0.6]], ["c", "a", "b", "b"], k=2).tolist() == ["a", "a"]
    with pytest.raises(ValueError, match="y has 3 labels for the 4 points"):
        index.classify([[0.4]], [0, 1, 2])


def test_majority_by_blocks(monkeypatch):
    labels = np.random.default_rng(0).integers(5, size=(200, 7))
    expected = [np.bincount(row, minlength=5).argmax() for row in labels]
    for block in (1, 33, 1 << 19):
        monkeypatch.setattr(neighbors, "_BLOCK", block)
        assert_array_equal(majority(labels, 5), expected)


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "engine"), ALL)
def test_a_saved_index_answers_alike_and_takes_more_points(kind, engine, tmp_path):
    X, Q = cloud(900) + 100, cloud(30, seed=1) + 100
    metric = Mahalanobis(oblique().components, 1.5, tuple("abcdefgh"), (-2.0, 1.0))
    index = MetricIndex(metric, kind=kind, engine=engine, nprobe=np.int64(3), ef_search=70).add(X[:800])
    index.save(tmp_path / "points.index.npz")
    loaded = MetricIndex.load(tmp_path / "points.index.npz")
    assert (loaded.kind, loaded.engine, loaded.nprobe, loaded.ef_search, len(loaded)) == (kind, engine, 3, 70, 800)
    assert (loaded.metric.threshold, loaded.metric.feature_names) == (1.5, tuple("abcdefgh"))
    assert loaded.metric.calibration == (-2.0, 1.0)
    for found, expected in zip(loaded.query(Q, 5), index.query(Q, 5), strict=True):
        assert_array_equal(found, expected)
    for found, expected in zip(loaded.add(X[800:]).query(Q, 5), index.add(X[800:]).query(Q, 5), strict=True):
        assert_array_equal(found, expected)
    assert [path.name for path in tmp_path.iterdir()] == ["points.index.npz"]
    assert loaded.query(X[850:851], 1)[1] == 850


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_index_can_be_saved(engine, tmp_path):
    MetricIndex(oblique(), engine=engine).save(tmp_path / "empty.npz")
    loaded = MetricIndex.load(tmp_path / "empty.npz")
    assert len(loaded) == 0
    assert loaded.add(cloud(10)).query(cloud(10), 1)[1].ravel().tolist() == list(range(10))


@pytest.mark.parametrize(("kind", "engine"), ALL)
def test_a_damaged_file_is_refused(kind, engine, tmp_path):
    path = tmp_path / "points.npz"
    index = MetricIndex(oblique(), kind=kind, engine=engine).add(cloud(300))
    index.save(path)
    expected, content, refused = index.query(cloud(30), 5), path.read_bytes(), 0
    for cut in (0, 10, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(ValueError, match="damaged"):
            MetricIndex.load(path)
    path.write_bytes(content)
    for _ in flip_bytes(path, np.random.default_rng(0).integers(200, len(content) - 1500, size=40)):
        try:
            loaded = MetricIndex.load(path)
        except ValueError as error:
            refused += re.search("damaged|changed|newer", str(error)) is not None
        else:  # only what says nothing about the index, such as the archive's dates
            assert_array_equal(loaded.query(cloud(30), 5), expected)
    assert refused >= 35


def rewritten(path, change):
    """The file with its header or arrays changed, and valid as an archive."""
    with np.load(path) as archive:
        contents = dict(archive)
    header = json.loads(str(contents["header"]))
    change(header, contents)
    np.savez(path, **contents | {"header": np.array(json.dumps(header))})


def test_a_changed_or_foreign_file_is_refused(tmp_path):
    path = tmp_path / "points.npz"

    def saved():
        MetricIndex(oblique(), engine="sklearn").add(cloud(50)).save(path)

    saved()
    rewritten(path, lambda header, contents: contents["points"].__setitem__((3, 1), 7.0))
    with pytest.raises(ValueError, match="checksum"):
        MetricIndex.load(path)
    saved()
    rewritten(path, lambda header, contents: header.update(scale=2.0))
    with pytest.raises(ValueError, match="checksum"):
        MetricIndex.load(path)
    saved()
    rewritten(path, lambda header, contents: header.update(version=99))
    with pytest.raises(ValueError, match="newer advmetric"):
        MetricIndex.load(path)
    oblique().save(path)
    with pytest.raises(ValueError, match="not an index"):
        MetricIndex.load(path)
    with pytest.raises(FileNotFoundError):
        MetricIndex.load(tmp_path / "nothing.npz")


# --- without faiss ------------------------------------------------------------------------------------------


def test_without_faiss_scikit_learn_answers(no_faiss, tmp_path):
    X, Q = cloud(300), cloud(20, seed=1)
    index = MetricIndex(oblique()).add(X)
    assert index.engine == "sklearn"
    assert_array_equal(index.query(Q, 3)[1], plain(oblique(), X, Q, 3)[1])
    with pytest.warns(UserWarning, match=r"faiss is missing .*exactly but slowly"):
        index = MetricIndex(oblique(), kind="ivf").add(X)
    assert_array_equal(index.query(Q, 3)[1], plain(oblique(), X, Q, 3)[1])
    with pytest.raises(ImportError, match=r"pip install .advmetric\[faiss\]"):
        MetricIndex(oblique(), engine="faiss")


@needs_faiss
def test_an_exact_index_of_faiss_is_read_without_faiss(tmp_path, request):
    X, Q = cloud(300), cloud(20, seed=1)
    for kind in ("exact", "hnsw"):
        MetricIndex(oblique(), kind=kind, engine="faiss").add(X).save(tmp_path / kind)
    request.getfixturevalue("no_faiss")
    loaded = MetricIndex.load(tmp_path / "exact")
    assert loaded.engine == "sklearn"
    assert_array_equal(loaded.add(Q).query(Q, 3)[1], plain(oblique(), np.vstack([X, Q]), Q, 3)[1])
    with pytest.raises(ImportError, match="faiss"):
        MetricIndex.load(tmp_path / "hnsw")


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0.0, 1.0, np.nan]], "Input X contains NaN at row 0, column 2"),
        ([[0.0, 1.0, 2.0], [0.0, -np.inf, 1.0]], "Input X contains inf at row 1, column 1"),
        ([[1.0, 2.0]], "X has 2 features, but the metric is expecting 3"),
        ([1.0, 2.0, 3.0], "Expected 2D array"),
        (np.empty((0, 3)), "0 sample"),
        ([["a", "b", "c"]], "X has the text a at row 0, column 0"),
    ],
)
def test_bad_points_are_refused_and_the_index_stays_as_it_was(engine, points, message):
    index = MetricIndex(oblique(3), engine=engine)
    with pytest.raises(ValueError, match=message):
        index.add(points)
    index.add(cloud(20, 3))
    with pytest.raises(ValueError, match=message):
        index.add(points)
    assert len(index) == 20
    with pytest.raises(ValueError, match=message.replace("X ", "Q ")):
        index.query(points, 1)
    index.query(cloud(2, 3), 20)


@pytest.mark.parametrize("engine", ENGINES)
def test_bad_questions_are_refused(engine):
    index = MetricIndex(oblique(3), engine=engine)
    with pytest.raises(ValueError, match="the index is empty"):
        index.query(cloud(2, 3), 1)
    index.add(cloud(4, 3))
    with pytest.raises(ValueError, match="k=5 neighbours were asked for, but the index has 4 points"):
        index.query(cloud(2, 3), 5)
    for k, kind in ((0, ValueError), (-1, ValueError), (1.5, TypeError), ("2", TypeError), (True, TypeError)):
        with pytest.raises(kind, match="k"):
            index.query(cloud(2, 3), k)
    with pytest.raises(ValueError, match="train comes before the first add"):
        index.train(cloud(4, 3))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_point_beyond_the_engine_s_numbers_is_refused(engine):
    index = MetricIndex(oblique(3), engine=engine).add(cloud(50, 3))
    far = np.full((2, 3), 1e20 if engine == "faiss" else 1e200)
    with pytest.raises(ValueError, match="X has a point that is more than"):
        index.add(far)
    with pytest.raises(ValueError, match="Q has a point that is more than"):
        index.query(far, 1)
    assert len(index) == 50


def test_what_is_no_metric_is_refused():
    with pytest.raises(TypeError, match="metric must be a Mahalanobis or a fitted learner"):
        MetricIndex("euclidean")
    with pytest.raises(NotFittedError):
        MetricIndex(AML())
    X, y = cloud(40), np.arange(40) % 2
    with pytest.raises(TypeError, match=r"got KernelMetric\. For other metrics, transform"):
        MetricIndex(KernelRVML().fit(X, y))
    assert len(MetricIndex(Euclidean().fit(X, y)).add(X)) == 40


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"kind": "tree"}, ValueError, "kind='tree' is not known"),
        ({"engine": "gpu"}, ValueError, "engine='gpu' is not known"),
        ({"nlist": 0}, ValueError, "nlist=0"),
        ({"nprobe": 2.5}, TypeError, "nprobe=2.5"),
        ({"ef_search": -1}, ValueError, "ef_search=-1"),
        ({"n_links": "many"}, TypeError, "n_links"),
    ],
)
def test_bad_settings_are_refused(settings, kind, message):
    with pytest.raises(kind, match=message):
        MetricIndex(oblique(), **settings)


def test_a_setting_spoilt_later_is_refused():
    index = MetricIndex(oblique(), engine="sklearn").add(cloud(10))
    index.nprobe = 0
    with pytest.raises(ValueError, match="nprobe=0"):
        index.query(cloud(1), 1)


@needs_faiss
def test_more_cells_than_points_are_refused():
    with pytest.raises(ValueError, match="nlist=50 cells need as many points"):
        MetricIndex(oblique(), kind="ivf", nlist=50).add(cloud(49))


def test_a_frame_with_other_columns_is_refused():
    X = pd.DataFrame(cloud(30, 3), columns=["a", "b", "c"])
    index = MetricIndex(AML().fit(X, np.arange(30) % 2)).add(X)
    with pytest.raises(ValueError, match="the columns of X are not the features"):
        index.add(X[["b", "a", "c"]])


# --- memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_points_are_added_and_asked_for_by_blocks(engine, tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (200_000, 32))
    X[:] = (
        cloud(1000, 32).astype(np.float32).repeat(200, axis=0) + np.linspace(0, 1, 200_000, dtype=np.float32)[:, None]
    )
    index = MetricIndex(oblique(32, r=2), engine=engine)
    tracemalloc.start()
    index.add(X)
    added = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    index.query(X[:300], 3)
    asked = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    kept = 200_000 * 2 * 8
    # The points are 51 MB in double precision; a sample of 65 536 of them is what is held at most.
    assert kept < added < kept + 60e6
    assert asked < kept + 40e6, "300 x 200 000 distances are 480 MB"
