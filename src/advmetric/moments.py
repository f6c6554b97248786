"""Learners that see the data only through the two scatter matrices A and B.

What GMML and AML share: where the pairs come from, the prior, the leading subspace, and the place t
on the geodesic between A⁻¹ and B.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh as generalised_eigh
from scipy.linalg import inv

from .checks import check_number, check_whole
from .learner import LabelledPoints, MetricLearner
from .linalg import Geodesic, Matrix, symmetrize
from .supervision import Pairs, Scatter, all_pairs_scatter, make_sampler, pairs_scatter

__all__ = ["MomentLearner", "Moments", "moments_of"]

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
    if not (np.isfinite(scatter.A).all() and np.isfinite(scatter.B).all()):
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
        cls, scatter: Scatter, reg: float = 1e-3, prior: Matrix | None = None, average: bool = True
    ) -> Moments:
        """Add the prior: A + reg (tr A/d) M₀⁻¹ and B + reg (tr B/d) M₀ (M₀ = I for ``prior=None``).

        With ``average=False`` A and B are sums over their pairs, as printed in the paper.
        """
        A, B = scatter.A, scatter.B
        d = len(A)
        a, b = float(np.trace(A)) / d, float(np.trace(B)) / d
        # Pairs of one kind may all be duplicates: then the other kind sets the scale.
        a, b = a or b or 1.0, b or a or 1.0
        M0 = np.eye(d) if prior is None else prior
        M0_inverse = M0 if prior is None else symmetrize(inv(prior))
        A, B = A + (reg * a) * M0_inverse, B + (reg * b) * M0
        if not average:
            A, B = scatter.n_similar * A, scatter.n_dissimilar * B
        return cls(A, B)

    def leading(self, n_components: int | None) -> Moments:
        """Restrict to the leading generalised eigenvectors of (B, A): where dissimilar pairs differ most."""
        d = len(self.A)
        if n_components is None or n_components >= d:
            return self
        try:
            _, vectors = generalised_eigh(self.B, self.A, subset_by_index=(d - n_components, d - 1), check_finite=False)
        except np.linalg.LinAlgError as error:
            raise ValueError(_SINGULAR) from error
        Q, _ = np.linalg.qr(vectors)
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


class MomentLearner(MetricLearner):
    """A learner with ``t``, ``prior``, ``reg``, ``n_components``, ``pairs`` and ``average``."""

    t: float
    prior: Any
    reg: float
    n_components: int | None
    pairs: Any
    average: bool
    random_state: Any

    def _check_params(self) -> None:
        check_number("t", self.t, 0.0, 1.0)
        check_number("reg", self.reg, 0.0)
        if self.n_components is not None:
            check_whole("n_components", self.n_components, 1)
        if not isinstance(self.average, (bool, np.bool_)):
            raise TypeError(f"average must be True or False, got {self.average!r}.")
        make_sampler(self.pairs)

    def _moments(self, data: LabelledPoints | Pairs) -> Moments:
        d = self.n_features_in_
        if self.n_components is not None and self.n_components > d:
            raise ValueError(f"n_components={self.n_components} is more than the {d} features of X.")
        prior = check_prior(self.prior, d)
        scatter = moments_of(data, self.pairs, self.random_state)
        return Moments.regularised(scatter, self.reg, prior, self.average).leading(self.n_components)


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
