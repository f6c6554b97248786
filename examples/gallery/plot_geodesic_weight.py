"""
What t does to the metric
=========================

Ellipses of points at distance 1 from each class mean, in two dimensions. At t = 0 the metric follows the similar pairs
only (the inverse of their scatter), at t = 1 the dissimilar pairs.
"""

import matplotlib.pyplot as plt
import numpy as np

from advmetric import AML

rng = np.random.default_rng(0)
spread = np.array([[1.5, 0.9], [0.9, 0.8]])
X = np.concatenate([rng.multivariate_normal(mean, spread, 150) for mean in ([0, 0], [0.5, 2.2])])
y = np.repeat([0, 1], 150)
circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 100)), np.sin(np.linspace(0, 2 * np.pi, 100))])

figure, axes = plt.subplots(1, 4, figsize=(11, 3), sharex=True, sharey=True, layout="constrained")
for ax, t in zip(axes, (0.0, 0.25, 0.5, 1.0), strict=True):
    L = AML(t=t, alpha=0.0).fit(X, y).components_
    L = L / np.sqrt(abs(np.linalg.det(L)))  # the same area for all t
    ax.scatter(*X.T, c=y, s=6, cmap="coolwarm", alpha=0.5)
    for label in (0, 1):
        ax.plot(*(X[y == label].mean(axis=0)[:, None] + np.linalg.solve(L, circle)), color="black")
    ax.set(title=f"t = {t:g}", aspect="equal")
