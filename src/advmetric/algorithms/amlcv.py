"""AMLCV: the loss and the parameters of adversarial metric learning, chosen by cross-validation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from advmetric.learners.base import IterativeLearner, MetricLearner
from advmetric.learners.folds import Part, check_groups, draw_rows, seed_of, split_rows
from advmetric.learners.moments import check_n_components
from advmetric.learners.prior import prior_matrix
from advmetric.learners.span import in_span
from advmetric.learners.tuning import (
    Params,
    Scorer,
    Search,
    SteadyNeighborScorer,
    best_of_levels,
    expand_grid,
    join_searches,
    make_scorer,
    score_candidates,
    simplest_within_one_standard_error,
)
from advmetric.pairs.data import Samples
from advmetric.utils.parameters import ANYTHING, Choice, Optional, Whole
from advmetric.utils.typing import Matrix, Vector

from .aml import AML
from .aml.estimator import AML_GRID
from .amlcv_settings import GEOMETRIC, low_ranks, settings_of
from .discriminative import NeighborAML, PairAML
from .euclidean import Euclidean

__all__ = ["AMLCV", "LOSSES"]

LOSSES = ("euclidean", "geometric", "pairs", "margin", "softmax", "radius")
"""Losses that can be chosen among, from the simplest to the most flexible."""
_DEFAULT_LOSSES = {
    "points": LOSSES,
    "pairs": ("euclidean", "geometric", "pairs"),
}
_SIMPLICITY = {"euclidean": 0, "geometric": 1, "pairs": 2, "margin": 2, "softmax": 2, "radius": 2}
_FEATURES, _COMPONENTS = 100, 60
"""With more features, the paper's model is tried in a subspace of so many components, too; …"""
_PRINCIPAL, _PAIR_COMPONENTS = 150, 300
"""… of points, the discriminative losses learn in so many principal components; of pairs, in so many components."""
_ANCHORS = 1000
"""The discriminative losses of labelled points are compared by the neighbours of at most so many points."""
_REPEATS = 2
"""Of labelled points, the best candidates are compared again, on so many further sets of folds."""
_FINALISTS = {0: 1, 1: 1, 2: 2}
"""How many candidates of each level of simplicity are compared again."""


@dataclass(frozen=True)
class _Family:
    """Candidates that one estimator learns."""

    loss: str
    learner: MetricLearner
    candidates: list[Params]

    @property
    def sketch(self) -> MetricLearner:
        """Return the estimator that learns the candidates in the search."""
        if not isinstance(self.learner, NeighborAML):
            return self.learner
        seed = self.learner.random_state
        return self.learner._unfitted().set_params(n_anchors=_ANCHORS, random_state=0 if seed is None else seed)


