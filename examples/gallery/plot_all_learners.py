"""
All learners on toy data
========================

Each learner's space, seen in its two leading directions, with the 5-NN error on held-out points.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine, make_classification
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from advmetric import methods

wine = load_wine(return_X_y=True)
made = make_classification(300, 12, n_informative=3, n_redundant=2, n_classes=3, class_sep=1.2, random_state=1)
datasets = {"wine": wine, "made": made}
learners = list(methods())
figure, axes = plt.subplots(len(datasets), len(learners), figsize=(1.7 * len(learners), 3.8), layout="constrained")
for row, (name, (X, y)) in enumerate(datasets.items()):
    X = StandardScaler().fit_transform(X)
    for column, method in enumerate(learners):
        learner = method.estimator()
        if "random_state" in learner.get_params():
            learner.set_params(random_state=0)
        Z = learner.fit(X[::2], y[::2]).transform(X)
        error = 1 - KNeighborsClassifier(5).fit(Z[::2], y[::2]).score(Z[1::2], y[1::2])
        view = Z @ np.linalg.svd(Z[::2] - Z[::2].mean(axis=0), full_matrices=False)[2][:2].T
        ax = axes[row, column]
        ax.scatter(*view[1::2].T, c=y[1::2], s=5, cmap="tab10")
        ax.set(xticks=[], yticks=[], title=f"{method.name if row == 0 else ''}\n{error:.2f}")
    axes[row, 0].set_ylabel(name)
