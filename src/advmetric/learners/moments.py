"""Learners that see the data only through the two scatter matrices A and B.

What GMML and AML share: where the pairs come from, the prior, the leading subspace, and the place t
on the geodesic between A⁻¹ and B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from advmetric.linalg.span import complement
from advmetric.linalg.spd import Geodesic, leading_generalised, symmetrize, with_signs
from advmetric.metric.mahalanobis import Mahalanobis
from advmetric.optimize.result import Result
from advmetric.pairs.data import Samples, Scatter
from advmetric.pairs.pair_statistics import Statistics
from advmetric.pairs.samplers import AllPairs, check_sampler, make_sampler
from advmetric.pairs.scatter import all_pairs_scatter, pairs_scatter
from advmetric.utils.arrays import convert_like, identity_like, namespace
from advmetric.utils.parameters import ANYTHING, Constraint, Flag, Optional, Real, Whole, check_seed
from advmetric.utils.typing import Matrix
from advmetric.utils.warning import warn

from .incremental import IncrementalLearner
from .prior import check_prior, prior_matrix
from .span import Span, span_of

__all__ = ["MOMENT_CONSTRAINTS", "MomentLearner", "Moments", "check_n_components", "scatter_of"]

MOMENT_CONSTRAINTS: dict[str, Constraint | Callable[..., None]] = {
    "t": Real(0.0, 1.0),
    "prior": check_prior,
    "reg": Real(0.0),
    "n_components": Optional(Whole(1)),
    "rank": Optional(Whole(1)),
    "pairs": check_sampler,
    "average": Flag(),
    "preprocessor": ANYTHING,
    "random_state": check_seed,
}
"""Constraints on the parameters that learners from moments share."""

_MOST_DENSE = 4000
"""Up to this many features the metric is a full (d, d) factor, 128 MB; above, unseen directions are left out."""

_SINGULAR = (
    "The pairs leave some directions without any spread, and reg is too small to fill them in; "
    "use a larger reg (the default is 1e-3)."
)


def scatter_of(data: Samples | Statistics, pairs: object = "all", random_state: Any = None) -> Scatter:
    """Return the scatter of statistics, of given pairs, of all pairs of points, or of sampled ones."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not isinstance(data, Samples):
            return _finite(data.scatter())
        sampler = make_sampler(pairs)
        if data.kind == "points" and sampler is None:
            return _finite(all_pairs_scatter(data.X, data.labels))
        return _finite(pairs_scatter(data.as_pairs(sampler or AllPairs(), random_state)))


def _finite(scatter: Scatter) -> Scatter:
    xp = namespace(scatter.A, scatter.B)
    if not (bool(xp.all(xp.isfinite(scatter.A))) and bool(xp.all(xp.isfinite(scatter.B)))):
        raise ValueError("The squares of some features of X overflow; rescale them, for example with StandardScaler.")
    return scatter


