"""AML's objective by matrix products and inverses, for automatic differentiation."""

import torch


def objective_in_torch(M, A, B, alpha, beta, adversary):
    """D(M) by matrix products and inverses: no eigenvectors, so that autograd knows equal eigenvalues."""
    eye = torch.eye(len(A), dtype=torch.float64)
    inverse = torch.linalg.inv

    def power(X, k):
        return torch.linalg.matrix_power(X, k)

    if adversary == "derived":
        u = beta * M @ M @ inverse(2 * eye + beta * M @ M)
        similar, dissimilar = u @ M @ u, (beta / (2 + beta)) ** 2 * inverse(M)
    elif adversary == "printed":
        similar = beta**2 * power(M, 5) @ inverse(power(2 * eye + beta**2 * M @ M, 2))
        dissimilar = beta**2 / (2 + beta**2) ** 2 * M
    else:
        similar = M @ inverse(power(eye - 2 / beta * M, 2))
        dissimilar = inverse(M @ power(eye + 2 / beta * M, 2))
    return torch.trace(A @ (M + alpha * similar)) + torch.trace(B @ (inverse(M) + alpha * dissimilar))
