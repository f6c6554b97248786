"""Import optional dependencies, or say which extra to install."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["MissingDependencyError", "is_installed", "require"]

_EXTRAS = {
    "array_api_compat": "arrays",
    "cv2": "vision",
    "dask": "dask",
    "distributed": "dask",
    "faiss": "faiss",
    "jinja2": "report",
    "markupsafe": "report",
    "matplotlib": "plots",
    "numba": "fast",
    "openpyxl": "tables",
    "ot": "ot",
    "pandas": "tables",
    "PIL": "vision",
    "plotly": "explore",
    "pyarrow": "tables",
    "pytorch_metric_learning": "deep",
    "rich": "cli",
    "safetensors": "deep",
    "torch": "deep",
    "typer": "cli",
}
"""Extra of this package that installs each optional module. Others (torchvision, timm) are installed by their name."""


class MissingDependencyError(ImportError):
    """An optional dependency is not installed. The message contains the pip command that installs it."""


def require(module: str, purpose: str = "this") -> Any:
    """Import an optional module.

    Parameters
    ----------
    module : str
        For example "faiss" or "dask.array".
    purpose : str
        What needs the module, for the error message.

    Raises
    ------
    MissingDependencyError
        If the module cannot be imported.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as error:
        target = f'"advmetric[{_EXTRAS[package]}]"' if package in _EXTRAS else package
        raise MissingDependencyError(f"{purpose} needs {package}: pip install {target} ({error})") from error


def is_installed(module: str) -> bool:
    """Return whether an optional module can be found, without importing it."""
    try:
        return find_spec(module) is not None
    except ValueError:  # the module is disabled in sys.modules
        return False
