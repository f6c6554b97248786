"""AMLCV: AML with its parameters tuned by cross-validation, sharing all that candidates share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.model_selection import check_cv
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from ..checks import check_choice, check_whole
from ..learner import LabelledPoints, MetricLearner
from ..linalg import Matrix
from ..metric import Mahalanobis
from ..moments import Moments, check_prior, moments_of
from ..neighbors import knn_predict
from ..progress import progress
from ..supervision import Pairs, Scatter
from .adversary import ADVERSARIES
from .estimator import AML, components_of, solve

__all__ = ["AMLCV"]

Params = dict[str, Any]

_SEARCH_TOL = 1e-4
"""Enough to rank candidates: D is then within about 1e-8 of its minimum. The winner is solved to ``tol``."""
_MANY_FEATURES = 128
"""Below this, waking a second BLAS thread costs more than it saves."""


class AMLCV(MetricLearner):
    """AML with alpha, beta, t, n_components and the prior chosen by cross-validation.

    Candidates are all combinations of the given values. Within a fold the scatter matrices are
    computed once, the geodesic once a subspace, and each solution starts from its neighbour's.
    The best candidate is fitted again on all data.

    Parameters
    ----------
    alphas, betas, ts : sequences of float
        Values to try; see :class:`AML`. alpha = 0 is GMML.
    n_components : sequence of int or None
        Dimensions of the subspace to try; None is the full space. (One value may stand alone, here and above.)
    regs : sequence of float
        Strengths of the prior to try.
    priors : sequence of "identity" or (d, d) arrays
        Priors to try.
    cv : int, splitter or iterable, default=5
        Folds, stratified by class or by kind of pair.
    scoring : str, callable or None
        On labels: a scorer of the k-NN classifier in the learned space (None: accuracy). On pairs: a
        scorer of the fitted learner (None: ROC AUC).
    n_neighbors : int, default=5
        k of the k-NN classifier that scores on labels.
    n_jobs : int, optional
        Processes for folds and subspaces.
    pairs, adversary, average, max_iter, tol, preprocessor, random_state
        As for :class:`AML`.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    best_params_, best_score_, best_index_ : the winner
    best_estimator_ : AML
        Fitted on all data with ``best_params_``.
    cv_results_ : dict of arrays
        ``param_*``, ``split*_test_score``, ``mean_test_score``, ``std_test_score``,
        ``rank_test_score``, ``n_iter``: ready for ``pandas.DataFrame``.
    components_, threshold_, classes_, n_iter_, converged_, objective_ : as for :class:`AML`

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> search = AMLCV(alphas=[0, 1], betas=[1], ts=[0.25, 0.5]).fit(X, y)
    >>> sorted(search.best_params_)
    ['alpha', 'beta', 'n_components', 'prior', 'reg', 't']
    """

    def __init__(
        self,
        *,
        alphas: Sequence[float] = (0.0, 1.0, 10.0, 100.0),
        betas: Sequence[float] = (0.01, 0.1, 1.0),
        ts: Sequence[float] = (0.1, 0.25, 0.5),
        n_components: Sequence[int | None] = (None,),
        regs: Sequence[float] = (1e-3,),
        priors: Sequence[Any] = ("identity",),
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        n_neighbors: int = 5,
        n_jobs: int | None = None,
        pairs: Any = "all",
        adversary: str = "derived",
        average: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-5,
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.betas = betas
        self.ts = ts
        self.n_components = n_components
        self.regs = regs
        self.priors = priors
        self.cv = cv
        self.scoring = scoring
        self.n_neighbors = n_neighbors
        self.n_jobs = n_jobs
        self.pairs = pairs
        self.adversary = adversary
        self.average = average
        self.max_iter = max_iter
        self.tol = tol
        self.preprocessor = preprocessor
        self.random_state = random_state
        self.verbose = verbose

    def _check_params(self) -> None:
        check_choice("adversary", self.adversary, tuple(ADVERSARIES))
        check_whole("n_neighbors", self.n_neighbors, 1)
        if not (self.scoring is None or isinstance(self.scoring, str) or callable(self.scoring)):
            raise TypeError(f"scoring must be the name of a scorer, a callable or None, got {self.scoring!r}.")
        for candidate in self._candidates():
            self._estimator(candidate)._check_params()

    def _candidates(self) -> list[Params]:
        """All combinations; those that share most come together, alpha changing fastest."""
        grid = {name: self._values(name) for name in ("priors", "regs", "n_components", "ts", "betas", "alphas")}
        names = ("prior", "reg", "n_components", "t", "beta", "alpha")
        return [dict(zip(names, combination, strict=True)) for combination in product(*grid.values())]

    def _values(self, name: str) -> list[Any]:
        """The values to try for one parameter; a single value stands for itself."""
        given = getattr(self, name)
        one = isinstance(given, str) or not np.iterable(given) or (name == "priors" and getattr(given, "ndim", 1) == 2)
        values = [given] if one else list(given)
        if not values:
            raise ValueError(f"{name} is empty; give at least one value to try.")
        return values

    def _estimator(self, params: Params) -> AML:
        shared = ("pairs", "adversary", "average", "max_iter", "tol", "preprocessor", "random_state")
        return AML(**params, **{name: getattr(self, name) for name in shared})

    def _learn(self, data: LabelledPoints | Pairs, **extra: Any) -> Matrix:
        candidates = self._candidates()
        self._check_grid()
        folds = list(self._folds(data))
        spaces = len(self._values("priors")) * len(self._values("regs")) * len(self._values("n_components"))
        chunk = len(candidates) // spaces
        tasks = [(fold, space) for fold in range(len(folds)) for space in range(spaces)]
        scatters = [moments_of(_take(data, train), self.pairs, self.random_state) for train, _ in folds]
        run = Parallel(n_jobs=self.n_jobs, return_as="generator")(
            delayed(_score_candidates)(
                self,
                scatters[fold],
                *(_take(data, rows) for rows in folds[fold]),
                candidates[space * chunk : (space + 1) * chunk],
                self._scorer(data),
            )
            for fold, space in tasks
        )
        scores = np.empty((len(folds), len(candidates)))
        n_iter = np.empty((len(folds), len(candidates)))
        for (fold, space), found in zip(
            tasks, progress(run, len(tasks), "AMLCV", enabled=bool(self.verbose)), strict=True
        ):
            part = slice(space * chunk, (space + 1) * chunk)
            scores[fold, part], n_iter[fold, part] = found
        self._record(candidates, scores, n_iter)

        best = self._estimator(self.best_params_)
        best.__dict__.update(n_features_in_=self.n_features_in_, classes_=self.classes_)
        best._fitted_on_pairs = isinstance(data, Pairs)
        best.components_ = best._learn(data)
        if isinstance(data, Pairs):
            best._choose_threshold(data)
        self.best_estimator_ = best
        self.n_iter_, self.converged_, self.objective_ = best.n_iter_, best.converged_, best.objective_
        return best.components_

    def _check_grid(self) -> None:
        """Raise if a candidate does not fit the features, before any is tried."""
        d = self.n_features_in_
        for r in self._values("n_components"):
            if r is not None and r > d:
                raise ValueError(f"n_components={r} is more than the {d} features of X.")
        for prior in self._values("priors"):
            check_prior(prior, d)

    def _folds(self, data: LabelledPoints | Pairs) -> Iterator[tuple[NDArray, NDArray]]:
        y = data.labels if isinstance(data, Pairs) else data.y
        cv = self.cv
        if isinstance(cv, (int, np.integer)):
            # Small classes allow fewer folds than asked for; on pairs, each fold needs both kinds.
            sizes = np.unique(y, return_counts=True)[1]
            allowed = int(sizes.min() if isinstance(data, Pairs) else sizes.max())
            if allowed < 2:
                raise ValueError(
                    "cross-validation needs at least two pairs of each kind."
                    if isinstance(data, Pairs)
                    else "cross-validation needs a class in y with at least two members."
                )
            cv = min(int(cv), allowed)
        folds: Iterator[tuple[NDArray, NDArray]] = check_cv(cv, y, classifier=True).split(np.zeros(len(y)), y)
        return folds

    def _scorer(self, data: LabelledPoints | Pairs) -> Scorer:
        custom = get_scorer(self.scoring) if isinstance(self.scoring, str) else self.scoring
        if isinstance(data, Pairs):
            return PairScorer(self, custom)
        return NeighbourScorer(self.n_neighbors, custom)

    def _record(self, candidates: list[Params], scores: Matrix, n_iter: Matrix) -> None:
        mean = scores.mean(axis=0)
        results: dict[str, Any] = {}
        for name in candidates[0]:
            column = np.empty(len(candidates), dtype=object)
            column[:] = [candidate[name] for candidate in candidates]
            results[f"param_{name}"] = column
        results["params"] = candidates
        for fold, row in enumerate(scores):
            results[f"split{fold}_test_score"] = row
        results["mean_test_score"], results["std_test_score"] = mean, scores.std(axis=0)
        results["rank_test_score"] = (mean[None, :] > mean[:, None] + 1e-15).sum(axis=1) + 1
        results["n_iter"] = n_iter.mean(axis=0)
        self.cv_results_ = results
        self.best_index_ = int(np.argmax(mean))
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])


def _score_candidates(
    search: AMLCV,
    scatter: Scatter,
    learning: LabelledPoints | Pairs,
    judging: LabelledPoints | Pairs,
    candidates: list[Params],
    scorer: Scorer,
) -> tuple[list[float], list[int]]:
    """Scores and iterations of candidates that share prior, reg and n_components, in one fold."""
    first = candidates[0]
    prior = check_prior(first["prior"], len(scatter.A))
    moments = Moments.regularised(scatter, first["reg"], prior, search.average).leading(first["n_components"])
    scores, n_iter = [], []
    t, start = None, None
    with threadpool_limits(1 if len(moments.A) < _MANY_FEATURES else None, "blas"):
        for params in candidates:
            if params["t"] != t:
                t, start = params["t"], None
            solution = solve(
                moments,
                alpha=params["alpha"],
                beta=params["beta"],
                t=params["t"],
                adversary=search.adversary,
                tol=max(search.tol, _SEARCH_TOL),
                max_iter=search.max_iter,
                start=start,
            )
            start = solution.state
            scores.append(scorer(components_of(solution, moments), learning, judging))
            n_iter.append(solution.n_iter)
    return scores, n_iter


def _take(data: LabelledPoints | Pairs, rows: NDArray) -> LabelledPoints | Pairs:
    return data.take(rows) if isinstance(data, Pairs) else LabelledPoints(data.X[rows], data.y[rows])


@dataclass(frozen=True)
class NeighbourScorer:
    """Score components by the k-NN classifier in their space."""

    n_neighbors: int
    custom: Callable[..., float] | None

    def __call__(self, components: Matrix, learning: Any, judging: Any) -> float:
        learned, judged = learning.X @ components.T, judging.X @ components.T
        k = min(self.n_neighbors, len(learned))
        if self.custom is None:
            return float(np.mean(knn_predict(learned, learning.y, judged, k) == judging.y))
        classifier = KNeighborsClassifier(k, algorithm="brute").fit(learned, learning.y)
        return float(self.custom(classifier, judged, judging.y))


@dataclass(frozen=True)
class PairScorer:
    """Score components by their distances on held-out pairs."""

    search: AMLCV
    custom: Callable[..., float] | None

    def __call__(self, components: Matrix, learning: Any, judging: Any) -> float:
        if self.custom is None:
            return float(roc_auc_score(judging.y, -Mahalanobis(components).pair_distance(judging)))
        learner = AML(preprocessor=self.search.preprocessor)
        learner.components_, learner.n_features_in_ = components, components.shape[1]
        learner.classes_, learner._fitted_on_pairs = np.array([-1, 1]), True
        learner._choose_threshold(learning)
        return float(self.custom(learner, judging, judging.y))


Scorer = NeighbourScorer | PairScorer
