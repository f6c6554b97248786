"""Print constraints that pin every dependency to the least version that pyproject.toml allows.

python tools/least_versions.py > least.txt && PIP_CONSTRAINT=least.txt make test VENV=.venv-least
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def least_versions() -> dict[str, str]:
    """Return the least release of the run-time dependencies, and of the extras that users install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in extras for line in extras[name] if name not in _OURS)]
    found = (re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match and match[1] not in _PINNED}


_OURS = ("all", "test", "docs", "dev")
_PINNED = ("torch", "safetensors", "pytorch-metric-learning")  # by the extra `test`


if __name__ == "__main__":
    for name, version in sorted(least_versions().items()):
        print(f"{name}=={version}.*")
