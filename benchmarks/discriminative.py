"""Time of PairAML, NeighborAML and AMLCV as multiples of other work on the same data, beside their targets.

    python benchmarks/discriminative.py                     all (about ten minutes)
    python benchmarks/discriminative.py --only search       one; --only may be repeated
    python benchmarks/discriminative.py --fast              small sizes: a check that it runs, not a measurement

Both sides of a ratio are timed in the same run with one BLAS thread, in turns, in seconds of the processor; the least
of the rounds is taken. Other load on the machine hardly matters then.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import Row, format_row, header, machine_facts
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from advmetric import AMLCV, GMML, LMNN, BalancedPairs, NeighborAML, PairAML, load_dataset
from advmetric.metric.knn import knn_predict
from advmetric.pairs.data import Pairs
from advmetric.pairs.scatter import pairs_scatter

Points = tuple[NDArray[np.float64], NDArray[np.int64]]
NEIGHBOR_LOSSES = ("softmax", "margin", "radius")


def processor_seconds(functions: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least processor seconds of one call of each function, over rounds in which they take turns."""
    least = dict.fromkeys(functions, float("inf"))
    for _ in range(repeats):
        for name, function in functions.items():
            started = time.process_time()
            function()
            least[name] = min(least[name], time.process_time() - started)
    return least


def standardised(name: str, rows: int | None = None) -> Points:
    """Some or all rows of a bundled set, drawn by class."""
    data = load_dataset(name)
    X, y = data.X, data.y
    if rows is not None and rows < len(X):
        X, _, y, _ = train_test_split(X, y, train_size=rows, stratify=y, random_state=0)
    return StandardScaler().fit_transform(X), y


def search_rows(fast: bool = False) -> Iterator[Row]:
    """AMLCV with defaults against one fit of NeighborAML with defaults."""
    for name in ("vehicle", "german-credit", "breast-cancer", "image-segment"):
        X, y = standardised(name, 120 if fast else None)
        search = AMLCV(random_state=0)
        seconds = processor_seconds(
            {"fit": partial(NeighborAML(random_state=0).fit, X, y), "search": partial(search.fit, X, y)},
            repeats=1 if fast else 2,
        )
        yield Row(
            f"AMLCV, default search / NeighborAML, one fit, {name}",
            seconds["search"] / seconds["fit"],
            at_most=60,
            note=f"{seconds['search']:.3g} s / {seconds['fit'] * 1e3:.3g} ms; {len(search.cv_results_['params'])} "
            f"candidates, chosen: {search.best_loss_}",
        )


def lmnn_rows(fast: bool = False) -> Iterator[Row]:
    """NeighborAML against this library's LMNN on letters."""
    X, y = standardised("letters", 400 if fast else 16_000)
    fits = {"LMNN": partial(LMNN().fit, X, y)}
    fits |= {loss: partial(NeighborAML(loss=loss, random_state=0).fit, X, y) for loss in NEIGHBOR_LOSSES}
    seconds = processor_seconds(fits, repeats=1)
    for loss in NEIGHBOR_LOSSES:
        yield Row(
            f"NeighborAML, {loss} / LMNN, one fit, letters, {len(X)} points",
            seconds[loss] / seconds["LMNN"],
            at_most=5,
            note=f"{seconds[loss]:.3g} s / {seconds['LMNN']:.3g} s",
        )


def nca_rows(fast: bool = False) -> Iterator[Row]:
    """NeighborAML against scikit-learn's NCA on 4000 letters; errors on the other letters."""
    X, y = standardised("letters", 2000 if fast else None)
    X, X_test, y, y_test = train_test_split(X, y, train_size=300 if fast else 4000, stratify=y, random_state=0)
    learners: dict[str, Any] = {"NCA": NeighborhoodComponentsAnalysis(random_state=0)}
    learners |= {loss: NeighborAML(loss=loss, random_state=0) for loss in NEIGHBOR_LOSSES}
    seconds = processor_seconds({name: partial(learner.fit, X, y) for name, learner in learners.items()}, repeats=1)
    errors = {
        name: float(np.mean(knn_predict(learner.transform(X), y, learner.transform(X_test), 5) != y_test))
        for name, learner in learners.items()
    }
    for loss in NEIGHBOR_LOSSES:
        yield Row(
            f"NCA (scikit-learn) / NeighborAML, {loss}, letters, {len(X)} points",
            seconds["NCA"] / seconds[loss],
            at_least=10,
            note=f"{seconds['NCA']:.3g} s / {seconds[loss]:.3g} s",
        )
        yield Row(
            f"5-NN error, NeighborAML, {loss} / NCA, the other letters",
            errors[loss] / errors["NCA"],
            at_most=1,
            note=f"{errors[loss]:.4f} / {errors['NCA']:.4f}",
        )


