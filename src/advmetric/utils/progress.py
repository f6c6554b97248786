"""Progress on stderr, and the logger of the package."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

__all__ = ["get_logger", "progress", "redrawn"]


def redrawn(line: str) -> str:
    """Return what replaces the last line of a terminal: never wider than it, for a line that wraps is not replaced."""
    width = shutil.get_terminal_size().columns - 1
    return f"\r{line[:width]:<{width}}"


def progress(items: Iterable[T], total: int, title: str, *, enabled: bool = True) -> Iterator[T]:
    """Yield from ``items`` while drawing a bar with the time left.

    On a terminal the line is redrawn; elsewhere a line is written at every tenth of the way.
    """
    if not enabled:
        yield from items
        return
    started, drawn = time.monotonic(), -1
    for done, item in enumerate(items, start=1):
        elapsed = time.monotonic() - started
        left = elapsed / done * (total - done)
        line = f"{title} [{'#' * (20 * done // total):<20}] {done}/{total}, {elapsed:.0f} s, {left:.0f} s left"
        if sys.stderr.isatty():
            print(redrawn(line), end="\n" if done == total else "", file=sys.stderr, flush=True)
        elif 10 * done // total > drawn:
            drawn = 10 * done // total
            print(line, file=sys.stderr, flush=True)
        yield item


def get_logger() -> logging.Logger:
    """Return the logger "advmetric", which writes to stderr unless the user has set up logging."""
    logger = logging.getLogger("advmetric")
    if not logger.handlers and not logging.getLogger().handlers:
        logger.addHandler(logging.StreamHandler())
    logger.setLevel(logging.INFO)
    return logger
