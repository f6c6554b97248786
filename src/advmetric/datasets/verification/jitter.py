"""Pairs made from unlabelled patches: each patch is seen several times under small random changes.

A view is the patch under a shift, a rotation, a change of scale and of lighting. Two views of one patch match; views of
two patches do not. All views are produced in the same way, so that artefacts of interpolation or
clipping carry no information.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advmetric.utils.archive import read_arrays

from .archive import check_images
from .draw import check_count, disjoint_pairs
from .images import Grey, image_files, read_grey
from .phototourism import CITATION, LICENCE, PATCH, read_patches, read_points
from .sets import VerificationSet

FILE = "notredame_patches.npz"


@dataclass(frozen=True)
class Jitter:
    """How far a view may be from its patch; each change is drawn uniformly between minus and plus its bound.

    Parameters
    ----------
    shift : float
        In either direction, as a share of the side of the patch.
    rotation : float
        In degrees.
    scale : float
        Of the logarithm of the scale: 0.1 is about 10 % smaller or larger.
    contrast : float
        Of the logarithm of the contrast about the mean grey.
    brightness : float
        Added grey levels, of 255.
    """

    shift: float = 0.05
    rotation: float = 12.0
    scale: float = 0.1
    contrast: float = 0.3
    brightness: float = 25.0

    def __post_init__(self) -> None:
        for name in ("shift", "rotation", "scale", "contrast", "brightness"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ValueError(f"jitter: {name} must be finite and not negative, got {value}")

    def draw(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """n rows (down, right, degrees, log scale, log contrast, brightness), shifts as shares of the side."""
        bounds = (self.shift, self.shift, self.rotation, self.scale, self.contrast, self.brightness)
        return rng.uniform(-1.0, 1.0, size=(n, 6)) * bounds

    def view_side(self, side: int) -> int:
        """The side of the largest centred square, of the parity of `side`, whose views never leave the patch."""
        angle = np.deg2rad(min(self.rotation, 45.0))
        reach = (np.cos(angle) + np.sin(angle)) * np.exp(self.scale)
        half = (side - 1) / 2 / reach - self.shift * side
        return side - 2 * int(np.ceil((side - 1) / 2 - half - 1e-9))


def load_patches(
    home: Path | None,
    folder: Path | None,
    *,
    patches: NDArray | None = None,
    n_points: int = 3000,
    n_views: int = 4,
    n_folds: int = 5,
    n_pairs: int = 2000,
    jitter: Jitter | None = None,
    seed: int = 0,
) -> VerificationSet:
    """Make pairs from an array, a folder or ``notredame_patches.npz``; see `load_verification`."""
    check_count(n_points, "n_points", 2)
    check_count(n_views, "n_views", 2)
    originals, source = _originals(home, folder, patches, n_points)
    how = jitter or Jitter()
    points = np.repeat(np.arange(len(originals)), n_views)
    pairs, labels, folds = disjoint_pairs(points, n_folds, n_pairs, seed, "verification set 'patches'")
    # A stream of its own: other views leave the pairs as they are.
    changes = how.draw(len(points), np.random.default_rng([seed, 1]))
    return VerificationSet(
        name="patches",
        X=make_views(originals, points, changes, how.view_side(originals.shape[1])),
        pairs=pairs,
        labels=labels,
        folds=folds,
        identities=None,
        development=None,
        disjoint=True,
        source=source,
        licence="as the caller's array" if source == "array" else LICENCE,
        citation="the caller's array" if source == "array" else CITATION,
        note=f"Made pairs, not observed ones: {n_views} views of each of {len(originals)} unlabelled patches under "
        f"random shift (±{how.shift:g} of the side), rotation (±{how.rotation:g}°), scale (±{how.scale:g} in log), "
        f"contrast (±{how.contrast:g} in log) and brightness (±{how.brightness:g} of 255), seed {seed}. A same pair is "
        "two views of one patch, a different pair views of two. Folds share no patch. Not comparable with MVS.",
    )


def make_views(patches: Grey, source: NDArray, changes: NDArray[np.float64], side: int) -> Grey:
    """Change patch ``source[i]`` by ``changes[i]`` (see `Jitter.draw`) and keep the central `side` x `side` pixels.

    The content moves down and right by the shift, turns clockwise and grows with the scale.
    """
    # Imported here so that whoever loads labelled data does not wait for it.
    from scipy.ndimage import map_coordinates, spline_filter

    n = patches.shape[1]
    if side < 2:
        raise ValueError(f"patches of {n} x {n} pixels are too small for this jitter: nothing of the centre is left")
    views = np.empty((len(source), side, side), dtype=np.uint8)
    filtered, smooth = -1, np.empty(0)
    for i, change in enumerate(changes):
        if source[i] != filtered:
            filtered = int(source[i])
            smooth = spline_filter(patches[filtered].astype(np.float64), order=3, mode="mirror")
        place = origins(change, side, n)
        pixels = map_coordinates(smooth, place, order=3, mode="mirror", prefilter=False)
        grey = (pixels - pixels.mean()) * np.exp(change[4]) + pixels.mean() + change[5]
        views[i] = np.clip(np.rint(grey), 0, 255)
    return views


def origins(change: NDArray[np.float64], side: int, n: int) -> NDArray[np.float64]:
    """Where in an n x n patch each pixel of a view comes from, (2, side, side): the inverse of the change."""
    axis = np.arange(side) - (side - 1) / 2
    v, h = axis[:, None] - change[0] * n, axis[None, :] - change[1] * n
    angle, shrink = np.deg2rad(change[2]), np.exp(-change[3])
    cos, sin = shrink * np.cos(angle), shrink * np.sin(angle)
    return np.stack([cos * v - sin * h, sin * v + cos * h]) + (n - 1) / 2


def _originals(home: Path | None, folder: Path | None, patches: NDArray | None, n_points: int) -> tuple[Grey, str]:
    """The first n_points patches, exact copies left out, and where they are from."""
    if patches is not None:
        if folder is not None:
            raise ValueError("pass either folder or patches, not both")
        found, place, source = np.asarray(patches), "patches", "array"
    elif folder is not None:
        found, place, source = _from_folder(folder, n_points), str(folder), "folder"
    elif home is not None and (home / FILE).is_file():
        found, place, source = read_arrays(home / FILE, ("X",))["X"], str(home / FILE), "data home"
    else:
        where = "no data home is set" if home is None else f"the data home {home} has no {FILE}"
        raise FileNotFoundError(
            f"verification set 'patches': {where}. Pass folder= with image files of one size, one a patch, or a scene "
            "of Photo Tourism (patches0000.bmp, info.txt), or patches= with an (n, side, side) uint8 array"
        )
    check_images(found, place)
    if found.shape[1] != found.shape[2]:
        raise ValueError(f"{place}: patches must be square, got {found.shape[1]} x {found.shape[2]} pixels")
    # A patch and its exact copy would make a wrong "different" pair.
    _, first = np.unique(found.reshape(len(found), -1), axis=0, return_index=True)
    return found[np.sort(first)[:n_points]], source


def _from_folder(folder: Path, n_points: int) -> Grey:
    """A scene of Photo Tourism, the first patch of each point; or else one image file a patch."""
    if (folder / "info.txt").is_file():
        _, first = np.unique(read_points(folder), return_index=True)
        chosen = np.sort(first)[:n_points].astype(np.int64)
        scene = np.empty((len(chosen), PATCH, PATCH), dtype=np.uint8)
        read_patches(folder, chosen, scene)
        return scene
    files = image_files(folder)
    if not files:
        raise ValueError(f"there is no image file in {folder}")
    if files[0].name == "patches0000.bmp":
        raise FileNotFoundError(f"there is no info.txt in {folder}: it is unknown which patches show the same point")
    images = []
    for path in files[:n_points]:
        images.append(read_grey(path))
        if images[-1].shape != images[0].shape:
            height, width = images[-1].shape
            raise ValueError(
                f"{path} is {width} x {height} pixels, but {files[0].name} is {images[0].shape[1]} x "
                f"{images[0].shape[0]}; patches must have one size"
            )
    return np.stack(images)
