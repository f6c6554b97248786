"""`load_verification`: from a name to labelled pairs with their protocol."""

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from advmetric.datasets.loader import find_data_home
from advmetric.utils.suggestions import look_up

from .jitter import load_patches
from .lfw import load_lfw
from .phototourism import load_mvs
from .pubfig import load_pubfig
from .sets import VerificationSet
from .unseen import load_digits, load_letters


class _Entry(NamedTuple):
    load: Callable[..., VerificationSet]
    needs: str


_SETS = {
    "lfw": _Entry(load_lfw, "lfw.npz in the data home, or the folder of sklearn.datasets.fetch_lfw_pairs"),
    "pubfig": _Entry(
        load_pubfig, "pubfig83.npz in the data home, or a folder person/*.jpg, with or without pairs file"
    ),
    "mvs": _Entry(load_mvs, "a folder with the Photo Tourism scenes liberty, notredame and yosemite"),
    "patches": _Entry(load_patches, "notredame_patches.npz in the data home, or a folder or array of patches"),
    "letters-unseen": _Entry(load_letters, "nothing: letters is bundled"),
    "digits-unseen": _Entry(load_digits, "nothing: mnist-4000 is bundled"),
}


def list_verification() -> dict[str, str]:
    """The names that `load_verification` knows, with what each of them needs.

    Examples
    --------
    >>> from advmetric.datasets import list_verification
    >>> [name for name, needs in list_verification().items() if needs.startswith("nothing")]
    ['letters-unseen', 'digits-unseen']
    """
    return {name: entry.needs for name, entry in _SETS.items()}


def load_verification(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> VerificationSet:
    """Load a set of labelled pairs by name.

    Image files are read with Pillow (``pip install "advmetric[vision]"``). Nothing is downloaded or written.

    Parameters
    ----------
    name : str
        * ``"lfw"``: Labeled Faces in the Wild, 62 x 47 pixels; View 2 in ten folds, View 1 as `development`. The
          folder is ``lfw_home`` or what contains it: ``lfw_funneled/Abel_Pacheco/Abel_Pacheco_0001.jpg`` …,
          ``pairs.txt``, ``pairsDevTrain.txt``, ``pairsDevTest.txt``.
        * ``"pubfig"``: public figures, 64 x 64 pixels. The folder holds a folder of images a person.
        * ``"mvs"``: Photo Tourism patches, 64 x 64 pixels, from a folder a scene.
        * ``"patches"``: pairs made from unlabelled patches by random shift, rotation, scale and lighting.
        * ``"letters-unseen"``, ``"digits-unseen"``: bundled data; the classes of a fold are in no other fold.
    data_home : path, optional
        Folder of datasets. By default the environment variable ``ADVMETRIC_DATA`` names it.
    folder : path, optional
        Read this folder and not the data home (lfw, pubfig, mvs, patches).
    **options
        * protocol (pubfig): ``"disjoint"`` (default), folds that share no person, or ``"ordered"``, the paper's: the
          first 80 % of the pairs train, the rest are tested.
        * pairs_file (pubfig): path of a pairs file in the format of LFW; without it pairs are generated.
          (mvs): name of the pair file in each scene, ``"m50_100000_100000_0.txt"``.
        * test_scene (mvs): ``"yosemite"``; the other two train.
        * patches: (n, side, side) uint8 array to take in place of a file; n_points=3000, at most this many of them;
          n_views=4, views of each; jitter, a `Jitter` that bounds the changes.
        * n_folds, n_pairs, seed (where pairs are generated): folds, pairs per fold (half of them same; fewer if there
          are not as many), and the seed of everything random. 10 folds for pubfig and 5 elsewhere, 2000 pairs, seed 0.

    Returns
    -------
    VerificationSet

    Raises
    ------
    ValueError
        The name or an option is unknown, or a file is damaged, malformed or inconsistent: the message names the file,
        line, person or pair.
    FileNotFoundError
        The data is not there; the message says how to get it.
    ImportError
        Image files are to be read, and Pillow is not installed.

    Examples
    --------
    >>> from advmetric.datasets import load_verification
    >>> letters = load_verification("letters-unseen")
    >>> train, test = next(letters.splits())
    >>> letters.X.shape, len(train), len(test)
    ((20000, 16), 8000, 2000)
    """
    load = look_up(name, _SETS, "verification set").load
    known = list(inspect.signature(load).parameters)
    unknown = [option for option in options if option not in known]
    if unknown:
        takes = ", ".join(option for option in known if option not in ("home", "folder")) or "no options"
        raise TypeError(f"verification set {name!r} has no option {unknown[0]!r}; it takes {takes}")
    home = find_data_home(data_home)
    if "folder" not in known:
        if folder is not None:
            raise ValueError(f"folder: verification set {name!r} is made of bundled data and reads no folder")
        return load(home, **options)
    place = None if folder is None else Path(folder).expanduser()
    if place is not None and not place.is_dir():
        raise FileNotFoundError(f"folder: there is no folder {place}")
    return load(home, place, **options)
