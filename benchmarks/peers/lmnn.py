"""LMNN against metric-learn's and mlpack's: same points, same k, same weight of the margin, same objective.

    python benchmarks/peers/lmnn.py [--datasets vehicle image-segment] [--timeout 900]

metric-learn 0.7.0 does not run on current scikit-learn, so this makes a virtual environment of its own
(.venv-peers-lmnn, beside the sources) and runs every solver in it, each in a process of its own. The
objective is LMNN's over all triplets, computed by one function for everyone's L; the target neighbours
are the Euclidean ones for all. mlpack itself counts only the k nearest impostors of a point, so this is
not quite what it minimises. Memory is the peak of the process above what it held before the fit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from typing import Any

from environment import ROOT, peers_python

PEERS = ROOT / ".venv-peers-lmnn"
REQUIREMENTS = ("metric-learn==0.7.0", "scikit-learn<1.8", "mlpack")
K, PUSH = 3, 0.5
SOLVERS = ("advmetric", "advmetric coarse", "metric-learn", "metric-learn fast", "mlpack")


def fit(solver: str, X: Any, y: Any) -> tuple[Any, str]:
    """Components learned by one solver, and how it ended."""
    if solver.startswith("advmetric"):
        from advmetric.algorithms.lmnn.estimator import LMNN

        # "coarse" stops about where metric-learn does, which knows no gap.
        ours = LMNN(n_neighbors=K, push=PUSH, tol={"advmetric": 5e-3, "advmetric coarse": 4e-2}[solver]).fit(X, y)
        return ours.components_, f"{ours.n_iter_} iterations, gap {ours.gap_:.1e}"
    if solver.startswith("metric-learn"):
        from metric_learn import LMNN as Peer

        # 1e-7 is its default; of 1e-7 … 1e-3, 1e-5 stopped soonest on vehicle.
        rate = {"metric-learn": 1e-7, "metric-learn fast": 1e-5}[solver]
        peer = Peer(n_neighbors=K, regularization=1.0 - PUSH, learn_rate=rate, max_iter=1000)
        peer.fit(X, y)
        return peer.components_, f"{peer.n_iter_} iterations"
    import mlpack

    found = mlpack.lmnn(input_=X.copy(), labels=y.copy(), k=K, regularization=PUSH, optimizer="lbfgs", seed=1)
    L = found["output"]
    # The binding may hand out L or its transpose: the transformed points tell.
    moved = found["transformed_data"]
    return (L if abs(X @ L.T - moved).max() <= abs(X @ L - moved).max() else L.T), "its defaults, L-BFGS"


def work(solver: str, name: str) -> None:
    """Fit and judge in this process; print a line of JSON."""
    import resource

    import numpy as np
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    from advmetric import load_dataset
    from advmetric.algorithms.lmnn.estimator import lmnn_objective
    from advmetric.metric.knn import knn_predict

    warnings.simplefilter("ignore")
    data = load_dataset(name)
    if name == "letters":
        X, X_test, y, y_test = data.X[:16000], data.X[16000:], data.y[:16000], data.y[16000:]
    else:
        X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=0, stratify=data.y)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    # Imports are no part of the fit. (Two classes: mlpack wants k + 1 members in each.)
    few = np.flatnonzero(y < 2)[:200]
    fit(solver, X[few], y[few])
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    L, how = fit(solver, X, y)
    seconds = time.perf_counter() - started
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held) / 1024
    error = float(np.mean(knn_predict(X @ L.T, y, X_test @ L.T, 5) != y_test))
    plain = float(np.mean(knn_predict(X, y, X_test, 5) != y_test))
    objective = lmnn_objective(L, X, y, n_neighbors=K, push=PUSH)
    print(json.dumps([seconds, objective, error, plain, peak, how]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["vehicle", "image-segment", "letters"])
    parser.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=SOLVERS)
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds for one fit")
    parser.add_argument("--work", nargs=2, metavar=("SOLVER", "DATASET"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work)
        return 0
    python = peers_python(PEERS, REQUIREMENTS)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    print(f"k = {K}, push = {PUSH}; {os.cpu_count()} cores; a fit may take {arguments.timeout:g} s")
    head = ("data", "solver", "seconds", "ratio", "objective", "5-NN error", "Euclidean", "MB above")
    print("{:14} {:18} {:>9} {:>7} {:>12} {:>10} {:>10} {:>9}  how it ended".format(*head))
    for name in arguments.datasets:
        base = None
        for solver in arguments.solvers:
            command = [str(python), __file__, "--work", solver, name]
            try:
                run = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=arguments.timeout, check=False
                )
            except subprocess.TimeoutExpired:
                print(f"{name:14} {solver:18} {'> ' + format(arguments.timeout, 'g'):>9}  not finished", flush=True)
                continue
            if run.returncode:
                print(
                    f"{name:14} {solver:18} failed: {(run.stderr.strip() or 'no message').splitlines()[-1]}", flush=True
                )
                continue
            seconds, objective, error, plain, peak, how = json.loads(run.stdout.strip().splitlines()[-1])
            base = base or seconds
            print(
                f"{name:14} {solver:18} {seconds:9.2f} {seconds / base:7.1f} {objective:12.1f} {error:10.4f} "
                f"{plain:10.4f} {peak:9.0f}  {how}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
