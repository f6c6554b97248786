"""A virtual environment for peers that do not run on the packages that this library is tested with."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
METRIC_LEARN = (ROOT / ".venv-peers", ("metric-learn==0.7.0", "scikit-learn>=1.6,<1.8", "numba"))
"""Folder and requirements of the environment of metric-learn."""
_AMONG_PEERS = "ADVMETRIC_AMONG_PEERS"


def peers_python(folder: Path, requirements: Sequence[str]) -> Path:
    """Return the interpreter of an environment, which is created if it is missing."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True)
    return python


def is_among_peers() -> bool:
    """Return whether this process was started by `run_among_peers`."""
    return _AMONG_PEERS in os.environ


def run_among_peers(script: str, **settings: str) -> int:
    """Run a script with the arguments of this process in the environment of metric-learn; return its exit code."""
    python = peers_python(*METRIC_LEARN)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), _AMONG_PEERS: "1"} | settings
    return subprocess.run([str(python), script, *sys.argv[1:]], env=environment, check=False).returncode
