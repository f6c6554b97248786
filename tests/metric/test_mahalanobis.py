"""Mahalanobis: the distance itself, and files without pickle that notice any change."""

import io
import json
import os
import stat
import zipfile

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, eye_array
from sklearn.neighbors import KNeighborsClassifier

from advmetric import AML, GMML, Mahalanobis
from advmetric.pairs.data import Pairs
from advmetric.utils.archive import DamagedFileError, write_archive
from reference.damage import flip_bytes

pytestmark = pytest.mark.numerical

# --- the distance ---------------------------------------------------------------------------------------


def test_the_metric_is_a_distance():
    rng = np.random.default_rng(0)
    metric = Mahalanobis(rng.normal(size=(3, 5)))
    for u, v, w in rng.normal(size=(50, 3, 5)):
        assert metric(u, v) == metric(v, u) >= 0.0
        assert metric(u, u) == 0.0
        assert metric(u, w) <= metric(u, v) + metric(v, w) + 1e-12
        assert metric(u, v) == pytest.approx(np.sqrt((u - v) @ metric.matrix @ (u - v)))
        assert metric(u, v, squared=True) == pytest.approx(metric(u, v) ** 2)


def test_transform_is_an_isometry():
    rng = np.random.default_rng(0)
    metric, X = Mahalanobis(rng.normal(size=(3, 5))), rng.normal(size=(20, 5))
    Z = metric.transform(X)
    assert Z.shape == (20, 3)
    pairs = Pairs(X, np.arange(19), np.arange(1, 20))
    np.testing.assert_allclose(metric.pair_distance(pairs), np.linalg.norm(np.diff(Z, axis=0), axis=1))


def test_distances_by_blocks_are_those_of_all_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    metric, X = Mahalanobis(rng.normal(size=(4, 6))), rng.normal(size=(50, 6))
    pairs = Pairs(X, rng.integers(50, size=1000), rng.integers(50, size=1000))
    expected = metric.pair_distance(pairs)
    monkeypatch.setattr("advmetric.pairs.data.BLOCK_BYTES", 8 * 6 * 7)
    assert len(list(pairs.differences())) == 143
    np.testing.assert_allclose(metric.pair_distance(pairs), expected, rtol=1e-14)


def test_the_callable_serves_scikit_learns_neighbours(vehicle):
    X, y = vehicle.X[:150], vehicle.y[:150]
    learned = AML().fit(X, y)
    by_callable = KNeighborsClassifier(5, metric=learned.get_metric(), algorithm="brute").fit(X, y)
    by_embedding = KNeighborsClassifier(5).fit(learned.transform(X), y)
    queries = vehicle.X[150:200]
    np.testing.assert_array_equal(by_callable.predict(queries), by_embedding.predict(learned.transform(queries)))


def test_metrics_can_be_compared_and_hashed():
    one, other = Mahalanobis(np.eye(2)), Mahalanobis(np.eye(2))
    assert one in [one]
    assert one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize("components", [np.ones(3), np.ones((2, 2, 2)), np.array([[np.nan]]), np.array([[np.inf]])])
def test_components_must_be_a_finite_matrix(components):
    with pytest.raises(ValueError, match=r"components must be a finite \(r, d\) array"):
        Mahalanobis(components)


def test_there_must_be_a_name_for_each_feature():
    with pytest.raises(ValueError, match="feature_names has 2 names for 3 features"):
        Mahalanobis(np.eye(3), None, ("a", "b"))


@pytest.mark.parametrize("form", [list, tuple, np.asarray, lambda v: np.asarray(v)[None, :], lambda v: [list(v)]])
def test_vectors_may_be_lists_and_rows(form):
    metric = Mahalanobis(np.diag([3.0, 4.0]))
    assert metric(form([1, 1]), form([0, 0])) == 5.0
    assert metric(form([1, 1]), form([0, 0]), squared=True) == 25.0
    assert isinstance(metric(form([1, 1]), [0, 0]), float)


