"""Learners that see the data only through the two scatter matrices A and B.

What GMML and AML share: where the pairs come from, the prior, the leading subspace, and the place t
on the geodesic between A⁻¹ and B.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import inv

from .arrays import identity_like, like, namespace
from .checks import check_number, check_whole
from .incremental import IncrementalLearner, Statistics
from .learner import LabelledPoints
from .linalg import Geodesic, Matrix, leading_generalised, symmetrize, with_signs
from .span import Span, complement, span_of
from .supervision import Pairs, Scatter, all_pairs_scatter, make_sampler, pairs_scatter

__all__ = ["MomentLearner", "Moments", "Solved", "moments_of"]

_MOST_DENSE = 4000
"""Up to so many features the metric is a full (d, d) factor, 128 MB; above, unseen directions are left out."""

_SINGULAR = (
    "The pairs leave some directions without any spread, and reg is too small to fill them in; "
    "use a larger reg (the default is 1e-3)."
)


def moments_of(data: LabelledPoints | Pairs, pairs: object = "all", random_state: Any = None) -> Scatter:
    """Scatter of checked data: of its pairs, of all pairs of its points, or of sampled ones."""
    sampler = None if isinstance(data, Pairs) else make_sampler(pairs)
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(data, Pairs):
            scatter = pairs_scatter(data)
        elif sampler is None:
            scatter = all_pairs_scatter(data.X, data.y)
        else:
            scatter = pairs_scatter(sampler.sample(data.X, data.y, random_state))
    return _finite(scatter)


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
        M0 = identity_like(A) if prior is None else like(prior, A)
        M0_inverse = M0 if prior is None else like(symmetrize(inv(prior)), A)
        A, B = A + (reg * a) * M0_inverse, B + (reg * b) * M0
        if not average:
            A, B = scatter.n_similar * A, scatter.n_dissimilar * B
        return cls(A, B)

    def leading(self, n_components: int | None) -> Moments:
        """Restrict to the leading generalised eigenvectors of (B, A): where dissimilar pairs differ most."""
        if n_components is None or n_components >= self.A.shape[0]:
            return self
        try:
            vectors = leading_generalised(self.B, self.A, n_components)
        except np.linalg.LinAlgError as error:
            raise ValueError(_SINGULAR) from error
        Q, _ = namespace(vectors).linalg.qr(vectors)
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


@dataclass(frozen=True)
class Solved:
    """A metric in the space of some moments: components from the largest eigenvalue down, and how they were found."""

    rows: Matrix
    objective: Sequence[float] = ()
    converged: bool = True
    message: str = ""


class MomentLearner(IncrementalLearner):
    """A learner with ``t``, ``prior``, ``reg``, ``n_components``, ``rank``, ``pairs`` and ``average``."""

    accepts_sparse = True
    accepts_foreign = True
    t: float
    prior: Any
    reg: float
    n_components: int | None
    rank: int | None
    pairs: Any
    average: bool
    random_state: Any

    def _check_params(self) -> None:
        check_number("t", self.t, 0.0, 1.0)
        check_number("reg", self.reg, 0.0)
        for name in ("n_components", "rank"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1)
        if not isinstance(self.average, (bool, np.bool_)):
            raise TypeError(f"average must be True or False, got {self.average!r}.")
        make_sampler(self.pairs)

    def _solve(self, moments: Moments) -> Solved:
        """The metric for given moments, in their own space."""
        raise TypeError(f"{type(self).__name__} does not say how it solves: implement _solve.")

    def _learn(self, data: LabelledPoints | Pairs | Statistics, **extra: Any) -> Matrix:
        d = self.n_features_in_
        if self.n_components is not None and self.n_components > d:
            raise ValueError(f"n_components={self.n_components} is more than the {d} features of X.")
        prior = check_prior(self.prior, d)
        if self.rank is not None and prior is not None:
            raise ValueError("rank needs prior='identity': another prior mixes the directions that rank leaves out.")
        span = None
        if isinstance(data, (LabelledPoints, Pairs)):
            sampler = make_sampler(self.pairs)
            if sampler is not None and isinstance(data, LabelledPoints):
                data = sampler.sample(data.X, data.y, self.random_state)
            if prior is None:
                span = span_of(data, self.rank, self.random_state)
        elif self.rank is not None:
            raise ValueError("rank is for fit: batches are gone before their leading directions could be known.")
        if span is not None:
            solved, components = self._learn_in(span)
        else:
            scatter = moments_of(data) if isinstance(data, (LabelledPoints, Pairs)) else _finite(data.scatter())
            moments = Moments.regularised(scatter, self.reg, prior, self.average).leading(self.n_components)
            solved = self._solve(moments)
            components = moments.embed(solved.rows)
        if solved.objective:
            self._report(solved.objective, solved.converged, solved.message)
        return with_signs(components)

    def _learn_in(self, span: Span) -> tuple[Solved, Matrix]:
        """Learn in the span of the data: M = Q M_r Qᵀ + m (I - QQᵀ), see :mod:`advmetric.span`.

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
        wanted = d if self.n_components is None else self.n_components
        if wanted <= r:
            inside = inside.leading(wanted)
        solved = self._solve(inside)
        rows = span.lift(inside.embed(solved.rows))
        if wanted <= r:
            return solved, rows
        beyond = self._solve(outside)
        m = float(beyond.rows[0, 0]) ** 2
        if beyond.objective:
            values = [value + (wanted - r) * beyond.objective[-1] for value in solved.objective]
            solved = Solved(solved.rows, values, solved.converged and beyond.converged, solved.message)
        if self.n_components is None and d > _MOST_DENSE:
            warnings.warn(
                f"{type(self).__name__} keeps the {r} directions in which the training data differ; {d} components for "
                f"{d} features would take {8e-9 * d * d:.2g} GB. Distances to training points keep their order; those "
                f"of two new points lack {m:.3g} times what differs in other directions. Set n_components to choose.",
                UserWarning,
                stacklevel=6,
            )
            return solved, rows
        lam = np.einsum("ij,ij->i", solved.rows, solved.rows)
        unit = rows / np.sqrt(np.where(lam > 0.0, lam, 1.0))[:, None]
        others = np.sqrt(m) * complement(unit.T, wanted - r).T
        order = np.argsort(-np.concatenate([lam, np.full(wanted - r, m)]), kind="stable")
        return solved, np.concatenate([rows, others])[order]


def _with_one_outside(scatter: Scatter) -> Scatter:
    """The scatter with one more direction, in which no pair differs: it stands for all of those."""
    A, B = (np.pad(matrix, (0, 1)) for matrix in (scatter.A, scatter.B))
    return Scatter(A, B, scatter.n_similar, scatter.n_dissimilar)


def check_prior(prior: Any, d: int) -> Matrix | None:
    """The prior matrix M₀, or None for the identity."""
    if isinstance(prior, str):
        if prior != "identity":
            raise ValueError(f"prior={prior!r} is not known; use 'identity' or a positive definite (d, d) array.")
        return None
    try:
        matrix = np.asarray(prior, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"prior is not numeric ({error}); use 'identity' or a ({d}, {d}) array.") from error
    if matrix.shape != (d, d):
        raise ValueError(f"prior has shape {matrix.shape}; a ({d}, {d}) array is needed for {d} features.")
    if not np.isfinite(matrix).all() or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=1e-12 * np.abs(matrix).max()):
        raise ValueError("prior must be a finite symmetric matrix.")
    matrix = symmetrize(matrix)
    if np.linalg.eigvalsh(matrix)[0] <= 0.0:
        raise ValueError("prior must be positive definite.")
    return matrix
