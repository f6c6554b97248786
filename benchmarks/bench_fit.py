"""Fit time of AML against GMML's by number of features, on all pairs of 3200 MNIST digits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
from harness import Row, count_calls, interleaved
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from advmetric import AML, GMML, load_dataset
from advmetric.learners import moments
from advmetric.learners.moments import Moments
from advmetric.pairs.scatter import all_pairs_scatter

DIMENSIONS = (16, 50, 100, 200, 400, 784)
GRID = tuple(product((0.1, 0.5), (1.0, 100.0), (0.01, 1.0, 100.0)))
"""(t, alpha, beta) over which the slowest fit is looked for."""


def digits(d: int, n: int = 3200) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """n rows of mnist-4000, its d pixels of largest variance (all of them for d = 784), standardised."""
    bunch = load_dataset("mnist-4000")
    X, _, y, _ = train_test_split(bunch.X, bunch.y, train_size=n, random_state=0, stratify=bunch.y)
    chosen = np.sort(np.argsort(-X.var(axis=0), kind="stable")[:d])
    return StandardScaler().fit_transform(X[:, chosen]), y


def closed_form(X: NDArray[np.float64], y: NDArray[np.int64], t: float = 0.5) -> NDArray[np.float64]:
    """GMML's matrix and nothing else: scatter, prior, one point of the geodesic."""
    return Moments.regularised(all_pairs_scatter(X, y)).geodesic.at(t)


def decompositions(fit: Callable[[], Any]) -> str:
    """How often a fit calls ``np.linalg.eigh`` and ``np.linalg.svd``."""
    with count_calls(np.linalg, "eigh") as eigh, count_calls(np.linalg, "svd") as svd:
        fit()
    return f"{eigh[0]} eigh" + (f" + {svd[0]} svd" if svd[0] else "")


def rows(fast: bool = False) -> Iterator[Row]:
    """Ratios by d at the default parameters, then the worst over GRID at the largest d."""
    dimensions = (16, 50) if fast else DIMENSIONS
    for d in dimensions:
        X, y = digits(d)
        fits: dict[str, Callable[[], Any]] = {
            "closed form": partial(closed_form, X, y),
            "GMML": partial(GMML().fit, X, y),
            "AML": partial(AML().fit, X, y),
        }
        seconds = interleaved(fits, repeats=3 if fast else 9 if d <= 400 else 5)
        fitted = AML().fit(X, y)
        note = (
            f"AML {seconds['AML'] * 1e3:.4g} ms, {fitted.n_iter_} iterations, {decompositions(fits['AML'])}; "
            f"GMML {seconds['GMML'] * 1e3:.3g} ms, {decompositions(fits['GMML'])}"
        )
        yield Row(f"AML / GMML, fit, d = {d}", seconds["AML"] / seconds["GMML"], at_most=5, note=note)
        yield Row(f"AML fit / bare closed form, d = {d}", seconds["AML"] / seconds["closed form"], at_most=5)
    yield in_the_span(repeats=1 if fast else 5)
    yield worst_of_grid(X, y, GRID[:2] if fast else GRID, repeats=1 if fast else 3)


def in_the_span(repeats: int, n: int = 40, d: int = 700) -> Row:
    """AML on fewer rows than features, learned in their span, against the same in all d dimensions."""
    X, y = np.random.default_rng(0).normal(size=(n, d)), np.arange(n) % 2

    def everywhere() -> AML:
        with mock.patch.object(moments, "span_of", return_value=None):
            return AML().fit(X, y)

    seconds = interleaved({"span": partial(AML().fit, X, y), "everywhere": everywhere}, repeats)
    note = f"{seconds['span'] * 1e3:.3g} ms against {seconds['everywhere'] * 1e3:.4g} ms"
    return Row(
        f"AML in the span / in all of {d} dimensions, n = {n}",
        seconds["span"] / seconds["everywhere"],
        at_most=0.5,
        note=note,
    )


def worst_of_grid(
    X: NDArray[np.float64], y: NDArray[np.int64], grid: tuple[tuple[float, float, float], ...], repeats: int
) -> Row:
    """The slowest AML fit of the grid, as a multiple of GMML's fit at the same t."""
    fits: dict[str, Callable[[], Any]] = {
        f"t={t:g} alpha={alpha:g} beta={beta:g}": partial(AML(alpha=alpha, beta=beta, t=t).fit, X, y)
        for t, alpha, beta in grid
    }
    fits |= {f"GMML t={t:g}": partial(GMML(t=t).fit, X, y) for t in sorted({t for t, _, _ in grid})}
    seconds = interleaved(fits, repeats)
    ratios = {name: seconds[name] / seconds[f"GMML {name.split()[0]}"] for name in fits if not name.startswith("GMML")}
    worst = max(ratios, key=lambda name: ratios[name])
    fitted = fits[worst]()
    note = (
        f"at {worst}: {fitted.n_iter_} iterations, {decompositions(fits[worst])}; "
        f"median of the {len(ratios)}: {np.median(list(ratios.values())):.3g} x"
    )
    what = f"AML / GMML, fit, d = {X.shape[1]}, worst of {len(ratios)} (t, alpha, beta)"
    return Row(what, ratios[worst], at_most=5, note=note)