@pytest.mark.parametrize("bad", [[1.0], [1, 2, 3], 1.0, np.eye(2), np.zeros((2, 1)), np.zeros((1, 1, 2)), []])
def test_matrices_and_vectors_of_another_length_are_refused(bad):
    metric = Mahalanobis(np.eye(2))
    with pytest.raises(ValueError, match="u must be a vector of length 2, got shape"):
        metric(bad, [0, 0])
    with pytest.raises(ValueError, match="v must be a vector of length 2, got shape"):
        metric([0, 0], bad)


@pytest.mark.parametrize("name", ["u", "v"])
def test_complex_vectors_are_refused(name):
    vectors = {"u": [0, 0], "v": [0, 0]} | {name: [1j, 0]}
    with pytest.raises(ValueError, match=f"Complex data not supported: {name} must be real"):
        Mahalanobis(np.eye(2))(**vectors)


# --- what it takes ----------------------------------------------------------------------------------------


def measured():
    """A metric of named features, and points as a frame."""
    rng = np.random.default_rng(0)
    return Mahalanobis(rng.normal(size=(2, 3)), None, ("a", "b", "c")), pd.DataFrame(
        rng.normal(size=(6, 3)), columns=[*"abc"]
    )


@pytest.mark.parametrize("form", [lambda F: F, lambda F: F.to_numpy().tolist(), lambda F: csr_array(F.to_numpy())])
def test_points_come_in_the_forms_that_learners_take(form):
    metric, frame = measured()
    np.testing.assert_allclose(metric.transform(form(frame)), metric.transform(frame.to_numpy()), rtol=1e-14)


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist])
def test_pairs_may_be_formed(form):
    metric, frame = measured()
    pairs = frame.to_numpy().reshape(3, 2, 3)
    expected = [metric(*pair) for pair in pairs]
    np.testing.assert_allclose(metric.pair_distance(form(pairs)), expected)


def test_whole_numbers_are_points_too():
    metric = Mahalanobis([[0.5, 0.25]])
    assert metric.transform(np.array([[1, 2]])) == metric.transform([[1, 2]]) == [[1.0]]
    torch = pytest.importorskip("torch")
    assert metric.transform(torch.tensor([[1, 2]])).tolist() == [[1.0]]


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, csr_array])
def test_what_cannot_be_measured_is_named(form):
    metric, frame = measured()
    X = frame.to_numpy().copy()
    with pytest.raises(ValueError, match="X has 2 features, but the metric is expecting 3 features"):
        metric.transform(form(X[:, :2]))
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN at row 4, column 1"):
        metric.transform(form(X))


def test_pairs_that_cannot_be_measured_are_named():
    metric, frame = measured()
    pairs = frame.to_numpy().copy().reshape(3, 2, 3)
    with pytest.raises(ValueError, match="pairs have 2 features, but the metric is expecting 3 features"):
        metric.pair_distance(pairs[:, :, :2])
    with pytest.raises(ValueError, match=r"pairs must have shape \(N, 2, d\).*or pass points\[pairs\]"):
        metric.pair_distance([[0, 1]])
    pairs[1, 0, 2] = np.inf
    with pytest.raises(ValueError, match="Input pairs contains inf at pair 1, point 0, feature 2"):
        metric.pair_distance(pairs)
    with pytest.raises(ValueError, match="Input X contains inf at row 2, column 2"):
        metric.pair_distance(Pairs.formed(pairs))


def test_columns_in_another_order_are_refused():
    metric, frame = measured()
    with pytest.raises(ValueError, match="the columns of X are not the features that the metric was learned on"):
        metric.transform(frame[["b", "a", "c"]])


def test_vectors_of_features_that_are_kept_sparse():
    metric = Mahalanobis(eye_array(5, format="csr"))
    assert metric([0] * 5, [3, 4, 0, 0, 0]) == 5.0


def test_a_distance_out_of_range_of_its_square_is_still_right():
    metric = Mahalanobis(np.eye(2))
    assert metric([3e200, 4e200], [0, 0]) == pytest.approx(5e200)
    assert metric([3e-200, 4e-200], [0, 0]) == pytest.approx(5e-200)


