"""The Photo Tourism patches (multi-view stereo): scenes as folders of bitmaps, points and pair files.

A scene folder holds ``patches0000.bmp`` … of 1024 x 1024 pixels, each 16 x 16 patches of 64 x 64 by rows; ``info.txt``
with a line a patch, the scene point first; and pair files ``m50_100000_100000_0.txt`` with lines

    patch point unused patch point unused [unused]

Two patches match if their points are the same.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .images import Grey, read_grey
from .sets import Indices, VerificationSet, signs

SCENES = ("liberty", "notredame", "yosemite")
FOLDERS = ("mvs", "phototour", "photo_tourism")
"""Where the scenes are looked for in the data home, which may hold them itself."""
PATCH, ACROSS = 64, 16
SIDE, PER_BITMAP = PATCH * ACROSS, ACROSS * ACROSS
PAIR_FILE = "m50_100000_100000_0.txt"

LICENCE = "none stated; published for research by the University of British Columbia"
CITATION = (
    "Winder, S. & Brown, M. (2007). Learning local image descriptors. CVPR; "
    "Brown, M., Hua, G. & Winder, S. (2011). Discriminative learning of local image descriptors. IEEE TPAMI 33(1)"
)


@dataclass(frozen=True)
class Scene:
    """The pairs of a scene, and the patches that they name."""

    folder: Path
    patches: Indices  # numbers of the patches in use, increasing
    points: Indices  # the scene point of each
    pairs: Indices  # positions in `patches`
    labels: Indices


def load_mvs(
    home: Path | None, folder: Path | None, *, pairs_file: str = PAIR_FILE, test_scene: str = "yosemite"
) -> VerificationSet:
    """Train on two scenes, test on the third; only patches that a pair names are kept."""
    if test_scene not in SCENES:
        raise ValueError(f"test_scene must be one of {', '.join(SCENES)}, got {test_scene!r}")
    place, source = (folder, "folder") if folder is not None else (_find(home), "data home")
    for name in SCENES:
        if not (place / name).is_dir():
            raise FileNotFoundError(
                f"there is no folder of the scene {name!r} in {place}; it needs {', '.join(SCENES)}"
            )
    scenes = [read_scene(place / name, pairs_file) for name in SCENES]
    starts = np.cumsum([0] + [len(scene.patches) for scene in scenes])
    offsets = np.cumsum([0] + [int(scene.points.max()) + 1 for scene in scenes])
    X = np.empty((starts[-1], PATCH, PATCH), dtype=np.uint8)
    for scene, start in zip(scenes, starts, strict=False):
        read_patches(scene.folder, scene.patches, X[start : start + len(scene.patches)])
    train = " and ".join(name for name in SCENES if name != test_scene)
    return VerificationSet(
        name="mvs",
        X=X,
        pairs=np.concatenate([scene.pairs + start for scene, start in zip(scenes, starts, strict=False)]),
        labels=np.concatenate([scene.labels for scene in scenes]),
        folds=np.repeat(np.arange(len(scenes)), [len(scene.pairs) for scene in scenes]).astype(np.int64),
        # Points are numbered in each scene from 0.
        identities=np.concatenate([scene.points + offset for scene, offset in zip(scenes, offsets, strict=False)]),
        development=None,
        disjoint=True,
        source=source,
        licence=LICENCE,
        citation=CITATION,
        note=f"Pairs of {pairs_file}; folds are the scenes {', '.join(SCENES)}: {train} train, {test_scene} is tested.",
        test_fold=SCENES.index(test_scene),
    )


def _find(home: Path | None) -> Path:
    if home is not None:
        for path in (*(home / name for name in FOLDERS), home):
            if any((path / scene).is_dir() for scene in SCENES):
                return path
    where = "no data home is set" if home is None else f"the data home {home} has no folder {' or '.join(FOLDERS)}"
    raise FileNotFoundError(
        f"verification set 'mvs': {where}. Unpack liberty.zip, notredame.zip and yosemite.zip of "
        "matthewalunbrown.com/patchdata into one folder, a folder a scene, and pass it as folder="
    )


def read_scene(folder: Path, pairs_file: str) -> Scene:
    """Read a pair file against info.txt; number anew the patches that it names."""
    points = read_points(folder)
    path = folder / pairs_file
    table = _integers(path, (6, 7))
    named, claimed = table[:, [0, 3]], table[:, [1, 4]]
    for wrong, what in (
        ((named < 0) | (named >= len(points)), f"there is no such patch: info.txt has {len(points)}"),
        (points[np.clip(named, 0, len(points) - 1)] != claimed, "info.txt says another point"),
    ):
        if wrong.any():
            at, side = np.argwhere(wrong)[0]
            raise ValueError(f"{path}, line {at + 1}: patch {named[at, side]} of point {claimed[at, side]}: {what}")
    labels = signs(claimed[:, 0] == claimed[:, 1])
    if len(np.unique(labels)) < 2:
        raise ValueError(f"{path}: all pairs are of one kind ({'same' if labels[0] > 0 else 'different'})")
    patches, rows = np.unique(named, return_inverse=True)
    return Scene(folder, patches, points[patches], rows.reshape(named.shape).astype(np.int64), labels)


def read_points(folder: Path) -> Indices:
    """The scene point of every patch, checked against the number of bitmaps."""
    path = folder / "info.txt"
    points = _integers(path, None)[:, 0]
    bitmaps = sorted(file.name for file in folder.glob("patches*.bmp"))
    if not bitmaps:
        raise FileNotFoundError(f"there is no patches0000.bmp in {folder}")
    absent = next((_bitmap(k) for k, name in enumerate(bitmaps) if name != _bitmap(k)), None)
    if absent is not None:
        raise FileNotFoundError(f"there is no {absent} in {folder}, though there is {bitmaps[-1]}")
    # The last bitmap need not be full.
    most = PER_BITMAP * len(bitmaps)
    if not most - PER_BITMAP < len(points) <= most:
        fault = f"{'fewer' if len(points) <= most else 'more'} lines than patches"
        raise ValueError(
            f"{path} has {fault}: {len(points)}, but {len(bitmaps)} bitmaps hold {most - PER_BITMAP + 1} to {most}"
        )
    if points.min() < 0:
        raise ValueError(f"{path}, line {int(np.argmax(points < 0)) + 1}: negative point {points.min()}")
    return points


def read_patches(folder: Path, patches: Indices, out: Grey) -> None:
    """Read patches by increasing number into `out`: beside it, one bitmap at a time is in memory."""
    bitmap = patches // PER_BITMAP
    for k in np.unique(bitmap):
        path = folder / _bitmap(int(k))
        pixels = read_grey(path)
        if pixels.shape != (SIDE, SIDE):
            raise ValueError(f"{path} is {pixels.shape[1]} x {pixels.shape[0]} pixels; a bitmap is {SIDE} x {SIDE}")
        tiles = pixels.reshape(ACROSS, PATCH, ACROSS, PATCH).swapaxes(1, 2)
        first, last = np.searchsorted(bitmap, (k, k + 1))
        row, column = np.divmod(patches[first:last] % PER_BITMAP, ACROSS)
        out[first:last] = tiles[row, column]


def _bitmap(k: int) -> str:
    return f"patches{k:04d}.bmp"


def _integers(path: Path, columns: Sequence[int] | None) -> Indices:
    """Read lines of integers, `columns` of them or any number."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    width, blank = 1 if columns is None else columns[0], 0
    # Packed at once: lists of a million Python integers would outweigh the patches.
    values = array("q")
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.split()
            if not fields:
                blank = blank or number
                continue
            if blank:
                raise ValueError(f"{path}, line {blank}: the line is empty")
            try:
                row = [int(part) for part in fields]
            except ValueError:
                row = []
            if not row or (columns is not None and len(row) not in columns):
                wanted = "integers" if columns is None else f"{columns[0]} or {columns[-1]} integers"
                raise ValueError(f"{path}, line {number}: expected {wanted}, got {line.strip()!r}")
            values.extend(row[:width])
    if not values:
        raise ValueError(f"{path} is empty")
    return np.array(values, dtype=np.int64).reshape(-1, width)
