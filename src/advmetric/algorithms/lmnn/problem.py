"""The problem behind LMNN: its value, gradient and lower bound, through sparse graphs of the points."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from advmetric.pairs.graph import PairGraph
from advmetric.pairs.triplets import Impostors, Neighbors, impostors_within, nearest_impostors
from advmetric.utils.typing import Matrix, Vector

__all__ = ["Evaluation", "Problem", "best_scale", "pull_scatter"]

_NO_TARGET = -1e300
"""Distance that stands for a missing target: finite, so that 0 · z stays 0, and never within a margin."""


@dataclass
class Evaluation:
    """The objective at one L, over known impostors."""

    value: float
    """With the hinge rounded."""
    hinge: float
    """With the hinge as it is."""
    rounding: float
    """Part of the duality gap that is due to the rounding."""
    target_weights: Matrix
    """(n, k): number of triplets that push on each target, rounded ones in part."""
    impostor_weights: Vector
    """(N,): the same for each impostor."""


@dataclass
class Problem:
    """(1-μ) Σ ‖L(x_i - x_j)‖² + μ Σ [1 + ‖L(x_i - x_j)‖² - ‖L(x_i - x_l)‖²]₊ over fixed targets j.

    Impostors l are those in ``impostors``: an active set, complete where ``refresh`` finds nothing
    new. Everything is computed from the embedded points Z = XLᵀ and sparse graphs on them.
    """

    X: Matrix
    y: NDArray[np.integer]
    targets: Neighbors
    push: float
    impostors: Impostors = field(init=False)

    def __post_init__(self) -> None:
        none = np.empty(0, dtype=np.intp)
        self.impostors = Impostors.of_pairs(none, none, len(self.X))

    def target_distances(self, Z: Matrix) -> Matrix:
        """Squared distance of each point to each of its targets: (n, k)."""
        return self.targets.squared_distances(Z, missing=_NO_TARGET)

    def find(self, L: Matrix, slack: float = 0.0) -> Impostors:
        """All impostors at L: points of other classes within the margin (and ``slack``) of a target."""
        Z = self.X @ L.T
        return impostors_within(Z, self.y, self.target_distances(Z).max(axis=1) + (1.0 + slack))

    def refresh(self, L: Matrix, slack: float, cut: bool = True) -> int:
        """Complete the active set at L, and cut it if it is far too large; return how many impostors were missing."""
        Z = self.X @ L.T
        radius = self.target_distances(Z).max(axis=1) + 1.0
        found = impostors_within(Z, self.y, radius + slack)
        new = found.without(self.impostors)
        missing = int(np.sum(new.squared_distances(Z) < radius[new.anchors]))
        cut = cut and missing == 0 and len(self.impostors) > 1.5 * len(found)
        self.impostors = found if cut else self.impostors.union(new)
        return missing

    def evaluate(self, Z: Matrix, rounding: float = 0.0) -> Evaluation:
        """Value, and the weight with which each pair enters the gradient. O((nk + N) r + Nk)."""
        to_targets = self.target_distances(Z)
        to_impostors = self.impostors.squared_distances(Z)
        excess = to_targets[self.impostors.anchors]
        excess += 1.0
        excess -= to_impostors[:, None]
        hinge = float(np.maximum(excess, 0.0).sum())
        if rounding > 0.0:
            kink = np.clip(excess, 0.0, rounding)
            slope = kink / rounding
            # h(z) = z²/2ε up to ε, z - ε/2 beyond: both are h'(z) (z - min(z, ε)/2).
            value = float(np.einsum("ij,ij->", slope, excess - 0.5 * kink))
            lost = float(np.einsum("ij,ij->", kink, 1.0 - slope))
        else:
            slope = (excess > 0.0).astype(float)
            value, lost = hinge, 0.0
        pull = (1.0 - self.push) * float(to_targets[self.targets.known].sum())
        return Evaluation(
            pull + self.push * value,
            pull + self.push * hinge,
            self.push * lost,
            self.impostors.sum_by_anchor(slope),
            slope.sum(axis=1),
        )

    def laplacian(self, state: Evaluation, Z: Matrix, pull: bool = True) -> Matrix:
        """The Laplacian of the weighted pairs, which gives the gradient, times Z."""
        weights = self.push * state.target_weights + (1.0 - self.push if pull else 0.0)
        product = self.targets.laplacian(weights, Z)
        product += self.impostors.laplacian(-self.push * state.impostor_weights, Z)
        return product

    def gradient(self, Z: Matrix, state: Evaluation) -> Matrix:
        """2 Zᵀ(D - W)X: the gradient in L. O((nk + N) r + n r d)."""
        return 2.0 * (self.laplacian(state, Z).T @ self.X)

    def lower_bound(self, state: Evaluation, pull: Vector) -> float:
        """A value that no M ⪰ 0 can go below, from the dual.

        The dual of the problem in M is: maximise Σα over 0 <= α <= μ, one for each triplet, subject to
        C + Σ α (v_ij v_ijᵀ - v_il v_ilᵀ) ⪰ 0, C the pull scatter. α = s μ h'(z) is feasible for s
        small enough; ``pull`` is the diagonal of C, which must be diagonal. O((nk + N) d + n d² + d³).
        """
        pushed = self.X.T @ self.laplacian(state, self.X, pull=False)
        if not np.all(pull > 0.0):
            return 0.0
        root = np.sqrt(pull)
        worst = float(np.linalg.eigvalsh(-(pushed / root) / root[:, None])[-1])
        return self.push * float(state.impostor_weights.sum()) / max(worst, 1.0)


def pull_scatter(X: Matrix, targets: Neighbors) -> Matrix:
    """Σ (x_i - x_j)(x_i - x_j)ᵀ over the targets."""
    return targets.pairs.scatter(np.ones(len(targets.pairs)), X)


def best_scale(problem: Problem, L: Matrix, n_anchors: int = 500, n_impostors: int = 50) -> float:
    """The s > 0 for which √s L has the least objective, judged by some anchors and their nearest impostors.

    On the ray the objective is convex and piecewise linear in s: its slope is that of the pull plus
    μ Σ (d_ij - d_il) over the triplets within the margin, and those with d_il > d_ij leave it at
    s = 1/(d_il - d_ij).
    """
    Z = problem.X @ L.T
    anchors = np.flatnonzero(problem.targets.counts)
    anchors = anchors[:: -(-len(anchors) // n_anchors)]
    known, to_targets = problem.targets.known[anchors], problem.target_distances(Z)[anchors]
    impostors = nearest_impostors(Z, problem.y, n_impostors, anchors)
    there = impostors >= 0
    to_impostors = np.zeros(impostors.shape)
    to_impostors[there] = PairGraph(len(Z), np.repeat(anchors, there.sum(axis=1)), impostors[there]).inner(Z, Z)
    lead = (to_impostors[:, None, :] - to_targets[:, :, None])[known[:, :, None] & there[:, None, :]]
    ahead = np.sort(lead[lead > 0.0])
    if not len(ahead):
        return 1.0
    constant = (1.0 - problem.push) * to_targets[known].sum() - problem.push * lead[lead <= 0.0].sum()
    # Slope while the m smallest leads are still within the margin, m = 0, 1, …
    slope = constant - problem.push * np.concatenate([[0.0], np.cumsum(ahead)])
    still_within = int(np.sum(slope >= 0.0)) - 1
    return float(1.0 / ahead[min(max(still_within, 0), len(ahead) - 1)])
