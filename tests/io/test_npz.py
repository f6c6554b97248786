"""Arrays read from npz files in any order."""

import numpy as np
import pytest

from advmetric.io.npz import members
from advmetric.utils.archive import DamagedFileError


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(50, 3), (50,), (50, 2, 3), (50, 1)])
def test_rows_in_any_order_are_those_of_the_array(tmp_path, order, shape):
    X = np.asarray(np.random.default_rng(0).normal(size=shape), order=order)
    np.savez(tmp_path / "a.npz", y=np.arange(7), X=X)
    with members(tmp_path / "a.npz") as arrays:
        found = arrays["X"].on_disk()
        assert (found.shape, found.dtype, len(found)) == (X.shape, X.dtype, 50)
        for rows in (slice(3, 9), slice(45, 70), slice(60, 70), np.array([7, 1, 7, 49, 0]), np.array([], dtype=int)):
            np.testing.assert_array_equal(found[rows], X[rows])
        np.testing.assert_array_equal(np.concatenate(list(arrays["X"].blocks(8))), X)


def test_rows_far_apart_are_read_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setattr("advmetric.io.npz._GAP_BYTES", 0)
    X = np.random.default_rng(0).normal(size=(90, 2))
    np.savez(tmp_path / "a.npz", X=X)
    rows = np.array([5, 80, 3, 4, 80])
    with members(tmp_path / "a.npz") as arrays:
        np.testing.assert_array_equal(arrays["X"].on_disk()[rows], X[rows])


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_truncated_in_use_is_an_error_and_does_not_kill_the_process(tmp_path, order):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.asarray(np.random.default_rng(0).normal(size=(40_000, 4)), order=order))
    with members(path) as arrays:
        points = arrays["X"].on_disk()
        assert points[np.array([0, 39_999])].shape == (2, 4)
        with path.open("r+b") as stream:
            stream.truncate(path.stat().st_size // 2)
        with pytest.raises(DamagedFileError, match=r"a\.npz is shorter than its arrays: it was truncated while in use"):
            points[np.array([1, 39_999])]


def test_compressed_arrays_have_no_rows_in_any_order(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", X=np.eye(3))
    with members(tmp_path / "a.npz") as arrays, pytest.raises(ValueError, match="the array X is compressed"):
        arrays["X"].on_disk()
