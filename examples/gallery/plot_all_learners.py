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
columns = (len(learners) + 1) // 2  # two rows of learners for each dataset
figure, axes = plt.subplots(2 * len(datasets), columns, figsize=(1.35 * columns, 6.8), layout="constrained")
for block, (name, (X, y)) in zip(axes.reshape(len(datasets), -1), datasets.items(), strict=True):
    X = StandardScaler().fit_transform(X)
    for ax in block:
        ax.set_axis_off()
    for ax, method in zip(block, learners, strict=False):
        learner = method.estimator()
        if "random_state" in learner.get_params():
            learner.set_params(random_state=0)
        Z = learner.fit(X[::2], y[::2]).transform(X)
        error = 1 - KNeighborsClassifier(5).fit(Z[::2], y[::2]).score(Z[1::2], y[1::2])
        view = Z @ np.linalg.svd(Z[::2] - Z[::2].mean(axis=0), full_matrices=False)[2][:2].T
        ax.set_axis_on()
        ax.scatter(*view[1::2].T, c=y[1::2], s=5, cmap="tab10")
        ax.set(xticks=[], yticks=[], title=f"{method.name}\n{error:.2f}")
    block[0].set_ylabel(name)
    block[columns].set_ylabel(name)
