"""The problem of PairAML and NeighborAML: a loss of real and adversarial distances, and the geometric mean loss."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advmetric.pairs.graph import PairGraph
from advmetric.utils.typing import Matrix, Vector

from .adversary import AdversarialFrame
from .losses import Loss, Radius
from .whitening import Whitened

__all__ = ["Problem", "typical_square"]

_LOSS_CURVATURE, _LEAST_CURVATURE = 0.05, 1e-3
"""Found by counting evaluations on the bundled data sets; results do not depend on them."""


@dataclass(frozen=True)
class Problem:
    """F(N, b) = [loss(d², b) + α loss(d̃², b)] / (1 + α) + γ (G_t(N)/G_t(I) - 1) in whitened coordinates, N = LᵀL.

    d̃ is what the adversary makes of the distances: d₊ for similar and d₋ for dissimilar pairs (:mod:`.adversary`). For
    a loss that is convex in squared distances, F is jointly convex in (N, b).

    Parameters
    ----------
    start : Whitened
        Rows, T, and the price matrix of the adversary at β = 1.
    near, far : PairGraph
        Similar and dissimilar pairs of the rows.
    loss : Loss
    alpha, beta, gamma : float
        Weight of the adversarial distances, price of a move, weight of the geometric mean loss.
    across : PairGraph, optional
        Pairs of which the loss also sees ‖M(x_j - x_l)‖² (:class:`.losses.Radius`), in units of tr(M₀)/p.
    """

    start: Whitened
    near: PairGraph
    far: PairGraph
    loss: Loss
    alpha: float
    beta: float
    gamma: float
    across: PairGraph | None = None

    def distances(self, L: Matrix) -> tuple[Matrix, Matrix]:
        """Squared distances of similar (N_s, 2) and dissimilar (N_d, 2) pairs: real and adversarial."""
        frame, _ = AdversarialFrame.of(L, self.start.C / self.beta)
        Z = self.start.Z @ frame.L.T
        return self.near.squares(Z, frame.near), self.far.squares(Z, frame.far)

    def evaluate(self, L: Matrix, b: float) -> tuple[float, Matrix, float]:
        """F, its gradient by L and its derivative by b. O(Nr + nr²) and O(r³)."""
        if self.alpha > 0.0 or self.across is not None:
            value, gradient, slope = self._in_frame(L, b)
        else:
            value, gradient, slope = self._without_adversary(L, b)
        if self.gamma > 0.0:
            prior_value, prior_gradient = self.mean_loss(L)
            value += self.gamma * prior_value
            gradient += self.gamma * prior_gradient
        return value, gradient, slope

    def _without_adversary(self, L: Matrix, b: float) -> tuple[float, Matrix, float]:
        Z = self.start.Z @ L.T
        plain = np.ones((len(L), 1))
        real = self.loss(self.near.squares(Z, plain)[:, 0], self.far.squares(Z, plain)[:, 0], b)
        return real.value, 2.0 * (L @ self._scatter(real.near, real.far)), real.threshold

    def _in_frame(self, L: Matrix, b: float) -> tuple[float, Matrix, float]:
        frame, V = AdversarialFrame.of(L, self.start.C / self.beta)
        Z = self.start.Z @ frame.L.T
        near, far = self.near.squares(Z, frame.near), self.far.squares(Z, frame.far)
        slopes = () if self.across is None else (self.across.squares(Z, self.beta * frame.h[:, None])[:, 0],)
        real = self.loss(near[:, 0], far[:, 0], b, *slopes)
        harder = self.loss(near[:, 1], far[:, 1], b, *slopes) if self.alpha > 0.0 else real
        weight, share = 1.0 / (1.0 + self.alpha), self.alpha / (1.0 + self.alpha)
        half = frame.L @ self._scatter(weight * real.near, weight * real.far)
        if self.alpha > 0.0:
            expanded = frame.L @ self.near.scatter(share * harder.near, self.start.Z)
            contracted = frame.L @ self.far.scatter(share * harder.far, self.start.Z)
            half += frame.near[:, 1:] * expanded + frame.far[:, 1:] * contracted
            half += frame.chain(expanded @ frame.L.T, contracted @ frame.L.T)
        if self.across is not None:
            # Σ w ‖M(x_j - x_l)‖² = β Σ w yᵀHy; half of its gradient by L is β (H S + S L C) with S = Σ w yvᵀ.
            assert real.across is not None
            assert harder.across is not None
            by_slope = weight * real.across + share * harder.across
            crossed = frame.L @ self.across.scatter(self.beta * by_slope, self.start.Z)
            half += frame.h[:, None] * crossed + (crossed @ frame.L.T) @ (frame.L @ frame.C)
        value = weight * real.value + share * harder.value
        return value, 2.0 * (V @ half), weight * real.threshold + share * harder.threshold

    def _scatter(self, near: Vector, far: Vector) -> Matrix:
        """Σ w vvᵀ over the pairs of both kinds, (p, p)."""
        return self.near.scatter(near, self.start.Z) + self.far.scatter(far, self.start.Z)

    def mean_loss(self, L: Matrix) -> tuple[float, Matrix]:
        """G_t(N)/G_t(I) - 1 = tr(T(N + N⁻¹ - 2I))/G_t(I) and its gradient by L. O(p³).

        From L⁻ᵀ - L, so without cancellation near N = I: for invertible N, N + N⁻¹ - 2I = (L - L⁻ᵀ)ᵀ(L - L⁻ᵀ).
        """
        tau, scale = self.start.tau, 1.0 / self.start.mean_loss
        try:
            inverse = np.linalg.inv(L).T
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(L)
        gap = L - inverse
        value = scale * float(np.einsum("ij,ij,j->", gap, gap, tau))
        # tr(T N⁻¹) = tr(T L⁻¹L⁻ᵀ) has the derivative -2 L⁻ᵀ T N⁻¹ by L.
        return value, 2.0 * scale * (L * tau - ((inverse * tau) @ inverse.T) @ inverse)

    def mean_squares(self, n_near: int, n_far: int) -> Vector:
        """Half the sum of squared differences of similar pairs over ``n_near``, plus the same of dissimilar ones."""
        q = np.zeros(len(self.start.tau))
        for edges, count in ((self.near, n_near), (self.far, n_far)):
            if len(edges):
                q += 0.5 * np.diagonal(edges.scatter(np.full(len(edges), 1.0 / count), self.start.Z))
        return q

    def total_radius(self) -> Vector:
        """Sum of the sizes of the radii of all triplets at L = I, and their number, for a loss that sees radii."""
        assert self.across is not None
        assert isinstance(self.loss, Radius)
        plain = np.ones((len(self.start.tau), 1))
        near, far = (edges.squares(self.start.Z, plain)[:, 0] for edges in (self.near, self.far))
        across = self.across.squares(self.start.Z @ np.linalg.cholesky(self.start.C), plain)[:, 0]
        return np.array([np.abs(self.loss.radii(near, far, across)).sum(), self.loss.n_triplets])

    def curvature(self) -> Matrix:
        """Estimate of the second derivative of F by each entry of L at L = I, (p, p), up to a factor.

        2γ(τ_i + τ_j)/G_t(I) from the geometric mean loss, and from the loss a multiple of the mean squares of rows,
        q_i q_j. It only scales the variables of the solver; where it is far below its maximum, L moves too far from I
        for it to hold, so it is bounded below.
        """
        q, tau = self.mean_squares(len(self.near), len(self.far)), self.start.tau
        estimate = (2.0 * self.gamma / self.start.mean_loss) * (tau[:, None] + tau) + _LOSS_CURVATURE * np.outer(q, q)
        bounded: Matrix = estimate + _LEAST_CURVATURE * estimate.max()
        return bounded

    def slope(self, L: Matrix, gradient: Matrix, b: float, by_threshold: float, value: float) -> float:
        """‖N^{1/2} ∇_N F N^{1/2}‖_F and |b ∂F/∂b|, in one norm, relative to F: no scale of the data changes it."""
        riemannian = 0.5 * float(np.linalg.norm(gradient @ L.T))
        return float(np.hypot(riemannian, b * by_threshold)) / max(value, float(np.finfo(float).tiny))


def typical_square(edges: tuple[PairGraph, ...], Z: Matrix) -> float:
    """Median squared distance over all edges; the mean where the median is 0."""
    ones: Vector = np.ones((Z.shape[1], 1))
    squares = np.concatenate([part.squares(Z, ones)[:, 0] for part in edges])
    return float(np.median(squares)) or float(squares.mean())
