"""Coordinates in which the starting metric M₀ = A⁻¹ #_t B is the identity, and the unit of squared distances.

With R (p, d) such that M₀ = RᵀR, a metric is M = RᵀNR, N starts at I, and the geometric mean loss on (A_t, B_t), whose
minimiser is M₀, becomes

    G_t(M) = tr(M A_t) + tr(M⁻¹ B_t) = tr(T N) + tr(T N⁻¹),    T = diag(Σ^min(t, 1-t)),

where Σ are the eigenvalues of AB and R = Σ^{t/2} Wᵀ with the joint factor W of A⁻¹ = WWᵀ, B = WΣWᵀ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import qr

from advmetric.learners.moments import Moments
from advmetric.linalg.span import complement
from advmetric.linalg.spd import symmetrize, with_signs
from advmetric.pairs.data import Scatter
from advmetric.utils.parameters import Choice, Optional, Whole
from advmetric.utils.typing import Matrix, Vector
from advmetric.utils.warning import warn

__all__ = ["SUBSPACES", "Whitened", "check_dimensions", "reduce_to_span", "starting_metric", "whiten"]

SUBSPACES = ("discriminant", "principal")
"""Leading generalised eigenvectors of (B, A), or principal components of the differences of all pairs."""

_MOST_DIRECTIONS, _VARIANCE = 150, 0.9
"""With more directions, those in which points differ least are left out by default, up to a tenth of the variance: what
is learned there is noise."""
_UNSEEN = 1e-9
_MOST_DENSE = 4000
"""Maximum number of features with a full (d, d) factor (128 MB); above, directions without data are left out."""


def check_dimensions(name: str, value: Any) -> None:
    """Raise unless a number of components is one, None or "auto"."""
    if isinstance(value, str):
        Choice("auto")(name, value)
    else:
        Optional(Whole(1))(name, value)


@dataclass(frozen=True)
class Whitened:
    """Rows in whitened coordinates and what a problem needs to know of the others."""

    Z: Matrix
    """(n, p): the rows times Rᵀ."""
    tau: Vector
    """(p,): diagonal of T."""
    mean_loss: float
    """G_t(M₀)."""
    C: Matrix
    """(p, p): RRᵀ/c for β = 1, that is c = tr(M₀)/p; the price matrix of the adversary."""
    R: Matrix
    """(p, d): L @ R are components in the coordinates of the rows."""
    outside: float
    """Eigenvalue of M₀ in the directions orthogonal to all rows, if there are any."""
    basis: Matrix | None
    """Orthonormal basis (d, r) of the span of the rows."""
    wanted: int
    """Number of rows of the components."""

    def with_rows(self, Z: Matrix, size: float) -> Whitened:
        """The same metric divided by ``size``, with rows Z, which are divided by its root."""
        root = math.sqrt(size)
        return replace(self, Z=Z / root, R=self.R / root, outside=self.outside / size)

    def components(self, L: Matrix, divisor: float) -> Matrix:
        """Components in the data's coordinates, rows by decreasing singular value.

        ``divisor`` is what the features were divided by. Where the rows span fewer directions than are wanted, M₀ fills
        up the rest (above 4000 features it is left out, with a warning).
        """
        _, singular, Vt = np.linalg.svd(L @ self.R, full_matrices=False)
        d, missing = Vt.shape[1], self.wanted - len(singular)
        if missing > 0 and self.basis is not None:
            if d > _MOST_DENSE:
                warn(
                    f"the metric keeps the {len(singular)} directions in which the training data differ; {self.wanted} "
                    f"components for {d} features would be too many. Set n_components to choose."
                )
            else:
                rest = complement(self.basis, missing).T
                singular = np.concatenate([singular, np.full(missing, math.sqrt(self.outside))])
                Vt = np.concatenate([Vt, rest])
                order = np.argsort(-singular, kind="stable")
                singular, Vt = singular[order], Vt[order]
        return with_signs(singular[:, None] * Vt / divisor)


def reduce_to_span(F: Matrix) -> tuple[Matrix, Matrix | None]:
    """Rows in an orthonormal basis Q (d, r) of their span, and Q; F itself and None where there are d rows or more.

    By Householder QR and an SVD of the triangular factor: O(dn²).
    """
    n, d = F.shape
    if n >= d:
        return F, None
    Q, triangle = qr(F.T, mode="economic", check_finite=False)
    U, s, Vt = np.linalg.svd(triangle)
    r = max(1, int(np.sum(s > max(n, d) * np.finfo(float).eps * s[0])))
    return Vt[:r].T * s[:r], Q @ U[:, :r]


def whiten(
    F: Matrix,
    scatter: Callable[[Matrix], Scatter],
    unit: Callable[[Matrix], float],
    *,
    t: float,
    reg: float,
    prior: Matrix | None,
    n_components: int | str | None,
    subspace: str = "discriminant",
    n_features: int | None = None,
) -> Whitened:
    """Whiten rows F (n, d) by M₀ and scale it so that ``unit`` of the result is 1.

    Parameters
    ----------
    F : (n, d) array
        Points about their mean, or differences.
    scatter : function
        A and B of pairs of the given rows, averaged.
    unit : function
        A typical squared distance, of rows Z under the Euclidean distance; linear in the square of their scale.
    t, reg, prior
        As for :class:`~advmetric.AML`: place on the geodesic, strength of the prior and its matrix.
    n_components, subspace
        Number of directions to learn in: leading generalised eigenvectors of (B, A), or principal components. "auto":
        where the rows span more than 150 directions, principal components, 150 or as many as hold 90 % of the variance.
    n_features
        Number of features of the data: more than d where F has coordinates in a basis of the span of all points.

    Notes
    -----
    O(nd²) and O(d³), or O(dn² + n³) for n < d rows and ``prior=None``: the problem then splits into the span of the
    rows and its complement, where M₀ is the solution (see :mod:`advmetric.learners.span`).
    """
    rows, basis = reduce_to_span(F) if prior is None else (F, None)
    settings: dict[str, Any] = {"t": t, "reg": reg, "prior": prior, "n_components": n_components, "subspace": subspace}
    start, to = starting_metric(scatter(rows), n_features or F.shape[1], basis, **settings)
    Z = rows @ to
    return start.with_rows(Z, unit(Z) or 1.0)


def starting_metric(
    seen: Scatter,
    d: int,
    basis: Matrix | None = None,
    *,
    t: float,
    reg: float,
    prior: Matrix | None,
    n_components: int | str | None,
    subspace: str = "discriminant",
) -> tuple[Whitened, Matrix]:
    """M₀ from A and B of rows of d features, perhaps in a basis of their span or of a larger space, without rows yet.

    Also return the map (r, p) from the rows to whitened coordinates.
    """
    columns = len(seen.A) if basis is None else len(basis)
    Q = _seen_directions(seen, reg / d) if prior is None else None
    if Q is not None:
        seen = Scatter(symmetrize(Q.T @ seen.A @ Q), symmetrize(Q.T @ seen.B @ Q), seen.n_similar, seen.n_dissimilar)
        basis = Q if basis is None else basis @ Q
    r, pairs = len(seen.A), seen
    if r < d:
        # One more direction, in which no pair differs, stands for all of those.
        A, B = (np.pad(matrix, (0, 1)) for matrix in (seen.A, seen.B))
        seen = Scatter(A, B, seen.n_similar, seen.n_dissimilar)
    moments, outside = Moments.regularised(seen, reg, prior, n_features=d), 0.0
    if r < d:
        a, b = float(moments.A[r, r]), float(moments.B[r, r])
        outside = (a * b) ** t / a if a > 0.0 else 0.0
        moments = Moments(moments.A[:r, :r], moments.B[:r, :r])
    if isinstance(n_components, str):
        moments = moments.principal(_MOST_DIRECTIONS, pairs, _VARIANCE)
        n_components = None if moments.Q is None else moments.Q.shape[1]
    elif n_components is not None and n_components <= r:
        principal = subspace == "principal"
        moments = (moments.principal if principal else moments.leading)(n_components, pairs)
    geodesic = moments.geodesic
    R = geodesic.factor(t).T
    tau = np.exp(min(t, 1.0 - t) * geodesic.log_sigma)
    C = R @ R.T
    C *= len(R) / float(np.trace(C))
    inside = R if moments.Q is None else R @ moments.Q.T
    return Whitened(
        np.empty((0, len(R))),
        tau,
        2.0 * float(tau.sum()),
        C,
        inside if basis is None else inside @ basis.T,
        outside,
        basis,
        min(n_components or d, columns),
    ), (inside if Q is None else inside @ Q.T).T


def _seen_directions(scatter: Scatter, share: float) -> Matrix | None:
    """Orthonormal basis (r, s) of the directions in which pairs differ, or None where these are all, or none.

    In the others (constant features, sums of other features) the prior alone would make M₀ large, and with it the price
    of the adversary's moves. A direction counts as seen unless the prior, ``share`` of the trace, outweighs it by 10⁹.
    """
    values, vectors = np.linalg.eigh(symmetrize(scatter.A + scatter.B))
    least = max(_UNSEEN * share * values.sum(), len(values) * np.finfo(float).eps * values[-1])
    count = int(np.sum(values > least))
    return vectors[:, -count:] if share > 0.0 and 0 < count < len(values) else None
