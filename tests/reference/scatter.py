"""Scatter of pairs by definition: one outer product a pair."""

import numpy as np


def scatter_of(X, left, right, y):
    """(A, B): averages of (x - x')(x - x')ᵀ over similar and over dissimilar pairs."""
    X = np.asarray(X, dtype=np.float64)
    means = []
    for label in (1, -1):
        total, count = np.zeros((X.shape[1], X.shape[1])), 0
        for i, j, kind in zip(left, right, y, strict=True):
            if kind == label:
                v = X[i] - X[j]
                total += np.outer(v, v)
                count += 1
        means.append(total / count)
    return means


def all_pairs(classes):
    """(left, right, y) of every pair i < j of labelled points."""
    left, right, y = [], [], []
    for i in range(len(classes)):
        for j in range(i + 1, len(classes)):
            left.append(i)
            right.append(j)
            y.append(1 if classes[i] == classes[j] else -1)
    return np.array(left), np.array(right), np.array(y)
