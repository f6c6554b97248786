"""GMML: geometric mean metric learning, in closed form."""

from __future__ import annotations

from advmetric.learners.moments import MOMENT_CONSTRAINTS, MomentLearner, Moments
from advmetric.linalg.spd import spd_factor
from advmetric.optimize.result import Result
from advmetric.utils.typing import Matrix

__all__ = ["GMML"]


class GMML(MomentLearner):
    """Geometric Mean Metric Learning: M = A⁻¹ #_t B.

    At t = 1/2 the minimiser of tr(MA) + tr(M⁻¹B): similar pairs close under M, dissimilar ones close
    under M⁻¹. Other t weigh the two kinds of pairs along the geodesic.

    Parameters
    ----------
    t : float in [0, 1], default=0.5
        Place on the geodesic from A⁻¹ (0) to B (1).
    prior, reg, n_components, rank, pairs, average, preprocessor, random_state
        As for :class:`~advmetric.AML`.

    Attributes
    ----------
    components_ : (r, d) array
        L, with M = LᵀL.

    See Also
    --------
    AML : The same with an adversary.
    Euclidean : No learning.

    Notes
    -----
    One Cholesky factorisation and two eigendecompositions: O(nd² + d³), or O(dn² + n³) for n < d.

    References
    ----------
    P. Zadeh, R. Hosseini, S. Sra. Geometric Mean Metric Learning. ICML 2016.

    Examples
    --------
    >>> X, y = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 2.0]], [0, 0, 1, 1]  # classes differ in the second feature
    >>> GMML().fit(X, y).get_mahalanobis_matrix().diagonal().round(1).tolist()
    [0.7, 89.5]
    """

    _constraints = MOMENT_CONSTRAINTS

    def _solve(self, moments: Moments) -> Result[Matrix]:
        return Result(spd_factor(moments.geodesic.at(self.t)))