@dataclass(frozen=True)
class Moments:
    """Regularised A and B, positive definite, perhaps in a subspace spanned by orthonormal columns Q."""

    A: Matrix
    B: Matrix
    Q: Matrix | None = None

    @classmethod
    def regularised(
        cls,
        scatter: Scatter,
        reg: float = 1e-3,
        prior: Matrix | None = None,
        average: bool = True,
        n_features: int | None = None,
    ) -> Moments:
        """Add the prior: A + reg (tr A/d) M₀⁻¹ and B + reg (tr B/d) M₀ (M₀ = I for ``prior=None``).

        With ``average=False`` A and B are sums over their pairs, as printed in the paper. ``n_features`` is the d of
        the formula where A and B are in a subspace.
        """
        A, B = scatter.A, scatter.B
        xp, d = namespace(A, B), n_features or A.shape[0]
        a, b = float(xp.linalg.trace(A)) / d, float(xp.linalg.trace(B)) / d
        # Pairs of one kind may all be duplicates: then the other kind sets the scale.
        a, b = a or b or 1.0, b or a or 1.0
        M0 = identity_like(A) if prior is None else convert_like(prior, A)
        M0_inverse = M0 if prior is None else symmetrize(convert_like(np.linalg.inv(prior), A))
        A, B = A + (reg * a) * M0_inverse, B + (reg * b) * M0
        if not average:
            A, B = scatter.n_similar * A, scatter.n_dissimilar * B
        return cls(A, B)

    def leading(self, n_components: int | None, scatter: Scatter) -> Moments:
        """Restrict to the leading generalised eigenvectors of (B, A), B without the prior: where dissimilar pairs
        differ most.

        With the prior, the ratio of B to A would be tr B/tr A in a direction in which no pair differs (a constant
        feature, a copy of another one), more than in many that tell the pairs apart. Without it, it is 0.
        """
        if n_components is None or n_components >= self.A.shape[0]:
            return self
        try:
            vectors = leading_generalised(scatter.B, self.A, n_components)
        except np.linalg.LinAlgError as error:
            raise ValueError(_SINGULAR) from error
        xp = namespace(vectors)
        Q, _ = xp.linalg.qr(vectors)
        found = self._within(Q)
        # Rounding may make a singular A look positive definite; these vectors are then where A vanishes.
        if float(xp.linalg.eigvalsh(found.A)[0]) <= float(xp.finfo(self.A.dtype).eps) * float(xp.linalg.trace(self.A)):
            raise ValueError(_SINGULAR)
        return found

    def principal(self, n_components: int, scatter: Scatter, variance: float = 0.0) -> Moments:
        """Restrict to the principal components of the differences of all pairs: where these differ most.

        Parameters
        ----------
        n_components : int
        scatter : Scatter
            A and B without the prior.
        variance : float
            Take more components where these hold less than this share of the variance.
        """
        share = scatter.n_dissimilar / max(scatter.n_similar + scatter.n_dissimilar, 1)
        values, vectors = np.linalg.eigh(symmetrize((1.0 - share) * scatter.A + share * scatter.B))
        held = np.cumsum(values[::-1])
        count = max(n_components, int(np.searchsorted(held, variance * held[-1])) + 1)
        return self if count >= len(values) else self._within(vectors[:, -count:])

    def _within(self, Q: Matrix) -> Moments:
        return Moments(symmetrize(Q.T @ self.A @ Q), symmetrize(Q.T @ self.B @ Q), Q)

    @cached_property
    def geodesic(self) -> Geodesic:
        """From A⁻¹ to B; serves every t."""
        try:
            return Geodesic.between(self.A, self.B)
        except np.linalg.LinAlgError as error:
            raise ValueError(_SINGULAR) from error

    def weighted(self, t: float) -> tuple[Matrix, Matrix]:
        """(A_t, B_t) whose midpoint A_t⁻¹ # B_t is A⁻¹ #_t B.

        For t <= 1/2, B is replaced by A⁻¹ #_{2t} B; for t > 1/2, A⁻¹ by A⁻¹ #_{2t-1} B.
        """
        if t == 0.5:
            return self.A, self.B
        if t < 0.5:
            return self.A, self.geodesic.at(2.0 * t)
        return self.geodesic.inverse_at(2.0 * t - 1.0), self.B

    def embed(self, components: Matrix) -> Matrix:
        """Components in the full space."""
        return components if self.Q is None else components @ self.Q.T


def check_n_components(n_components: int | str | None, d: int) -> None:
    """Raise if more components are asked for than there are features."""
    if isinstance(n_components, (int, np.integer)) and n_components > d:
        raise ValueError(f"n_components={n_components} is more than the {d} features of X.")


