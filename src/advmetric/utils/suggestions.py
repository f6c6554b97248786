"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean …?" if a known name is similar, else "".

    >>> did_you_mean("vehicel", ["letters", "vehicle"])
    " Did you mean 'vehicle'?"
    """
    folded = {_folded(other): other for other in known}
    close = difflib.get_close_matches(_folded(name), folded, n=1, cutoff=0.5)
    return f" Did you mean {folded[close[0]]!r}?" if close else ""


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")
