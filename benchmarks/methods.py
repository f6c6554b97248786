"""Every method of ``advmetric.methods()``: how it scales, whether it gets through Isolet, what tuning brings.

    python benchmarks/methods.py scale                        time and memory as n, N and d grow (about ten minutes)
    python benchmarks/methods.py isolet --data-home DIR       6 238 x 617 to each stopping rule; DIR has isolet.npz
    python benchmarks/methods.py tuned [--splits 10]          tuned 5-NN error beside Euclidean's on three small sets

``--methods`` picks some. Every fit of ``scale`` and ``isolet`` runs in a process of its own: ``scale`` with one BLAS
thread, in seconds of the processor, ``isolet`` with two, in seconds of the clock; memory is the peak of that process
above what it held before the fit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import machine_facts
from sklearn.datasets import load_wine, make_classification
from sklearn.model_selection import ShuffleSplit
from sklearn.preprocessing import StandardScaler

from advmetric import load_dataset, methods
from advmetric.learners.tuning import best_params
from advmetric.metric.knn import knn_predict
from advmetric.pairs.data import LabelledPoints

KNOWN = {method.name: method for method in methods()}
BASE = {"n": 4_000, "N": 20_000, "d": 20}
SIZES = {"n": (1_000, 4_000, 16_000), "N": (5_000, 20_000, 80_000, 320_000), "d": (10, 20, 40, 80, 160)}
"""Points, drawn pairs and features: one grows at a time."""


def learner_for(name: str, n_pairs: int | None = None, **params: Any) -> Any:
    """A method with its defaults, a seed and a number of pairs, as far as it knows them."""
    learner = KNOWN[name].estimator(**params)
    known = learner.get_params()
    if "random_state" in known:
        learner.set_params(random_state=0)
    if n_pairs is not None and known.get("pairs") == "random":
        learner.set_params(pairs=n_pairs)
    return learner


def measured(learner: Any, X: Any, y: Any, clock: Callable[[], float]) -> dict[str, Any]:
    """Fit in this process: seconds by a clock, peak megabytes above what was held, iterations, convergence."""
    import resource

    few = np.random.default_rng(0).permutation(len(X))[:200]
    learner.fit(X[few, :5], y[few])  # imports and compilation are no part of the fit
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = clock()
    learner.fit(X, y)
    seconds = clock() - started
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024
    iterations, converged = getattr(learner, "n_iter_", None), getattr(learner, "converged_", None)
    return {"seconds": seconds, "MB": peak, "iterations": iterations, "converged": converged}


def in_own_process(threads: int, timeout: float, *arguments: str) -> dict[str, Any]:
    """Run this file on one task and read what it prints."""
    limits = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, __file__, *arguments]
    try:
        done = subprocess.run(command, env=os.environ | limits, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished in {timeout:g} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip() or "no message").splitlines()[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def cell(found: dict[str, Any]) -> str:
    if "failed" in found:
        return found["failed"]
    steps = "" if found["iterations"] is None else f" {found['iterations']} it"
    mark = "" if found["converged"] in (None, True) else " (not converged)"
    return f"{found['seconds']:.2f} s {found['MB']:.0f} MB{steps}{mark}"


# --- how it scales ----------------------------------------------------------------------------------------


def scale_task(name: str, n: int, N: int, d: int) -> dict[str, Any]:
    X, y = make_classification(
        n, d, n_informative=d // 2, n_redundant=d // 4, n_classes=4, n_clusters_per_class=1, random_state=0
    )
    return measured(learner_for(name, N), StandardScaler().fit_transform(X), y, time.process_time)


def scale(names: list[str], timeout: float) -> None:
    for name in names:
        print(f"\n{name}")
        draws = learner_for(name).get_params().get("pairs") == "random"
        for letter, sizes in SIZES.items():
            if letter == "N" and not draws:
                continue
            found = []
            for size in sizes:
                task = ",".join(str(value) for value in (BASE | {letter: size}).values())
                found.append((size, in_own_process(1, timeout, "scale", "--task", name, task)))
            times = [(size, result["seconds"]) for size, result in found if result.get("seconds", 0.0) > 0.0]
            slope = float("nan")
            if len(times) > 1:
                slope = float(np.polyfit(*np.log(np.array(times[-3:], dtype=float).T), 1)[0])
            row = "; ".join(f"{size}: {cell(result)}" for size, result in found)
            print(f"  {letter:<2} {row}   [time grows as {letter}^{slope:.1f}]", flush=True)


# --- Isolet -----------------------------------------------------------------------------------------------


def isolet_task(name: str, data_home: str | None) -> dict[str, Any]:
    data = load_dataset("isolet", data_home=data_home)
    X, X_test, y, y_test = data.X[:6238], data.X[6238:], data.y[:6238], data.y[6238:]
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    learner = learner_for(name)
    found = measured(learner, X, y, time.perf_counter)
    predicted = knn_predict(learner.transform(X), y, learner.transform(X_test), 5)
    return found | {"error": float(np.mean(predicted != y_test))}


def isolet(names: list[str], data_home: str | None, timeout: float) -> None:
    home = ["--data-home", data_home] if data_home else []
    print("\nIsolet, 6 238 x 617 for training, speakers of the test part unseen; default parameters")
    for name in names:
        found = in_own_process(2, timeout, "isolet", "--task", name, "-", *home)
        error = f"   5-NN error {found['error']:.4f}" if "error" in found else ""
        print(f"  {name:<10} {cell(found)}{error}", flush=True)


# --- tuned ------------------------------------------------------------------------------------------------


def tuned_errors(names: list[str], n_splits: int) -> None:
    print(f"\n5-NN error, {n_splits} random 80/20 splits, tuned by 3-fold cross-validation inside the training part")
    for title in ("wine", "breast-cancer", "vehicle"):
        X, y = load_wine(return_X_y=True) if title == "wine" else (load_dataset(title).X, load_dataset(title).y)
        errors: dict[str, list[float]] = {name: [] for name in ["Euclidean", *names]}
        for train, test in ShuffleSplit(n_splits, test_size=0.2, random_state=0).split(X):
            scaler = StandardScaler().fit(X[train])
            A, B = scaler.transform(X[train]), scaler.transform(X[test])
            for name, values in errors.items():
                params = best_params(learner_for(name), LabelledPoints(A, y[train]), KNOWN[name].grid)
                learner = learner_for(name, **params).fit(A, y[train])
                values.append(
                    float(np.mean(knn_predict(learner.transform(A), y[train], learner.transform(B)) != y[test]))
                )
        plain = np.array(errors["Euclidean"])
        for name, values in errors.items():
            gap = np.array(values) - plain
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            verdict = "worse beyond noise" if gap.mean() > 2.0 * error else ""
            print(
                f"  {title:<14} {name:<10} {np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}   "
                f"difference {gap.mean():+.4f} ± {error:.4f} (standard error)  {verdict}".rstrip(),
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("scale", "isolet", "tuned"))
    parser.add_argument("--methods", nargs="+", choices=list(KNOWN), default=list(KNOWN), metavar="NAME")
    parser.add_argument("--data-home", help="folder with isolet.npz")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--timeout", type=float, default=1800.0, help="seconds for one fit")
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.task:
        name, sizes = options.task
        task = isolet_task(name, options.data_home) if options.what == "isolet" else None
        print(json.dumps(task or scale_task(name, *map(int, sizes.split(",")))))
        return 0
    for fact, value in machine_facts().items():
        print(f"{fact + ':':<14} {value}")
    if options.what == "scale":
        scale(options.methods, options.timeout)
    elif options.what == "isolet":
        isolet(options.methods, options.data_home, options.timeout)
    else:
        tuned_errors([name for name in options.methods if name != "Euclidean"], options.splits)
    return 0


if __name__ == "__main__":
    sys.exit(main())