# --- pairs ------------------------------------------------------------------------------------------------


def face_like_pairs(N: int = 5400, d: int = 150, people: int = 2000) -> Pairs:
    """Pairs like LFW's: few images per person, and features whose variance decays, within people more slowly."""
    rng = np.random.default_rng(0)
    scale = np.arange(1, d + 1) ** -0.5
    owners = np.repeat(np.arange(people), 4)
    X = rng.normal(size=(people, d))[owners] * scale + rng.normal(size=(len(owners), d)) * np.sqrt(scale)
    return BalancedPairs(N).sample(StandardScaler().fit_transform(X), owners, 0)


def many_pairs(N: int, n: int, d: int) -> Pairs:
    """Balanced index pairs of n points in ten classes, half of the features informative."""
    X, y = make_classification(
        n, d, n_informative=d // 2, n_redundant=d // 4, n_classes=10, n_clusters_per_class=1, random_state=0
    )
    return BalancedPairs(N).sample(StandardScaler().fit_transform(X), y, 0)


def _ratio_row(other: str, seconds: Mapping[str, float], n_iter: int, at_most: float) -> Row:
    """PairAML's seconds against those of something else."""
    ours, theirs = seconds["PairAML"], seconds["other"]
    note = f"{ours:.3g} s / {theirs * 1e3:.3g} ms, {n_iter} iterations"
    return Row(f"PairAML / {other}", ours / theirs, at_most=at_most, note=note)


def pair_rows(fast: bool = False) -> Iterator[Row]:
    """PairAML against GMML on few pairs, and against passes of the pair scatter on many; its memory."""
    pairs = face_like_pairs(300, 20, 100) if fast else face_like_pairs()
    formed = pairs.X[pairs.indices]
    learner = PairAML()
    fits = {"PairAML": partial(learner.fit, formed, pairs.y), "other": partial(GMML().fit, formed, pairs.y)}
    seconds = processor_seconds(fits, repeats=1 if fast else 3)
    yield _ratio_row(f"GMML, {len(pairs)} formed pairs, d = {formed.shape[2]}", seconds, learner.n_iter_, 60)
    N, n, d = (2000, 300, 8) if fast else (1_000_000, 100_000, 50)
    pairs = many_pairs(N, n, d)
    learner = PairAML(preprocessor=pairs.X)
    fits = {"PairAML": partial(learner.fit, pairs.indices, pairs.y), "other": partial(pairs_scatter, pairs)}
    seconds = processor_seconds(fits, repeats=1 if fast else 2)
    what = f"one pass of the pair scatter, {N:.0e} index pairs of {n:.0e} points, d = {d}"
    yield _ratio_row(what, seconds, learner.n_iter_, 150)
    command = [sys.executable, str(Path(__file__).resolve()), "--memory", str(N), str(n), str(d)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    yield Row(
        f"memory above the data, PairAML.fit, {N:.0e} index pairs of {n:.0e} points, d = {d}",
        float(done.stdout) / 1e9,
        unit="GB",
        at_most=1,
        note="peak RSS - RSS with the data, fresh process",
    )


def peak_above_data(N: int, n: int, d: int) -> float:
    """Fit in this process; bytes of peak above the data, or NaN where the system does not say."""
    pairs = many_pairs(N, n, d)
    few = pairs.take(np.arange(0, len(pairs), len(pairs) // 200))
    PairAML(preprocessor=few.X).fit(few.indices, few.y)  # libraries and thread buffers are not charged to the task
    indices = pairs.indices
    before = _status("VmRSS")
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return float("nan")
    PairAML(preprocessor=pairs.X).fit(indices, pairs.y)
    return _status("VmHWM") - before


def _status(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return float(line.split()[1]) * 1024
    return float("nan")


BENCHMARKS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "search": search_rows,
    "lmnn": lmnn_rows,
    "nca": nca_rows,
    "pairs": pair_rows,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks asked for; the number of missed targets is printed, not returned as a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), help="run this one only (repeatable)")
    parser.add_argument("--fast", action="store_true", help="small sizes, seconds: checks that it runs")
    parser.add_argument("--memory", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.memory:
        print(peak_above_data(*options.memory))
        return 0
    for name, fact in machine_facts().items():
        print(f"{name + ':':<14} {fact}")
    small = ", small sizes (--fast): no measurement" * options.fast
    print(f"timing:        processor seconds, one BLAS thread{small}")
    print("\n" + header(), flush=True)
    missed = 0
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NCA's default number of iterations is too small to converge
        for name in options.only or BENCHMARKS:
            for row in BENCHMARKS[name](options.fast):
                if options.fast:
                    row = replace(row, at_most=None, at_least=None)
                missed += row.met is False
                print(format_row(row), flush=True)
    print(f"\n{missed} target{'' if missed == 1 else 's'} missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
