"""The paper, equation by equation, in plain loops over pairs (Chen et al., IJCAI 2018).

Numbers are those of the printed equations. Nothing here is fast, shared with the library or clever:
it is what the library is checked against.
"""

import numpy as np

# --- distances, losses and the two stages ---------------------------------------------------------------


def distance(M, x, z):
    """Dist_M(x, z) = (x - z)ᵀM(x - z): squared, as in the paper."""
    v = x - z
    return float(v @ M @ v)


def geometric_mean_loss(M, pairs, y):
    """L_g, Eq. 7: similar pairs under M, dissimilar pairs under M⁻¹."""
    inverse = np.linalg.inv(M)
    total = 0.0
    for (x, z), label in zip(pairs, y, strict=True):
        total += distance(M, x, z) if label == 1 else distance(inverse, x, z)
    return total


def confusion(M, adversarial, pairs, y, beta):
    """C_M(Π), Eq. 3: the loss for the opposite labels plus β times the way from X to Π."""
    total = geometric_mean_loss(M, adversarial, -np.asarray(y))
    for (x, z), (p, q) in zip(pairs, adversarial, strict=True):
        total += beta * (distance(M, x, p) + distance(M, z, q))
    return total


def adversarial_pair(M, x, z, label, beta):
    """Eq. 9 as printed (and right): the minimiser of C_M for one pair."""
    P = np.linalg.inv(M) if label == 1 else M  # M^{-y}
    system = 2 * P + beta * M
    centre = P @ (x + z)
    return np.linalg.solve(system, centre + beta * M @ x), np.linalg.solve(system, centre + beta * M @ z)


def adversarial_pairs(M, pairs, y, beta):
    """F(M), Eq. 10."""
    return np.array([adversarial_pair(M, x, z, label, beta) for (x, z), label in zip(pairs, y, strict=True)])


def objective(M, pairs, y, alpha, beta):
    """D(M), Eq. 11: the loss of the training pairs and α times that of the pairs F(M)."""
    return geometric_mean_loss(M, pairs, y) + alpha * geometric_mean_loss(M, adversarial_pairs(M, pairs, y, beta), y)


# --- Eq. 12 and its gradient ----------------------------------------------------------------------------


def printed_h(lam, label, beta):
    """h(λ) of Eq. 12 as printed, without the factor β²."""
    return lam ** (3 + 2 * label) / (2 + beta**2 * lam ** (1 + label)) ** 2


def derived_h(lam, label, beta):
    """h(λ) as it follows from Eq. 7 and Eq. 9, without the factor β²."""
    return lam ** (2 + 3 * label) / (2 + beta * lam ** (1 + label)) ** 2


def adversarial_loss(M, pairs, y, beta, h):
    """Eq. 12: β² Σ x̂ᵀU h(Λ)Uᵀx̂, with the printed or the derived h."""
    lam, U = np.linalg.eigh(M)
    total = 0.0
    for (x, z), label in zip(pairs, y, strict=True):
        for j in range(lam.size):
            total += h(lam[j], label, beta) * (U[:, j] @ (x - z)) ** 2
    return beta**2 * total


def printed_objective(M, pairs, y, alpha, beta):
    """D(M) with Eq. 12 as printed in place of the adversarial loss."""
    return geometric_mean_loss(M, pairs, y) + alpha * adversarial_loss(M, pairs, y, beta, printed_h)


def printed_gradient_of_term(M, v, h, slope):
    """∇H of Eq. 14 as printed, for H(M) = vᵀU h(Λ)Uᵀv. Needs distinct eigenvalues; not symmetric."""
    lam, U = np.linalg.eigh(M)
    d = lam.size
    total = np.zeros((d, d))
    for j in range(d):
        u = U[:, j : j + 1]
        pseudo_inverse = np.zeros((d, d))  # (λ_j I - M)†
        for k in range(d):
            if lam[k] != lam[j]:
                pseudo_inverse += np.outer(U[:, k], U[:, k]) / (lam[j] - lam[k])
        total += slope(lam[j]) * float(v @ u[:, 0]) ** 2 * (u @ u.T)
        total += 2 * h(lam[j]) * pseudo_inverse @ np.outer(v, v) @ u @ u.T
    return total


def projection(M):
    """P_S, Eq. 16, as printed: negative eigenvalues become 0."""
    lam, U = np.linalg.eigh(M)
    return U @ np.diag(np.maximum(lam, 0.0)) @ U.T


# --- ours, not the paper's ------------------------------------------------------------------------------


def expanding_gain(M, adversarial, pair, label, beta):
    """What the expanding adversary maximises for one pair, inside Euclidean neighbourhoods.

    Similar pairs are to look far apart, dissimilar ones close: ±Dist_M(π, π') - β(‖π - x‖² + ‖π' - x'‖²).
    """
    (p, q), (x, z) = adversarial, pair
    moved = float((p - x) @ (p - x) + (q - z) @ (q - z))
    return label * distance(M, p, q) - beta * moved


def expanding_objective(M, pairs, y, alpha, beta):
    """The loss of the training pairs and α times that of the expanding adversary's pairs."""
    eye = np.eye(len(M))
    adversarial = []
    for (x, z), label in zip(pairs, y, strict=True):
        delta = np.linalg.solve(eye - label * (2 / beta) * M, x - z)
        adversarial.append(((x + z + delta) / 2, (x + z - delta) / 2))
    return geometric_mean_loss(M, pairs, y) + alpha * geometric_mean_loss(M, adversarial, y)


def scatter(pairs, y):
    """A and B after Eq. 15: plain sums over similar and over dissimilar pairs."""
    d = len(pairs[0][0])
    A, B = np.zeros((d, d)), np.zeros((d, d))
    for (x, z), label in zip(pairs, y, strict=True):
        (A if label == 1 else B)[...] += np.outer(x - z, x - z)
    return A, B