def test_an_embedding_is_finite_where_only_its_terms_overflow():
    metric = Mahalanobis([[1.0, -1.0], [1e-10, 0.0]])
    X = np.array([[1.5e308, -1e307], [1.5e308, 1.4e308]])
    np.testing.assert_allclose(metric.transform(X), [[1.6e308, 1.5e298], [1e307, 1.5e298]])
    with pytest.raises(ValueError, match="out of the range of float64"):
        metric.transform(np.array([[1.5e308, -1.5e308]]))


def test_the_matrix_stays_positive_semi_definite_where_it_underflows():
    rng = np.random.default_rng(0)
    for size in (1e-155, 1e-158, 1e-160, 1e-161, 1e-170):
        for _ in range(20):
            M = Mahalanobis(size * rng.normal(size=(3, 5))).matrix
            assert np.linalg.eigvalsh(M / (np.abs(M).max() or 1.0))[0] > -1e-12


# --- files ----------------------------------------------------------------------------------------------


@pytest.fixture
def metric():
    rng = np.random.default_rng(0)
    return Mahalanobis(rng.normal(size=(3, 4)), 1.2345678901234567, ("a", "b", "größe", "d"))


@pytest.fixture
def saved(metric, tmp_path):
    path = tmp_path / "metric.npz"
    metric.save(path)
    return path


def header_of(path):
    with np.load(path) as archive:
        return json.loads(str(archive["header"]))


def rewrite(path, header=None, **arrays):
    """Write a well-formed archive, as somebody who edits a metric by hand would."""
    with np.load(path) as archive:
        content = {name: archive[name] for name in archive.files}
    if header is not None:
        content["header"] = np.array(json.dumps(json.loads(str(content["header"])) | header))
    np.savez(path, **(content | arrays))


def assert_same(found, expected):
    np.testing.assert_array_equal(found.components, expected.components)
    assert found.threshold == expected.threshold
    assert found.feature_names == expected.feature_names


def test_what_is_loaded_is_exactly_what_was_saved(metric, saved):
    assert_same(Mahalanobis.load(saved), metric)
    assert_same(Mahalanobis.load(str(saved)), metric)


@pytest.mark.parametrize("threshold", [None, 0.0, -5e-324, 1e300, np.float32(0.1), 1 / 3, 2])
@pytest.mark.parametrize("names", [None, ("x", "y")])
def test_any_threshold_and_names_survive(tmp_path, threshold, names):
    rng = np.random.default_rng(0)
    metric = Mahalanobis(rng.normal(size=(1, 2)) * 1e-200, threshold, names)
    metric.save(tmp_path / "m")
    found = Mahalanobis.load(tmp_path / "m")
    assert_same(found, metric)
    assert (found.threshold is None) == (threshold is None)


def test_a_learner_saves_its_metric_with_threshold_and_names(vehicle, tmp_path):
    frame = pd.DataFrame(vehicle.X, columns=[f"f{i}" for i in range(18)])
    learned = AML(n_components=5).fit(frame, vehicle.y).calibrate_threshold(vehicle.formed, vehicle.kinds)
    learned.get_metric().save(tmp_path / "vehicle.metric")
    loaded = Mahalanobis.load(tmp_path / "vehicle.metric")
    assert loaded.threshold == learned.threshold_
    assert loaded.feature_names == tuple(frame.columns)
    pairs = Pairs(vehicle.X, *vehicle.indices.T)
    np.testing.assert_array_equal(loaded.pair_distance(pairs), learned.get_metric().pair_distance(pairs))
    predicted = np.where(loaded.pair_distance(pairs) <= loaded.threshold, 1, -1)
    np.testing.assert_array_equal(predicted, learned.predict(vehicle.formed))


def test_saving_over_a_metric_replaces_it(metric, saved):
    Mahalanobis(np.eye(2)).save(saved)
    assert_same(Mahalanobis.load(saved), Mahalanobis(np.eye(2)))
    assert os.listdir(saved.parent) == [saved.name]


def test_a_saved_file_has_the_permissions_of_any_new_file(saved, tmp_path):
    (tmp_path / "plain").touch()
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_flipped_byte_is_noticed_or_harmless(metric, saved):
    """Flip every second byte in turn: a clear error, or (where zip ignores the byte) exactly the same metric."""
    refused, places = 0, range(0, saved.stat().st_size, 2)
    for _ in flip_bytes(saved, places):
        try:
            found = Mahalanobis.load(saved)
        except ValueError as error:
            refused += str(saved) in str(error)
        else:
            refused += 1
            assert_same(found, metric)
    assert refused == len(places)


