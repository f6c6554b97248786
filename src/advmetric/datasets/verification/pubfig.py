"""PubFig: public figures, from a folder person/*.jpg or ``pubfig83.npz``."""

import os
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .archive import read_faces
from .draw import balanced_pairs, disjoint_pairs
from .images import Grey, grey, open_image
from .pairfile import read_pairs, scan_people
from .sets import Indices, LabelledFolds, VerificationSet, check_folds, share_nothing

FILES = ("pubfig83.npz", "pubfig83", "pubfig")
"""What is looked for in the data home, in this order."""
SIZE = 64

LICENCE = "non-commercial use only (Columbia University)"
CITATION = (
    "Kumar, N., Berg, A. C., Belhumeur, P. N. & Nayar, S. K. (2009). Attribute and simile classifiers for face "
    "verification. ICCV; the 83 people: Pinto, N., Stone, Z., Zickler, T. & Cox, D. (2011). Scaling-up "
    "biologically-inspired computer vision. CVPR Workshops"
)

Protocol = Literal["disjoint", "ordered"]


def load_pubfig(
    home: Path | None,
    folder: Path | None,
    *,
    protocol: Protocol = "disjoint",
    pairs_file: str | os.PathLike[str] | None = None,
    n_folds: int = 10,
    n_pairs: int = 2000,
    seed: int = 0,
) -> VerificationSet:
    """Read PubFig; see `load_verification`. `n_pairs` a fold, `n_folds` and `seed` are for generated pairs."""
    if protocol not in ("disjoint", "ordered"):
        raise ValueError(f"protocol must be 'disjoint' or 'ordered', got {protocol!r}")
    place, source = (folder, "folder") if folder is not None else (_find(home), "data home")
    identities: NDArray
    if place.is_file():
        if pairs_file is not None:
            raise ValueError(f"pairs_file is for a folder of images; {place} holds its own pairs")
        if (n_folds, n_pairs, seed) != (10, 2000, 0):
            raise ValueError(f"n_folds, n_pairs and seed are for generated pairs; {place} holds its own pairs")
        arrays, identities, pairs, labels, folds = read_faces(place)
        X, files = arrays["X"], []
        asked, origin = place, "Pairs as in the file (generated, not the official ones)."
    else:
        people = scan_people(place)
        identities, files = people.identities, people.files
        if pairs_file is not None:
            asked, origin = Path(pairs_file).expanduser(), "Pairs of the given file."
            pairs, labels, folds = read_pairs(asked, people)
        else:
            asked, origin = place, f"Generated pairs (seed {seed}): balanced, uniform of each kind, none twice."
            pairs, labels, folds = _generate(identities, protocol, n_folds, n_pairs, seed, str(place))

    if protocol == "ordered":
        # Whatever folds there were: the paper's split knows only the order.
        folds = (np.arange(len(pairs)) >= len(pairs) * 4 // 5).astype(np.int64)
        check_folds(labels, folds, f"{asked}, protocol='ordered'")
        note = f"{origin} Ordered protocol of the paper: the first 80 % of the pairs train, the rest are tested."
    else:
        check_folds(labels, folds, str(asked))
        if not share_nothing(identities, pairs, folds):
            raise ValueError(
                f"{asked}: {_shared_person(identities, pairs, folds)!r} is in the pairs of two folds, so people are "
                "not disjoint; use protocol='ordered' or other pairs"
            )
        note = f"{origin} Folds share no person: who is tested was never trained on."
    # Last, so that a mistake in the pairs does not wait for thousands of images.
    if files:
        X = _read_faces(files)
    about = {"source": source, "licence": LICENCE, "citation": CITATION, "note": note}
    test_fold = 1 if protocol == "ordered" else None
    return VerificationSet.of_identities(
        "pubfig", X, identities, (pairs, labels, folds), development=None, test_fold=test_fold, **about
    )


def _find(home: Path | None) -> Path:
    for path in (home / file for file in FILES) if home is not None else ():
        if path.exists():
            return path
    where = "no data home is set" if home is None else f"the data home {home} has none of {', '.join(FILES)}"
    raise FileNotFoundError(
        f"verification set 'pubfig': {where}. Pass folder= with one folder of images a person, as in "
        "'Adam Sandler/1.jpg' (the authors publish addresses of the images, and PubFig83 as an archive)"
    )


def _generate(
    identities: NDArray, protocol: Protocol, n_folds: int, n_pairs: int, seed: int, place: str
) -> LabelledFolds:
    if protocol == "disjoint":
        return disjoint_pairs(identities, n_folds, n_pairs, seed, place)
    pairs, labels = balanced_pairs(identities, n_folds * n_pairs, np.random.default_rng(seed), place)
    return pairs, labels, np.zeros(len(pairs), dtype=np.int64)


def _read_faces(files: list[Path]) -> Grey:
    X = np.empty((len(files), SIZE, SIZE), dtype=np.uint8)
    for row, path in enumerate(files):
        X[row] = grey(open_image(path).resize((SIZE, SIZE)))
    return X


def _shared_person(identities: NDArray, pairs: Indices, folds: Indices) -> str:
    """The first person in the pairs of two folds."""
    first: dict[object, int] = {}
    for person, fold in zip(identities[pairs].ravel().tolist(), np.repeat(folds, 2).tolist(), strict=True):
        if first.setdefault(person, fold) != fold:
            return str(person)
    raise AssertionError("no person is shared")
