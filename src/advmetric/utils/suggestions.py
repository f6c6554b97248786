"""Suggestions for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

__all__ = ["did_you_mean", "look_up"]

T = TypeVar("T")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean …?" if a known name is similar, else "".

    >>> did_you_mean("vehicel", ["letters", "vehicle"])
    " Did you mean 'vehicle'?"
    """
    folded = {_folded(other): other for other in known}
    close = difflib.get_close_matches(_folded(name), folded, n=1, cutoff=0.5)
    return f" Did you mean {folded[close[0]]!r}?" if close else ""


def look_up(name: str, known: Mapping[str, T], kind: str) -> T:
    """Return the entry of a name, or raise an error that lists the known names of this ``kind`` of thing."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a string such as {next(iter(known))!r}, got {type(name).__name__}")
    if name in known:
        return known[name]
    raise ValueError(f"name: there is no {kind} {name!r}.{did_you_mean(name, known)} Known names: {', '.join(known)}.")


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")
