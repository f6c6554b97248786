"""Fill the conda-forge recipe from the sdist: version and checksum of the file that goes to PyPI.

    python tools/conda_recipe.py dist/advmetric-0.1.0.tar.gz build/recipe

writes build/recipe/meta.yaml, which is what goes to conda-forge/staged-recipes. recipe/meta.yaml is its template.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from pathlib import Path

TEMPLATE = Path(__file__).resolve().parents[1] / "recipe" / "meta.yaml"


def filled(template: str, sdist: Path) -> str:
    """Return the recipe for an sdist; raise if there is no place for its version or checksum."""
    match = re.fullmatch(r"advmetric-(.+)\.tar\.gz", sdist.name)
    if match is None:
        raise ValueError(f"{sdist.name} is not an sdist of advmetric.")
    checksum = hashlib.sha256(sdist.read_bytes()).hexdigest()
    recipe = template
    for pattern, new in (
        (r'(?<={% set version = ")[^"]+', match[1]),
        (r" *# [^\n]*\n(?=  sha256)", ""),  # what the template says about its checksum
        (r"(?<=  sha256: )0{64}", checksum),
    ):
        recipe, found = re.subn(pattern, new, recipe)
        if found != 1:
            raise ValueError(f"{pattern} is {found} times in the template, not once.")
    return recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sdist", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "meta.yaml"
    path.write_text(filled(TEMPLATE.read_text(encoding="utf-8"), given.sdist), encoding="utf-8")
    print(f"Wrote {path}")


if __name__ == "__main__":
    main()
