"""Warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

__all__ = ["warn"]

_PACKAGE = str(Path(__file__).parents[1])
_LIBRARIES = ("sklearn", "joblib")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning attributed to the first caller outside this package, scikit-learn and joblib."""
    level, frame = 1, sys._getframe()
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if not frame.f_code.co_filename.startswith(_PACKAGE) and package not in _LIBRARIES:
            break
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level)
