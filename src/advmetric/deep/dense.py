"""Squared distances of all pairs, real and adversarial, with gradients in closed form.

Autograd would differentiate the Cholesky decomposition and keep many (n, m) tensors. The gradient is short: with
slopes g of a sum Σ g_ij (u_i - v_j)ᵀQ(u_i - v_j), A = diag(g1)U - gV and B = diag(gᵀ1)V - gᵀU,

    by U: 2AQ        by V: 2BQ        by Q: UᵀA + VᵀB,

where Q is I for the real distances, K for pairs pushed apart and K⁻¹ for pairs pulled together.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .functional import adversarial_factors

__all__ = ["dense_distances"]


def dense_distances(
    u: Tensor, v: Tensor | None, similar: Tensor, L: Tensor, c: float, *, adversary: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Squared distances d² and d̃², (n, m) each, of the rows of u and v; d̃² is None without ``adversary``.

    Parameters
    ----------
    u : (n, r) tensor
        Embeddings, rows zLᵀ.
    v : (m, r) tensor, or None
        The second points. None: the first ones, and ``similar`` is symmetric.
    similar : (n, m) tensor of 0 and 1, of u's type
        d̃ is d₊ where it is 1, and d₋ elsewhere (see :mod:`advmetric.deep.functional`).
    L : (r, d) tensor
    c : float
        Price of a move.

    Notes
    -----
    O(nmr + r²d + r³) time; differentiable once, by u, v and L.
    """
    real, moved = _Distances.apply(u, v, similar, L, c, adversary)  # type: ignore[no-untyped-call]
    return real, moved


class _Distances(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, u: Tensor, v: Tensor | None, similar: Tensor, L: Tensor, c: float, adversary: bool
    ) -> tuple[Tensor, Tensor | None]:
        # Distances do not change when all embeddings move; rounding errors are least about the origin.
        centre = (u if v is None else v).mean(dim=0)
        u = u - centre
        v = u if v is None else v - centre
        ctx.symmetric, ctx.c = v is u, c
        if not adversary:
            ctx.save_for_backward(u, v)
            return _squares(u, v), None
        C, inverse = adversarial_factors(L, c)
        moved = _squares(*((x @ inverse.T for x in (u, v)) if v is not u else [u @ inverse.T] * 2))
        pushed = _squares(*((x @ C for x in (u, v)) if v is not u else [u @ C] * 2))
        ctx.save_for_backward(u, v, similar, L, C, inverse)
        return _squares(u, v), moved.lerp_(pushed, similar)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_real: Tensor, by_moved: Tensor | None) -> Any:
        u, v, *rest = ctx.saved_tensors
        by_u, by_v = _laplacian(by_real, u, v, ctx.symmetric)
        by_L = None
        if rest:
            similar, L, C, inverse = rest
            pushed = by_moved * similar
            pulled = by_moved - pushed
            K, Q = C @ C.T, inverse.T @ inverse
            (A, B), (A_, B_) = (_laplacian(slopes, u, v, ctx.symmetric) for slopes in (pushed, pulled))
            by_u = torch.addmm(by_u, A, K).addmm_(A_, Q)
            by_K, by_Q = u.T @ A, u.T @ A_
            if by_v is not None and B is not None and B_ is not None:
                by_v = torch.addmm(by_v, B, K).addmm_(B_, Q)
                by_K.addmm_(v.T, B)
                by_Q.addmm_(v.T, B_)
            by_K.addmm_(Q @ by_Q, Q, alpha=-1.0)
            by_L = (by_K + by_K.T) @ L / ctx.c
        by_u.mul_(2.0)
        return by_u, None if by_v is None else by_v.mul_(2.0), None, by_L, None, None


def _squares(u: Tensor, v: Tensor) -> Tensor:
    """Squared distances of all rows of u and v."""
    squares = (-2.0 * u) @ v.T
    squares.add_(v.square().sum(dim=1)).add_(u.square().sum(dim=1, keepdim=True))
    return squares.clamp_min_(0.0)


def _laplacian(slopes: Tensor, u: Tensor, v: Tensor, symmetric: bool) -> tuple[Tensor, Tensor | None]:
    """A and B of the module's formulas; A + B and None if v is u."""
    if symmetric:
        slopes = slopes + slopes.T
        return (slopes.sum(dim=1, keepdim=True) * u).sub_(slopes @ u), None
    A = (slopes.sum(dim=1, keepdim=True) * u).sub_(slopes @ v)
    return A, (slopes.sum(dim=0)[:, None] * v).sub_(slopes.T @ u)