def test_a_flipped_byte_in_the_components_is_refused(metric, saved):
    content = bytearray(saved.read_bytes())
    place = bytes(content).index(metric.components.tobytes())
    content[place + 20] ^= 1
    saved.write_bytes(content)
    with pytest.raises(ValueError, match=r"metric\.npz is not a metric saved by advmetric, or it is damaged \(Bad CRC"):
        Mahalanobis.load(saved)


def test_edited_components_are_refused(metric, saved):
    rewrite(saved, components=metric.components * 2)
    with pytest.raises(ValueError, match=r"metric\.npz was changed after it was saved: its checksum does not match"):
        Mahalanobis.load(saved)


@pytest.mark.parametrize(
    "edit",
    [
        {"threshold": 99.0},
        {"threshold": None},
        {"feature_names": ["a", "b", "c", "e"]},
        {"feature_names": None},
        {"sha256": "0" * 64},
        {"sha256": None},
    ],
    ids=repr,
)
def test_an_edited_header_is_refused(saved, edit):
    assert header_of(saved)["threshold"] == 1.2345678901234567
    rewrite(saved, edit)
    with pytest.raises(ValueError, match="was changed after it was saved"):
        Mahalanobis.load(saved)


@pytest.mark.parametrize(
    "edit",
    [
        {"feature_names": 5},
        {"feature_names": ["a"]},
        {"threshold": "far"},
        {"threshold": [1.0]},
        {"version": "new"},
        {"version": None},
        {"format": "another"},
    ],
    ids=repr,
)
def test_a_header_that_makes_no_sense_is_refused(saved, edit):
    rewrite(saved, edit)
    with pytest.raises(ValueError, match=r"metric\.npz (is not a metric saved by advmetric|was changed after)"):
        Mahalanobis.load(saved)


@pytest.mark.parametrize(
    "components", [np.ones(4), np.full((3, 4), np.nan), np.full((3, 4), "a"), np.ones((3, 4), complex)], ids=repr
)
def test_components_that_make_no_sense_are_refused(saved, components):
    rewrite(saved, components=components)
    with pytest.raises(ValueError, match=r"metric\.npz was changed after"):
        Mahalanobis.load(saved)


def test_a_newer_format_is_refused_with_advice(saved):
    rewrite(saved, {"version": 2})
    with pytest.raises(ValueError, match=r"saved by a newer advmetric \(format 2\); please upgrade"):
        Mahalanobis.load(saved)


@pytest.mark.parametrize("kept", [0, 1, 10, 100, 300, -1])
def test_a_truncated_file_is_refused(saved, kept):
    saved.write_bytes(saved.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"metric\.npz is not a metric saved by advmetric, or it is damaged"):
        Mahalanobis.load(saved)


def foreign(kind):
    stream = io.BytesIO()
    if kind == "another npz":
        np.savez(stream, X=np.eye(3), y=np.arange(3))
    elif kind == "compressed npz":
        np.savez_compressed(stream, header=np.array("{}"), components=np.eye(2))
    elif kind == "npy":
        np.save(stream, np.eye(3))
    elif kind == "pickled objects":
        np.savez(stream, header=np.array([{"format": "advmetric-metric"}], dtype=object), components=np.eye(2))
    elif kind == "pickle":
        import pickle

        pickle.dump({"components": np.eye(2)}, stream)
    elif kind == "zip":
        with zipfile.ZipFile(stream, "w") as archive:
            archive.writestr("header.npy", "no array")
            archive.writestr("components.npy", "no array")
    elif kind == "text":
        stream.write(b"components = 1\n")
    elif kind == "random bytes":
        stream.write(np.random.default_rng(0).bytes(5000))
    return stream.getvalue()


@pytest.mark.parametrize(
    "kind", ["another npz", "compressed npz", "npy", "pickled objects", "pickle", "zip", "text", "random bytes"]
)
def test_a_foreign_file_is_refused(tmp_path, kind):
    path = tmp_path / "foreign.file"
    path.write_bytes(foreign(kind))
    with pytest.raises(ValueError, match=r"foreign\.file is not a metric saved by advmetric, or it is damaged"):
        Mahalanobis.load(path)


