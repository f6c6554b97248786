"""PairAML's and NeighborAML's objectives as MATH states them: in the data's coordinates, pair by pair, in torch."""

import numpy as np
import torch

from advmetric.linalg.spd import geometric_mean


def geometric_start(V, y, t, reg):
    """M₀, A_t, B_t of labelled differences V, scaled so that the median of d² under M₀ is 1."""
    A, B = (V[y == kind].T @ V[y == kind] / np.sum(y == kind) for kind in (1, -1))
    d = len(A)
    A, B = A + reg * np.trace(A) / d * np.eye(d), B + reg * np.trace(B) / d * np.eye(d)
    return scaled_start(A, B, t, lambda M: np.median(np.einsum("ij,jk,ik->i", V, M, V)))


def scaled_start(A, B, t, unit):
    M0 = geometric_mean(np.linalg.inv(A), B, t)
    if t < 0.5:
        B = geometric_mean(np.linalg.inv(A), B, 2 * t)
    elif t > 0.5:
        A = np.linalg.inv(geometric_mean(np.linalg.inv(A), B, 2 * t - 1))
    s = unit(M0)
    return M0 / s, A * s, B / s


def squares(V, M):
    return torch.einsum("...j,jk,...k->...", V, M, V)


def adversarial(V, M, c, similar):
    K = torch.eye(len(M), dtype=M.dtype) + M / c
    return squares(V, M @ K if similar else M @ torch.linalg.inv(K))


def mean_loss(M, M0, A, B):
    def G(M):
        return torch.trace(M @ A) + torch.trace(torch.linalg.inv(M) @ B)

    return G(M) / G(M0) - 1


def pair_objective(M, b, V, y, start, alpha, beta, gamma):
    """F(M, b) of MATH section 9."""
    M0, A, B, V = (torch.as_tensor(value) for value in (*start, V))
    c = beta * torch.trace(M0) / len(M0)
    total = torch.zeros((), dtype=torch.float64)
    for kind in (1, -1):
        W = V[torch.as_tensor(y == kind)]
        real, harder = squares(W, M), adversarial(W, M, c, kind == 1)
        softplus = torch.nn.functional.softplus
        loss = softplus(kind * (real - b)) + alpha * softplus(kind * (harder - b))
        total = total + loss.sum() / (2 * len(W) * (1 + alpha))
    return total + gamma * mean_loss(M, M0, A, B)


def triplet_objective(M, P, N, start, alpha, beta, gamma):
    """The same for triplets with differences P = a - p and N = a - n, one after the other."""
    M0, A, B, P, N = (torch.as_tensor(value) for value in (*start, P, N))
    c = beta * torch.trace(M0) / len(M0)
    softplus = torch.nn.functional.softplus
    total = torch.zeros((), dtype=torch.float64)
    for p, n in zip(P, N, strict=True):
        total = total + softplus(squares(p, M) - squares(n, M))
        total = total + alpha * softplus(adversarial(p, M, c, True) - adversarial(n, M, c, False))
    return total / (len(P) * (1 + alpha)) + gamma * mean_loss(M, M0, A, B)
