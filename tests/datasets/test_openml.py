"""OpenML as the last source, with a stand-in for scikit-learn's fetch_openml."""

import dataclasses
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.utils import Bunch

from advmetric.datasets import load_dataset, openml
from advmetric.datasets.files import content_checksum
from advmetric.datasets.registry import REGISTRY


class OpenML:
    """Serves one dataset and remembers how it was asked."""

    def __init__(self, data, target):
        self.data, self.target = data, target
        self.calls = []

    def __call__(self, **arguments):
        self.calls.append(arguments)
        return Bunch(data=self.data, target=self.target)


@pytest.fixture
def served(monkeypatch):
    """A small stand-in for isolet that OpenML serves in another order than the reference."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (52, 3)).round(4), np.arange(52) % 26
    info = dataclasses.replace(REGISTRY["isolet"], n=52, d=3, sha256=content_checksum(X, y))
    monkeypatch.setitem(REGISTRY, "isolet", info)
    order = rng.permutation(52)
    service = OpenML(X[order], np.array([str(code + 1) for code in y[order]], dtype=object))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", service)
    return service


def test_a_download_with_the_right_content_is_used_and_its_labels_become_codes(served):
    data = load_dataset("isolet")
    np.testing.assert_array_equal(data.X, served.data)
    assert data.y.tolist() == [int(label) - 1 for label in served.target]
    assert data.target_names[data.y[0]] == chr(ord("A") + int(served.target[0]) - 1)
    assert data.source == "openml"


def test_openml_is_asked_by_fixed_id_and_without_pandas(served):
    load_dataset("isolet")
    assert served.calls == [{"data_id": 300, "as_frame": False, "parser": "liac-arff", "cache": True}]


def test_a_download_is_kept_in_the_data_home_and_not_asked_for_again(served, tmp_path):
    home = tmp_path / "new" / "home"
    first = load_dataset("isolet", data_home=home)
    assert [path.name for path in home.iterdir()] == ["isolet.npz"]
    second = load_dataset("isolet", data_home=home)
    assert (first.source, second.source) == ("openml", "data home")
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    assert [call["cache"] for call in served.calls] == [False]


def test_download_false_never_asks_openml(served):
    with pytest.raises(FileNotFoundError, match="OpenML was not asked because download=False"):
        load_dataset("isolet", download=False)
    assert served.calls == []


def test_other_content_is_an_error_that_says_so_and_is_not_kept(served, tmp_path):
    served.data[7, 1] += 0.001
    with pytest.raises(
        ValueError, match="OpenML dataset 300 does not have the content of 'isolet': checksum"
    ) as caught:
        load_dataset("isolet", data_home=tmp_path)
    assert REGISTRY["isolet"].sha256 in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_other_labels_are_other_content(served):
    served.target[[0, 1]] = served.target[[1, 0]]
    with pytest.raises(ValueError, match="does not have the content"):
        load_dataset("isolet")


def test_an_unknown_class_is_named(served):
    served.target[0] = "27"
    with pytest.raises(ValueError, match="OpenML dataset 300 is not 'isolet': it has the unknown class '27'"):
        load_dataset("isolet")


def test_another_shape_is_named(served):
    served.data = served.data[:, :2]
    with pytest.raises(ValueError, match=r"OpenML dataset 300: X must be 52 x 3 numbers.* got shape \(52, 2\)"):
        load_dataset("isolet")


@pytest.mark.parametrize(
    "failure",
    [URLError(ConnectionRefusedError(111, "Connection refused")), TimeoutError("timed out"), ConnectionResetError()],
)
def test_without_a_network_the_error_says_what_to_do(monkeypatch, tmp_path, failure):
    def fail(**arguments):
        raise failure

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fail)
    with pytest.raises(FileNotFoundError) as caught:
        load_dataset("isolet", data_home=tmp_path)
    message = str(caught.value)
    assert f"OpenML dataset 300 could not be downloaded ({type(failure).__name__}" in message
    assert f"the data home {tmp_path} has no isolet.npz" in message
    assert "np.savez_compressed('isolet.npz', X=X, y=y)" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_bundle")
@pytest.mark.parametrize("name", ["german-credit", "german-credit-numeric"])
def test_what_openml_does_not_have_is_not_asked_for(name):
    with pytest.raises(FileNotFoundError, match="no data home is set"):
        load_dataset(name)


@pytest.mark.parametrize("name", ["breast-cancer", "vehicle", "image-segment", "letters"])
def test_openml_stands_in_for_a_bundled_file_that_is_gone(name, request, monkeypatch):
    whole = load_dataset(name, missing="keep")
    request.getfixturevalue("no_bundle")
    labels = np.array([whole.target_names[code] for code in whole.y], dtype=object)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", OpenML(whole.X[::-1], labels[::-1]))
    data = load_dataset(name, missing="keep")
    assert data.source == "openml"
    np.testing.assert_array_equal(data.y, whole.y[::-1])


@pytest.mark.usefixtures("no_bundle")
def test_mnist_4000_is_400_training_images_a_digit_of_the_70000(monkeypatch):
    digits = np.random.default_rng(1).integers(0, 10, 70000)
    X = np.column_stack([np.arange(70000.0), digits])
    rows = openml.mnist_4000_rows(digits[:60000])
    info = dataclasses.replace(REGISTRY["mnist-4000"], d=2, sha256=content_checksum(X[rows], digits[rows]))
    monkeypatch.setitem(REGISTRY, "mnist-4000", info)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", OpenML(X, digits.astype(str).astype(object)))
    data = load_dataset("mnist-4000")
    assert data.X[:, 0].max() < 60000
    assert (np.diff(data.X[:, 0]) > 0).all()
    np.testing.assert_array_equal(data.X[:, 1], data.y)
    assert np.bincount(data.y).tolist() == [400] * 10


def test_the_reference_checksum_of_isolet_accepts_the_shared_copy_as_a_download(shared, monkeypatch):
    with np.load(shared / "isolet.npz", allow_pickle=False) as copy:
        # OpenML has the four printed decimals in double precision.
        X, y = copy["X"].astype(np.float64).round(4), copy["y"]
    monkeypatch.setattr("sklearn.datasets.fetch_openml", OpenML(X, (y + 1).astype(str).astype(object)))
    assert load_dataset("isolet").X.shape == (7797, 617)