def test_loading_never_unpickles(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    np.savez(
        tmp_path / "bomb.npz", header=np.array([Bomb()], dtype=object), components=np.array([[Bomb()]], dtype=object)
    )
    with pytest.raises(ValueError, match="not a metric saved by advmetric"):
        Mahalanobis.load(tmp_path / "bomb.npz")


def test_a_missing_file_is_reported_as_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        Mahalanobis.load(tmp_path / "nothing")


@pytest.mark.parametrize("step", ["numpy.savez", "os.fsync", "os.replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=["OSError", "KeyboardInterrupt"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(metric, saved, monkeypatch, step, error):
    def fail(*arguments, **options):
        if step == "numpy.savez":
            arguments[0].write(b"half a file")
        raise error

    before = saved.read_bytes()
    monkeypatch.setattr(step, fail)
    with pytest.raises(type(error)):
        Mahalanobis(np.eye(7)).save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]
    assert_same(Mahalanobis.load(saved), metric)


def test_a_metric_without_threshold_is_saved_from_points(vehicle, tmp_path):
    GMML().fit(vehicle.X, vehicle.y).get_metric().save(tmp_path / "m.npz")
    assert Mahalanobis.load(tmp_path / "m.npz").threshold is None


def test_the_calibration_is_saved_and_part_of_the_checksum(tmp_path):
    metric = Mahalanobis(np.eye(2), threshold=1.0, calibration=(-1.0, 2.0))
    metric.save(tmp_path / "m.npz")
    assert Mahalanobis.load(tmp_path / "m.npz").calibration == (-1.0, 2.0)
    rewrite(tmp_path / "m.npz", {"calibration": [-1.0, 3.0]})
    with pytest.raises(ValueError, match="was changed after it was saved"):
        Mahalanobis.load(tmp_path / "m.npz")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"threshold": float("nan")}, "threshold=nan"),
        ({"threshold": float("inf")}, "threshold=inf"),
        ({"threshold": "far"}, "threshold must be a number"),
        ({"calibration": [1.0, float("nan")]}, "calibration"),
        ({"calibration": [1.0]}, "calibration"),
        ({"feature_names": ["a"]}, "feature_names has 1 names for 4 features"),
        ({"components": np.zeros((0, 0))}, "components must be a finite"),
        ({"components": np.zeros((0, 4))}, "components must be a finite"),
        ({"components": np.ones((2, 4)) * 1j}, "real numbers"),
        ({"components": np.full((2, 4), np.nan)}, "components must be a finite"),
        ({"components": np.array([["a"] * 4])}, "convert"),
        ({"components": np.ones(4)}, "components must be a finite"),
    ],
)
def test_what_is_no_metric_is_refused_at_load_even_with_a_right_checksum(metric, tmp_path, change, reason):
    facts = {name: getattr(metric, name) for name in ("threshold", "feature_names", "calibration")}
    arrays = {"components": change.pop("components", metric.components)}
    write_archive(tmp_path / "forged.npz", "a metric", facts | change, arrays)
    with pytest.raises(DamagedFileError, match=reason):
        Mahalanobis.load(tmp_path / "forged.npz")


def test_the_preparation_of_columns_is_kept_as_facts(tmp_path):
    facts = [{"name": "x", "levels": ["a", "b"], "fill": "a"}, {"name": "y", "levels": None, "fill": 0.1}]
    Mahalanobis(np.eye(2), None, ("x=b", "y"), None, facts).save(tmp_path / "m.npz")
    assert Mahalanobis.load(tmp_path / "m.npz").preparation == facts
    with np.load(tmp_path / "m.npz", allow_pickle=False) as archive:
        assert json.loads(str(archive["header"]))["preparation"] == facts
    # A file from before there was any.
    old = {"threshold": None, "feature_names": None, "calibration": None}
    write_archive(tmp_path / "old.npz", "a metric", old, {"components": np.eye(2)})
    assert Mahalanobis.load(tmp_path / "old.npz").preparation is None
