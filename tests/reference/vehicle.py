"""Vehicle as points with classes and as labelled pairs."""

from typing import NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from advmetric import load_dataset


class Labelled(NamedTuple):
    """Points with classes, and index pairs on them with labels."""

    X: np.ndarray
    y: np.ndarray
    indices: np.ndarray
    kinds: np.ndarray

    @property
    def formed(self) -> np.ndarray:
        return self.X[self.indices]


def labelled_vehicle(every: int = 1) -> Labelled:
    """Every k-th point of vehicle, standardised, with 400 index pairs: half of them similar."""
    data = load_dataset("vehicle")
    X, y = StandardScaler().fit_transform(data.X[::every]), data.y[::every]
    rng = np.random.default_rng(0)
    left = rng.integers(len(X), size=400)
    pools = [np.flatnonzero((y == y[i]) == (k % 2 == 0)) for k, i in enumerate(left)]
    indices = np.column_stack([left, [rng.choice(pool[pool != i]) for pool, i in zip(pools, left, strict=True)]])
    return Labelled(X, y, indices, np.where(y[indices[:, 0]] == y[indices[:, 1]], 1, -1))
