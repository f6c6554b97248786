"""Fetch packages from registries and unpack them; nothing of theirs is imported or run."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path


def fetch_debian(folder: Path, package: str, place: str) -> None:
    """Unpack a package of Debian into folder/place."""
    _run(folder, "apt-get", "download", package)
    _run(folder, "dpkg-deb", "-x", next(folder.glob(f"{package}*.deb")).name, place)


def fetch_wheel(folder: Path, requirement: str, place: str) -> None:
    """Unpack a wheel of PyPI, named with its version, into folder/place."""
    options = ("--quiet", "--no-deps", "--only-binary", ":all:")
    _run(folder, sys.executable, "-m", "pip", "download", *options, requirement)
    name = requirement.partition("==")[0].replace("-", "_")
    with zipfile.ZipFile(next(folder.glob(f"{name}*.whl"))) as wheel:
        wheel.extractall(folder / place)


def fetch_npm(folder: Path, package: str, place: str) -> None:
    """Unpack a package of npm, named with its version, into folder/place."""
    _run(folder, "npm", "pack", "--silent", package)
    with tarfile.open(next(folder.glob(f"{package.partition('@')[0]}*.tgz"))) as archive:
        archive.extractall(folder / place, filter="data")


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
