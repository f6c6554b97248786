"""The data home: which file is taken, and what a bad file is told."""

import dataclasses
import pickle
import re

import numpy as np
import pytest

from advmetric.datasets import files, load_dataset
from advmetric.datasets.registry import REGISTRY


@pytest.fixture
def small(monkeypatch):
    """Isolet cut down to 20 x 3 and 4 classes, so that files are quickly made."""
    info = dataclasses.replace(REGISTRY["isolet"], n=20, d=3, c=4, target_names=("a", "b", "c", "d"))
    monkeypatch.setitem(REGISTRY, "isolet", info)
    return info


@pytest.fixture
def arrays():
    return np.arange(60.0).reshape(20, 3), np.arange(20) % 4


def save(home, name, X, y):
    home.mkdir(exist_ok=True)
    np.savez_compressed(home / name, X=X, y=y)


def test_a_file_in_the_data_home_is_taken_as_it_is(tmp_path, small, arrays):
    save(tmp_path, "isolet.npz", *arrays)
    data = load_dataset("isolet", data_home=tmp_path)
    np.testing.assert_array_equal(data.X, arrays[0])
    np.testing.assert_array_equal(data.y, arrays[1])
    assert data.source == "data home"
    assert data.feature_names is None


def test_the_environment_variable_names_the_data_home(tmp_path, small, arrays, monkeypatch):
    save(tmp_path, "isolet.npz", *arrays)
    monkeypatch.setenv("ADVMETRIC_DATA", str(tmp_path))
    assert load_dataset("isolet").source == "data home"


def test_the_argument_wins_over_the_environment_variable(tmp_path, small, arrays, monkeypatch):
    X, y = arrays
    save(tmp_path / "environment", "isolet.npz", X, y)
    save(tmp_path / "argument", "isolet.npz", X + 1, y)
    monkeypatch.setenv("ADVMETRIC_DATA", str(tmp_path / "environment"))
    np.testing.assert_array_equal(load_dataset("isolet", data_home=tmp_path / "argument").X, X + 1)


def test_a_bundled_dataset_is_not_looked_for_in_the_data_home(tmp_path):
    (tmp_path / "vehicle.npz").write_bytes(b"not read")
    assert load_dataset("vehicle", data_home=tmp_path).source == "bundled"


@pytest.mark.usefixtures("no_bundle")
@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("breast-cancer", "breast_cancer.npz"),
        ("german-credit-numeric", "german_credit.npz"),
        ("image-segment", "image_segment.npz"),
        ("mnist-4000", "mnist4000.npz"),
        ("mnist-4000", "mnist-4000.npz"),
    ],
)
def test_both_spellings_of_a_file_name_are_accepted(tmp_path, name, file):
    info = REGISTRY[name]
    X = np.ones((info.n, info.d), dtype=np.float32)
    X[: info.n_missing, 0] = np.nan
    save(tmp_path, file, X, np.arange(info.n) % info.c)
    data = load_dataset(name, data_home=tmp_path, missing="keep")
    assert data.X.shape == (info.n, info.d)
    assert data.source == "data home"


@pytest.mark.usefixtures("no_bundle")
def test_the_numeric_german_credit_is_not_taken_for_the_other(tmp_path):
    save(tmp_path, "german_credit.npz", np.ones((1000, 24)), np.arange(1000) % 2)
    with pytest.raises(FileNotFoundError, match=r"has no german-credit\.npz"):
        load_dataset("german-credit", data_home=tmp_path)


@pytest.mark.usefixtures("no_bundle")
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("breast-cancer", (683, 9)),
        ("vehicle", (846, 18)),
        ("german-credit-numeric", (1000, 24)),
        ("image-segment", (2310, 19)),
        ("isolet", (7797, 617)),
        ("letters", (20000, 16)),
        ("mnist-4000", (4000, 784)),
    ],
)
def test_the_shared_folder_works_as_a_data_home_with_the_reference_content(shared, name, shape):
    data = load_dataset(name, data_home=shared, download=False)
    assert data.X.shape == shape
    assert data.source == "data home"
    whole = load_dataset(name, data_home=shared, missing="keep")
    assert files.content_checksum(whole.X, whole.y) == REGISTRY[name].sha256


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:-1], y), r"X must be 20 x 3 numbers for 'isolet', got shape \(19, 3\)"),
        (lambda X, y: (X[:, :2], y), r"X must be 20 x 3 numbers for 'isolet', got shape \(20, 2\)"),
        (lambda X, y: (X.astype(str), y), "X must be 20 x 3 numbers.* dtype <U"),
        (lambda X, y: (X, y[:-1]), r"y must be 20 integer codes for 'isolet', got shape \(19,\)"),
        (lambda X, y: (X, y.astype(float)), "y must be 20 integer codes.* dtype float64"),
        (lambda X, y: (X, y + 1), "every label code from 0 to 3, got 4 codes from 1 to 4"),
        (lambda X, y: (X, y // 2), "every label code from 0 to 3, got 2 codes from 0 to 1"),
        (lambda X, y: (np.where(X == 7, np.nan, X), y), r"1 NaN and 0 infinite .* the first is X\[2, 1\] = nan"),
        (lambda X, y: (np.where(X == 7, -np.inf, X), y), r"0 NaN and 1 infinite .* the first is X\[2, 1\] = -inf"),
    ],
)
def test_a_file_with_other_content_is_refused_by_name_and_place(tmp_path, small, arrays, change, message):
    save(tmp_path, "isolet.npz", *change(*arrays))
    with pytest.raises(ValueError, match=message) as caught:
        load_dataset("isolet", data_home=tmp_path)
    assert str(tmp_path / "isolet.npz") in str(caught.value)


