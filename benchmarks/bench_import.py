"""Time of `import advmetric` on top of `import sklearn.neighbors`, in fresh processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from harness import Row

CODE = """
import time
start = time.perf_counter()
import sklearn.neighbors
middle = time.perf_counter()
import advmetric
print(middle - start, time.perf_counter() - middle)
"""


def rows(fast: bool = False) -> Iterator[Row]:
    """The least time of each over several processes."""
    times = [_times() for _ in range(2 if fast else 9)]
    before, own = (min(column) for column in zip(*times, strict=True))
    yield Row(
        "import advmetric after import sklearn.neighbors, relative to the latter",
        own / before,
        at_most=0.7,
        note=f"{1e3 * own:.0f} ms after {1e3 * before:.0f} ms, fresh processes",
    )


def _times() -> tuple[float, float]:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    before, own = done.stdout.split()
    return float(before), float(own)
