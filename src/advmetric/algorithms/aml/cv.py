"""AMLCV: AML with its parameters tuned by cross-validation, sharing all that candidates share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advmetric.learners.base import MetricLearner
from advmetric.learners.moments import check_n_components
from advmetric.learners.prior import prior_matrix
from advmetric.learners.tuning import Params, expand_grid, make_folds, make_scorer, score_candidates
from advmetric.pairs.data import Samples
from advmetric.utils.parameters import ANYTHING, Whole
from advmetric.utils.typing import Matrix

from .estimator import AML

__all__ = ["AMLCV", "AML_GRID"]

AML_GRID: dict[str, Sequence[float]] = {
    "t": (0.1, 0.25, 0.5),
    "beta": (0.01, 0.1, 1.0),
    "alpha": (0.0, 1.0, 10.0, 100.0),
}
"""Values that AMLCV, the command line and the experiments try by default."""


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
        alphas: Sequence[float] = AML_GRID["alpha"],
        betas: Sequence[float] = AML_GRID["beta"],
        ts: Sequence[float] = AML_GRID["t"],
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
        super()._check_params()
        for candidate in self._candidates():
            self._estimator(candidate)._check_params()

    def _candidates(self) -> list[Params]:
        """Return all combinations; those that share most come together, alpha changing fastest."""
        lists = ("priors", "regs", "n_components", "ts", "betas", "alphas")
        names = ("prior", "reg", "n_components", "t", "beta", "alpha")
        return expand_grid({name: self._values(values) for name, values in zip(names, lists, strict=True)})

    def _values(self, name: str) -> list[Any]:
        """Return the values to try for one parameter; a single value stands for itself."""
        given = getattr(self, name)
        one = isinstance(given, str) or not np.iterable(given) or (name == "priors" and getattr(given, "ndim", 1) == 2)
        values = [given] if one else list(given)
        if not values:
            raise ValueError(f"{name} is empty; give at least one value to try.")
        return values

    def _estimator(self, params: Params) -> AML:
        shared = ("pairs", "adversary", "average", "max_iter", "tol", "preprocessor", "random_state")
        return AML(**params, **{name: getattr(self, name) for name in shared})

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> AMLCV:
        """Choose the parameters by cross-validation and learn the metric with them.

        Parameters
        ----------
        X, y : as for :class:`AML`
        groups : array-like, optional
            Group of each row (a person, say): passed to ``cv``, which must then be a splitter such as
            ``StratifiedGroupKFold``; a number of folds becomes one.

        Returns
        -------
        self : object
        """
        self._fit(X, y, groups=groups)
        return self

    def _learn(self, data: Samples, **extra: Any) -> Matrix:
        d = self.n_features_in_
        for r in self._values("n_components"):
            check_n_components(r, d)
        for prior in self._values("priors"):
            prior_matrix(prior, data, d)
        learner = self._estimator({})
        search = score_candidates(
            learner,
            make_folds(data, self.cv, extra.get("groups")),
            self._candidates(),
            make_scorer(data, learner, self.scoring, self.n_neighbors),
            n_jobs=self.n_jobs,
            title="AMLCV" if self.verbose else "",
        )
        self.cv_results_, self.best_index_ = search.results(), search.best_index
        self.best_params_, self.best_score_ = search.best, float(search.mean[search.best_index])
        best = self._estimator(self.best_params_)
        best.n_features_in_, best.classes_ = self.n_features_in_, self.classes_
        best._settle(data)
        self.best_estimator_ = best
        self.n_iter_, self.converged_, self.objective_ = best.n_iter_, best.converged_, best.objective_
        return best.components_


def _check_scoring(name: str, value: Any) -> None:
    if not (value is None or isinstance(value, str) or callable(value)):
        raise TypeError(f"{name} must be the name of a scorer, a callable or None, got {value!r}.")


AMLCV._constraints = {
    **dict.fromkeys(("alphas", "betas", "ts", "n_components", "regs", "priors", "cv", "n_jobs"), ANYTHING),
    "scoring": _check_scoring,
    "n_neighbors": Whole(1),
    **{
        name: AML._constraints[name]
        for name in ("pairs", "adversary", "average", "max_iter", "tol", "preprocessor", "random_state", "verbose")
    },
}
