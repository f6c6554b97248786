"""Small sets with the flaws that real data has."""

import numpy as np


def awkward():
    rng = np.random.RandomState(0)
    X = rng.randn(30, 4)
    return {
        "constant feature": np.c_[X, np.full(30, 0.1)],
        "duplicates": np.repeat(X[:5], 6, axis=0),
        "collinear": np.c_[X, X[:, 0]],
        "fewer points than features": rng.randn(9, 40),
        "float32": X.astype(np.float32),
        "huge": 1e150 * X,
        "tiny": 1e-150 * X,
        "far away": X + 1e8,
        "all the same": np.ones((30, 3)),
        "one feature": X[:, :1],
    }
