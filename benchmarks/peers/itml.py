"""ITML against metric-learn's: same pairs, same bounds, same number of sweeps.

    python benchmarks/peers/itml.py [--sweeps 10] [--pairs 50000] [--no-numba]

Times are processor seconds on one core, so that what else runs on the machine counts little.
metric-learn 0.7.0 does not run on current scikit-learn, so this makes a virtual environment of its own
(.venv-peers, beside the sources) and runs itself there. What is compared:

- ``projections``: our sweeps at the same result, to be at least 5 times as fast;
- ``lbfgs``: our default solver, to its own stopping rule, which metric-learn's sweeps do not reach;
- metric-learn with its own bounds, which are percentiles of distances where its sweeps use squared ones.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings

from environment import is_among_peers, run_among_peers


def compare(name: str, n_pairs: int, sweeps: int, gamma: float, repeats: int) -> None:
    import numpy as np
    from metric_learn import ITML as Peer
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    from advmetric import load_dataset
    from advmetric.algorithms.itml import solvers as itml
    from advmetric.metric.knn import knn_predict
    from advmetric.pairs.bounds import percentile_bounds
    from advmetric.pairs.samplers import RandomPairs

    data = load_dataset(name)
    X, X_test, y, y_test = train_test_split(data.X, data.y, test_size=0.2, random_state=0, stratify=data.y)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    default = RandomPairs().sample(X, y, 0)
    drawn = default if len(default) <= n_pairs else RandomPairs(n_pairs).sample(X, y, 0)
    drawn = drawn.take(np.flatnonzero(np.any(X[drawn.left] != X[drawn.right], axis=1)))
    # metric-learn visits similar pairs first: in that order both do the same projections.
    drawn = drawn.take(np.argsort(-drawn.labels, kind="stable"))
    index = np.column_stack([drawn.left, drawn.right])
    bounds = percentile_bounds(X, (5, 95), 0)

    def error(learner) -> float:
        return float(np.mean(knn_predict(learner.transform(X), y, learner.transform(X_test)) != y_test))

    def ours(solver: str, max_iter: int, tol: float):
        return itml.ITML(gamma=gamma, bounds=bounds, solver=solver, max_iter=max_iter, tol=tol, preprocessor=X).fit(
            index, drawn.labels
        )

    def peer(max_iter: int, limits: tuple[float, float] | None):
        learner = Peer(gamma=gamma, max_iter=max_iter, tol=0.0, preprocessor=X)
        return learner.fit(index, drawn.labels, bounds=None if limits is None else np.array(limits))

    def timed(function, *arguments):
        started = time.process_time()
        learner = function(*arguments)
        return learner, time.process_time() - started

    ours("projections", 1, 0.0)  # compiles, if it does
    print(f"\n{name}: {X.shape[0]} x {X.shape[1]} points, {len(drawn)} pairs, gamma = {gamma:g}")
    fast = slow = single = float("inf")
    for _ in range(repeats):
        mine, seconds = timed(ours, "projections", sweeps, 0.0)
        fast = min(fast, seconds)
        theirs, seconds = timed(peer, sweeps, bounds)
        slow = min(slow, seconds)
        _, seconds = timed(peer, 1, bounds)
        single = min(single, seconds)
    M, N = mine.get_mahalanobis_matrix(), theirs.get_mahalanobis_matrix()
    print(f"  metric-learn, {sweeps} sweeps        {slow:8.2f} s   5-NN error {error(theirs):.4f}")
    print(f"  projections,  {sweeps} sweeps        {fast:8.2f} s   5-NN error {error(mine):.4f}   {slow / fast:.1f}x")
    print(f"    metrics differ by {np.abs(M - N).max() / np.abs(N).max():.1e}, relatively")
    if sweeps > 1:
        per_pair = 1e6 * (slow - single) / (sweeps - 1) / len(drawn)
        print(f"    metric-learn's sweeps alone, without its set-up: {per_pair:.2f} µs per pair")
    optimal, seconds = timed(ours, "lbfgs", 1000, 1e-3)
    print(
        f"  lbfgs, {optimal.n_iter_} iterations to tol {seconds:8.2f} s   5-NN error {error(optimal):.4f}   "
        f"{slow / seconds:.1f}x faster, at an objective of {optimal.objective_[-1]:.6g}"
        f" (dual after {sweeps} sweeps: {mine.objective_[-1]:.6g})"
    )
    own, _ = timed(peer, sweeps, None)
    print(f"  metric-learn with its own bounds              5-NN error {error(own):.4f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=50_000, help="at most this many (letters would have 650 000)")
    parser.add_argument("--gamma", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, in turns, of which the fastest counts")
    parser.add_argument("--no-numba", action="store_true", help="the sweeps that need no compiler")
    options = parser.parse_args()
    if not is_among_peers():
        return run_among_peers(__file__, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    warnings.simplefilter("ignore")
    from advmetric.algorithms.itml import solvers as itml

    if options.no_numba:
        itml._compiled_visit = lambda: None  # type: ignore[assignment]
    compiled = importlib.util.find_spec("numba") is not None and not options.no_numba
    print("sweeps compiled by numba" if compiled else "sweeps by NumPy alone")
    for name in ("vehicle", "letters"):
        compare(name, options.pairs, options.sweeps, options.gamma, options.repeats)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
