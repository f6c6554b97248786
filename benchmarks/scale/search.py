"""Neighbours under a learned metric: MetricIndex against scikit-learn's brute force on transformed points.

    python benchmarks/scale/search.py                                     # seconds
    python benchmarks/scale/search.py --points 1000000 --queries 10000    # the bar: >= 5x at recall >= 0.95

All sides get the same points, metric and number of threads, and are asked once. Transforming the points is not charged
to scikit-learn; transforming the queries is charged to both. An exact search takes a time proportional to the number of
queries, so brute force and kind="exact" are asked the first ``--brute-queries`` of them and their times scaled. Recall
is counted on those. IVF starts at its default ``nprobe``, which is doubled until the recall is 0.95.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import Row, _affinity, format_row, header, machine_facts, options_parser
from sklearn.neighbors import NearestNeighbors

from advmetric import AML, MetricIndex
from advmetric.metric import faiss_stage


def mixture(n: int, d: int, classes: int, spread: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of normal classes with features of very different noise, which a metric has to learn."""
    means = spread * np.random.default_rng(0).standard_normal((classes, d))
    noise = np.geomspace(0.3, 3.0, d)
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = rng.standard_normal((n, d))
    X *= noise
    X += means[y]
    return X, y


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def recall(found: np.ndarray, expected: np.ndarray) -> float:
    """Share of the true neighbours that were found."""
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, expected, strict=True)]))


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """The ratios, one per kind of index."""
    shape = (options.features, options.classes, options.spread)
    X, y = mixture(options.points, *shape, seed=1)
    Q, _ = mixture(options.queries, *shape, seed=2)
    aml = AML().fit(X[:20_000], y[:20_000])
    size = f"{options.queries:.0e} among {options.points:.0e} x {options.features}"
    part = Q[: options.brute_queries]

    brute = NearestNeighbors(n_neighbors=options.k, algorithm="brute").fit(aml.transform(X))
    seconds, (expected, places) = timed(lambda: brute.kneighbors(aml.transform(part)))
    bound = seconds * len(Q) / len(part)
    note = f"{seconds:.3g} s for {len(part)} queries, scaled"
    yield Row(f"scikit-learn's brute force, {size}", bound, "s", note=note)

    for kind in options.kinds:
        index = MetricIndex(aml, kind=kind)
        building, _ = timed(lambda index=index: index.add(X))
        asked = part if kind == "exact" else Q
        nprobe = max(8, round(4 * len(X) ** 0.5) // 32)
        while True:
            asking, (distances, indices) = timed(lambda index=index, asked=asked: index.query(asked, options.k))
            found = recall(indices[: len(part)], places)
            if found >= 0.95 or kind != "ivf" or nprobe > len(X) ** 0.5:
                break
            index.nprobe = nprobe = 2 * nprobe
        gap = float(np.abs(distances[: len(part)] - expected).max())
        extra = {"exact": f", distances differ by {gap:.1g}", "ivf": f", nprobe {nprobe}", "hnsw": ""}[kind]
        yield Row(
            f"brute force / kind={kind!r} ({index.engine}), {size}",
            bound / (asking * len(Q) / len(asked)),
            at_least=None if kind == "exact" else 5 if found >= 0.95 else np.inf,
            note=f"recall {found:.4f}, {asking:.3g} s to ask {len(asked)}, {building:.3g} s to build{extra}",
        )
    classifying, _ = timed(lambda: index.classify(asked, y, options.k))
    yield Row(f"queries classified in a second, kind={kind!r}", len(asked) / classifying, "", note=f"k={options.k}")


def main(arguments: list[str] | None = None) -> int:
    parser = options_parser(__doc__, points=50_000, queries=1000, brute_queries=500, features=32, classes=100, k=10)
    parser.add_argument("--spread", type=float, default=1.0, help="of the classes' means; 0: one cloud, the hardest")
    parser.add_argument("--threads", type=int, default=len(_affinity()))
    parser.add_argument("--kinds", nargs="+", default=["exact", "ivf"], choices=["exact", "ivf", "hnsw"])
    options = parser.parse_args(arguments)
    try:
        faiss_stage.faiss_module().omp_set_num_threads(options.threads)
    except ImportError:
        print("faiss is missing: scikit-learn is compared with itself.")
    with threadpool_limits(options.threads):
        print(*(f"{key}: {value}" for key, value in machine_facts().items()), f"threads: {options.threads}", sep="\n")
        print("\n" + header())
        elapsed, _ = timed(lambda: [print(format_row(row), flush=True) for row in rows(options)])
    print(f"\n{elapsed:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
