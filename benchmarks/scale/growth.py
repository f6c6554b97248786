"""Time and memory of AML against rows n, index pairs N and features d, with the slopes that they should have.

    python benchmarks/scale/growth.py                  # n to 10⁷ (4 GB of rows), N to 10⁸, d to 4000: tens of minutes
    python benchmarks/scale/growth.py --quick          # seconds to a minute
    python benchmarks/scale/growth.py --only N solve   # some of the tables

Every point is a process of its own with one BLAS thread (``--threads``): it makes its data, then fits and measures the
bound in turns; the peak is that of the first fit above what the data took. The bound is what the fit cannot do without:

* n and d: one XᵀX over the rows and two eigendecompositions of (d, d) matrices;
* n, streamed: the same, the rows made anew batch by batch on both sides;
* N: the product of the pairs' graph, ready in CSR format, with X. Beside it, that and making the graph.

Slopes are least squares on the logarithms of the last three sizes of a table, where the term that grows fastest rules:
below, calls and checks of fixed cost flatten them. Over d that term is d² for the scatter of many rows, d³ for the
solver, which is why these two are measured apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench_memory import _status
from harness import machine_facts

from advmetric import AML
from advmetric.learners.moments import Moments
from advmetric.pairs.data import Scatter
from advmetric.pairs.scatter import all_pairs_scatter

CLASSES, BATCH = 10, 65_536
TABLES: dict[str, tuple[str, float, tuple[int, ...], tuple[int, ...]]] = {
    "n": ("rows in memory, d = 50", 1.0, (10**4, 10**5, 10**6, 10**7), (1_000, 10_000, 50_000)),
    "stream": ("rows streamed, d = 50", 1.0, (10**4, 10**5, 10**6, 10**7), (1_000, 10_000, 50_000)),
    "N": (
        "index pairs on min(N/10, 10⁶) points, d = 50",
        1.0,
        (10**4, 10**5, 10**6, 10**7, 10**8),
        (10**4, 10**5, 10**6),
    ),
    "scatter": ("features, scatter of all pairs of 20 000 rows", 2.0, (10, 50, 250, 1000, 2000, 4000), (10, 50, 200)),
    "solve": ("features, AML from given scatter matrices", 3.0, (10, 50, 250, 1000, 2000, 4000), (10, 50, 200)),
}
"""What grows, the slope expected of its time, and its sizes: all, and quick ones."""


# --- one point, in a process of its own -------------------------------------------------------------------


def rows_of(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal classes, made in place: no more memory than they take."""
    rng = np.random.default_rng(seed)
    X, y = np.empty((n, d)), rng.integers(CLASSES, size=n)
    means = np.random.default_rng(1).standard_normal((CLASSES, d))
    for start in range(0, n, BATCH):
        part = slice(start, start + BATCH)
        X[part] = rng.standard_normal(X[part].shape) + means[y[part]]
    return X, y


def eigendecompositions(M: np.ndarray, times: int = 2) -> None:
    for _ in range(times):
        np.linalg.eigh(M)


