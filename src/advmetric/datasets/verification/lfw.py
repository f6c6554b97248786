"""Labeled Faces in the Wild: View 2 (ten folds) with View 1 for development."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .archive import labelled_pairs, read_faces
from .images import Grey, grey, open_image
from .pairfile import read_pairs, scan_people
from .sets import Development, LabelledFolds, VerificationSet

FILES = ("lfw.npz", "lfw_home")
"""What is looked for in the data home, in this order."""
IMAGE_FOLDERS = ("lfw_funneled", "lfw-deepfunneled", "lfw_deepfunneled", "lfw")
ORIGINAL = (250, 250)
ROWS, COLUMNS = slice(70, 195), slice(78, 172)
"""scikit-learn's default crop."""
HEIGHT, WIDTH = 62, 47

LICENCE = "none stated; photographs from news sites, for research"
CITATION = (
    "Huang, G. B., Ramesh, M., Berg, T. & Learned-Miller, E. (2007). Labeled Faces in the Wild: A database for "
    "studying face recognition in unconstrained environments. University of Massachusetts, Amherst, report 07-49"
)
NOTE = (
    "Official View 2: 10 folds of same and different pairs; development is the official View 1, whose people are also "
    "in View 2. Image-restricted use looks at the pairs only, not at identities."
)


def load_lfw(home: Path | None, folder: Path | None) -> VerificationSet:
    """Read ``lfw.npz`` or a folder in the layout of scikit-learn's ``fetch_lfw_pairs``."""
    if folder is not None:
        return _from_folder(folder, "folder")
    for path in (home / file for file in FILES) if home is not None else ():
        if path.is_file():
            return _from_archive(path)
        if path.is_dir():
            return _from_folder(path, "data home")
    where = "no data home is set" if home is None else f"the data home {home} has neither {' nor '.join(FILES)}"
    raise FileNotFoundError(
        f"verification set 'lfw': {where}. Run sklearn.datasets.fetch_lfw_pairs(data_home=...) once, which downloads "
        "200 MB, and pass the same path as folder= or data_home="
    )


def _from_archive(path: Path) -> VerificationSet:
    further = ("dev_train_pairs", "dev_train_labels", "dev_test_pairs", "dev_test_labels")
    arrays, identities, pairs, labels, folds = read_faces(path, further)
    view1 = [
        part
        for step in ("dev_train", "dev_test")
        for part in labelled_pairs(arrays, (f"{step}_pairs", f"{step}_labels"), identities, str(path))
    ]
    return _assemble(arrays["X"], identities, (pairs, labels, folds), Development(*view1), "data home")


def _from_folder(folder: Path, source: str) -> VerificationSet:
    """Read all images and the three pairs files; the folder may be lfw_home or the one that contains it."""
    home = folder / "lfw_home" if (folder / "lfw_home").is_dir() else folder
    image_folder = next((home / name for name in IMAGE_FOLDERS if (home / name).is_dir()), None)
    if image_folder is None:
        raise FileNotFoundError(f"{home} has no folder {' or '.join(IMAGE_FOLDERS)} of LFW images person/*.jpg")
    people = scan_people(image_folder)
    # The pairs first: a mistake in them should not wait for 13000 images.
    view2 = read_pairs(home / "pairs.txt", people)
    train, test = (read_pairs(home / name, people)[:2] for name in ("pairsDevTrain.txt", "pairsDevTest.txt"))
    X = np.empty((len(people.files), HEIGHT, WIDTH), dtype=np.uint8)
    for row, path in enumerate(people.files):
        X[row] = read_face(path)
    return _assemble(X, people.identities, view2, Development(*train, *test), source)


def read_face(path: Path) -> Grey:
    """Crop, halve and grey an image as scikit-learn does by default: 62 x 47 pixels."""
    image = open_image(path)
    if image.size != ORIGINAL:
        raise ValueError(f"{path} is {image.size[0]} x {image.size[1]} pixels; images of LFW are 250 x 250")
    face = image.crop((COLUMNS.start, ROWS.start, COLUMNS.stop, ROWS.stop))
    return grey(face.resize((WIDTH, HEIGHT)))


def _assemble(X: Grey, identities: NDArray, view2: LabelledFolds, view1: Development, source: str) -> VerificationSet:
    about = {"source": source, "licence": LICENCE, "citation": CITATION, "note": NOTE}
    return VerificationSet.of_identities("lfw", X, identities, view2, development=view1, **about)
