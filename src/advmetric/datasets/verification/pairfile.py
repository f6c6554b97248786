"""Pairs by name: the text format of LFW, which PubFig shares, and folders of people that it points into.

    10      300                     folds, pairs of each kind a fold (a lone number: one fold)
    Abel_Pacheco    1       4       same person: name, two images
    ...
    Abdel_Madi_Shabneh  1   Dean_Barker  1      different: name, image, name, image

Fields are separated by tabs; an image is its number in the file name or the file name itself. Each fold has its same
pairs first. Lines that are empty or begin with ``#`` do not count.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .images import image_files
from .sets import Indices, signs


@dataclass
class PeopleFolder:
    """A folder with one folder of images a person; rows are images, ordered by person and file name."""

    place: Path
    files: list[Path] = field(default_factory=list)
    people: list[str] = field(default_factory=list)
    rows: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """person → file name or number → rows"""

    @property
    def identities(self) -> NDArray[np.str_]:
        return np.array(self.people)

    def row(self, person: str, image: str) -> int:
        """The row of an image by its name or number; a LookupError says what there is instead."""
        known = self.rows.get(person) or self.rows.get(person.replace(" ", "_"))
        if known is None:
            raise LookupError(f"there is no person {person!r} in {self.place}")
        found = known.get(image) or (known.get(str(int(image))) if image.isdecimal() else None)
        if found is None:
            raise LookupError(f"person {person!r} has no image {image!r} in {self.place}")
        if len(found) > 1:
            names = ", ".join(self.files[row].name for row in found)
            raise LookupError(f"image {image!r} of {person!r} can be any of {names} in {self.place}")
        return found[0]


def scan_people(folder: Path) -> PeopleFolder:
    """List the images of all people; nothing is decoded."""
    listing = PeopleFolder(folder)
    for home in sorted(folder.iterdir()):
        if not home.is_dir() or home.name.startswith((".", "__")):
            continue
        files = image_files(home)
        if not files:
            raise ValueError(f"the folder of person {home.name!r} has no image file: {home}")
        known = listing.rows.setdefault(home.name, {})
        for path in files:
            number = re.search(r"\d+$", path.stem)
            keys = {path.name} | ({str(int(number.group()))} if number else set())
            for key in keys:
                known.setdefault(key, []).append(len(listing.files))
            listing.files.append(path)
            listing.people.append(home.name)
    if not listing.files:
        raise ValueError(f"there are no folders person/*.jpg in {folder}")
    return listing


def read_pairs(path: Path, people: PeopleFolder) -> tuple[Indices, Indices, Indices]:
    """Read a pairs file; return rows into `people`, labels and folds. A ValueError names file and line."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no pairs file {path}")
    pairs, same, folds = [], [], []
    for number, fold, kind, fields in _pair_lines(path):
        left, right = (fields[0], fields[1]), (fields[0] if kind else fields[2], fields[-1])
        if not kind and left[0] == right[0]:
            raise _wrong(path, number, f"a different pair names {left[0]!r} twice")
        try:
            pairs.append((people.row(*left), people.row(*right)))
        except LookupError as error:
            raise _wrong(path, number, str(error.args[0])) from error
        same.append(kind)
        folds.append(fold)
    return np.array(pairs, dtype=np.int64), signs(np.array(same)), np.array(folds, dtype=np.int64)


def _pair_lines(path: Path) -> Iterator[tuple[int, int, bool, list[str]]]:
    """Yield (line number, fold, same or not, fields) of a well-formed file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"pairs file {path} is not a text file ({error})") from error
    lines = [
        (number, [part.strip() for part in line.split("\t")])
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.startswith("#")
    ]
    if not lines:
        raise ValueError(f"pairs file {path} is empty")
    number, header = lines[0]
    if len(header) > 2 or not all(part.isdecimal() and int(part) > 0 for part in header):
        raise _wrong(path, number, f"expected the number of folds and of pairs, as in '10<tab>300', got {header}")
    n_folds, n_pairs = (1, int(header[0])) if len(header) == 1 else (int(header[0]), int(header[1]))
    if len(lines) - 1 != 2 * n_folds * n_pairs:
        raise _wrong(
            path,
            lines[-1][0],
            f"the file ends after {len(lines) - 1} pairs, but its header promises {2 * n_folds * n_pairs} "
            f"({n_folds} x {n_pairs} same and as many different ones)",
        )
    for at, (number, fields) in enumerate(lines[1:]):
        fold, place = divmod(at, 2 * n_pairs)
        same = place < n_pairs
        if len(fields) != (3 if same else 4) or not all(fields):
            wanted = "'name<tab>i<tab>j' (same)" if same else "'name<tab>i<tab>name<tab>j' (different)"
            raise _wrong(path, number, f"expected {wanted}, got {fields}")
        yield number, fold, same, fields


def _wrong(path: Path, number: int, what: str) -> ValueError:
    return ValueError(f"{path}, line {number}: {what}")