def rows_in_memory(n: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    X, y = rows_of(n, 50)
    return lambda: AML().fit(X, y), lambda: eigendecompositions(X.T @ X)


def rows_streamed(n: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, n, BATCH):
            yield rows_of(min(BATCH, n - start), 50, seed=start)

    def bound() -> None:
        total = np.zeros((50, 50))
        for X, _ in batches():
            total += X.T @ X
        eigendecompositions(total)

    return lambda: AML().fit_batches(batches()), bound


def index_pairs(N: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    n = max(1000, min(N // 10, 10**6))
    X, classes = rows_of(n, 50)
    rng = np.random.default_rng(2)
    pairs, y = np.empty((N, 2), np.int32), np.empty(N, np.int8)
    for start in range(0, N, BATCH):
        part = slice(start, start + BATCH)
        pairs[part] = rng.integers(n, size=pairs[part].shape)
        y[part] = np.where(classes[pairs[part, 0]] == classes[pairs[part, 1]], 1, -1)

    def bound() -> dict[str, float]:
        """The graph of all pairs, of either kind: as many rows of X are added up as in two graphs."""
        started = time.perf_counter()
        turned = csr_array((pairs[:, 1], pairs[:, 0], np.array([0, N])), shape=(1, n)).tocsc()
        graph = csr_array((np.ones(N), turned.data, turned.indptr), shape=(n, n))
        built = time.perf_counter()
        graph @ X
        return {"bound": time.perf_counter() - built, "with graph": time.perf_counter() - started}

    return lambda: AML(preprocessor=X).fit(pairs, y), bound


def scatter(d: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    X, y = rows_of(20_000, d)
    return lambda: all_pairs_scatter(X, y), lambda: X.T @ X


def solve(d: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    X, y = rows_of(2 * d + 100, d)
    given: Scatter = all_pairs_scatter(X, y)
    return lambda: AML()._solve(Moments.regularised(given)), lambda: eigendecompositions(given.A)


TASKS = {"n": rows_in_memory, "stream": rows_streamed, "N": index_pairs, "scatter": scatter, "solve": solve}


def measure(table: str, size: int, repeats: int) -> dict[str, float]:
    """Least seconds of the fit and of its bound, in turns, and the fit's peak above what was held before it."""
    few, labels = rows_of(200, 5)
    AML().fit(few, labels)  # libraries are loaded, not charged
    work, bound = TASKS[table](size)
    held = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the kernel's record of the peak; Linux only
    found: dict[str, float] = {}

    def least(**seconds: float) -> None:
        found.update({key: min(value, found.get(key, np.inf)) for key, value in seconds.items()})

    for turn in range(repeats):
        started = time.perf_counter()
        work()
        least(seconds=time.perf_counter() - started)
        if turn == 0:  # before the bound, which has a peak of its own
            found["bytes"] = _status("VmHWM") - held
        started = time.perf_counter()
        parts = bound()
        least(**(parts if isinstance(parts, dict) else {"bound": time.perf_counter() - started}))
    return found


# --- the tables -------------------------------------------------------------------------------------------


def in_own_process(table: str, size: int, repeats: int, threads: int, timeout: float) -> dict[str, Any]:
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, __file__, "--point", table, str(size), "--repeats", str(repeats)]
    try:
        done = subprocess.run(command, env=os.environ | limits, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished in {timeout:g} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip() or f"ended by signal {-done.returncode}").splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def slope(sizes: list[int], values: list[float], last: int = 3) -> float:
    """Least-squares slope of the logarithms over the last sizes; NaN below two, or where a value is not positive."""
    sizes, values = sizes[-last:], values[-last:]
    if len(sizes) < 2 or min(values) <= 0.0:
        return float("nan")
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def table(name: str, sizes: tuple[int, ...], point: Callable[[str, int], dict[str, Any]]) -> Iterator[str]:
    """Lines of a table; every point as soon as it is there."""
    title, expected, *_ = TABLES[name]
    yield f"\n{title}"
    yield f"{'size':>12} {'seconds':>10} {'peak MB':>10} {'bound s':>10} {'ratio':>7}"
    done: list[tuple[int, dict[str, Any]]] = []
    for size in sizes:
        found = point(name, size)
        if "failed" in found:
            yield f"{size:>12} {found['failed']}"
            continue
        done.append((size, found))
        seconds, bound = found["seconds"], found["bound"]
        line = f"{size:>12} {seconds:>10.3g} {found['bytes'] / 1e6:>10.0f} {bound:>10.3g} {seconds / bound:>7.2f}"
        yield line + (f"   {seconds / found['with graph']:.2f} with its graph" if "with graph" in found else "")
    growing = [size for size, _ in done]
    time_slope, memory_slope = (slope(growing, [found[key] for _, found in done]) for key in ("seconds", "bytes"))
    yield f"  time grows as size^{time_slope:.2f} (expected {expected:g}), memory as size^{memory_slope:.2f}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES), metavar="TABLE")
    parser.add_argument("--most", type=int, default=None, help="leave out larger sizes")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of BLAS, for the fit and its bound")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for one point")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.point:
        print(json.dumps(measure(options.point[0], int(options.point[1]), options.repeats)))
        return 0
    print(*(f"{key}: {value}" for key, value in machine_facts().items()), sep="\n")
    print(f"one process per point, BLAS threads: {options.threads}; slopes over the last three sizes")
    point = partial(in_own_process, repeats=options.repeats, threads=options.threads, timeout=options.timeout)
    for name in options.only:
        sizes = TABLES[name][3 if options.quick else 2]
        for line in table(name, tuple(size for size in sizes if size <= (options.most or size)), point):
            print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