class AMLCV(IterativeLearner):
    """Adversarial metric learning with its loss and parameters chosen by cross-validation.

    By default the candidates are the Euclidean distance, the paper's model (:class:`AML`) and the discriminative losses
    that the data allow: :class:`PairAML`, and for labelled points :class:`NeighborAML` with its three losses, with and
    without the adversary, in all dimensions and in few. With ``alphas``, ``betas`` or ``ts`` given, only the paper's
    model is searched, over all combinations of the values.

    Of candidates whose scores cannot be told apart the simplest is taken: the best one gives way to a simpler loss
    (Euclidean before the paper's model before discriminative losses) if the mean of its lead over the folds is no more
    than one standard error. On labels, of the candidates within one standard error of the highest accuracy that with
    the highest share of right labels among the neighbours is the best one: this share varies less from fold to fold.
    Before the choice, the best candidate of each degree of simplicity (the best two of the discriminative losses) are
    compared on two further sets of folds. With ``scoring``, ``alphas``, ``betas`` or ``ts`` given, neither is done: the
    score on one set of folds decides. The choice is fitted again on all data.

    Parameters
    ----------
    losses : sequence of {"euclidean", "geometric", "pairs", "margin", "softmax", "radius"}, optional
        Losses to choose among; "geometric" is the paper's. None: as above.
    alphas, betas, ts : sequences of float, optional
        For the paper's model: values to try, see :class:`AML`; alpha = 0 is GMML.
    n_components : sequence of int or None, optional
        Dimensions of the subspace to try; None within the sequence is the full space. The discriminative losses, which
        cost most, are tried in the smallest of these subspaces. By default the full space, and also 60 dimensions where
        there are more than 100 features. The discriminative losses are then tried in 150 principal components (on
        pairs, in the full space or in 300 dimensions). The margin loss is tried in the max(2, c - 1) and
        max(5, c - 1) dimensions that tell c classes apart, or with more than 100 features in the latter and in 60; in
        other dimensions only where ``losses`` names it. (One value may stand alone, here and above.)
    regs : sequence of float
        For the paper's model: strengths of the prior to try.
    priors : sequence of "identity", "covariance" or (d, d) arrays
        For the paper's model: priors to try.
    cv : int, splitter or iterable, default=5
        Folds, stratified by class or by kind of pair.
    scoring : str, callable or None
        On labels: a scorer of the k-NN classifier in the learned space (None: accuracy). On pairs: a scorer of the
        fitted learner (None: ROC AUC).
    n_neighbors : int, default=5
        k of the k-NN classifier that scores on labels.
    max_rows : int or None, default=5000
        Candidates are compared on at most so many points or pairs (a random subset with the same shares of the
        classes); None for all. Those of :class:`NeighborAML` learn from the neighbours of at most 1000 of them. The
        final fit uses all.
    n_jobs : int, optional
        Processes for folds and groups of candidates.
    pairs, adversary, average, max_iter, tol, preprocessor, random_state, verbose
        As for :class:`AML`; ``verbose=1`` shows a progress bar.

    Attributes
    ----------
    best_loss_, best_params_, best_score_, best_index_ : the choice
    best_estimator_ : Euclidean, AML, PairAML or NeighborAML
        Fitted on all data with ``best_params_``.
    cv_results_ : dict of arrays
        ``param_*`` (``param_loss`` among them), ``split*_test_score``, ``mean_test_score``, ``std_test_score``,
        ``rank_test_score``, ``n_iter``: ready for ``pandas.DataFrame``. ``repeated_test_score`` is the mean over all
        folds of the candidates that were compared on further folds, and NaN for the others.
    components_, threshold_, classes_, n_iter_, converged_, objective_ : as for :class:`AML`

    See Also
    --------
    AML, NeighborAML, PairAML : What it chooses among.

    Notes
    -----
    Candidates share scatter matrices, geodesics, candidate graphs and starts within a fold. With defaults, labelled
    points cost 10 to 80 fits of :class:`NeighborAML` on at most 5000 points (``benchmarks/discriminative.py``).

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> search = AMLCV(alphas=[0, 1], betas=[1], ts=[0.25, 0.5]).fit(X, y)
    >>> search.best_loss_, sorted(search.best_params_)
    ('geometric', ['alpha', 'beta', 'n_components', 'prior', 'reg', 't'])
    """

    def __init__(
        self,
        *,
        losses: Sequence[str] | None = None,
        alphas: Sequence[float] | None = None,
        betas: Sequence[float] | None = None,
        ts: Sequence[float] | None = None,
        n_components: Sequence[int | None] | None = None,
        regs: Sequence[float] = (1e-3,),
        priors: Sequence[Any] = ("identity",),
        cv: Any = 5,
        scoring: str | Callable[..., float] | None = None,
        n_neighbors: int = 5,
        max_rows: int | None = 5000,
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
        self.losses = losses
        self.alphas, self.betas, self.ts = alphas, betas, ts
        self.n_components, self.regs, self.priors = n_components, regs, priors
        self.cv, self.scoring, self.n_neighbors = cv, scoring, n_neighbors
        self.max_rows, self.n_jobs = max_rows, n_jobs
        self.pairs, self.adversary, self.average = pairs, adversary, average
        super().__init__(
            max_iter=max_iter, tol=tol, preprocessor=preprocessor, random_state=random_state, verbose=verbose
        )

    def _check_params(self) -> None:
        super()._check_params()
        for loss in self._values("losses", LOSSES):
            Choice(*LOSSES)("losses", loss)
        for candidate in self._geometric_candidates(1):
            self._geometric(candidate, self.random_state)._check_params()

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> AMLCV:
        """Choose the loss and its parameters by cross-validation and learn the metric with them.

        Parameters
        ----------
        X, y : as for :class:`AML`
        groups : array-like, optional
            Group of each row (a person, say): rows of a group are never on both sides of a split. A number of folds
            then stands for ``StratifiedGroupKFold``.

        Returns
        -------
        self : object
        """
        self._fit(X, y, groups=groups)
        return self

    # --- candidates -------------------------------------------------------------------------------------

    def _values(self, name: str, default: Sequence[Any]) -> list[Any]:
        """Return the values to try for one parameter; a single value stands for itself."""
        given = getattr(self, name)
        given = default if given is None else given
        one = isinstance(given, str) or not np.iterable(given) or (name == "priors" and getattr(given, "ndim", 1) == 2)
        values = [given] if one else list(given)
        if not values:
            raise ValueError(f"{name} is empty; give at least one value to try.")
        return values

    def _dimensions(self, d: int) -> list[int | None]:
        wide = d > _FEATURES and not self._only_geometric
        return self._values("n_components", (None, _COMPONENTS) if wide else (None,))

    def _subspace(self, kind: str, d: int) -> Params:
        """Return in which dimensions the discriminative losses learn, which cost most."""
        if self.n_components is not None or d <= _FEATURES:
            return {"n_components": min(self._dimensions(d), key=lambda value: d if value is None else value)}
        if kind == "pairs":
            # Of whitened features, such as faces are compared by, each component tells as much as any other.
            return {"n_components": _PAIR_COMPONENTS if d > _PAIR_COMPONENTS else None}
        return {"n_components": min(_PRINCIPAL, d), "subspace": "principal"}

    @property
    def _turns_with_points(self) -> bool:
        """Whether all candidates find the same metric, turned, where the points are turned."""
        priors = {str(prior) for prior in self._values("priors", ())}
        return priors == {"identity"} and isinstance(self.pairs, str | Integral)

    @property
    def _only_geometric(self) -> bool:
        return self.losses is None and any(v is not None for v in (self.alphas, self.betas, self.ts))

    def _geometric_candidates(self, d: int) -> list[Params]:
        """Return all combinations; those that share most come together, alpha changing fastest."""
        grid = {
            "prior": self._values("priors", ()),
            "reg": self._values("regs", ()),
            "n_components": self._dimensions(d),
            "t": self._values("ts", AML_GRID["t"]),
        }
        if self.alphas is None and self.betas is None and not self._only_geometric:
            return [{**params, **setting} for params in expand_grid(grid) for setting in GEOMETRIC]
        grid["beta"] = self._values("betas", AML_GRID["beta"])
        grid["alpha"] = self._values("alphas", AML_GRID["alpha"])
        return expand_grid(grid)

    def _geometric(self, params: Params, seed: Any) -> AML:
        shared = ("pairs", "adversary", "average", "max_iter", "tol", "preprocessor")
        return AML(**params, **{name: getattr(self, name) for name in shared}, random_state=seed)

    def _families(self, data: Samples, seed: Any) -> list[_Family]:
        d = data.X.shape[1]
        losses = ["geometric"] if self._only_geometric else self._values("losses", _DEFAULT_LOSSES[data.kind])
        families = []
        for loss in losses:
            if loss == "geometric":
                families.append(_Family(loss, self._geometric({}, seed), self._geometric_candidates(d)))
            elif loss == "euclidean":
                families.append(_Family(loss, Euclidean(preprocessor=self.preprocessor), [{}]))
            else:
                learner = self._discriminative(loss, data.kind, seed)
                wide = d > _FEATURES
                settings = [{**params, **self._subspace(data.kind, d)} for params in settings_of(data.kind, loss, wide)]
                if loss == "margin":
                    few = low_ranks(len(np.unique(data.labels)), d, wide) if self.n_components is None else []
                    settings = few if self.losses is None else [*settings, *few]
                families.append(_Family(loss, learner, settings))
        return families

    def _discriminative(self, loss: str, kind: str, seed: Any) -> MetricLearner:
        shared = {"preprocessor": self.preprocessor, "random_state": seed}
        if loss == "pairs":
            return PairAML(**shared)
        if kind == "pairs":
            raise ValueError(f"losses: {loss!r} learns from points with class labels, not from pairs.")
        return NeighborAML(loss=loss, **shared)

    # --- search -----------------------------------------------------------------------------------------

    def _learn(self, data: Samples, **extra: Any) -> Matrix:
        d = self.n_features_in_
        for r in self._dimensions(d):
            check_n_components(r, d)
        for prior in self._values("priors", ()):
            prior_matrix(prior, data, d)
        seed = seed_of(self.random_state)
        families = self._families(data, seed)
        groups, rows = extra.get("groups"), draw_rows(data.labels, self.max_rows, 0 if seed is None else seed)
        groups = None if groups is None else check_groups(groups, len(data))
        part = data if rows is None else data.take(rows)
        part = in_span(part) if self._turns_with_points else part

        def parts(**options: Any) -> list[Part]:
            folds = split_rows(data, self.cv, groups, among=rows, **options)
            if rows is not None:
                folds = [(np.searchsorted(rows, train), np.searchsorted(rows, test)) for train, test in folds]
            return [(part.take(train), part.take(test)) for train, test in folds]

        first = self._search(families, parts())
        entries = [(family, params) for family in families for params in family.candidates]
        levels = np.array([_SIMPLICITY[family.loss] for family, _ in entries])
        self.cv_results_ = first.results()
        kept, search = np.arange(len(entries)), first
        if groups is None and isinstance(self.cv, Integral) and self._judges_neighbors(data):
            kept = best_of_levels(first.steady.mean(axis=0), levels, _FINALISTS)
            finalists = [replace(f, candidates=[entries[i][1] for i in kept if entries[i][0] is f]) for f in families]
            repeats = [fold for repeat in range(_REPEATS) for fold in parts(seed=repeat)]
            search = first.take(kept).extended(self._search(finalists, repeats))
            self.cv_results_["repeated_test_score"] = np.full(len(entries), np.nan)
            self.cv_results_["repeated_test_score"][kept] = search.mean
        place = simplest_within_one_standard_error(search.scores, levels[kept], search.steady)
        self.best_index_, self.best_score_ = int(kept[place]), float(search.mean[place])
        family, self.best_params_ = entries[self.best_index_]
        self.best_loss_ = family.loss
        best = family.learner._unfitted().set_params(**self.best_params_)
        best._check_params()
        best.n_features_in_, best.classes_ = self.n_features_in_, self.classes_
        best._settle(data)
        self.best_estimator_ = best
        for name in ("n_iter_", "converged_", "objective_"):
            if hasattr(best, name):
                setattr(self, name, getattr(best, name))
        return best.components_

    def _search(self, families: Sequence[_Family], parts: Sequence[Part]) -> Search:
        """Score the candidates of all families."""
        learned = [family for family in families if family.candidates]
        searches = [
            score_candidates(
                family.sketch,
                parts,
                family.candidates,
                self._scorer(parts[0][0], family.learner),
                n_jobs=self.n_jobs,
                title=f"AMLCV, {family.loss}" if self.verbose else "",
            )
            for family in learned
        ]
        return join_searches([family.loss for family in learned], searches, self._only_geometric)

    def _scorer(self, data: Samples, learner: MetricLearner) -> Scorer:
        k = self.n_neighbors
        if self._judges_neighbors(data):
            return SteadyNeighborScorer(k)
        return make_scorer(data, learner, self.scoring, k, self.classes_)

    def _judges_neighbors(self, data: Samples) -> bool:
        return data.kind == "points" and self.scoring is None and not self._only_geometric

    def _choose_threshold(self, pairs: Any) -> None:
        """Take over the threshold of the best estimator, which may have come out of its problem."""
        self.threshold_ = self.best_estimator_.threshold_
        self.calibration_ = self.best_estimator_.calibration_

    def _similar_probability(self, distances: Vector) -> Vector:
        # The threshold and the calibration may have been changed since fit.
        best = copy.copy(self.best_estimator_)
        best.threshold_, best.calibration_ = self.threshold_, self.calibration_
        probability: Vector = best._similar_probability(distances)
        return probability


def _check_n_jobs(name: str, value: Any) -> None:
    if not (value is None or (isinstance(value, Integral) and value != 0)):
        raise ValueError(f"{name} must be None or a whole number other than 0, got {value!r}.")


def _check_scoring(name: str, value: Any) -> None:
    if not (value is None or isinstance(value, str) or callable(value)):
        raise TypeError(f"{name} must be the name of a scorer, a callable or None, got {value!r}.")


AMLCV._constraints = {
    **dict.fromkeys(("losses", "alphas", "betas", "ts", "n_components", "regs", "priors", "cv"), ANYTHING),
    "n_jobs": _check_n_jobs,
    "scoring": _check_scoring,
    "n_neighbors": Whole(1),
    "max_rows": Optional(Whole(2)),
    **{
        name: AML._constraints[name]
        for name in ("pairs", "adversary", "average", "max_iter", "tol", "preprocessor", "random_state", "verbose")
    },
}
