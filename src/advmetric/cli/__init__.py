"""The command line: ``advmetric`` or ``python -m advmetric``. Needs the extra ``cli`` (typer and rich)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from advmetric.utils.optional import is_installed

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; the arguments are those of the process unless given."""
    for needed in ("typer", "rich"):
        if not is_installed(needed):
            print(f'error: the command line needs {needed}: pip install "advmetric[cli]"', file=sys.stderr)
            return 1
    try:
        from .app import run
    except KeyboardInterrupt:  # the imports take a second
        print("interrupted", file=sys.stderr)
        return 130
    return run(sys.argv[1:] if arguments is None else list(arguments))
