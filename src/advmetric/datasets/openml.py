"""Datasets from OpenML, by fixed id and checked against the reference copy."""

from http.client import HTTPException

import numpy as np
from numpy.typing import NDArray

from .files import Labels, Points, check_arrays, content_checksum
from .registry import DatasetInfo


def mnist_4000_rows(digits: Labels) -> NDArray[np.intp]:
    """Rows of the 4000 images among MNIST's 60000 training images, as ``tools/bundle_datasets.py`` draws them.

    400 a digit, with the legacy generator because NumPy has frozen its stream; in increasing order.
    """
    rng = np.random.RandomState(0)
    return np.sort(np.concatenate([rng.permutation(np.flatnonzero(digits == digit))[:400] for digit in range(10)]))


def download(info: DatasetInfo, *, keep_raw: bool) -> tuple[Points, Labels]:
    """Download one dataset from OpenML.

    Parameters
    ----------
    info : DatasetInfo
        A record with an `openml_id`.
    keep_raw : bool
        Whether scikit-learn keeps the raw download in its own cache.

    Returns
    -------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)

    Raises
    ------
    ConnectionError
        OpenML could not be reached.
    ValueError
        What came is not the dataset of the registry.
    """
    # Imported here so that whoever loads a bundled set does not wait for it.
    from sklearn.datasets import fetch_openml

    place = f"OpenML dataset {info.openml_id}"
    try:
        # This parser needs no pandas.
        raw = fetch_openml(data_id=info.openml_id, as_frame=False, parser="liac-arff", cache=keep_raw)
    except (OSError, HTTPException) as error:
        raise ConnectionError(f"{place} could not be downloaded ({type(error).__name__}: {error})") from error

    code = {label: i for i, label in enumerate(info.openml_labels or info.target_names)}
    labels = [str(label) for label in raw.target]
    unknown = sorted(set(labels).difference(code))
    if unknown:
        raise ValueError(f"{place} is not {info.name!r}: it has the unknown class {unknown[0]!r}")
    X, y = np.asarray(raw.data, dtype=np.float64), np.array([code[label] for label in labels], dtype=np.int64)
    if info.name == "mnist-4000":
        rows = mnist_4000_rows(y[:60000])
        X, y = X[rows], y[rows]

    X, y = check_arrays(X, y, info, place)
    checksum = content_checksum(X, y)
    if checksum != info.sha256:
        raise ValueError(
            f"{place} does not have the content of {info.name!r}: checksum {checksum}, expected {info.sha256}. "
            "The download is damaged, or OpenML now has other values or another rounding. Nothing was kept. "
            f"Try again, or put a copy that you trust in the data home as {info.files[0]}"
        )
    return X, y
