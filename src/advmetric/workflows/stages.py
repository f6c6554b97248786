"""Say on stderr what is being done and for how long, once it takes more than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from advmetric.utils.progress import redrawn

__all__ = ["Stage", "stage"]

QUIET = 2.0
"""Seconds before the first line."""
PAUSE, TERMINAL_PAUSE = 15.0, 0.5
"""Seconds between lines, and between redrawings on a terminal."""


class Stage:
    """What is under way: a title, and how many of how many steps are done."""

    def __init__(self, title: str, total: int | None = None) -> None:
        self.title, self.total, self.done = title, total, 0
        self._started = time.monotonic()

    def advance(self, steps: int = 1) -> None:
        """Count steps as done."""
        self.done += steps

    def line(self) -> str:
        """Return the line to show."""
        elapsed = time.monotonic() - self._started
        of = f" of {self.total:,}" if self.total else ""
        steps = f": {self.done:,}{of}" if self.total or self.done else ""
        known = self.total and 0 < self.done <= self.total
        left = f", {elapsed * (self.total - self.done) / self.done:.0f} s left" if known and self.total else ""
        return f"{self.title}{steps}, {elapsed:.0f} s{left}"


@contextmanager
def stage(title: str, total: int | None = None) -> Iterator[Stage]:
    """Show that something is under way: on a terminal in a line that is redrawn, elsewhere every 15 seconds.

    A thread of its own draws, so that also a single long call is seen to be at work.
    """
    current, over, terminal = Stage(title, total), threading.Event(), sys.stderr.isatty()
    stream = sys.stderr

    def draw() -> None:
        wait, drawn = QUIET, False
        while not over.wait(wait):
            line = current.line()
            print(redrawn(line) if terminal else line, end="" if terminal else "\n", file=stream, flush=True)
            wait, drawn = TERMINAL_PAUSE if terminal else PAUSE, True
        if drawn and terminal:
            print(redrawn(current.line()), file=stream, flush=True)

    drawer = threading.Thread(target=draw, daemon=True)
    drawer.start()
    try:
        yield current
    finally:
        over.set()
        drawer.join()
