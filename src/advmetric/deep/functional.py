"""The adversary in closed form, and the losses of squared distances that it is used with. Functions of tensors.

With features z, a metric M = LᵀL and h = Lz, moving the difference v of a pair by δ costs c‖δ‖². The worst moves give

    similar:     d₊² = max_δ vᵀMv + 2vᵀMδ - c‖δ‖²       = (h - h')ᵀ K (h - h')
    dissimilar:  d₋² = min_δ (v+δ)ᵀM(v+δ) + c‖δ‖²       = (h - h')ᵀ K⁻¹ (h - h'),        K = I + LLᵀ/c,

so that with the Cholesky factor K = CCᵀ both are squared Euclidean distances, of Cᵀh and of C⁻¹h. One r×r factorisation
serves all pairs of a batch, and the gradient passes through it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "Candidates",
    "adversarial_embeddings",
    "adversarial_factors",
    "candidates",
    "margin_losses",
    "pair_losses",
    "paired_squared_distances",
    "softmax_losses",
    "squared_distances",
]


def adversarial_embeddings(h: Tensor, L: Tensor, c: float | Tensor) -> tuple[Tensor, Tensor]:
    """Embeddings whose Euclidean distances are the adversarial ones: (hC, hC⁻ᵀ) with CCᵀ = I + LLᵀ/c.

    Parameters
    ----------
    h : (n, r) tensor
        Embeddings, the rows z Lᵀ.
    L : (r, d) tensor
    c : float or 0-d tensor
        Price of a move, > 0.

    Returns
    -------
    pushed, pulled : (n, r) tensors
        Squared distances of ``pushed`` are d₊² (for similar pairs), those of ``pulled`` are d₋² (for dissimilar ones).

    Notes
    -----
    O(r²d + r³ + nr²). The eigenvalues of K are at least 1, so the factorisation fails only if L is not finite; then the
    result is NaN. No exception is raised: the check would wait for the GPU in every step.
    """
    K = torch.eye(len(L), dtype=L.dtype, device=L.device) + (L @ L.T) / c
    C = torch.linalg.cholesky_ex(K).L
    return h @ C, torch.linalg.solve_triangular(C, h.T, upper=False).T


def adversarial_factors(L: Tensor, c: float) -> tuple[Tensor, Tensor]:
    """C and C⁻¹ of CCᵀ = I + LLᵀ/c, (r, r) each, for gradients that do not pass through them; NaN as above."""
    identity = torch.eye(len(L), dtype=L.dtype, device=L.device)
    C = torch.linalg.cholesky_ex(torch.addmm(identity, L, L.T, alpha=1.0 / c)).L
    return C, torch.linalg.solve_triangular(C, identity, upper=False)


def squared_distances(u: Tensor, v: Tensor) -> Tensor:
    """Squared distances (n, m) of the rows of u (n, r) and v (m, r), from one matrix product.

    The mean of v is subtracted first: it changes no distance, and an offset of all embeddings would cost digits. The
    rounding error is about ε(‖u‖² + ‖v‖²) after that. There is no square root, whose gradient is infinite at 0.
    """
    centre = v.detach().mean(dim=0)
    u, v = u - centre, v - centre
    norms = u.square().sum(dim=1, keepdim=True) + v.square().sum(dim=1)
    return (norms - 2.0 * (u @ v.T)).clamp_min(0.0)


def paired_squared_distances(u: Tensor, v: Tensor) -> Tensor:
    """Squared distances (N,) of corresponding rows of u and v, (N, r) each: exactly 0 for equal rows."""
    return (u - v).square().sum(dim=1)


def pair_losses(
    real: Tensor,
    adversarial: Tensor | None,
    sign: float,
    b: Tensor,
    alpha: float,
    *,
    mask: Tensor | None = None,
    active: bool = False,
) -> Tensor:
    """Losses of pairs of one kind, [ℓ(x)/S + α ℓ(x̃)/S̃] / (1 + α), x = y(d² - b), x̃ = y(d̃² - b), ℓ = softplus.

    Their sum is the loss of the kind. S is the number of pairs; or, if ``active``, the number of those on the wrong
    side of the threshold, smoothly counted: Σσ(x), at least 1, a constant to the gradient. Pairs that are settled then
    take no weight from those that are not, as with the "average of the non-zero" of a hinge loss.

    Parameters
    ----------
    real, adversarial : tensors of one shape
        Squared distances d² and d̃², d̃ = d₊ for similar and d₋ for dissimilar pairs; without ``adversarial``, α = 0.
    sign : float
        y, +1 for similar and -1 for dissimilar pairs.
    b : 0-d tensor
        Threshold of the squared distance.
    alpha : float
    mask : tensor of 0 and 1, of the shape and type of ``real``, optional
        Which entries are pairs. None: all.
    active : bool
    """
    total = torch.zeros_like(real)
    for squares, share in ((real, 1.0), (adversarial, alpha)):
        if squares is None or share == 0.0:
            continue
        x = (squares - b) * sign
        losses = functional.softplus(x)
        if mask is not None:
            losses = losses * mask
        if active:
            wrong = x.detach().sigmoid()
            count = (wrong if mask is None else wrong * mask).sum().clamp_min(1.0)
        else:
            count = torch.as_tensor(max(1, x.numel())) if mask is None else mask.sum().clamp_min(1.0)
        total = torch.add(total, losses / count.to(x.dtype), alpha=share / (1.0 + alpha))
    return total


@dataclass(frozen=True)
class Candidates:
    """Columns that each row of a matrix looks at: the numbers (n, k), or None for all; and which of them exist."""

    columns: Tensor | None
    exists: Tensor

    def of(self, matrix: Tensor) -> Tensor:
        """Their entries of a matrix (n, m)."""
        return matrix if self.columns is None else matrix.gather(1, self.columns)


def candidates(real: Tensor, mask: Tensor, k: int | None) -> Candidates:
    """The k nearest columns of each row under a mask.

    Parameters
    ----------
    real : (n, m) tensor
        Squared distances.
    mask : (n, m) bool tensor
        Columns that a row may choose from.
    k : int or None
        None: all of them.
    """
    if k is None:
        return Candidates(None, mask)
    hidden = real.detach().masked_fill(~mask, torch.inf)
    columns = torch.topk(hidden, min(k, real.shape[1]), dim=1, largest=False).indices
    return Candidates(columns, mask.gather(1, columns))


def softmax_losses(similar: Tensor, dissimilar: Tensor, has_similar: Tensor, has_dissimilar: Tensor) -> Tensor:
    """Neighbour loss of each point, -log Σ_{j∈S} e^{-d_ij²} / Σ_{j∈S∪D} e^{-d_ij²}.

    Parameters
    ----------
    similar, dissimilar : (n, k_s) and (n, k_d) tensors
        Squared distances to the candidates.
    has_similar, has_dissimilar : bool tensors of these shapes
        Which candidates exist. Each row must have one of each kind.
    """
    near = torch.logsumexp((-similar).masked_fill(~has_similar, -torch.inf), dim=1)
    far = torch.logsumexp((-dissimilar).masked_fill(~has_dissimilar, -torch.inf), dim=1)
    return functional.softplus(far - near)


def margin_losses(
    similar: Tensor, dissimilar: Tensor, has_similar: Tensor, has_dissimilar: Tensor, margin: float = 1.0
) -> Tensor:
    """Margin loss of each point, the mean over its candidates j ∈ S, l ∈ D of softplus(d_ij² - d_il² + margin).

    Arguments as for :func:`softmax_losses`. O(n k_s k_d) in time and memory.
    """
    exists = has_similar[:, :, None] & has_dissimilar[:, None, :]
    losses = functional.softplus(similar[:, :, None] - dissimilar[:, None, :] + margin)
    return (losses * exists).sum(dim=(1, 2)) / exists.sum(dim=(1, 2))
