"""Memory of 10⁷ index pairs at d = 50 (and of scoring 10⁶ at d = 500): the peak above the data, in fresh processes.

``python bench_memory.py TASK n N d`` is that process: it makes the data, resets the kernel's record of
the peak (Linux only), works, and prints the bytes by which the peak exceeds what the data took.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from harness import Row

from advmetric import AML
from advmetric.pairs.data import Pairs
from advmetric.pairs.scatter import pairs_scatter

GB = 1e9


def rows(fast: bool = False) -> Iterator[Row]:
    """pairs_scatter and a whole AML fit, for 10⁵ and 10⁶ points."""
    n_pairs, d = (100_000, 10) if fast else (10_000_000, 50)
    for n in (1000, 10_000) if fast else (100_000, 1_000_000):
        for task, what in (("scatter", "pairs_scatter"), ("fit", "AML(preprocessor=X).fit")):
            peak, seconds = in_fresh_process(task, n, n_pairs, d)
            yield Row(
                f"memory above the data, {what}, N={n_pairs:.0e} n={n:.0e} d={d}",
                peak / GB,
                unit="GB",
                at_most=1,
                note=f"peak RSS - RSS with the data, fresh process; {seconds:.3g} s",
            )
    n, n_pairs, d = (1000, 20_000, 50) if fast else (20_000, 1_000_000, 500)
    peak, seconds = in_fresh_process("score", n, n_pairs, d)
    yield Row(
        f"memory above the data, AML.score, N={n_pairs:.0e} n={n:.0e} d={d}",
        peak / GB,
        unit="GB",
        at_most=1,
        note=f"fresh process; {seconds:.3g} s",
    )


def in_fresh_process(task: str, n: int, n_pairs: int, d: int) -> tuple[float, float]:
    """Bytes above the data and seconds of a task, or NaN where the system does not say."""
    command = [sys.executable, str(Path(__file__).resolve()), task, str(n), str(n_pairs), str(d)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, seconds = done.stdout.split()
    return float(peak), float(seconds)


def measure(task: str, n: int, n_pairs: int, d: int) -> tuple[float, float]:
    """Do the task in this process; bytes of peak above the data, and seconds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    index_pairs = rng.integers(n, size=(n_pairs, 2))
    y = rng.integers(2, size=n_pairs)
    y *= 2
    y -= 1
    # A small fit first: libraries and thread buffers are loaded, not charged to the task.
    few = slice(0, 2000)
    AML(preprocessor=X[:1000]).fit(index_pairs[few] % min(n, 1000), y[few])
    learned = AML(preprocessor=X).fit(index_pairs[few], y[few]) if task == "score" else None
    before = _status("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return float("nan"), float("nan")
    started = time.perf_counter()
    if task == "scatter":
        pairs_scatter(Pairs(X, index_pairs[:, 0], index_pairs[:, 1], y))
    elif learned is not None:
        learned.score(index_pairs, y)
    else:
        AML(preprocessor=X).fit(index_pairs, y)
    seconds = time.perf_counter() - started
    return _status("VmHWM") - before, seconds


def _status(field: str) -> float:
    """A size in bytes from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return float(line.split()[1]) * 1024
    return float("nan")


if __name__ == "__main__":
    print(*measure(sys.argv[1], *(int(number) for number in sys.argv[2:5])))
