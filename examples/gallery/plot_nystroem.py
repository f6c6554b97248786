"""
Beyond linear: kernel features before the metric
================================================

A Mahalanobis distance is a linear map. On kernel features (Nyström's approximation) the same learner separates rings.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_circles
from sklearn.kernel_approximation import Nystroem
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from advmetric import AML

X, y = make_circles(400, noise=0.12, factor=0.55, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
for ax, (name, steps) in zip(
    axes,
    {
        "AML": [AML(n_components=2)],
        "Nystroem + AML": [Nystroem(gamma=2.0, n_components=60, random_state=0), AML(n_components=2)],
    }.items(),
    strict=True,
):
    Z = make_pipeline(*steps).fit(X[::2], y[::2]).transform(X)
    accuracy = KNeighborsClassifier(5).fit(Z[::2], y[::2]).score(Z[1::2], y[1::2])
    ax.scatter(*Z[1::2].T, c=y[1::2], s=10, cmap="coolwarm")
    ax.set(title=f"{name}: accuracy {accuracy:.2f}", xlabel="first direction", ylabel="second direction")
