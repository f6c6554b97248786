"""The pair loss over a whole matrix of distances, with its gradient computed in the same pass.

Autograd would keep about twenty (n, m) tensors for it. The loss is a scalar, so its gradient by the embeddings is known
when the loss is: (n, r) tensors are all that is kept, and the step costs about a third.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

__all__ = ["dense_pair_loss"]

Views = tuple[Tensor, ...]


def dense_pair_loss(
    points: Views, others: Views | None, similar: Tensor, weight: Tensor, b: Tensor, alpha: float
) -> Tensor:
    """Σ_ij w_ij [ ℓ(y_ij(d_ij² - b)) + α ℓ(y_ij(d̃_ij² - b)) ] / (1 + α), ℓ = softplus; a 0-d tensor.

    Parameters
    ----------
    points : tuple of (n, r) tensors
        (h,) for α = 0; otherwise (h, pushed, pulled): d̃ is the distance of ``pushed`` where ``similar`` is true, and
        that of ``pulled`` elsewhere.
    others : tuple of (m, r) tensors, or None
        The same for the second points. None: they are the first points, and ``similar`` and ``weight`` are symmetric.
    similar : (n, m) bool tensor
        y is +1 where it is true, else -1.
    weight : (n, m) tensor
    b : 0-d tensor

    Notes
    -----
    O(nmr) time; differentiable once, by ``points``, ``others`` and ``b``.
    """
    loss: Tensor = _DensePairLoss.apply(similar, weight, b, alpha, others is None, *points, *(others or ()))  # type: ignore[no-untyped-call]
    return loss


class _DensePairLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, similar: Tensor, weight: Tensor, b: Tensor, alpha: float, symmetric: bool, *views: Tensor
    ) -> Tensor:
        count = 1 if alpha == 0.0 else 3
        points, others = views[:count], views[:count] if symmetric else views[count:]
        # Distances do not change when all embeddings move; rounding errors are least about the origin.
        centres = [other.mean(dim=0) for other in others]
        points = tuple(point - centre for point, centre in zip(points, centres, strict=True))
        others = points if symmetric else tuple(o - centre for o, centre in zip(others, centres, strict=True))
        sign = similar.to(weight.dtype).mul_(2.0).sub_(1.0)
        signed = sign * weight
        loss, slopes = _logistic(_beyond(points[0], others[0], b), sign, weight, signed)
        by_view = [slopes]
        if count == 3:
            beyond = torch.where(similar, _beyond(points[1], others[1], b), _beyond(points[2], others[2], b))
            attacked, slopes = _logistic(beyond, sign, weight, signed)
            loss = (loss + alpha * attacked) / (1.0 + alpha)
            by_view[0].div_(1.0 + alpha)
            slopes.mul_(alpha / (1.0 + alpha))
            pushed = slopes * sign.clamp_min_(0.0)
            by_view += [pushed, slopes.sub_(pushed)]
        if any(ctx.needs_input_grad):
            gradients = [
                _gradients(*triple, symmetric=symmetric) for triple in zip(by_view, points, others, strict=True)
            ]
            ctx.save_for_backward(
                -torch.stack([slope.sum() for slope in by_view]).sum(),
                *(pair[0] for pair in gradients),
                *(() if symmetric else (pair[1] for pair in gradients)),
            )
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outer: Tensor) -> Any:
        by_b, *by_views = ctx.saved_tensors
        return None, None, outer * by_b, None, None, *(outer * gradient for gradient in by_views)


def _beyond(u: Tensor, v: Tensor, b: Tensor) -> Tensor:
    """d² - b for all rows of u and v."""
    beyond = (-2.0 * u) @ v.T
    beyond.add_(v.square().sum(dim=1)).add_(u.square().sum(dim=1, keepdim=True))
    return beyond.clamp_min_(0.0).sub_(b)


def _logistic(beyond: Tensor, sign: Tensor, weight: Tensor, signed: Tensor) -> tuple[Tensor, Tensor]:
    """Σ w ℓ(y x), and w y ℓ'(y x), which takes the place of x."""
    beyond.mul_(sign)
    loss = torch.dot(functional.softplus(beyond).reshape(-1), weight.reshape(-1))
    return loss, beyond.sigmoid_().mul_(signed)


def _gradients(slopes: Tensor, u: Tensor, v: Tensor, *, symmetric: bool) -> tuple[Tensor, Tensor]:
    """Gradients of Σ g_ij ‖u_i - v_j‖² by u and v; by u = v if ``symmetric`` (then g is symmetric too)."""
    by_u = (slopes.sum(dim=1, keepdim=True) * u).sub_(slopes @ v).mul_(4.0 if symmetric else 2.0)
    if symmetric:
        return by_u, by_u
    return by_u, (slopes.sum(dim=0)[:, None] * v).sub_(slopes.T @ u).mul_(2.0)
