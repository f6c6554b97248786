"""`load_dataset`: from a name to points and labels."""

import os
from importlib.resources import as_file, files
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.utils import Bunch

from . import openml
from .files import Labels, Points, read_npz, write_npz
from .registry import DatasetInfo, find_info

ENVIRONMENT_VARIABLE = "ADVMETRIC_DATA"
BUNDLE = files("advmetric.datasets") / "data"

Missing = Literal["drop", "keep", "median"]


def load_dataset(
    name: str,
    *,
    missing: Missing = "drop",
    data_home: str | os.PathLike[str] | None = None,
    download: bool = True,
) -> Bunch:
    """Load a labelled dataset by name.

    Looked for in this order: in the package; in the data home, as ``name.npz`` with arrays X and y; on OpenML, where
    the content must have the checksum of the reference copy and is then kept in the data home.

    Parameters
    ----------
    name : str
        One of the names of `list_datasets`: breast-cancer, vehicle, german-credit, german-credit-numeric,
        image-segment, isolet, letters, mnist-4000.
    missing : {"drop", "keep", "median"}, default="drop"
        What becomes of missing values: the rows that have one are dropped, they stay as NaN, or each becomes the
        median of its feature. Only breast-cancer has any: 16 of its 699 rows.
    data_home : path, optional
        Folder of further datasets. By default the environment variable ``ADVMETRIC_DATA`` names it.
    download : bool, default=True
        Whether OpenML may be asked for a set that is found nowhere else.

    Returns
    -------
    data : sklearn.utils.Bunch
        With ``X`` (n, d) and ``y`` (n,), label codes 0 .. c - 1; ``target_names``, the classes by code;
        ``feature_names``, or None; ``name``; ``source``, one of "bundled", "data home" and "openml"; ``licence`` and
        ``citation``; ``DESCR``, a paragraph on size, missing values and the coding of categories.

    Raises
    ------
    ValueError
        The name is unknown, or a file or a download does not hold what the registry says.
    FileNotFoundError
        The dataset is nowhere to be found; the message says how to get it.

    See Also
    --------
    list_datasets : What there is.

    Examples
    --------
    >>> from advmetric.datasets import load_dataset
    >>> cars = load_dataset("vehicle")
    >>> cars.X.shape, cars.target_names
    ((846, 18), ['bus', 'opel', 'saab', 'van'])
    """
    info = find_info(name)
    if missing not in ("drop", "keep", "median"):
        raise ValueError(f"missing must be 'drop', 'keep' or 'median', got {missing!r}")
    X, y, source = _find(info, find_data_home(data_home), download)
    X, y, remark = _treat_missing(X, y, missing)
    return Bunch(
        X=X,
        y=y,
        target_names=list(info.target_names),
        feature_names=None if info.feature_names is None else list(info.feature_names),
        name=info.name,
        source=source,
        licence=info.licence,
        citation=info.citation,
        DESCR=f"{info.title}: {X.shape[0]} points, {info.d} features, {info.c} classes "
        f"({', '.join(info.target_names)}). {remark} {info.coding} Source: {source}. "
        f"Licence: {info.licence}. Cite: {info.citation}",
    )


def find_data_home(argument: str | os.PathLike[str] | None) -> Path | None:
    """Return the data home that the argument or else the environment names; None if neither does."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE) or None if argument is None else argument
    if chosen is None:
        return None
    home = Path(chosen).expanduser()
    if home.exists() and not home.is_dir():
        raise ValueError(f"data_home (or {ENVIRONMENT_VARIABLE}) must be a folder, but {home} is a file")
    return home


def _find(info: DatasetInfo, home: Path | None, may_download: bool) -> tuple[Points, Labels, str]:
    """Look for a dataset in the package, the data home and OpenML; return all of it, and its source."""
    bundled = BUNDLE / f"{info.name}.npz"
    if info.bundled and bundled.is_file():
        with as_file(bundled) as path:
            return *read_npz(path, info), "bundled"

    if home is not None:
        for path in (home / file for file in info.files):
            if path.is_file():
                return *read_npz(path, info), "data home"

    reason = "OpenML was not asked because download=False"
    if info.openml_id is None:
        reason = ""
    elif may_download:
        try:
            X, y = openml.download(info, keep_raw=home is None)
        except ConnectionError as error:
            raise _not_found(info, home, str(error)) from error
        if home is not None:
            write_npz(home / info.files[0], X, y)
        return X, y, "openml"
    raise _not_found(info, home, reason)


def _not_found(info: DatasetInfo, home: Path | None, reason: str) -> FileNotFoundError:
    """Build the error that says where a dataset was looked for and what to do."""
    where = f"the data home {home} has no {info.files[0]}" if home is not None else "no data home is set"
    tried = f"dataset {info.name!r}: {where}" + (f", and {reason}" if reason else "")
    advice = info.advice or (
        f"Call again with a connection to OpenML and download=True, or write {info.files[0]} yourself: "
        f"np.savez_compressed({info.files[0]!r}, X=X, y=y) with X {info.n} x {info.d} and y label codes 0..{info.c - 1}"
    )
    return FileNotFoundError(
        f"{tried}. {advice}. The data home is the folder given as data_home= or in the environment variable "
        f"{ENVIRONMENT_VARIABLE}."
    )


def _treat_missing(X: Points, y: Labels, missing: Missing) -> tuple[Points, Labels, str]:
    """Treat NaN as asked; return X, y and the sentence about it for the description."""
    gaps = np.isnan(X)
    rows = gaps.any(axis=1)
    if not rows.any():
        return X, y, "No value is missing."
    if missing == "drop":
        return X[~rows], y[~rows], f"{rows.sum()} of {len(X)} rows had a missing value and were dropped."
    count = f"{gaps.sum()} values in {rows.sum()} of {len(X)} rows are missing"
    if missing == "keep":
        return X, y, f"{count}: they are NaN."
    return np.where(gaps, np.nanmedian(X, axis=0), X), y, f"{count}: each was replaced by the median of its feature."