class MomentLearner(IncrementalLearner):
    """A learner with ``t``, ``prior``, ``reg``, ``n_components``, ``rank``, ``pairs`` and ``average``."""

    accepts_sparse = True
    accepts_array_api = True
    _solver_parameters: ClassVar[tuple[str, ...]] = ("t",)
    """Parameters that candidates on the same moments may differ in."""

    def __init__(
        self,
        *,
        t: float = 0.5,
        prior: str | ArrayLike = "identity",
        reg: float = 1e-3,
        n_components: int | None = None,
        rank: int | None = None,
        pairs: Any = "all",
        average: bool = True,
        preprocessor: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.t, self.prior, self.reg = t, prior, reg
        self.n_components, self.rank = n_components, rank
        self.pairs, self.average = pairs, average
        self.preprocessor, self.random_state = preprocessor, random_state

    def _solve(self, moments: Moments) -> Result[Matrix]:
        """Return components in the space of the moments, from the largest eigenvalue to the smallest."""
        raise TypeError(f"{type(self).__name__} does not say how it solves: implement _solve.")

    def _learn(self, data: Samples | Statistics, **extra: Any) -> Matrix:
        d = self.n_features_in_
        check_n_components(self.n_components, d)
        samples = isinstance(data, Samples)
        prior = prior_matrix(self.prior, data, d)
        if self.rank is not None and not samples:
            raise ValueError("rank is for fit: batches are gone before their leading directions could be known.")
        if self.rank is not None and prior is not None:
            raise ValueError("rank needs prior='identity': another prior mixes the directions that rank leaves out.")
        span = None
        if isinstance(data, Samples):
            sampler = make_sampler(self.pairs)
            data = data if sampler is None else data.as_pairs(sampler, self.random_state)
            span = span_of(data, self.rank, self.random_state) if prior is None else None
        if span is not None:
            solved, components = self._learn_in(span)
        else:
            scatter = scatter_of(data)
            moments = Moments.regularised(scatter, self.reg, prior, self.average, d)
            moments = moments.leading(self.n_components, scatter)
            solved = self._solve(moments)
            components = moments.embed(solved.x)
        if len(solved.objective):
            self._report(solved)
        return with_signs(components)

    def _candidate_groups(self, candidates: list[dict[str, Any]]) -> list[list[int]]:
        return [list(range(len(candidates)))]  # all share the scatter matrices

    def _candidate_metrics(self, candidates: list[dict[str, Any]], data: Samples) -> Iterator[tuple[Any, int]]:
        space = ("prior", "reg", "n_components")
        known = {*space, *self._solver_parameters}
        if len(data) < data.X.shape[1] or self.rank is not None or any(set(params) - known for params in candidates):
            yield from super()._candidate_metrics(candidates, data)  # in the span of the data, or other parameters
            return
        learner = self._unfitted()
        d = data.n_features
        scatter = scatter_of(data, learner.pairs, learner.random_state)
        last: Any = None
        for params in candidates:
            learner.set_params(**params)
            learner._check_params()
            # Candidates that come one after the other share regularised moments, and their geodesic.
            here = [getattr(learner, name) for name in space]
            if last is None or any(a is not b for a, b in zip(here, last, strict=True)):
                check_n_components(learner.n_components, d)
                prior = prior_matrix(learner.prior, data, d)
                moments = Moments.regularised(scatter, learner.reg, prior, learner.average, d)
                moments, state, last = moments.leading(learner.n_components, scatter), None, here
            solved, state = learner._solve_from(moments, state)
            yield Mahalanobis(moments.embed(solved.x)), max(1, solved.n_iter)

    def _solve_from(self, moments: Moments, state: Any) -> tuple[Result[Matrix], Any]:
        """Solve, perhaps from the state that an earlier candidate left; return the solution and its state."""
        return self._solve(moments), None

    def _learn_in(self, span: Span) -> tuple[Result[Matrix], Matrix]:
        """Learn in the span of the data: M = Q M_r Qᵀ + m (I - QQᵀ), see :mod:`advmetric.learners.span`.

        Which rows of components come of it:

        * all d, so M itself, up to 4000 features;
        * above, where d rows would take gigabytes, the r of the span. The term left out, m ‖(I - QQᵀ)(x - x')‖², is
          the same from a new point to every training point, since these lie in the span (about their mean): their
          order by distance is that of M. Between two new points it is missing, so a warning says so;
        * with ``n_components``, the leading ones of the span. Directions that no pair differs in come last, though the
          prior alone may give them a larger ratio of B to A: any of them would be as good as any other.
        """
        d, r = self.n_features_in_, len(_finite(span.scatter).A)
        wide = Moments.regularised(_with_one_outside(span.scatter), self.reg, None, self.average, n_features=d)
        inside, outside = Moments(wide.A[:r, :r], wide.B[:r, :r]), Moments(wide.A[r:, r:], wide.B[r:, r:])
        wanted = min(d if self.n_components is None else self.n_components, span.d)
        if wanted <= r:
            inside = inside.leading(wanted, span.scatter)
        solved = self._solve(inside)
        rows = span.lift(inside.embed(solved.x))
        if wanted <= r:
            return solved, rows
        beyond = self._solve(outside)
        m = float(beyond.x[0, 0]) ** 2
        if len(beyond.objective):
            values = [value + (wanted - r) * beyond.objective[-1] for value in solved.objective]
            solved = replace(solved, objective=values, converged=solved.converged and beyond.converged)
        if self.n_components is None and span.d > _MOST_DENSE:
            warn(
                f"{type(self).__name__} keeps the {r} directions in which the training data differ; {d} components for "
                f"{d} features would take {8e-9 * d * d:.2g} GB. Distances to training points keep their order; those "
                f"of two new points lack {m:.3g} times what differs in other directions. Set n_components to choose."
            )
            return solved, rows
        lam = np.einsum("ij,ij->i", solved.x, solved.x)
        unit = rows / np.sqrt(np.where(lam > 0.0, lam, 1.0))[:, None]
        others = np.sqrt(m) * complement(unit.T, wanted - r).T
        order = np.argsort(-np.concatenate([lam, np.full(wanted - r, m)]), kind="stable")
        return solved, np.concatenate([rows, others])[order]


def _with_one_outside(scatter: Scatter) -> Scatter:
    """The scatter with one more direction, in which no pair differs: it stands for all of those."""
    A, B = (np.pad(matrix, (0, 1)) for matrix in (scatter.A, scatter.B))
    return Scatter(A, B, scatter.n_similar, scatter.n_dissimilar)