@pytest.mark.usefixtures("no_bundle")
def test_only_as_many_missing_values_as_the_dataset_has_are_accepted(tmp_path):
    X = np.ones((699, 9))
    X[:17, 5] = np.nan
    save(tmp_path, "breast-cancer.npz", X, np.arange(699) % 2)
    with pytest.raises(
        ValueError, match=r"X has 17 NaN .* 'breast-cancer' has 16 missing ones; the first is X\[0, 5\]"
    ):
        load_dataset("breast-cancer", data_home=tmp_path)


class Tripwire:
    """Unpickling an instance makes the test fail."""

    def __reduce__(self):
        return pytest.fail, ("a file was unpickled",)


def write_objects(path, X, y):
    np.savez_compressed(path, X=np.array([[Tripwire()]], dtype=object), y=y)


def write_pickle(path, X, y):
    path.write_bytes(pickle.dumps(Tripwire()))


def write_truncated(path, X, y):
    np.savez_compressed(path, X=X, y=y)
    path.write_bytes(path.read_bytes()[:-40])


def write_flipped(path, X, y):
    np.savez_compressed(path, X=X, y=y)
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)


def write_nothing(path, X, y):
    path.write_bytes(b"")


def write_single_array(path, X, y):
    with path.open("wb") as stream:
        np.save(stream, X)


def write_without_labels(path, X, y):
    np.savez_compressed(path, X=X)


@pytest.mark.parametrize(
    "write",
    [
        write_objects,
        write_pickle,
        write_truncated,
        write_flipped,
        write_nothing,
        write_single_array,
        write_without_labels,
    ],
)
def test_a_broken_or_pickled_file_is_refused_with_advice_and_never_unpickled(tmp_path, small, arrays, write):
    write(tmp_path / "isolet.npz", *arrays)
    expected = re.escape(str(tmp_path / "isolet.npz")) + " is not an npz file of plain arrays.* np.savez_compressed"
    with pytest.raises(ValueError, match=expected):
        load_dataset("isolet", data_home=tmp_path)


def test_a_data_home_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"data_home .* must be a folder"):
        load_dataset("isolet", data_home=tmp_path / "file")


@pytest.mark.parametrize("home", ["", "here"])
def test_without_file_and_download_the_error_says_what_to_do(tmp_path, home):
    data_home = tmp_path / home if home else None
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("isolet", data_home=data_home, download=False)
    message = str(caught.value)
    assert (f"the data home {data_home} has no isolet.npz" if home else "no data home is set") in message
    assert "download=False" in message
    assert "X 7797 x 617 and y label codes 0..25" in message
    assert "ADVMETRIC_DATA" in message


def test_the_three_lines_in_the_error_for_numeric_german_credit_make_the_file(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"german\.data-numeric of the UCI") as caught:
        load_dataset("german-credit-numeric", data_home=tmp_path)
    lines = [line.strip() for line in str(caught.value).splitlines() if line.startswith("    ")]
    assert len(lines) == 3

    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 80, (1000, 24)), rng.permutation(1000) % 2 + 1])
    np.savetxt(tmp_path / "german.data-numeric", table, fmt="%4d")
    monkeypatch.chdir(tmp_path)
    exec("\n".join(lines), {})
    data = load_dataset("german-credit-numeric", data_home=tmp_path)
    np.testing.assert_array_equal(data.X, table[:, :-1])
    np.testing.assert_array_equal(data.y, table[:, -1] - 1)


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, arrays, monkeypatch):
    path = tmp_path / "isolet.npz"
    path.write_bytes(b"old")

    def fail(stream, **arrays):
        stream.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(KeyboardInterrupt):
        files.write_npz(path, *arrays)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_checksum_ignores_row_order_and_the_kind_of_nan_and_zero(arrays):
    X, y = arrays
    X[3, 1] = np.nan
    reference = files.content_checksum(X, y)
    order = np.random.default_rng(0).permutation(20)
    assert files.content_checksum(X[order], y[order]) == reference
    other = X.astype(np.float32)
    other[0, 0] = -0.0
    other.view(np.uint32)[3, 1] |= 0x80000001
    assert np.isnan(other[3, 1])
    assert files.content_checksum(other, y.astype(np.uint8)) == reference


@pytest.mark.parametrize("change", ["value", "label", "pairing", "duplicate"])
def test_the_checksum_sees_every_change_of_the_rows(arrays, change):
    X, y = arrays
    reference = files.content_checksum(X, y)
    if change == "value":
        X[4, 2] = np.nextafter(np.float32(X[4, 2]), np.float32(99))
    elif change == "label":
        y[4] = (y[4] + 1) % 4
    elif change == "pairing":
        y[[0, 1]] = y[[1, 0]]
    else:
        X[1], y[1] = X[0], y[0]
    assert files.content_checksum(X, y) != reference
