"""Iterations and Hessian products of the geodesic solver over a stiff grid, on Image-segment."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from harness import Row, count_calls
from sklearn.preprocessing import StandardScaler

from advmetric import load_dataset
from advmetric.algorithms.aml.adversary import make_adversary
from advmetric.algorithms.aml.objective import Evaluation
from advmetric.algorithms.aml.problem import solve
from advmetric.learners.moments import Moments
from advmetric.pairs.scatter import all_pairs_scatter

TS = (0.0, 0.1, 0.25, 0.5, 0.75)
ALPHAS = tuple(10.0**power for power in range(-3, 4))
BETAS = tuple(10.0**power for power in range(-4, 4))


def rows(fast: bool = False) -> Iterator[Row]:
    """Over t x alpha x beta, to the default tolerance and to 1e-7."""
    grid = list(product(TS, ALPHAS, BETAS))[:: 20 if fast else 1]
    bunch = load_dataset("image-segment")
    X = StandardScaler().fit_transform(bunch.X)
    moments = Moments.regularised(all_pairs_scatter(X, bunch.y))
    for tol in (1e-5, 1e-7):
        iterations, products, unsolved = [], [], 0
        for t, alpha, beta in grid:
            with count_calls(Evaluation, "hessian_product") as calls:
                solution = solve(moments, make_adversary("derived", alpha, beta), t=t, tol=tol)
            iterations.append(solution.n_iter)
            products.append(calls[0])
            unsolved += not solution.converged
        hardest = grid[int(np.argmax(iterations))]
        note = (
            f"mean {np.mean(iterations):.2g}; Hessian products: mean {np.mean(products):.3g}, max {max(products)}; "
            f"most at t={hardest[0]:g} alpha={hardest[1]:g} beta={hardest[2]:g}; {unsolved} did not converge"
        )
        what = f"solver, most iterations of {len(grid)} (t, alpha, beta), tol {tol:.0e}"
        yield Row(what, max(iterations), unit="it", at_most=30, note=note)
