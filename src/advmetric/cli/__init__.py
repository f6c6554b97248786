"""The command line: ``advmetric`` or ``python -m advmetric``. Needs the extra ``cli`` (typer and rich)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from advmetric.utils.optional import is_installed

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; the arguments are those of the process unless given."""
    for needed in ("typer", "rich"):
        if not is_installed(needed):
            print(f'error: the command line needs {needed}: pip install "advmetric[cli]"', file=sys.stderr)
            return 1
    with _ended_by_ctrl_c():  # the imports take a second
        from .app import run
    return run(sys.argv[1:] if arguments is None else list(arguments))


@contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """End the process on Ctrl-C: an exception within an import may be caught there, or become another one."""

    def end(*_: object) -> None:
        os.write(2, b"interrupted\n")
        os._exit(130)

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, say
        yield
        return
    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
